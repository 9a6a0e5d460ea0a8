"""The line between a host or the hub and the NATS server: a relay that can be cut, or fail without a word."""

from __future__ import annotations

import selectors
import socket
import threading
from typing import Self

HUB = "hub"
CHUNK = 65536


class HostLine:
    """Relays connections to a port, in a thread.

    Cut, it ends those that there are and refuses new ones. Silent, it takes no more from one side or both: nobody is
    told, and each side thinks that the line is up. Once it's mended, whatever wasn't given up goes on, as with TCP.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"nats://127.0.0.1:{self._listening.getsockname()[1]}"
        self._selector = selectors.DefaultSelector()
        self._woken, self._waker = socket.socketpair()
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._near: set[socket.socket] = set()
        self._up = True
        self._silent: frozenset[str] = frozenset()
        self._ending = False
        self._thread = threading.Thread(target=self._run, daemon=True)

    def cut(self) -> None:
        """Let nothing through from now on."""
        self._up = False
        self._waker.send(b"x")

    def fall_silent(self, *senders: str) -> None:
        """Take nothing more from `near`, from `far`, or from both; of each what they send, and that they end."""
        self._silent = frozenset(senders)
        self._waker.send(b"x")

    def mend(self) -> None:
        """Let everything through."""
        self._up, self._silent = True, frozenset()
        self._waker.send(b"x")

    def __enter__(self) -> Self:
        self._selector.register(self._listening, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self._waker.send(b"x")
        self._thread.join()
        for each in (self._listening, self._woken, self._waker, *self._pairs):
            each.close()
        self._selector.close()

    def _run(self) -> None:
        while not self._ending:
            for key, _ in self._selector.select():
                if key.fileobj is self._listening:
                    self._accept()
                elif key.fileobj is self._woken:
                    self._woken.recv(CHUNK)
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                    self._relay(key.fileobj)
            if not self._up:
                for each in tuple(self._pairs):
                    self._drop(each)
            for each in self._pairs:
                self._listen(each)

    def _listen(self, here: socket.socket) -> None:
        """Take what comes from this side, unless it's silent."""
        heard = ("near" if here in self._near else "far") not in self._silent
        known = here in self._selector.get_map()
        if heard and not known:
            self._selector.register(here, selectors.EVENT_READ)
        elif known and not heard:
            self._selector.unregister(here)

    def _accept(self) -> None:
        near, _ = self._listening.accept()
        try:
            far = socket.create_connection(("127.0.0.1", self._port), 5)
        except OSError:
            near.close()
            return
        self._pairs |= {near: far, far: near}
        self._near.add(near)

    def _relay(self, here: socket.socket) -> None:
        try:
            data = here.recv(CHUNK)
            if data:
                self._pairs[here].sendall(data)
        except OSError:
            data = b""
        if not data:
            self._drop(here)

    def _drop(self, here: socket.socket) -> None:
        there = self._pairs.pop(here, None)
        if there is None:  # it ended with the other one
            return
        del self._pairs[there]
        for each in (here, there):
            self._near.discard(each)
            if each in self._selector.get_map():
                self._selector.unregister(each)
            each.close()
