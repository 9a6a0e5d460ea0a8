"""A web server on this machine that keeps what it is sent, and answers what a test wants."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Received:
    """One request."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """Its body as JSON."""
        told: dict[str, Any] = json.loads(self.body)
        return told

    @property
    def delivery(self) -> str:
        """The id by which a second try is known."""
        return self.headers["webhook-id"]


@dataclass
class Receiver:
    """What came, in its order; `status` is what is answered, and while `hangs` is set nothing is."""

    url: str = ""
    status: int = 204
    answer: Callable[[Received], tuple[int, bytes]] | None = None
    """What a service answers to a POST, while `status` is a success."""
    received: list[Received] = field(default_factory=list)
    hangs: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)

    def posts(self) -> list[Received]:
        """The documents."""
        return [each for each in self.received if each.method == "POST"]

    def events(self) -> list[str]:
        """What they told of, in their order."""
        return [each.document["event"] for each in self.posts()]

    def pings(self) -> list[Received]:
        """What asked for nothing but an answer."""
        return [each for each in self.received if each.method == "GET"]


@contextmanager
def a_receiver() -> Iterator[Receiver]:
    """One that listens on a free port of this machine until the test is over."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Received(self.command, self.path, dict(self.headers), body)
            receiver.received.append(request)
            if receiver.hangs.is_set():
                receiver.let_go.wait(60)
            status, said = receiver.status, b""
            if receiver.answer is not None and self.command == "POST" and status < 300:
                status, said = receiver.answer(request)
            self.send_response(status)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_POST = do_HEAD = answer  # noqa: N815 (their names)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    receiver.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.let_go.set()
        server.shutdown()
        server.server_close()
        thread.join()
