"""One way to read and write, whether the rows are in this host's ledger or in a database that several share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from sqlalchemy import Connection, Engine

from supervisor_core.ledger.engine import reading

T = TypeVar("T")


class Transactions(Protocol):
    """What a `Ledger` has."""

    def read(self, look: Callable[[Connection], T]) -> T:
        """Look at one consistent picture."""

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, and come back once it is committed."""


class OfEngine:
    """The same for a database without a writer of its own: each write is a transaction."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = reading(engine)

    def read(self, look: Callable[[Connection], T]) -> T:
        """Look at one consistent picture."""
        with self._reader.connect() as connection:
            return look(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, and come back once it is committed."""
        with self._engine.begin() as connection:
            return work(connection)


def transactions(database: Transactions | Engine) -> Transactions:
    """A ledger is one by itself."""
    return OfEngine(database) if isinstance(database, Engine) else database
