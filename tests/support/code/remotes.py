"""Remotes that are trouble, on loopback: one asks for a password, hangs, is slow, refuses a push, or is not there.

Each is a context manager. What it started has ended when it is left, however a client behaves.
"""

from __future__ import annotations

import gzip
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

from tests.support.code.repositories import GIT_SECONDS, Repository, scrubbed

ADVERTISED = "application/x-git-upload-pack-advertisement"


@dataclass(frozen=True, slots=True)
class Asked:
    """A request that came."""

    method: str
    path: str
    authorization: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Remote:
    """Where it is, and what it was asked so far."""

    url: str
    asked: list[Asked] = field(default_factory=list)
    reached: threading.Event = field(default_factory=threading.Event)
    """Set as soon as the trouble begins: it hangs, or has refused."""

    @property
    def authorizations(self) -> list[str]:
        """The credentials that were sent to it."""
        return [asked.authorization for asked in self.asked if asked.authorization]


class _Handler(BaseHTTPRequestHandler):
    """Reads a request as a whole and lets the server's own function answer."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._take()

    def do_POST(self) -> None:
        self._take()

    def _take(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        sent = self.rfile.read(length)
        packed = self.headers.get("Content-Encoding") == "gzip" and len(sent) == length
        body = gzip.decompress(sent) if packed else sent
        asked = Asked(self.command, self.path, self.headers.get("Authorization", ""), body)
        self.server.remote.asked.append(asked)
        self.server.answer(self, asked)

    def reply(self, status: int, headers: list[tuple[str, str]], body: bytes, *, promised: int | None = None) -> None:
        """Answer, or only begin to where more bytes are promised than there are."""
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(promised or len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.wfile.flush()

    def hang(self) -> None:
        """Say nothing more until the remote is left."""
        self.server.remote.reached.set()
        self.server.over.wait()
        self.close_connection = True

    def log_message(self, *words: Any) -> None:
        pass


Answer: TypeAlias = Callable[[_Handler, Asked], None]


class _Server(ThreadingHTTPServer):
    """Knows its connections, so that none of them keeps a thread alive when it is over."""

    daemon_threads = False  # so that they are joined

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.over = threading.Event()
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.remote = Remote(f"http://127.0.0.1:{self.server_port}/repository.git")

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what these remotes are for; anything else is printed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def end(self) -> None:
        """Let everybody go, and wait for the threads."""
        self.over.set()
        self.shutdown()
        with self._lock:
            for connection in self._open:
                _hang_up(connection)
        self.server_close()


@contextmanager
def _served(answer: Answer) -> Iterator[Remote]:
    server = _Server(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="remote")
    thread.start()
    try:
        yield server.remote
    finally:
        server.end()
        thread.join()


@contextmanager
def asks_for_password() -> Iterator[Remote]:
    """Whoever asks must say who they are, and is never let in."""

    def answer(handler: _Handler, _: Asked) -> None:
        handler.reply(401, [("WWW-Authenticate", 'Basic realm="somewhere"')], b"Who are you?\n")
        handler.server.remote.reached.set()

    with _served(answer) as remote:
        yield remote


@contextmanager
def hangs() -> Iterator[Remote]:
    """It takes a request and never answers."""
    with _served(lambda handler, _: handler.hang()) as remote:
        yield remote


@contextmanager
def hangs_half_way(origin: Repository | None = None) -> Iterator[Remote]:
    """It begins its answer, and no more comes. With an origin: all is well until the commits themselves are sent."""

    def answer(handler: _Handler, asked: Asked) -> None:
        if origin is None:
            handler.reply(200, [("Content-Type", ADVERTISED)], b"001e# service=git-upload-pack\n", promised=1000)
        else:
            status, headers, body = _backend(origin, handler, asked)
            if b"command=fetch" not in asked.body:
                handler.reply(status, headers, body)
                return
            handler.reply(status, headers, body[: len(body) // 2], promised=len(body))
        handler.hang()

    with _served(answer) as remote:
        yield remote


@contextmanager
def slow(origin: Repository, delay: float) -> Iterator[Remote]:
    """It answers well, after this many seconds each time; a fetch is three answers. Pushes are taken."""

    def answer(handler: _Handler, asked: Asked) -> None:
        handler.server.remote.reached.set()
        if handler.server.over.wait(delay):
            handler.close_connection = True
        else:
            handler.reply(*_backend(origin, handler, asked))

    with _served(answer) as remote:
        yield remote


@contextmanager
def refuses_push(origin: Repository, words: str = "Not today.") -> Iterator[Remote]:
    """A folder to fetch from, whose hook takes no push; its word is `remote: Not today.`"""
    hook = origin.folder / "hooks" / "pre-receive"
    remote = Remote(str(origin.folder))
    text = origin.folder / "refusal.txt"
    text.write_text(f"{words}\n")
    hook.parent.mkdir(exist_ok=True)
    hook.write_text('#!/bin/sh\ncat "$GIT_DIR/refusal.txt" >&2\nexit 1\n')
    hook.chmod(0o755)
    try:
        yield remote
    finally:
        hook.unlink()
        text.unlink()


@contextmanager
def no_such() -> Iterator[Remote]:
    """A port where nobody listens, kept so that nobody else does."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield Remote(f"http://127.0.0.1:{kept.getsockname()[1]}/repository.git")


def _backend(origin: Repository, handler: _Handler, asked: Asked) -> tuple[int, list[tuple[str, str]], bytes]:
    """What git's own CGI program answers."""
    path, _, query = asked.path.partition("?")
    environ = {
        **scrubbed(),
        "GIT_PROJECT_ROOT": str(origin.folder),
        "GIT_HTTP_EXPORT_ALL": "1",
        "PATH_INFO": path.removeprefix("/repository.git"),
        "QUERY_STRING": query,
        "REQUEST_METHOD": asked.method,
        "CONTENT_TYPE": handler.headers.get("Content-Type", ""),
        "CONTENT_LENGTH": str(len(asked.body)),
        "GIT_PROTOCOL": handler.headers.get("Git-Protocol", ""),
        "REMOTE_ADDR": "127.0.0.1",
        "REMOTE_USER": "tests",  # whom it lets push
    }
    command = ["git", "-c", "safe.directory=*", "http-backend"]
    done = subprocess.run(command, env=environ, input=asked.body, capture_output=True, timeout=GIT_SECONDS)
    head, _, body = done.stdout.partition(b"\r\n\r\n")
    lines = [line.partition(": ")[::2] for line in head.decode().split("\r\n")]
    status = next((int(value.split()[0]) for name, value in lines if name == "Status"), 200)
    return status, [(name, value) for name, value in lines if name != "Status"], body


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # the other end was quicker
        connection.shutdown(socket.SHUT_RDWR)
