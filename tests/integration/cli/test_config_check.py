"""`supervisor config check`: with a daemon that tells what it would do, and without one."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from supervisor_core.cli import main
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.daemon.control.server import Answer, ControlServer

ONE = 'workers: {a: {command: ["true"]}, off: {command: ["true"], enabled: false}}\n'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "var" / "nas").mkdir(parents=True)
    (tmp_path / "config.yaml").write_text(ONE)
    return tmp_path / "config.yaml"


@contextmanager
def a_daemon(path: Path, *, knows: bool = True) -> Iterator[None]:
    """The control door with the configuration behind it, in a thread; it does not watch, so a change stays news."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    service = ConfigService(load_supervisor_config(path), Blocking(2))
    answers: dict[str, Answer] = {"config": service.answer} if knows else {}
    server = ControlServer(path.parent / "var", answers)
    asyncio.run_coroutine_threadsafe(server.start(), loop).result(10)
    try:
        yield
    finally:
        asyncio.run_coroutine_threadsafe(server.stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["config", "check", "--config", str(path)]) == 0
    return capsys.readouterr().out


def test_without_a_daemon_it_says_what_the_start_would_bring(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "When it starts, it runs a, unless paused. It leaves off alone." in check(path, capsys)


def test_it_hints_at_heartbeats_until_one_is_there_or_the_setting_is(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hint = "For a worker that never writes one, set heartbeat_max_age_seconds: 0."
    beats = load_supervisor_config(path).folder("state")
    text = check(path, capsys)
    assert "Note: no heartbeat yet from a, off." in text
    assert f"{beats}/watcher_heartbeat_NAME.json" in text
    assert '{"status": "running", "utc": "' in text
    assert hint in text
    beats.mkdir(parents=True)
    (beats / "watcher_heartbeat_a.json").write_text("{}")
    assert "no heartbeat yet from off. It must" in (text := check(path, capsys))
    assert f"{beats}/watcher_heartbeat_off.json" in text
    path.write_text(ONE.replace("enabled: false", "heartbeat_max_age_seconds: 0"))
    assert "no heartbeat" not in check(path, capsys)


def test_a_daemon_that_has_it_all_in_force_says_so(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_daemon(path):
        assert re.search(r"already uses this configuration \(version 1, since \d\d:\d\d UTC\)", check(path, capsys))


def test_a_daemon_says_what_it_would_do_and_shows_no_secret(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_daemon(path):
        path.write_text(
            'workers: {a: {command: ["true"], env: {KEY: hidden}}, b: {command: ["true"]}}\ninbox: {secret: hidden}\n'
        )
        said = check(path, capsys)
    assert "worker b is added" in said
    assert "worker off is removed" in said
    assert "worker a is restarted: env.KEY" in said
    assert "inbox.secret: takes effect after a restart of the daemon: supervisor daemon restart" in said
    assert "hidden" not in said


def test_a_draft_is_judged_as_if_it_took_the_place_of_the_file(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    draft = path.with_name("draft.yaml")
    draft.write_text(ONE)
    with a_daemon(path):
        said = check(draft, capsys)
    assert f"The daemon uses {path}. If this file replaced it:" in said
    assert "already uses this configuration" in said


def test_an_older_daemon_that_can_not_say_is_no_failure(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with a_daemon(path, knows=False):
        assert "The daemon can't tell" in check(path, capsys)
