"""The prober: what real servers and programs answered becomes a result of exactly one process."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml

from supervisor_core.common.service import Blocking
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import since_boot
from supervisor_core.workers import probes as probing
from supervisor_core.workers.context import DaemonContext, open_doors
from supervisor_core.workers.probes import Prober
from tests.support.processes.probe_servers import Answering, is_silent, raw_server, web_server

QUICK = {"interval": 0.01, "timeout": 5, "failures": 2}
ONE, SUCCESSOR = ProcessIdentity(4711, 1, "boot"), ProcessIdentity(4711, 2, "boot")


@pytest.fixture
def web() -> Iterator[Answering]:
    with web_server() as served:
        yield served


@pytest.fixture
def parts(tmp_path: Path) -> Iterator[DaemonContext]:
    made = configured(tmp_path, {})
    with opened_ledger(made) as ledger:
        yield DaemonContext(open_doors(made), ledger)


def configured(folder: Path, workers: Mapping[str, list[dict[str, Any]]]) -> Any:
    sections = {name: {"command": ["{python}", "-V"], "probes": asked} for name, asked in workers.items()}
    document = {
        "supervisor": {"state_dir": "var"},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": sections,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    (folder / "nas" / "00_STATE").mkdir(parents=True, exist_ok=True)
    return load_supervisor_config(folder / "config.yaml")


class Scene:
    """A prober at work, and the workers of a configuration."""

    def __init__(self, parts: DaemonContext, lag: Callable[[float], float] = lambda _: 0.0) -> None:
        self.parts = parts
        self.prober = Prober(parts, Blocking(probing.THREADS), lag)
        self.stopping = asyncio.Event()

    def worker(self, name: str, *asked: dict[str, Any]) -> WorkerSettings:
        """A worker with these probes, as the configuration has it."""
        found: WorkerSettings = configured(self.parts.host.config.path.parent, {name: [*asked]}).worker(name)
        return found

    def there(self, name: str, identity: ProcessIdentity | None, *asked: dict[str, Any]) -> None:
        self.prober.worker(name, self.worker(name, *asked), identity)

    async def until(self, condition: Callable[[], object]) -> None:
        async with asyncio.timeout(20):
            while not condition():  # noqa: ASYNC110 (a condition of several threads has no event)
                await asyncio.sleep(0.005)

    def failing(self, name: str = "A", identity: ProcessIdentity = ONE) -> str:
        return self.prober.failing(name, identity)


@asynccontextmanager
async def at_work(parts: DaemonContext, lag: Callable[[float], float] = lambda _: 0.0) -> AsyncIterator[Scene]:
    scene = Scene(parts, lag)
    running = asyncio.create_task(scene.prober.run(scene.stopping))
    await asyncio.sleep(0)
    try:
        yield scene
    finally:
        scene.stopping.set()
        await running
        assert len(asyncio.all_tasks()) == 1, "no task is left"


def story(told: Callable[[], Awaitable[None]]) -> None:
    async def whole() -> None:
        await told()

    asyncio.run(whole())


def test_a_worker_fails_after_so_many_bad_answers_and_is_fine_after_a_good_one(
    parts: DaemonContext, web: Answering
) -> None:
    async def told() -> None:
        async with at_work(parts) as scene:
            scene.there("A", ONE, {"http": web.url, **QUICK})
            await scene.until(lambda: web.asked)
            assert scene.failing() == ""
            web.status = 503
            await scene.until(scene.failing)
            address = f"http://127.0.0.1:{web.port}/…"
            assert re.match(rf"probe {address} failed \d+ times in a row: responded 503 ", scene.failing())
            await scene.until(lambda: "3 times" in scene.failing())
            web.status = 200
            await scene.until(lambda: scene.failing() == "")

    story(told)


def test_a_result_is_of_one_process_and_never_of_its_successor(parts: DaemonContext, web: Answering) -> None:
    async def told() -> None:
        web.status = 500
        async with at_work(parts) as scene:
            probe = {"http": web.url, **QUICK}
            scene.there("A", ONE, probe)
            await scene.until(scene.failing)
            assert scene.failing(identity=SUCCESSOR) == ""
            slow = {**probe, "interval": 600}
            scene.prober.worker("A", scene.worker("A", slow), born_now(SUCCESSOR))
            assert scene.failing() == ""
            assert scene.failing(identity=born_now(SUCCESSOR)) == "", "nobody has asked it yet"

    story(told)


def born_now(identity: ProcessIdentity) -> ProcessIdentity:
    """The same, born just now: its first question is an interval away."""
    return identity._replace(start=int(since_boot() * os.sysconf("SC_CLK_TCK")))


def test_an_answer_that_was_on_its_way_when_the_process_died_is_nobodys(parts: DaemonContext) -> None:
    async def told() -> None:
        with raw_server(is_silent) as port:
            async with at_work(parts) as scene:
                probe = {"tcp": f"127.0.0.1:{port}", "interval": 0.01}
                hanging = {"http": f"http://127.0.0.1:{port}/", "interval": 0.01, "timeout": 0.2, "failures": 1}
                scene.there("A", ONE, hanging, probe)
                await scene.until(scene.failing)
                await asyncio.sleep(0.1)
                scene.there("A", SUCCESSOR, probe)
                assert (scene.failing(), scene.failing(identity=SUCCESSOR)) == ("", "")
                await asyncio.sleep(0.3)
                assert (scene.failing(), scene.failing(identity=SUCCESSOR)) == ("", "")
                scene.there("A", None, probe)
                assert scene.failing(identity=SUCCESSOR) == ""

    story(told)


def test_many_that_hang_delay_nobody_who_does_not(
    parts: DaemonContext, web: Answering, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Far more hang, for ten minutes each, than are asked at the same time."""
    monkeypatch.setattr(probing, "CONNECTIONS_AT_ONCE", 2)
    monkeypatch.setattr(probing, "CONNECTIONS_AGAIN_AT_ONCE", 3)
    asked: set[bytes] = set()

    def bad_and_then_silent(connection: socket.socket, ending: threading.Event) -> None:
        path = connection.recv(65536).split()[1]
        if path in asked:
            ending.wait()
        asked.add(path)
        connection.sendall(b"HTTP/1.1 500 Oh\r\n\r\n")

    async def told() -> None:
        with raw_server(bad_and_then_silent) as port:
            async with at_work(parts) as scene:
                hanging = {"interval": 0.01, "timeout": 600, "failures": 1}
                names = [f"H{number}" for number in range(15)]
                for name in names:
                    scene.there(name, ONE, {"http": f"http://127.0.0.1:{port}/{name}", **hanging})
                await scene.until(lambda: all(scene.failing(name) for name in names))
                scene.there("A", ONE, {"http": web.url, **QUICK})
                await scene.until(lambda: len(web.asked) > 20)
                assert scene.failing() == ""

    story(told)


def test_the_end_waits_for_no_server_and_leaves_no_program(parts: DaemonContext, tmp_path: Path) -> None:
    async def told() -> None:
        with raw_server(is_silent) as port:
            async with at_work(parts) as scene:
                web = {"http": f"http://127.0.0.1:{port}/", "interval": 0.01, "timeout": 600}
                waits = {"exec": ["{python}", "-c", WAITING, str(tmp_path)], "interval": 0.01, "timeout": 600}
                scene.there("A", ONE, web, waits)
                await scene.until((tmp_path / "pid").exists)
                (tmp_path / "go").touch()
            assert not psutil.pid_exists(int((tmp_path / "pid").read_text()))

    story(told)


WAITING = """
import os, pathlib, sys, time
place = pathlib.Path(sys.argv[1])
(place / "new").write_text(str(os.getpid()))
(place / "new").rename(place / "pid")
while not (place / "go").exists():
    time.sleep(0.01)
"""
