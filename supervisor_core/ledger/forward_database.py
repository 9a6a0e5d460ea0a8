"""The shared database as a host meets it: there, or away, in words that show no password."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self, TypeVar

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DBAPIError

from supervisor_core.config.urls import masked
from supervisor_core.domain.errors import TemporaryError
from supervisor_core.domain.texts import one_line, sentence, unfolded
from supervisor_core.ledger import schema
from supervisor_core.ledger.engine import reading, shared_engine
from supervisor_core.ledger.forward_patience import Patience
from supervisor_core.ledger.verify_session import open_session

T = TypeVar("T")

WORDS = 300


class DatabaseAway(TemporaryError):
    """The shared database can't be used at the moment."""


class SharedDatabase:
    """One shared database, asked by one thread at a time."""

    def __init__(self, url: str, query_timeout_seconds: float) -> None:
        self.address = masked(url)
        self._url = url
        self._query_timeout = query_timeout_seconds
        self.engine = shared_engine(url, query_timeout_seconds)
        self._patience = Patience(self.engine, query_timeout_seconds)
        self._password = make_url(url).password

    @contextmanager
    def asking(self) -> Iterator[None]:
        """Errors of drivers become ours in here, and nothing takes for ever."""
        try:
            with self._patience.watching():
                yield
        except (DBAPIError, sqlite3.Error) as error:
            said = str(error.orig if isinstance(error, DBAPIError) else error)
            if self._password:
                said = said.replace(str(self._password), "…")
            words = sentence(one_line(unfolded(said), WORDS))
            raise DatabaseAway(f"The shared database {self.address} can't be used: {words}") from error

    def read(self, look: Callable[[Connection], T]) -> T:
        """Look, and change nothing."""
        with self.asking(), reading(self.engine).connect() as connection:
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
        """Whether it is a file that nobody has made yet; whoever first writes to it makes it."""
        parsed = make_url(self._url)
        if parsed.get_backend_name() != "sqlite":
            return False
        path = Path((parsed.database or "").removeprefix("file:"))
        return path.parent.is_dir() and not path.exists()

    def close(self) -> None:
        """Let go of the connections. Whoever asks next makes a new one: none is kept that may freeze meanwhile."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
