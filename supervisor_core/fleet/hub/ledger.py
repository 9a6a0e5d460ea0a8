"""A hub's ledger in a database server, where another machine can take over."""

from __future__ import annotations

from sqlalchemy import Connection, Engine, make_url
from sqlalchemy.exc import DBAPIError

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.text import flatten, one_line, sentence
from supervisor_core.config.fields import mask_url
from supervisor_core.fleet.hub import lease
from supervisor_core.fleet.hub.lease import HubLease
from supervisor_core.storage.engine import server_ledger_engines
from supervisor_core.storage.ledger_errors import LedgerDamaged

WORDS = 300
OF_THE_SERVER = ("OperationalError", "InterfaceError", "InternalError")
"""Errors of drivers about the server and the connection; others are about a statement."""

OF_A_ROW = frozenset({1292, 1300, 1364, 1411, 1690, 3819, 4025})
"""Errors of MariaDB about a value, which PyMySQL calls operational, as it does any number that it doesn't know."""


class LedgerDatabase:
    """A database as the place of a hub's ledger. With a lease, only its holder writes."""

    def __init__(
        self, url: str, query_timeout_seconds: float, supervisor_id: str, held: HubLease | None = None
    ) -> None:
        self._url = url
        self._query_timeout = query_timeout_seconds
        self._supervisor_id = supervisor_id
        self._lease = held

    @property
    def name(self) -> str:
        """Its URL without the password."""
        return mask_url(self._url)

    @property
    def is_shared(self) -> bool:
        """Each machine that can take over writes to it, and so do their shells."""
        return True

    def engines(self) -> tuple[Engine, Engine]:
        """An engine each for the writer and for readers."""
        return server_ledger_engines(self._url, self._query_timeout)

    def prepare(self, writer: Engine) -> None:
        """Have the row that write transactions lock."""
        with writer.connect() as connection:
            lease.add_row(connection, self._supervisor_id)

    def begin(self, connection: Connection) -> None:
        """Lock the ledger, and check the lease in the same transaction."""
        if self._lease is None:
            lease.lock_row(connection, self._supervisor_id)
        else:
            self._lease.lock(connection)

    def error(self, problem: BaseException, verb: str) -> LedgerUnavailable | None:
        """An error of the server or of the connection to it, without the password."""
        if not isinstance(problem, DBAPIError) or type(problem).__name__ not in OF_THE_SERVER:
            return None
        if getattr(problem.orig, "args", ())[:1] and problem.orig.args[0] in OF_A_ROW:  # type: ignore[union-attr]
            return None
        return LedgerUnavailable(
            f"The ledger {self.name} can't be {verb}: {error_words(self._url, problem)}",
            remedy="Check the database server. It retries automatically.",
        )

    def state(self, reader: Engine) -> object:
        """The number of write transactions."""
        try:
            with reader.connect() as connection:
                return lease.count_writes(connection, self._supervisor_id)
        except DBAPIError as error:
            return str(error.orig)

    def damage(self, seconds: float) -> LedgerDamaged | None:
        """The server takes care of its files."""

    def require(self) -> None:
        """Only the holder of the lease acts."""
        if self._lease is not None:
            self._lease.require()


def error_words(url: str, problem: DBAPIError) -> str:
    """A driver's error as a sentence, without the password."""
    said, password = str(problem.orig), make_url(url).password
    if password:
        said = said.replace(str(password), "…")
    return sentence(one_line(flatten(said), WORDS))
