"""The verification of a database: reachable, tables readable, session in UTC.

A frozen server accepts connections and never responds, and not every driver has a timeout. So each query runs in a
thread of its own; at its timeout the connection is cut, which also ends the thread.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, NullPool, create_engine, event, func, inspect, make_url, select, table, text
from sqlalchemy.sql import quoted_name

from supervisor_core.common.text import one_line
from supervisor_core.common.times import from_text, to_text
from supervisor_core.storage import ledger_file
from supervisor_core.storage.engine import CONNECT_SECONDS, cut_connections, shared_engine

T = TypeVar("T")

OF_THE_TIME_ALLOWED = 0.9
"""MariaDB's timeout is a little shorter than ours, so that its error still arrives."""

ZERO = "+00:00"
NAMES_OF_UTC = frozenset({ZERO, "UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "GMT", "Etc/GMT", "<+00>-00"})
"""The last is what PostgreSQL calls an offset of nothing. London is at +00:00 as well, for half of the year."""


class Session(NamedTuple):
    time: datetime
    name: str
    zone: str
    """`+00:00`, or what it is instead."""


def open_session(url: str, query_timeout: float) -> Engine:
    """An engine for questions only. On SQLite the file is neither made nor changed."""
    parsed = make_url(url)
    if parsed.get_backend_name() == "sqlite":
        return sqlite_reader(Path((parsed.database or "").removeprefix("file:")), query_timeout)
    return shared_engine(url, query_timeout)


def sqlite_reader(path: Path, busy_seconds: float) -> Engine:
    """An engine that only reads this file, which must be there."""
    # Another thread ends a query that takes too long.
    creator = partial(ledger_file.connect, path, "ro", busy_seconds, any_thread=True)
    return create_engine("sqlite://", creator=creator, poolclass=NullPool)


def read_closed_ledger(path: Path, question: Callable[[Connection], T]) -> T:
    """The answer to a question about a ledger that isn't open; it changes nothing and waits for no writer."""
    engine = sqlite_reader(path, CONNECT_SECONDS)
    try:
        with engine.connect() as connection:
            return question(connection)
    finally:
        engine.dispose()


def limit_query_time(connection: Connection, query_timeout: float) -> None:
    """Limit the time of a query on the server, where that is set for each session."""
    if connection.dialect.name not in ("mysql", "mariadb"):
        return
    seconds = query_timeout * OF_THE_TIME_ALLOWED
    if getattr(connection.dialect, "is_mariadb", False):
        connection.execute(text("SET SESSION max_statement_time = :limit"), {"limit": seconds})
    else:
        connection.execute(text("SET SESSION max_execution_time = :limit"), {"limit": max(int(seconds * 1000), 1)})


def ping(connection: Connection) -> None:
    """The smallest question that needs the database itself to answer."""
    connection.execute(text("PRAGMA schema_version" if connection.dialect.name == "sqlite" else "SELECT 1")).scalar()


def read_session(connection: Connection) -> Session:
    """Ask a session about itself."""
    if connection.dialect.name == "sqlite":
        return _sqlite(connection)
    return _postgresql(connection) if connection.dialect.name == "postgresql" else _mysql(connection)


def _sqlite(connection: Connection) -> Session:
    """SQLite knows no zones: its own time is UTC, always."""
    moment = connection.execute(text("SELECT strftime('%Y-%m-%dT%H:%M:%fZ', 'now')")).scalar_one()
    file = connection.execute(text("SELECT file FROM pragma_database_list WHERE name = 'main'")).scalar_one()
    return Session(from_text(moment), Path(file).name, ZERO)


def _postgresql(connection: Connection) -> Session:
    row = connection.execute(
        text("SELECT now(), current_database(), current_setting('TimeZone'), extract(timezone FROM now())")
    ).one()
    return Session(row[0].astimezone(UTC), row[1], _zone(row[2], int(row[3])))


def _mysql(connection: Connection) -> Session:
    row = connection.execute(
        text("SELECT utc_timestamp(6), database(), @@session.time_zone, timestampdiff(SECOND, utc_timestamp(), now())")
    ).one()
    return Session(row[0].replace(tzinfo=UTC), row[1] or "", _zone(row[2], int(row[3])))


def _zone(name: str, offset_seconds: int) -> str:
    if offset_seconds == 0 and name in NAMES_OF_UTC:
        return ZERO
    sign, minutes = "-" if offset_seconds < 0 else "+", abs(offset_seconds) // 60
    return f"{name} ({sign}{minutes // 60:02d}:{minutes % 60:02d})"


WHOLE_SECONDS = 45.0
"""For all checks together; `send --wait` waits for a minute."""

GRACE_SECONDS = 0.5
"""A server-side timeout, so that its error still arrives."""

CLOSING_SECONDS = 1.0

LONGEST_WORDS = 300  # characters of what a driver says


@dataclass(frozen=True, slots=True)
class DatabaseCheck:
    name: str
    passed: bool
    seconds: float
    message: str

    def as_json(self) -> dict[str, Any]:
        """The check as JSON, for details and reports."""
        duration = round(self.seconds, 3)
        return {"name": self.name, "passed": self.passed, "duration_seconds": duration, "message": self.message}


@dataclass(frozen=True, slots=True)
class Verification:
    """All checks in order, and the session's properties."""

    asked: tuple[DatabaseCheck, ...]
    session: Session | None

    @property
    def passed(self) -> bool:
        return all(each.passed for each in self.asked)

    @property
    def connected(self) -> bool:
        return self.asked[0].passed

    @property
    def failures(self) -> tuple[DatabaseCheck, ...]:
        return tuple(each for each in self.asked if not each.passed)

    def facts(self) -> dict[str, Any]:
        """`db_time`, `db_name` and `tz`; None where the query failed."""
        found = self.session
        return {
            "db_time": to_text(found.time) if found else None,
            "db_name": found.name if found else None,
            "tz": found.zone if found else None,
        }


class _Unreachable(Exception):
    """The database can't be reached."""


class _Wrong(Exception):
    """The result isn't as expected."""


def verify(
    url: str,
    tables: Sequence[str],
    query_timeout: float,
    whole_seconds: float = WHOLE_SECONDS,
    *,
    if_present: Collection[str] = (),
) -> Verification:
    """Ask everything. It comes back in time whatever the server does, and raises for nothing that is the server's. The
    tables in `if_present` may be missing."""
    asker = _Questions(url, query_timeout, whole_seconds)
    try:
        asker.ask("connection", _check_connection)
        told = asker.ask("time and name", _describe_session)
        there = asker.fetch(_table_names) if if_present else None
        for name in tables:
            if there is None or name in there or name not in if_present:
                asker.ask(f"table {name}", partial(_count_rows, name=name))
        asker.ask("time zone", _check_zone)
    finally:
        asker.close()
    return Verification(tuple(asker.asked), told)


class _Questions:
    """Asks one question after the other, each within its time and all within theirs."""

    def __init__(self, url: str, query_timeout: float, whole_seconds: float) -> None:
        self.asked: list[DatabaseCheck] = []
        self._url = url
        self._timeout = query_timeout
        self._deadline = time.monotonic() + whole_seconds
        self._engine: Engine | None = None
        self._open: list[Any] = []
        self._no_use = ""

    def ask(self, name: str, question: Callable[[Connection], tuple[str, Any]]) -> Any:  # noqa: ANN401 (its answer)
        """The answer; None where the question failed."""
        begun = time.monotonic()
        passed, words, value = self._answer(question) if not self._no_use else (False, self._no_use, None)
        self.asked.append(DatabaseCheck(name, passed, time.monotonic() - begun, words))
        return value

    def fetch(self, question: Callable[[Connection], tuple[str, Any]]) -> Any:  # noqa: ANN401 (its answer)
        """The answer to a question that is no test; None where it failed."""
        return None if self._no_use else self._answer(question)[2]

    def _answer(self, question: Callable[[Connection], tuple[str, Any]]) -> tuple[bool, str, Any]:
        left = self._deadline - time.monotonic()
        if left <= 0:
            return False, "skipped: out of time", None
        most = min(self._timeout + GRACE_SECONDS + (0 if self.asked else CONNECT_SECONDS), left)
        future = _start(partial(self._in_a_session, question))
        try:
            return True, *future.result(most)
        except FutureTimeout:
            cut_connections(self._open)
            if not self.asked:
                self._no_use = "skipped: no connection"
            return False, f"no response within {most:.3g} s", None
        except _Unreachable as error:
            self._no_use = "skipped: no connection"
            return False, str(error), None
        except _Wrong as error:
            return False, str(error), None
        except Exception as error:  # noqa: BLE001 (whatever a driver raises is what came of this question)
            return False, _words(error), None

    def _in_a_session(self, question: Callable[[Connection], tuple[str, Any]]) -> tuple[str, Any]:
        try:
            if self._engine is None:
                self._engine = open_session(self._url, self._timeout)
                event.listen(self._engine, "connect", lambda driver, _: self._open.append(driver), insert=True)
            connection = self._engine.connect()
        except Exception as error:
            raise _Unreachable(_words(error)) from error
        with connection:
            limit_query_time(connection, self._timeout)
            return question(connection)

    def close(self) -> None:
        """Close the connections; a hanging one must not block."""
        if self._engine is not None:
            closing = _start(self._engine.dispose)
            with contextlib.suppress(Exception):
                closing.result(CLOSING_SECONDS)


def _start(work: Callable[[], Any]) -> Future[Any]:
    """Run it in a daemon thread, which doesn't delay the end of the program."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(work())
        except BaseException as error:  # noqa: BLE001 (the edge of the thread: whoever asked is told)
            future.set_exception(error)

    threading.Thread(target=run, name="database-question", daemon=True).start()
    return future


def _check_connection(connection: Connection) -> tuple[str, None]:
    ping(connection)
    return "the database responds", None


def _describe_session(connection: Connection) -> tuple[str, Session]:
    found = read_session(connection)
    ahead = (found.time - datetime.now(UTC)).total_seconds()
    compared = f"{abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this host's"
    return f"{found.name}; its time is {to_text(found.time)}, {compared}", found


def _table_names(connection: Connection) -> tuple[str, set[str]]:
    return "", set(inspect(connection).get_table_names())


def _count_rows(connection: Connection, name: str) -> tuple[str, int]:
    """The name is an identifier, by the configuration's word, and quoted all the same."""
    schema, _, plain = name.rpartition(".")
    quoted = table(quoted_name(plain, quote=True), schema=quoted_name(schema, quote=True) if schema else None)
    count = connection.execute(select(func.count()).select_from(quoted)).scalar_one()
    return f"{count} rows", count


def _check_zone(connection: Connection) -> tuple[str, str]:
    zone = read_session(connection).zone
    if zone != ZERO:
        raise _Wrong(f"the session's time zone is {zone}, not {ZERO}: times would be misread")
    return f"the session's time zone is {ZERO}", zone


def _words(error: Exception) -> str:
    """The driver's error in a line, its code last."""
    found = getattr(error, "orig", None) or error
    if len(found.args) > 1 and isinstance(found.args[0], int):
        return one_line(f"{found.args[1]} ({found.args[0]})", LONGEST_WORDS)
    said = next((line for line in str(found).splitlines() if line.strip()), "") or type(found).__name__
    return one_line(said, LONGEST_WORDS)
