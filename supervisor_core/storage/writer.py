"""The one writer of a process: whatever waits is written in one transaction, so that many share one fsync."""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import DBAPIError

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.storage import ledger_file
from supervisor_core.storage.engine import ORDERED, ledger_engine, reader_of
from supervisor_core.storage.ledger_errors import LedgerDamaged, ledger_error

MOST_PER_TRANSACTION = 200
"""Bounds how long others wait for the write lock; at 200 small writes a transaction lasts some milliseconds."""

log = logging.getLogger(__name__)


class LedgerPlace(Protocol):
    """The place of a ledger: a file of its own, or a database server."""

    @property
    def name(self) -> str:
        """The name for messages, such as its path."""

    def begin(self, connection: Connection) -> None:
        """Begin a write transaction: nobody else writes until its end. An error refuses it."""

    def error(self, problem: BaseException, verb: str) -> LedgerUnavailable | None:
        """The ledger's error for a driver's; None for one that isn't about the ledger itself."""

    def engines(self) -> tuple[Engine, Engine]:
        """The engines of the writer and of readers."""

    @property
    def is_shared(self) -> bool:
        """True if other machines write to it, too."""

    def state(self, reader: Engine) -> object:
        """Differs after a commit, whichever program made it."""

    def damage(self, seconds: float) -> LedgerDamaged | None:
        """Look for damage within a time limit."""

    def require(self) -> None:
        """Raise `LedgerUnavailable` where another machine may be acting by this ledger."""


class LedgerFile:
    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def name(self) -> str:
        return str(self._path)

    def engines(self) -> tuple[Engine, Engine]:
        """One engine for both; readers don't wait for the writer."""
        engine = ledger_engine(self._path)
        return engine, reader_of(engine)

    @property
    def is_shared(self) -> bool:
        """It's this host's alone."""
        return False

    def begin(self, connection: Connection) -> None:
        """The transaction has begun with the write lock."""

    def error(self, problem: BaseException, verb: str) -> LedgerUnavailable | None:
        return ledger_error(self._path, problem, verb)

    def state(self, reader: Engine) -> object:  # noqa: ARG002
        """The sizes and times of the files."""
        return [_state_of(self._path.with_name(self._path.name + end)) for end in ("", "-wal")]

    def damage(self, seconds: float) -> LedgerDamaged | None:
        """Check the file. One that can't be read now says nothing of its damage."""
        try:
            damage = ledger_file.file_state(self._path, seconds).damage
        except sqlite3.Error as error:
            trouble = ledger_error(self._path, error, "read")
            return trouble if isinstance(trouble, LedgerDamaged) else None
        return LedgerDamaged(self._path, " ".join(damage.split())) if damage else None

    def require(self) -> None:
        """The lock of the state folder excludes others."""


def _state_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[Connection], Any]
    future: Future[Any]


class Writer:
    """A thread that executes writes in order and commits all waiting ones together.

    Each write is a savepoint of its own: a failing one is undone alone, and the others of its group stay. `notify` gets
    the kinds of messages that a commit ordered.
    """

    def __init__(self, engine: Engine, place: LedgerPlace, notify: Callable[[frozenset[str]], None]) -> None:
        self._engine = engine
        self._place = place
        self.trouble: LedgerUnavailable | None = None
        """The error of the newest change; None if it was written."""
        self._notify = notify
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], Any]) -> Future[Any]:
        """Run `work` inside a transaction; the future is set once it is on disk."""
        future: Future[Any] = Future()
        with self._closing:
            if self._closed:
                raise RuntimeError("the ledger is closed")
            self._waiting.put(_Job(work, future))
        return future

    def close(self) -> None:
        """Write what waits, then end."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        open_ = True
        while open_:
            group = [self._waiting.get()]
            while len(group) < MOST_PER_TRANSACTION and not self._waiting.empty():
                group.append(self._waiting.get())
            open_ = None not in group
            jobs = [job for job in group if job is not None and job.future.set_running_or_notify_cancel()]
            if jobs:
                self._write(jobs)

    def _write(self, jobs: list[_Job]) -> None:
        results: list[tuple[_Job, Any, BaseException | None]] = []
        changed = False
        try:
            with self._engine.begin() as connection:
                self._place.begin(connection)
                changes = _changes(connection)
                for job in jobs:
                    results.append(_attempt(connection, job))
                    if not _is_open(connection):  # a commit would say nothing
                        raise results[-1][2] or LedgerUnavailable(
                            f"The ledger {self._place.name} lost its transaction."
                        )
                ordered = frozenset(connection.info.pop(ORDERED, ()))
                changed = changes is None or (_changes(connection) or 0) > changes
            if ordered:
                try:
                    self._notify(ordered)
                except Exception:
                    log.exception("a step after a commit failed; the commit is kept")
        except BaseException as error:  # noqa: BLE001 (the edge of the thread: everybody who waits is told)
            results = [(job, None, error) for job in jobs]
        told = [(job, value, problem and self._in_our_words(problem)) for job, value, problem in results]
        trouble = next((problem for _, _, problem in told if isinstance(problem, LedgerUnavailable)), None)
        if trouble or changed:  # a transaction without a change also goes through on a full disk
            self.trouble = trouble
        for job, value, problem in told:
            if problem is None:
                job.future.set_result(value)
            else:
                job.future.set_exception(problem)

    def _in_our_words(self, problem: BaseException) -> BaseException:
        """Turn errors of a full or broken disk into the ledger's; leave all others."""
        trouble = self._place.error(problem, "written")
        if trouble is None and isinstance(problem, OSError):
            trouble = LedgerUnavailable(
                f"The ledger {self._place.name} can't be written: {problem}.",
                remedy="Check that the state folder exists.",
            )
        if trouble is None:
            return problem
        trouble.__cause__ = problem
        return trouble


def _attempt(connection: Connection, job: _Job) -> tuple[_Job, Any, BaseException | None]:
    savepoint = connection.begin_nested()
    try:
        value = job.work(connection)
        savepoint.commit()
    except Exception as error:  # noqa: BLE001 (it belongs to whoever asked for this write)
        try:
            savepoint.rollback()
        except DBAPIError:
            if _is_open(connection):
                raise
        return job, None, error
    return job, value, None


def _is_open(connection: Connection) -> bool:
    """False where a full or broken disk made SQLite undo the whole transaction, or the server is gone."""
    return not connection.invalidated and getattr(connection.connection.dbapi_connection, "in_transaction", True)


def _changes(connection: Connection) -> int | None:
    """The number of rows that this connection has changed; None where only a transaction that succeeds says so."""
    return getattr(connection.connection.dbapi_connection, "total_changes", None)
