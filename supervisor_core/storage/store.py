"""The ledger: one writer and concurrent readers; and the same interface for any other database."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self, TypeVar, runtime_checkable

from sqlalchemy import Connection, Engine, StaticPool
from sqlalchemy.exc import DBAPIError
from sqlalchemy.pool import SingletonThreadPool

from supervisor_core.common import crashpoints
from supervisor_core.common.errors import LedgerUnavailable, UsageError
from supervisor_core.storage import schema, steps
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry, ChainHead
from supervisor_core.storage.engine import SHARES, reader_of, shared_engine
from supervisor_core.storage.ledger_errors import LedgerDamaged
from supervisor_core.storage.writer import LedgerFile, LedgerPlace, Writer

if TYPE_CHECKING:
    from sqlalchemy.orm import Session  # 6 MB, which only who calls with one needs

T = TypeVar("T")

STEPS_AT_ONCE = 100
"""The most steps of one write, so that no other waits for long."""


@dataclass(frozen=True, eq=False, slots=True)
class _Listener:
    """A callback for ordered messages, of some kinds or, with none named, of all."""

    ordered: Callable[[], object]
    kinds: frozenset[str]


class Ledger:
    """The ledger of one supervisor. Any number of processes may have it open; each writes through one thread of its
    own."""

    def __init__(self, place: Path | LedgerPlace, supervisor_id: str, *, shares: bool = False) -> None:
        """`shares`: audit rows also go to a shared database."""
        self.supervisor_id = supervisor_id
        self._place: LedgerPlace = LedgerFile(place) if isinstance(place, Path) else place
        self._engine, self._reader = self._place.engines()
        if shares:
            self._engine = self._engine.execution_options(**{SHARES: True})
        try:
            schema.ensure(self._engine)
        except BaseException as error:
            self._dispose()
            if trouble := self._place.error(error, "used"):
                raise trouble from error
            raise
        self._listeners: tuple[_Listener, ...] = ()
        self._damage: LedgerDamaged | None = None
        self._writer = Writer(self._engine, self._place, self._notify)

    @property
    def name(self) -> str:
        """The name for messages: the path of its file, or the URL of its database."""
        return self._place.name

    @property
    def is_shared(self) -> bool:
        """True if another machine may have used it before."""
        return self._place.is_shared

    @contextmanager
    def listening(self, ordered: Callable[[], object], kinds: Collection[str] = ()) -> Iterator[None]:
        """Call `ordered` in the writer's thread after each commit of ours that adds messages. With `kinds`, only these
        kinds of messages count."""
        listener = _Listener(ordered, frozenset(kinds))
        self._listeners += (listener,)
        try:
            yield
        finally:
            self._listeners = tuple(each for each in self._listeners if each is not listener)

    def files_state(self) -> object:
        """Differs after a commit, whichever program made it."""
        return self._place.state(self._reader)

    def require(self) -> None:
        """Raise `LedgerUnavailable` where another machine may have taken over: right before something is sent. It may
        ask a server, so it blocks."""
        self._place.require()

    def submit(self, work: Callable[[Connection], T]) -> Future[T]:
        """Write without waiting; the future is set once it is on disk."""
        return self._writer.submit(work)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, and return once it is on disk."""
        return self.submit(work).result()

    def read(self, look: Callable[[Connection], T]) -> T:
        """Read one consistent snapshot, without waiting for writers."""
        try:
            with self._reader.connect() as connection:
                return look(connection)
        except DBAPIError as error:
            trouble = self._place.error(error, "read")
            if trouble is None:
                raise
            if isinstance(trouble, LedgerDamaged):
                self._damage = trouble
            raise trouble from error

    @property
    def trouble(self) -> LedgerUnavailable | None:
        """The reason why the ledger can't be used; None while it can. Damage stays until it is reopened."""
        if isinstance(self._writer.trouble, LedgerDamaged):
            self._damage = self._writer.trouble
        return self._damage or self._writer.trouble

    def check(self, seconds: float) -> None:
        """Check a file for damage within a time limit; a finding becomes `trouble`."""
        self._damage = self._place.damage(seconds) or self._damage

    def step(self, step: steps.Step, now: datetime | None = None) -> bool:
        """Change one row's state with its effects; False if another process was first."""
        moment = now or datetime.now(UTC)
        crashpoints.reach(f"{step.name}:before")
        taken = self.write(lambda connection: steps.take(connection, self.supervisor_id, step, moment))
        crashpoints.reach(f"{step.name}:after")
        return taken

    def step_all(self, several: Sequence[steps.Step], now: datetime | None = None) -> list[bool]:
        """Change several rows, each as `step` does, with few syncs; raise the first error."""
        taken = self.try_steps(several, now)
        if error := next((each for each in taken if isinstance(each, Exception)), None):
            raise error
        return [each is True for each in taken]

    def try_steps(self, several: Sequence[steps.Step], now: datetime | None = None) -> list[bool | Exception]:
        """Change several rows, each as `step` does, with few syncs; one that fails keeps no other from its change."""
        moment = now or datetime.now(UTC)
        for step in several:
            crashpoints.reach(f"{step.name}:before")
        taken: list[bool | Exception] = []
        for first in range(0, len(several), STEPS_AT_ONCE):
            taken += self._take_all(several[first : first + STEPS_AT_ONCE], moment)
        for step in several:
            crashpoints.reach(f"{step.name}:after")
        return taken

    def _take_all(self, several: Sequence[steps.Step], now: datetime) -> Sequence[bool | Exception]:
        try:
            self.write(lambda connection: steps.take_all(connection, self.supervisor_id, several, now))
        except LedgerUnavailable as error:
            return [error] * len(several)
        except Exception:  # noqa: BLE001 (one of them is to blame, or was late; each says so for itself)
            works = [partial(steps.take, supervisor_id=self.supervisor_id, step=step, now=now) for step in several]
            return [_result(future) for future in [self.submit(work) for work in works]]
        return [True] * len(several)

    def audit(self, entry: AuditEntry, now: datetime | None = None) -> ChainHead:
        """Add a row to the audit trail without a step, for a refusal or a reading."""
        moment = now or datetime.now(UTC)
        return self.write(lambda connection: chain.append(connection, self.supervisor_id, entry, moment))

    def order(self, messages: Sequence[steps.Message], now: datetime | None = None) -> None:
        """Order messages without a change of state."""
        moment = now or datetime.now(UTC)
        self.write(lambda connection: steps.record(connection, self.supervisor_id, None, messages, moment))

    def close(self) -> None:
        """Write what waits and close the ledger."""
        self._writer.close()
        self._dispose()

    def _dispose(self) -> None:
        self._engine.dispose()
        self._reader.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _notify(self, ordered: frozenset[str]) -> None:
        """Call those who wait for messages of these kinds."""
        for listener in self._listeners:
            if not listener.kinds or listener.kinds & ordered:
                listener.ordered()


def _result(future: Future[bool]) -> bool | Exception:
    try:
        return future.result()
    except Exception as error:  # noqa: BLE001 (the caller's)
        return error


class Transactions(Protocol):
    """Reading and writing in transactions, as a `Ledger` does."""

    def read(self, look: Callable[[Connection], T]) -> T:
        """Read one consistent snapshot."""

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, and return once it is committed."""


@runtime_checkable
class DatabaseService(Protocol):
    """A program's own access to its database."""

    def get_session(self) -> AbstractContextManager[Session]:
        """A session of SQLAlchemy for one transaction."""


Database = Transactions | DatabaseService | Engine | str
"""A database as callers may give it; a string is its URL."""


class _Preparation:
    """Creates or upgrades the tables of a database before its first transaction."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._turns: AbstractContextManager[object] | None = None

    def turn(self, engine: Callable[[], Engine]) -> AbstractContextManager[object]:
        """A context for one transaction. Where all threads share one connection, they take turns."""
        with self._lock:
            if self._turns is None:
                found = engine()
                if isinstance(found.pool, SingletonThreadPool):
                    raise UsageError(
                        "Each thread would get an in-memory SQLite database of its own.",
                        remedy="Use a file, or poolclass=StaticPool.",
                    )
                schema.ensure(found)
                self._turns = threading.Lock() if isinstance(found.pool, StaticPool) else nullcontext()
            return self._turns


class EngineTransactions:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._reader = reader_of(engine)
        self._preparation = _Preparation()

    def read(self, look: Callable[[Connection], T]) -> T:
        with self._preparation.turn(lambda: self._engine), self._reader.connect() as connection:
            return look(connection)

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, and return once it is committed."""
        with self._preparation.turn(lambda: self._engine), self._engine.begin() as connection:
            return work(connection)


class SessionTransactions:
    def __init__(self, database: DatabaseService) -> None:
        self._database = database
        self._preparation = _Preparation()

    def read(self, look: Callable[[Connection], T]) -> T:
        with self._preparation.turn(self._engine), self._database.get_session() as session:
            return look(session.connection())

    def write(self, work: Callable[[Connection], T]) -> T:
        """Write, and return once it is committed."""
        with self._preparation.turn(self._engine), self._database.get_session() as session:
            done = work(session.connection())
            session.commit()
            return done

    def _engine(self) -> Engine:
        with self._database.get_session() as session:
            return session.get_bind().engine


def transactions(database: Database) -> Transactions:
    """The transactions of any database. A ledger is returned as it is."""
    if isinstance(database, str):
        return EngineTransactions(shared_engine(database, pooled=False))
    if isinstance(database, Engine):
        return EngineTransactions(database)
    if isinstance(database, DatabaseService):
        return SessionTransactions(database)
    return database
