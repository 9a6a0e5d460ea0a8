"""The shared database as a host meets it: there, or away, in words that show no password."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from sqlalchemy import Connection, make_url
from sqlalchemy.exc import DBAPIError

from supervisor_core.config.urls import masked
from supervisor_core.domain.errors import TemporaryError
from supervisor_core.domain.texts import one_line
from supervisor_core.ledger.engine import reading, shared_engine
from supervisor_core.ledger.forward_patience import Patience

T = TypeVar("T")

WORDS = 300


class DatabaseAway(TemporaryError):
    """The shared database can't be used at the moment."""


class SharedDatabase:
    """One shared database, asked by one thread at a time."""

    def __init__(self, url: str, query_timeout_seconds: float) -> None:
        self.address = masked(url)
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
            words = one_line(" ".join(said.split()).rstrip("."), WORDS)
            raise DatabaseAway(f"The shared database {self.address} can't be used: {words}.") from error

    def read(self, look: Callable[[Connection], T]) -> T:
        """Look, and change nothing."""
        with self.asking(), reading(self.engine).connect() as connection:
            return look(connection)

    def close(self) -> None:
        """Let go of the connections. Whoever asks next makes a new one: none is kept that may freeze meanwhile."""
        self.engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
