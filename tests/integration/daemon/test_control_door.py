"""The control door: who knocks politely is answered, who does not harms nobody, and a frozen daemon is told as such."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.daemon.control import client as control_address
from supervisor_core.daemon.control import server as control_server
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.control.server import REQUEST_BYTES, ControlServer
from tests.support.waiting import wait_until

BIG = "x" * 500_000


async def echo(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"said": request.get("said")}


async def fail(_request: Mapping[str, Any]) -> dict[str, Any]:
    raise ValueError("on purpose")


async def big(_request: Mapping[str, Any]) -> dict[str, Any]:
    return {"said": BIG}


async def never(_request: Mapping[str, Any]) -> dict[str, Any]:
    await asyncio.Event().wait()
    return {}


class Door:
    """A server in a thread of its own, as a daemon's is in a process of its own."""

    def __init__(self, folder: Path, *, unix: bool) -> None:
        self.folder, self.unix = folder, unix
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.server = ControlServer(folder, {"echo": echo, "fail": fail, "big": big, "never": never}, unix=unix)
        self.run(self.server.start())

    def run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(20)

    def freeze(self) -> threading.Event:
        """Block the loop until the event is set."""
        thaw, frozen = threading.Event(), threading.Event()

        def block() -> None:
            frozen.set()
            thaw.wait(20)

        self._loop.call_soon_threadsafe(block)
        assert frozen.wait(5)
        return thaw

    def ask(self, what: str = "echo", timeout: float = 10.0, **more: Any) -> dict[str, Any]:
        return ask(str(self.folder), {"do": what, **more}, timeout)

    def raw(self, data: bytes, *, half_close: bool = True) -> bytes:
        """Send bytes as they are; what comes back until the end."""
        connection, _ = control_address.connect(str(self.folder), 10)
        with connection:
            try:
                connection.sendall(data)
                if half_close:
                    connection.shutdown(socket.SHUT_WR)
                parts = []
                while part := connection.recv(65536):
                    parts.append(part)
            except OSError:  # it hung up on us, which is its right
                return b""
            return b"".join(parts)

    def end(self) -> None:
        self.run(self.server.stop())
        self.run(_others_have_ended())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()


async def _others_have_ended() -> None:
    """Those who were accepted while we stopped."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.gather(*others, return_exceptions=True)
    await asyncio.sleep(0)  # a transport closes in the next round


@pytest.fixture(autouse=True)
def brief_last_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "LAST_ANSWER_SECONDS", 0.05)


@pytest.fixture(params=["unix", "loopback"])
def door(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    """A door of each kind."""
    if request.param == "loopback":
        monkeypatch.setattr(control_address, "HAS_UNIX_SOCKETS", False)
    made = Door(tmp_path, unix=request.param == "unix")
    yield made
    made.end()


def test_it_answers_and_is_open_to_nobody_but_its_owner(door: Door) -> None:
    assert door.ask(said="é\n\0") == {"said": "é\n\0"}
    path = door.folder / (control_address.SOCKET_NAME if door.unix else control_address.PORT_NAME)
    assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0
    assert stat.S_ISSOCK(path.stat().st_mode) == door.unix


def test_a_mistake_of_ours_is_told_and_the_door_stays_open(
    door: Door, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger("supervisor_core"), "propagate", True)
    with pytest.raises(ControlError, match="ValueError: on purpose"):
        door.ask("fail")
    assert door.ask(said=1) == {"said": 1}
    assert "the request 'fail' failed" in caplog.text


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"garbage\n",
        b"\xff\xfe\0\n",
        b"[]\n",
        b"7\n",
        b"null\n",
        b"[" * 50_000 + b"\n",
        b'{"token": "\\ud800", "do": "\\ud800"}\n',
        b'{"token": ["x"], "do": {"x": 1}}\n',
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    ],
)
def test_garbage_is_answered_with_an_error_and_harms_nobody(door: Door, line: bytes) -> None:
    answer = door.raw(line)
    assert b"error" in answer.partition(b"\n")[0]
    assert door.ask(said=1) == {"said": 1}


@pytest.mark.parametrize(
    "data", [b"", b'{"do": "ec', b"x" * (REQUEST_BYTES + 1), b"x" * 1_000_000, b"y" * 10**6 + b"\n"]
)
def test_half_a_line_and_far_too_long_ones_get_no_answer_and_harm_nobody(door: Door, data: bytes) -> None:
    assert door.raw(data) == b""
    assert door.ask(said=1) == {"said": 1}


def test_who_connects_and_says_nothing_is_let_go(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "READ_SECONDS", 0.05)
    assert door.raw(b'{"do": "ec', half_close=False) == b""


def test_who_asks_for_long_keeps_no_other_waiting(door: Door) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.ask, "never", 0.3)
        assert door.ask(said=1) == {"said": 1}
        assert isinstance(waiting.exception(5), UnresponsiveError)


def test_a_frozen_daemon_is_unresponsive_and_answers_again_once_it_thaws(door: Door) -> None:
    thaw = door.freeze()
    begun = time.monotonic()
    with pytest.raises(UnresponsiveError):
        door.ask(timeout=0.2)
    assert time.monotonic() - begun < 2
    thaw.set()
    assert door.ask(said=1) == {"said": 1}


def test_once_stopped_it_is_gone_with_its_file_and_who_waits_is_let_go(door: Door) -> None:
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(door.ask, "never")
        wait_until(lambda: door.server._open, 5, "it is inside")  # noqa: SLF001 (there is no other sign of it)
        door.run(door.server.stop())
        assert isinstance(waiting.exception(5), NotRunningError)
    with pytest.raises(NotRunningError):
        door.ask()
    names = {control_address.SOCKET_NAME, control_address.PORT_NAME}
    assert not names & {path.name for path in door.folder.iterdir()}


def test_an_answer_cut_off_in_the_middle_is_a_daemon_that_ended(tmp_path: Path) -> None:
    listener = control_address.listen(str(tmp_path))
    listener.setblocking(True)

    def half() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(b'{"healthy": tr')

    thread = threading.Thread(target=half)
    thread.start()
    try:
        with pytest.raises(NotRunningError):
            ask(str(tmp_path), {"do": "status"})
    finally:
        thread.join(5)
        listener.close()


def test_a_state_folder_with_a_path_of_200_characters_has_its_door(tmp_path: Path) -> None:
    folder = tmp_path
    while len(str(folder)) < 200:
        folder /= "x" * min(50, 200 - len(str(folder)))
    folder.mkdir(parents=True)
    door = Door(folder, unix=True)
    try:
        assert door.ask(said=1) == {"said": 1}
        assert (folder / control_address.SOCKET_NAME).exists()
    finally:
        door.end()
    assert list(folder.iterdir()) == []


def test_what_a_dead_daemon_left_is_no_hindrance(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / control_address.SOCKET_NAME))
    with pytest.raises(NotRunningError):
        ask(str(tmp_path), {"do": "echo"})
    door = Door(tmp_path, unix=True)
    try:
        assert door.ask(said=1) == {"said": 1}
    finally:
        door.end()


@pytest.mark.parametrize("token", ["", "0" * 64, "\ud800", "é", 7, None])
def test_over_loopback_a_wrong_token_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, token: object) -> None:
    monkeypatch.setattr(control_address, "HAS_UNIX_SOCKETS", False)
    door = Door(tmp_path, unix=False)
    try:
        answer = door.raw(json.dumps({"token": token, "do": "echo", "said": 1}).encode() + b"\n")
        assert json.loads(answer) == {"error": "wrong token"}
        assert json.loads(door.raw(b'{"do": "echo"}\n')) == {"error": "wrong token"}
        place = json.loads((tmp_path / control_address.PORT_NAME).read_text())
        assert len(place["token"]) == 64
        assert door.ask(said=1) == {"said": 1}
        assert door.server._server is not None  # noqa: SLF001 (it must listen nowhere else)
        assert [found.getsockname() for found in door.server._server.sockets] == [("127.0.0.1", place["port"])]  # noqa: SLF001
    finally:
        door.end()
