"""Telling systemd; and the bridge to calls that block."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from pathlib import Path

import pytest

from supervisor_core.runtime import notify
from supervisor_core.runtime.blocking import Blocking


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_when_we_are_up_and_when_we_go(
    abstract: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"supervisor-test-{tmp_path.name}-{time.monotonic_ns()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(f"\0{name}" if abstract else str(tmp_path / "n"))
        listener.settimeout(5)
        monkeypatch.setenv(notify.VARIABLE, f"@{name}" if abstract else str(tmp_path / "n"))
        notify.ready()
        assert listener.recv(100) == b"READY=1"
        notify.stopping()
        assert listener.recv(100) == b"STOPPING=1"


@pytest.mark.parametrize("address", ["", "/nowhere/at/all", "x" * 300, "@", "relative"])
def test_without_systemd_nothing_happens(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(notify.VARIABLE, address)
    notify.ready()
    notify.stopping()


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
