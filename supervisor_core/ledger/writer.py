"""The one writer of a process: whatever waits is written in one transaction, so that many share one fsync."""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from supervisor_core.domain.errors import TemporaryError

MOST_PER_TRANSACTION = 200
"""Bounds how long others wait for the write lock; at 200 small writes a transaction lasts some milliseconds."""


log = logging.getLogger(__name__)


class LedgerUnavailable(TemporaryError):
    """The ledger can't be written at the moment."""


@dataclass(frozen=True, slots=True)
class _Job:
    work: Callable[[Connection], Any]
    future: Future[Any]


class Writer:
    """A thread that takes writes in the order in which they came, and commits all that wait together.

    Each write is a savepoint of its own: one that raises is undone alone, and the others of its group stay.
    `before_commit` sees each transaction last; what it returns is given to `after_commit`, before anybody is told,
    for what must never lag behind what people saw.
    """

    def __init__(
        self,
        engine: Engine,
        before_commit: Callable[[Connection], Any],
        after_commit: Callable[[Any], None],
    ) -> None:
        self._engine = engine
        self._before_commit = before_commit
        self._after_commit = after_commit
        self._waiting: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="ledger-writer", daemon=True)
        self._thread.start()

    def submit(self, work: Callable[[Connection], Any]) -> Future[Any]:
        """Have `work` done inside a transaction; the future is set once it is on disk."""
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
        try:
            with self._engine.begin() as connection:
                for job in jobs:
                    results.append(_attempt(connection, job))
                    _must_be_open(connection, results[-1][2])
                note = self._before_commit(connection)
            self._follow_up(note)
        except BaseException as error:  # noqa: BLE001 (the edge of the thread: everybody who waits is told)
            results = [(job, None, _of_the_group(error)) for job in jobs]
        for job, value, problem in results:
            if problem is None:
                job.future.set_result(value)
            else:
                job.future.set_exception(_in_our_words(problem))

    def _follow_up(self, note: Any) -> None:  # noqa: ANN401 (what `before_commit` returned)
        """What is written stays written, and nobody may be told otherwise."""
        try:
            self._after_commit(note)
        except Exception:
            log.exception("what follows a commit went wrong; the commit holds")


def _must_be_open(connection: Connection, problem: BaseException | None) -> None:
    """A disk that is full or broken can make SQLite undo the whole transaction, and a commit then says nothing."""
    driver = connection.connection.dbapi_connection
    if not getattr(driver, "in_transaction", True):
        raise LedgerUnavailable(
            f"The ledger can't be written: {problem or 'its transaction is gone'}.",
            remedy="Is the disk full, or the state folder away?",
        )


def _of_the_group(problem: BaseException) -> BaseException:
    """What keeps a whole group from being written is no fault of any of them."""
    if isinstance(problem, OSError):
        return LedgerUnavailable(f"The ledger can't be written: {problem}.", remedy="Is the state folder away?")
    return problem


def _in_our_words(problem: BaseException) -> BaseException:
    """What a full or broken disk does to SQLite is worth another try; everything else is passed on as it is."""
    if isinstance(problem, OperationalError):
        unavailable = LedgerUnavailable(
            f"The ledger can't be written: {problem.orig}.",
            remedy="Is the disk full, or the state folder away?",
        )
        unavailable.__cause__ = problem
        return unavailable
    return problem


def _attempt(connection: Connection, job: _Job) -> tuple[_Job, Any, BaseException | None]:
    try:
        with connection.begin_nested():
            return job, job.work(connection), None
    except Exception as error:  # noqa: BLE001 (it belongs to whoever asked for this write)
        return job, None, error
