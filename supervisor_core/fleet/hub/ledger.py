"""A hub's ledger in PostgreSQL, where another machine can take over."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, make_url, text
from sqlalchemy.exc import DBAPIError

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.text import flatten, one_line, sentence
from supervisor_core.config.fields import mask_url
from supervisor_core.fleet.hub.lock import HubLock, lock_writes
from supervisor_core.storage.engine import server_ledger_engines
from supervisor_core.storage.ledger_errors import LedgerDamaged

WORDS = 300
OF_THE_SERVER = ("OperationalError", "InterfaceError", "InternalError")
"""Errors of drivers about the server and the connection; others are about a statement."""


class LedgerDatabase:
    """A database as the place of a hub's ledger. With the hub's lock, only its holder writes."""

    def __init__(self, url: str, query_timeout_seconds: float, supervisor_id: str, lock: HubLock | None = None) -> None:
        self._url = url
        self._query_timeout = query_timeout_seconds
        self._supervisor_id = supervisor_id
        self._lock = lock

    @property
    def name(self) -> str:
        """Its URL without the password."""
        return mask_url(self._url)

    @property
    def is_shared(self) -> bool:
        """Each machine that can take over writes to it, and so do their shells."""
        return True

    def engines(self) -> tuple[Engine, Engine]:
        return server_ledger_engines(self._url, self._query_timeout)

    def begin(self, connection: Connection) -> None:
        """Wait for other writers, then check that this machine is the hub."""
        lock_writes(connection, self._supervisor_id)
        self.require()

    def error(self, problem: BaseException, verb: str) -> LedgerUnavailable | None:
        """An error of the server or of the connection to it, without the password."""
        if not isinstance(problem, DBAPIError) or type(problem).__name__ not in OF_THE_SERVER:
            return None
        return LedgerUnavailable(
            f"The ledger {self.name} can't be {verb}: {error_words(self._url, problem)}",
            remedy="Check the database server. It retries automatically.",
        )

    def state(self, reader: Engine) -> object:
        """The number of transactions that the server has begun to write."""
        try:
            with reader.connect() as connection:
                return connection.execute(text("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")).scalar_one()
        except DBAPIError as error:
            return str(error.orig)

    def damage(self, seconds: float) -> LedgerDamaged | None:
        """The server takes care of its files."""

    def require(self) -> None:
        """Only the holder of the lock acts."""
        if self._lock is not None:
            self._lock.require()


def error_words(url: str, problem: DBAPIError) -> str:
    """A driver's error as a sentence, without the password."""
    message, password = str(problem.orig), make_url(url).password
    if password:
        message = message.replace(str(password), "…")
    return sentence(one_line(flatten(message), WORDS))
