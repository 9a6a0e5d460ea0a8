"""A time limit for what a database server is asked: one that is frozen says nothing, and its driver may wait for ever.

PyMySQL has a limit of its own, and SQLite is no server. For psycopg the connection is cut from another thread, which
it takes for a server that went away.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from sqlalchemy import Engine, event

EVENTS = ("before_cursor_execute", "after_cursor_execute", "commit", "rollback")
"""Where the time begins anew: each statement has all of it."""


class Patience:
    """Watches the connections of an engine that one thread uses."""

    def __init__(self, engine: Engine, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = 0.0
        self._driver: Any = None
        self._needed = engine.dialect.name == "postgresql"
        if self._needed:
            event.listen(engine, "connect", self._connected)
            for name in EVENTS:
                event.listen(engine, name, self._go_on)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Cut the connection where one statement in here takes too long."""
        if not self._needed:
            yield
            return
        done = threading.Event()
        self._go_on()
        watch = threading.Thread(target=self._watch, args=(done,), name="patience", daemon=True)
        watch.start()
        try:
            yield
        finally:
            done.set()

    def _connected(self, driver: Any, _record: object) -> None:  # noqa: ANN401 (a driver's connection)
        self._driver = driver
        self._go_on()

    def _go_on(self, *_: object) -> None:
        self._deadline = time.monotonic() + self._seconds

    def _watch(self, done: threading.Event) -> None:
        while (left := self._deadline - time.monotonic()) > 0:
            if done.wait(left):
                return
        # What is cut is a copy of its descriptor: the driver's own must not be closed behind its back. One that is
        # closed already needs no cutting.
        with suppress(Exception), socket.socket(fileno=os.dup(self._driver.fileno())) as copy:
            copy.shutdown(socket.SHUT_RDWR)
