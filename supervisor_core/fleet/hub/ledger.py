"""The lock that says which machine is the hub: an advisory lock of PostgreSQL, held on one connection.

PostgreSQL releases it when that connection ends: with its program, with its machine, or because nobody used it for
`IDLE_SECONDS`, as when the program is frozen. So the hub uses it every `PING_SECONDS`, and before whatever others see.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import Connection, Engine, make_url, text
from sqlalchemy.exc import DBAPIError

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.text import flatten, one_line, sentence
from supervisor_core.common.times import clock_time
from supervisor_core.config.fields import mask_url
from supervisor_core.storage.engine import cut_connections, server_ledger_engines, shared_engine
from supervisor_core.storage.ledger_errors import LedgerDamaged

IDLE_SECONDS = 6
PING_SECONDS = 2.0
QUERY_SECONDS = 2.0
ANSWER_SECONDS = 3
"""A connection over which PostgreSQL says nothing for so long has ended. Of a dead network the system tells (Linux); a
server that hangs confirms what it gets and doesn't answer, so the connection is cut."""

HUB, WRITES = 0x5B01, 0x5B02
"""The first numbers of the two locks. The second one lets write transactions of all machines run one at a time."""


class NotTheHub(LedgerUnavailable):
    """This machine isn't the hub any more: it doesn't hold the lock."""

    short = "the lock of the hub is lost"


@dataclass(frozen=True, slots=True)
class HubMachine:
    name: str
    since: datetime | None
    """None if PostgreSQL hides it: the hub connects as another role."""

    def __str__(self) -> str:
        if self.since is None:
            return f"{self.name}, the hub"
        return f"{self.name}, the hub since {clock_time(self.since, datetime.now(UTC))}"


class HubLock:
    """The lock of one process. Any thread may ask it."""

    def __init__(self, url: str, supervisor_id: str, machine: str = "") -> None:
        self.machine = machine or socket.gethostname()
        patient = make_url(url).update_query_dict({"tcp_user_timeout": str(ANSWER_SECONDS * 1000)})
        engine = shared_engine(patient.render_as_string(hide_password=False), QUERY_SECONDS, pooled=False)
        self._engine = engine.execution_options(isolation_level="AUTOCOMMIT")
        self._supervisor_id = supervisor_id
        self._connection: Connection | None = None
        self._turn = threading.Lock()

    def take(self) -> HubMachine | None:
        """Take the lock. None if it's ours now, else its holder; `DBAPIError` where PostgreSQL can't be used."""
        while True:
            with ExitStack() as opened:
                connection = opened.enter_context(self._engine.connect())
                answering = opened.enter_context(ExitStack())
                answering.enter_context(_cut_if_silent(connection))
                settings = {"machine": self.machine, "idle": f"{IDLE_SECONDS}s"}
                named = "set_config('application_name', :machine, false)"
                connection.execute(text(f"SELECT {named}, set_config('idle_session_timeout', :idle, false)"), settings)
                key = {"kind": HUB, "hub": lock_number(self._supervisor_id)}
                if connection.execute(text("SELECT pg_try_advisory_lock(:kind, :hub)"), key).scalar_one():
                    # A write of the hub before us may be past its check: wait for the end of its transaction.
                    lock_writes(connection, self._supervisor_id)
                    answering.close()
                    opened.pop_all()
                    self._connection = connection
                    return None
                if holder := find_hub(connection, self._supervisor_id):
                    return holder

    def require(self) -> None:
        """Raise `NotTheHub` unless PostgreSQL answers that our connection, and so the lock, is still there. It blocks
        for some seconds at most."""
        with self._turn:
            try:
                if self._connection is not None:
                    with _cut_if_silent(self._connection):
                        self._connection.execute(text("SELECT 1"))
                    return
            except DBAPIError:
                self._release()
        raise NotTheHub("The connection that holds the hub's lock has ended.")

    @contextmanager
    def kept(self, lost: Callable[[str], object]) -> Iterator[None]:
        """Keep it meanwhile, and release it then. `lost` is called in a thread, with the reason, once it's lost."""
        over = threading.Event()

        def watch() -> None:
            while not over.wait(PING_SECONDS):
                try:
                    self.require()
                except NotTheHub as error:
                    if not over.is_set():
                        lost(str(error))
                    return

        threading.Thread(target=watch, name="hub-lock", daemon=True).start()
        try:
            yield
        finally:
            over.set()
            with self._turn:
                self._release()

    def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with contextlib.suppress(DBAPIError):
                connection.invalidate()
                connection.close()


@contextmanager
def _cut_if_silent(connection: Connection) -> Iterator[None]:
    timer = threading.Timer(ANSWER_SECONDS, cut_connections, [[connection.connection.dbapi_connection]])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def find_hub(connection: Connection, supervisor_id: str) -> HubMachine | None:
    query = (
        "SELECT a.application_name, a.backend_start FROM pg_locks l JOIN pg_stat_activity a USING (pid)"
        " JOIN pg_database d ON d.oid = l.database WHERE d.datname = current_database() AND l.locktype = 'advisory'"
        " AND l.granted AND l.classid = :kind AND l.objid = :hub"
    )
    row = connection.execute(text(query), {"kind": HUB, "hub": lock_number(supervisor_id)}).first()
    return HubMachine(row[0], row[1].astimezone(UTC) if row[1] else None) if row else None


def lock_writes(connection: Connection, supervisor_id: str) -> None:
    """Let no other machine or shell write until the end of this transaction."""
    key = {"kind": WRITES, "hub": lock_number(supervisor_id)}
    connection.execute(text("SELECT pg_advisory_xact_lock(:kind, :hub)"), key)


def lock_number(supervisor_id: str) -> int:
    return zlib.crc32(supervisor_id.encode()) & 0x7FFFFFFF


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
    message, password = str(problem.orig), make_url(url).password
    if password:
        message = message.replace(str(password), "…")
    return sentence(one_line(flatten(message), WORDS))
