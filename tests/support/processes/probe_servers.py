"""Servers on loopback that answer a probe well, badly, slowly, or not at all; each in a thread of its own."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Answering:
    """A web server; what it answers may be changed at any time."""

    port: int = 0
    status: int = 200
    body: bytes = b"ok"
    location: str = ""
    asked: list[str] = field(default_factory=list)
    """The paths, in order."""
    headers: list[dict[str, str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/health"


@contextmanager
def web_server() -> Iterator[Answering]:
    """A real one, of the standard library."""
    answering = Answering()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answering.asked.append(self.path)
            answering.headers.append(dict(self.headers))
            self.send_response(answering.status)
            if answering.location:
                self.send_header("Location", answering.location)
            self.end_headers()
            with suppress(OSError):
                self.wfile.write(answering.body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        answering.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield answering
        finally:
            server.shutdown()
            thread.join()


Say = Callable[[socket.socket, threading.Event], None]
"""What is said on a connection; the event is set when the server ends."""


@contextmanager
def raw_server(say: Say) -> Iterator[int]:
    """Takes connections and says what it is told to; its port."""
    ending = threading.Event()
    talks: list[threading.Thread] = []

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            say(connection, ending)

    def serve() -> None:
        while not ending.is_set():
            with suppress(OSError):
                connection, _ = listener.accept()
                talks.append(threading.Thread(target=talk, args=(connection,), daemon=True))
                talks[-1].start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(0.02)
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            ending.set()
            for each in (thread, *talks):
                each.join()


def says(words: bytes) -> Say:
    """Reads the request, says this and hangs up."""

    def say(connection: socket.socket, _: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(words)

    return say


def drips(first: bytes, every_seconds: float = 0.02) -> Say:
    """Says this, and then one byte after the other without an end."""

    def say(connection: socket.socket, ending: threading.Event) -> None:
        connection.recv(65536)
        connection.sendall(first)
        while not ending.wait(every_seconds):
            connection.sendall(b"x")

    return say


def is_silent(connection: socket.socket, ending: threading.Event) -> None:
    """Takes the connection, and never says a word."""
    ending.wait()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port that nobody listens on, and that nobody else gets meanwhile."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]
