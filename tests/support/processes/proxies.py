"""A certificate authority of our own, a server with TLS before another one, and a proxy that counts; all on loopback.

No name here resolves, so what arrives has come through the proxy.
"""

from __future__ import annotations

import base64
import re
import select
import socket
import socketserver
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

CHUNK = 65536
OTHER_HOST = re.compile(rb"(?m)^Host: slack\.test(?=\r?$)")
NAMES = ("slack.test", "receiver.test", "localhost")
EXTENSIONS = f"subjectAltName={','.join(f'DNS:{name}' for name in NAMES)},IP:127.0.0.1"


class Authority:
    """Signs the certificate of a server. `file` is what a client has to trust."""

    def __init__(self, folder: Path) -> None:
        self.file, self._key = folder / "ca.pem", folder / "ca.key"
        self._folder = folder
        _openssl("req", "-x509", "-nodes", *_new_key(self._key), "-subj", "/CN=Test authority", "-out", self.file)

    def signed(self) -> ssl.SSLContext:
        """The TLS settings of a server with these `NAMES`."""
        request, key, chain = (self._folder / name for name in ("server.csr", "server.key", "server.pem"))
        extensions = self._folder / "extensions"
        extensions.write_text(EXTENSIONS)
        _openssl("req", "-nodes", *_new_key(key), "-subj", "/CN=slack.test", "-out", request)
        by = ("-CA", self.file, "-CAkey", self._key, "-CAcreateserial", "-extfile", extensions)
        _openssl("x509", "-req", "-in", request, *by, "-out", chain)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(chain, key)
        return context


def _new_key(path: Path) -> tuple[str | Path, ...]:
    return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-keyout", path)


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *words], check=True, capture_output=True)


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True

    @property
    def port(self) -> int:
        return int(self.server_address[1])


@contextmanager
def _serving(handler: type[socketserver.BaseRequestHandler]) -> Iterator[int]:
    with _Server(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
        thread.start()
        try:
            yield server.port
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def with_tls(context: ssl.SSLContext, port: int) -> Iterator[int]:
    """A server with TLS before the plain one at this port, which hears its own name: the playground takes no other."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError), context.wrap_socket(self.request, server_side=True) as inside:
                _copy_both_ways(inside, socket.create_connection(("127.0.0.1", port)), OTHER_HOST)

    with _serving(Handler) as here:
        yield here


class Proxy:
    """An HTTP proxy that knows where the names lead."""

    def __init__(self, ports: Mapping[str, int], credentials: str = "") -> None:
        self.ports = ports
        self.credentials = credentials
        """`user:password`; empty if anybody may use it."""
        self.asked: list[str] = []
        """The method and the target of each request."""
        self.forged = b""
        """Sent into a tunnel before the server's first word."""

    @contextmanager
    def running(self) -> Iterator[str]:
        """Its URL, without credentials."""
        proxy = self

        class Handler(socketserver.StreamRequestHandler):
            def handle(self) -> None:
                with suppress(OSError):
                    proxy.serve(self.rfile.readline().decode(), self)

        with _serving(Handler) as port:
            yield f"http://127.0.0.1:{port}"

    def serve(self, first: str, handler: socketserver.StreamRequestHandler) -> None:
        """Open a tunnel, or hand one plain request on."""
        headers = list(iter(lambda: handler.rfile.readline().decode(), "\r\n"))
        self.asked.append(first.rpartition(" ")[0])
        token = base64.b64encode(self.credentials.encode()).decode()
        if self.credentials and f"Basic {token}" not in "".join(headers):
            handler.wfile.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            return
        method, target, _ = first.split()
        there = target.removeprefix("http://").partition("/")[0].partition(":")[0]
        onward = socket.create_connection(("127.0.0.1", self.ports[there]))
        if method == "CONNECT":
            handler.wfile.write(b"HTTP/1.1 200 Connection established\r\n\r\n" + self.forged)
        else:
            onward.sendall("".join((first, *headers, "\r\n")).encode())
        _copy_both_ways(handler.request, onward)


def _copy_both_ways(left: socket.socket, right: socket.socket, other: re.Pattern[bytes] | None = None) -> None:
    """Until one of the two ends. To the right, what matches becomes a header with the name of this host."""
    with suppress(OSError), right:
        while True:
            pending = isinstance(left, ssl.SSLSocket) and left.pending()
            ready = [left] if pending else select.select([left, right], [], [])[0]
            for source, sink in ((left, right), (right, left)):
                if source in ready:
                    data = source.recv(CHUNK)
                    if not data:
                        return
                    sink.sendall(other.sub(b"Host: localhost", data) if other and sink is right else data)
