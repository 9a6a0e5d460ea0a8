"""The receiver in the documentation does what is said of it, and what we send is what it takes."""

from __future__ import annotations

import logging
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.alerts.outside.formats import REPLAY_SECONDS, SIGNATURE, body_of, headers_of
from supervisor_core.host import web
from supervisor_core.host.network import Network
from tests.support.homes import ROOT
from tests.support.waiting import wait_until

NETWORK = Network({})
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
BODY = body_of({"words": "North on Host: down.", "version": 1})


@pytest.fixture
def port() -> int:
    with closing(socket.create_server(("127.0.0.1", 0))) as taken:
        number: int = taken.getsockname()[1]
        return number


@pytest.fixture
def printed(tmp_path: Path, port: int) -> Iterator[Path]:
    """What the documented receiver prints, while it runs."""
    text = (ROOT / "docs" / "reference" / "alert-json.md").read_text()
    (program,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (tmp_path / "receiver.py").write_text(program)
    environ = {"PATH": os.environ["PATH"], "WEBHOOK_SECRET": SECRET, "PORT": str(port)}
    words = [sys.executable, str(tmp_path / "receiver.py")]
    with (tmp_path / "printed").open("wb") as file:
        process = subprocess.Popen(words, env=environ, stdout=file, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: _listens(port), 10, "it listens")
        yield tmp_path / "printed"
    finally:
        process.kill()
        process.wait(10)


def _listens(port: int) -> bool:
    with suppress(OSError), closing(socket.create_connection(("127.0.0.1", port), 1)):
        return True
    return False


def test_the_documented_receiver_takes_what_is_ours_once_and_nothing_else(printed: Path, port: int) -> None:
    url, now = f"http://127.0.0.1:{port}/", datetime.now(UTC)
    ours = headers_of(BODY, "d1", SECRET, now)
    assert web.send_request(NETWORK, "POST", url, BODY, ours).status == 204
    assert (
        web.send_request(NETWORK, "POST", url, BODY, headers_of(BODY, "d1", SECRET, now + timedelta(seconds=2))).status
        == 204
    )
    assert web.send_request(NETWORK, "POST", url, BODY.replace(b"down", b"well"), ours).status == 401, (
        "changed on the way"
    )
    assert web.send_request(NETWORK, "POST", url, BODY, headers_of(BODY, "d2", "another", now)).status == 401, (
        "another secret"
    )
    unsigned = {name: value for name, value in ours.items() if name != SIGNATURE}
    assert web.send_request(NETWORK, "POST", url, BODY, unsigned).status == 401
    old = now - timedelta(seconds=REPLAY_SECONDS + 10)
    assert web.send_request(NETWORK, "POST", url, BODY, headers_of(BODY, "d3", SECRET, old)).status == 401, (
        "played again"
    )
    assert printed.read_text() == "North on Host: down.\n"


def test_what_the_system_says_of_a_receiver_that_is_not_there_is_passed_on(port: int) -> None:
    with pytest.raises(web.NoHttpResponse, match=r"^unreachable: Connection refused$") as caught:
        web.send_request(NETWORK, "POST", f"http://127.0.0.1:{port}/hunter2", b"{}")
    assert caught.value.__suppress_context__
    with pytest.raises(web.NoHttpResponse, match=r"^unreachable: unknown hostname$"):
        web.send_request(NETWORK, "GET", "http://nobody.invalid/hunter2")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"nonsense\r\n\r\n", "unreachable"),
        (b"", "unreachable"),
        (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 500 + b"\r\n", "unreachable"),
        (b"HTTP/1.1 307 Moved\r\nLocation: http://[::1/hunter2\r\n\r\n", "the request failed"),
        (b"HTTP/1.1 200 OK\r\nno header\r\nContent-Length: 9999\r\n\r\n", ""),
    ],
)
def test_whatever_a_hostile_receiver_says_the_address_stays_with_us(
    caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], answer: bytes, words: str
) -> None:
    caplog.set_level(logging.DEBUG)
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        thread = threading.Thread(target=_answer, args=(server, answer))
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hunter2"
        try:
            said = str(web.send_request(NETWORK, "POST", url, b"{}").status)
        except web.NoHttpResponse as error:
            said = str(error)
        thread.join(10)
    assert said.startswith(words or "200")
    assert "hunter2" not in said + caplog.text + "".join(capfd.readouterr())


def _answer(server: socket.socket, answer: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(65536)
        connection.sendall(answer)
