"""Telling systemd, its watchdog included; and the bridge to calls that block."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.service import Blocking
from supervisor_core.daemon import systemd as notify


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_when_we_are_up_and_when_we_go(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"supervisor-test-{tmp_path.name}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}" if abstract else str(tmp_path / "n"))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}" if abstract else str(tmp_path / "n"))
        notify.ready()
        assert listener.recv(100) == b"READY=1"
        notify.stopping()
        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "x" * 300, "@", "relative"])
def test_without_systemd_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify.ready()
    notify.stopping()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """The socket on which systemd listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "n"))
        listener.settimeout(5)
        monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "n"))
        yield listener


@pytest.fixture(autouse=True)
def watchdog(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "20000")


def waiting(listener: socket.socket) -> list[bytes]:
    """What was said and not yet heard."""
    listener.setblocking(False)
    heard = []
    try:
        while True:
            heard.append(listener.recv(1000))
    except BlockingIOError:
        return heard


def test_the_status_is_one_line_whatever_is_in_it(systemd: socket.socket) -> None:
    stopping = asyncio.Event()

    def find_problem() -> str:
        stopping.set()
        return "two\nREADY=1\udc80" + "x" * 1000

    asyncio.run(notify.run_watchdog(stopping, find_problem))
    said = systemd.recv(2000).decode()
    assert said.startswith("STATUS=unhealthy: two\\nREADY=1")
    assert "\n" not in said
    assert len(said) < 400


def test_the_watchdog_hears_again_and_again_that_all_is_well_until_the_daemon_stops(systemd: socket.socket) -> None:
    async def story() -> None:
        stopping, looks = asyncio.Event(), 0

        def well() -> str:
            nonlocal looks
            looks += 1
            if looks == 3:
                stopping.set()
            return ""

        await asyncio.wait_for(notify.run_watchdog(stopping, well), 10)
        assert looks == 3, "after the stop nobody asks"

    asyncio.run(story())
    assert waiting(systemd) == [b"WATCHDOG=1"] * 3


def test_while_something_is_wrong_the_watchdog_hears_nothing_and_the_reason_is_said_once(
    systemd: socket.socket, caplog: pytest.LogCaptureFixture
) -> None:
    answers = iter(["", "the queue stands still", "the queue stands still", "it stands since 9 s", "", ""])

    async def story() -> None:
        stopping = asyncio.Event()

        def well() -> str:
            answer = next(answers, None)
            if answer is None:
                stopping.set()
            return answer or ""

        await asyncio.wait_for(notify.run_watchdog(stopping, well), 10)

    with caplog.at_level(logging.INFO):
        asyncio.run(story())
    assert waiting(systemd) == [
        b"WATCHDOG=1",
        b"STATUS=unhealthy: the queue stands still",
        *[b"WATCHDOG=1", b"STATUS="],
        *[b"WATCHDOG=1"] * 2,
    ]
    said = [record.getMessage() for record in caplog.records if "watchdog" in record.getMessage()]
    assert [("stands still" in words, "resumed" in words) for words in said] == [(True, False), (False, True)]


def test_who_can_not_say_that_all_is_well_is_not_well(systemd: socket.socket) -> None:
    async def story() -> None:
        stopping = asyncio.Event()

        def well() -> str:
            stopping.set()
            raise LookupError("gone")

        await notify.run_watchdog(stopping, well)

    asyncio.run(story())
    assert waiting(systemd) == [b"STATUS=unhealthy: LookupError: gone"]


@pytest.mark.parametrize(
    ("usec", "pid"), [("", ""), ("0", ""), ("-5", ""), ("soon", ""), ("20000", "1"), ("20000", "me")]
)
def test_a_watchdog_that_waits_for_nobody_or_for_another_process_hears_nothing(
    usec: str, pid: str, systemd: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", usec)
    monkeypatch.setenv("WATCHDOG_PID", pid)

    def never() -> str:
        raise AssertionError

    asyncio.run(asyncio.wait_for(notify.run_watchdog(asyncio.Event(), never), 10))
    assert waiting(systemd) == []


def test_the_interval_is_half_of_what_systemd_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "60000000")
    monkeypatch.setenv("WATCHDOG_PID", str(os.getpid()))
    assert notify.watchdog_seconds() == 30.0


def test_a_listener_that_does_not_read_holds_nobody_up(systemd: socket.socket) -> None:
    for _ in range(2000):
        notify.notify("STATUS=" + "x" * 200)
    assert waiting(systemd)


def test_a_call_that_blocks_is_awaited_and_the_loop_goes_on() -> None:
    async def story() -> None:
        blocking, release = Blocking(2), threading.Event()
        waiting = asyncio.ensure_future(blocking(release.wait, 10))
        assert await blocking(lambda: 7) == 7
        assert not waiting.done()
        with pytest.raises(ZeroDivisionError):
            await blocking(divmod, 1, 0)
        release.set()
        assert await waiting

    asyncio.run(story())


def test_one_that_hangs_is_let_go_when_its_task_is_cancelled() -> None:
    async def story() -> None:
        release = threading.Event()
        waiting = asyncio.ensure_future(Blocking(1)(release.wait))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        release.set()

    asyncio.run(story())
