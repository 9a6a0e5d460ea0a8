"""The configuration watched in real folders: what editors, links and mistakes do to it, and what comes of that."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.configuration import service as config_service
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.host.folder_watch import FolderWatch

PATIENCE_SECONDS = 20.0
ONE = 'workers: {a: {command: ["true"]}}\n'
TWO = 'workers: {a: {command: ["true"]}, b: {command: ["true"]}}\n'
THREE = 'workers: {a: {command: ["true"]}, b: {command: ["true"]}, c: {command: ["true"]}}\n'
BAD = "workers: {a: {comand: [x], enabledd: true}}\n"


def save(path: Path, text: str) -> None:
    """As editors do: beside it, then over it."""
    temporary = path.with_name(f".{path.name}.swp")
    temporary.write_text(text)
    temporary.replace(path)


def overwrite(path: Path, text: str) -> None:
    path.write_text(text)


def spoil(path: Path, how: str) -> None:
    if how == "empty":
        save(path, "")
    elif how == "not text":
        path.write_bytes(b"\xff\xfe\x00")
    else:
        path.unlink()
        if how == "folder":
            path.mkdir()


def put_right(path: Path) -> None:
    if path.is_dir():
        path.rmdir()
    save(path, TWO)


class Watched:
    """A service that runs, and the versions that it told of."""

    def __init__(self, path: Path) -> None:
        self.service = ConfigService(load_supervisor_config(path), Blocking(4))
        self.versions: list[ConfigVersion] = []
        self._news = asyncio.Event()
        self.service.subscribe(self._told)

    def _told(self, version: ConfigVersion) -> None:
        assert self.service.current is version
        self.versions.append(version)
        self._news.set()

    async def next_version(self) -> ConfigVersion:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self._news.wait()
        self._news.clear()
        return self.versions[-1]

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():  # noqa: ASYNC110 (it is about state that no event tells of)
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running(watched: Watched) -> AsyncIterator[Watched]:
    service, stopping = watched.service, asyncio.Event()
    await service.initialise()
    task = asyncio.create_task(service.run(stopping))
    try:
        await watched.until(lambda: service._fingerprint or task.done())  # noqa: SLF001 (its first look)
        yield watched
    finally:
        stopping.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await task
            await service.shut_down()


def with_service(path: Path, story: Callable[[Watched], Awaitable[None]]) -> Watched:
    async def play() -> Watched:
        watched = Watched(path)
        async with running(watched):
            await story(watched)
        return watched

    return asyncio.run(play())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "etc" / "config.yaml"
    made.parent.mkdir()
    made.write_text(ONE)
    return made


def test_what_an_editor_saves_becomes_a_version(path: Path) -> None:
    async def story(watched: Watched) -> None:
        save(path, TWO)
        version = await watched.next_version()
        assert (version.number, version.diff.added, list(version.config.workers)) == (2, ("b",), ["a", "b"])
        overwrite(path, ONE)
        version = await watched.next_version()
        assert (version.number, version.diff.removed) == (3, ("b",))

    assert len(with_service(path, story).versions) == 2


def test_a_burst_is_read_once_it_is_over(path: Path) -> None:
    async def story(watched: Watched) -> None:
        for text in (TWO, BAD, ONE, THREE) * 5:
            save(path, text)
        assert (await watched.next_version()).diff.added == ("b", "c")

    assert len(with_service(path, story).versions) == 1


def test_a_link_that_is_pointed_elsewhere_is_a_change(tmp_path: Path) -> None:
    """As volumes of Kubernetes are: config.yaml -> ..data/config.yaml, ..data -> the newest folder."""
    for name, text in (("..first", ONE), ("..second", TWO)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.yaml").write_text(text)
    (tmp_path / "..data").symlink_to("..first")
    path = tmp_path / "config.yaml"
    path.symlink_to("..data/config.yaml")

    async def story(watched: Watched) -> None:
        (tmp_path / "..new").symlink_to("..second")
        (tmp_path / "..new").replace(tmp_path / "..data")
        assert (await watched.next_version()).diff.added == ("b",)
        save(tmp_path / "..second" / "config.yaml", THREE)
        version = await watched.next_version()
        assert version.diff.added == ("c",)
        assert version.config.path == path, "the file is the link, whatever it leads to"

    with_service(path, story)


@pytest.mark.parametrize("trouble", ["removed", "empty", "folder", "not text"])
def test_whatever_becomes_of_the_file_the_last_good_one_holds(path: Path, trouble: str) -> None:
    async def story(watched: Watched) -> None:
        spoil(path, trouble)
        await watched.until(watched.service.problem)
        assert list(watched.service.current.config.workers) == ["a"]
        put_right(path)
        assert (await watched.next_version()).diff.added == ("b",)
        assert watched.service.problem() == ""

    with_service(path, story)


def test_a_variable_in_the_file_beside_it_is_part_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GREETING", raising=False)
    env = path.with_name(".env")
    env.write_text("GREETING=hello\n")
    path.write_text('workers: {a: {command: ["true"], env: {WORDS: "${GREETING}"}}}\n')

    async def story(watched: Watched) -> None:
        save(env, "GREETING=goodbye\n")
        version = await watched.next_version()
        assert [each.keys for each in version.diff.restarted] == [("env.WORDS",)]
        env.unlink()
        await watched.until(watched.service.problem)
        assert "GREETING" in watched.service.problem()
        assert "goodbye" not in watched.service.problem()

    with_service(path, story)


def test_what_needs_a_restart_of_the_daemon_waits_and_is_named(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    async def story(watched: Watched) -> None:
        service = watched.service
        save(path, ONE + "nas: {root: elsewhere}\n")
        await watched.until(lambda: service.needs_restart)
        assert service.needs_restart == ("nas.root",)
        assert service.problem() == ""
        save(path, TWO + "nas: {root: elsewhere}\n")
        version = await watched.next_version()
        assert version.config.nas.root is None, "the daemon works with the one of its start"
        assert version.diff.needs_restart == ("nas.root",)
        save(path, TWO)
        await watched.until(lambda: not service.needs_restart)

    assert len(with_service(path, story).versions) == 1
    assert "nas.root: takes effect after a restart of the daemon: supervisor daemon restart" in caplog.text


def test_where_the_kernel_can_not_tell_it_looks_again_and_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FolderWatch, "watch", lambda _self, _folder: False)
    monkeypatch.setattr(config_service, "POLL_SECONDS", 0.05)

    async def story(watched: Watched) -> None:
        save(path, TWO)
        assert (await watched.next_version()).diff.added == ("b",)

    with_service(path, story)


def test_a_folder_that_hangs_stops_neither_the_loop_nor_the_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config_service, "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(config_service, "CHECK_SECONDS", 0.05)
    thaw = threading.Event()

    def hanging(named: Path) -> SupervisorConfig:
        thaw.wait(PATIENCE_SECONDS)
        return load_supervisor_config(named)

    monkeypatch.setattr(config_service, "read_config", hanging)

    async def play(*, back: bool) -> None:
        thaw.clear()
        watched = Watched(path)
        service, stopping = watched.service, asyncio.Event()
        task = asyncio.create_task(service.run(stopping))
        await watched.until(service.problem)
        assert "isn't responding; version 1 stays active" in service.problem()
        assert "isn't responding" in (await service.answer({}))["refused"]
        if back:
            thaw.set()
            await watched.until(lambda: not service.problem())
        stopping.set()
        async with asyncio.timeout(PATIENCE_SECONDS):
            await task
        await service.shut_down()
        thaw.set()

    asyncio.run(play(back=True))
    asyncio.run(play(back=False))


def test_it_says_what_it_would_do_with_another_file(path: Path) -> None:
    async def story(watched: Watched) -> None:
        draft = path.with_name("draft.yaml")
        draft.write_text(THREE + "nas: {root: elsewhere}\n")
        answer = await watched.service.answer({"do": "config", "path": str(draft)})
        assert (answer["ok"], answer["version"], answer["path"]) == (True, 1, str(path))
        assert answer["difference"]["added"] == ("b", "c")
        assert answer["difference"]["needs_restart"] == ("nas.root",)
        draft.write_text(BAD)
        answer = await watched.service.answer({"do": "config", "path": str(draft)})
        assert answer["difference"] is None
        assert "comand" in answer["refused"]
        assert watched.service.problem() == "", "a draft is nobody's problem"

    assert with_service(path, story).versions == []
