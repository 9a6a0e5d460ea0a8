"""The connection to the shared database, with a time limit for each answer. Its errors show no password.

PyMySQL has its own timeout, and SQLite has no server. A psycopg connection is closed from another thread, which psycopg
treats as a lost server.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self, TypeVar

from sqlalchemy import Connection, Engine, event, make_url
from sqlalchemy.exc import DBAPIError

from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.text import flatten, one_line, sentence
from supervisor_core.config.fields import mask_url
from supervisor_core.storage import schema
from supervisor_core.storage.database_check import open_session
from supervisor_core.storage.engine import reader_of, shared_engine

EVENTS = ("before_cursor_execute", "after_cursor_execute", "commit", "rollback")
"""The events at which the timeout starts again: each statement has all of it."""


class StatementTimeout:
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
        """Close the connection if a statement within this takes too long."""
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


T = TypeVar("T")

WORDS = 300


class DatabaseUnavailable(TemporaryError):
    """The shared database can't be used right now."""


class SharedDatabase:
    """One shared database, asked by one thread at a time."""

    def __init__(self, url: str, query_timeout_seconds: float) -> None:
        self.address = mask_url(url)
        self._url = url
        self._query_timeout = query_timeout_seconds
        self.engine = shared_engine(url, query_timeout_seconds)
        self._patience = StatementTimeout(self.engine, query_timeout_seconds)
        self._password = make_url(url).password

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Within this, drivers' errors become ours, and each statement has a time limit."""
        try:
            with self._patience.watching():
                yield
        except (DBAPIError, sqlite3.Error) as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error)
            if self._password:
                said = said.replace(str(self._password), "…")
            words = sentence(one_line(flatten(said), WORDS))
            raise DatabaseUnavailable(f"The shared database {self.address} can't be used: {words}") from error

    def read(self, look: Callable[[Connection], T]) -> T:
        """Read without changing anything."""
        with self.asking(), reader_of(self.engine).connect() as connection:
            return look(connection)

    def check_ours(self) -> str | None:
        """The revision of its tables; `ForeignTables` where they aren't ours. Not even a file's journal is touched."""
        engine = open_session(self._url, self._query_timeout)
        try:
            with self.asking(), engine.connect() as connection:
                return schema.check_ours(connection)
        finally:
            engine.dispose()

    def is_missing(self) -> bool:
        """True if it is a file that doesn't exist yet; the first write creates it."""
        parsed = make_url(self._url)
        if parsed.get_backend_name() != "sqlite":
            return False
        path = Path((parsed.database or "").removeprefix("file:"))
        return path.parent.is_dir() and not path.exists()

    def close(self) -> None:
        """Close the connections. The next use opens a new one, because a kept one may freeze."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
