"""What a database says of itself in one session: its time, its name, its time zone; the same on all three kinds."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection, Engine, NullPool, create_engine, make_url, text

from supervisor_core.domain.times import from_text
from supervisor_core.ledger import ledger_file
from supervisor_core.ledger.engine import shared_engine

T = TypeVar("T")

BUSY_SECONDS = 5.0

OF_THE_TIME_ALLOWED = 0.9
"""MariaDB is told to give up a little before we stop listening, so that it can still say so."""

ZERO = "+00:00"
NAMES_OF_UTC = frozenset({ZERO, "UTC", "Etc/UTC", "Etc/UCT", "UCT", "Zulu", "Etc/Zulu", "GMT", "Etc/GMT", "<+00>-00"})
"""The last is what PostgreSQL calls an offset of nothing. London is at +00:00 as well, for half of the year."""


class Session(NamedTuple):
    """One session, as the database tells it."""

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


def look(path: Path, question: Callable[[Connection], T]) -> T:
    """The answer to a question about a ledger that isn't open; it changes nothing and waits for no writer."""
    engine = sqlite_reader(path, BUSY_SECONDS)
    try:
        with engine.connect() as connection:
            return question(connection)
    finally:
        engine.dispose()


def limit(connection: Connection, query_timeout: float) -> None:
    """Have the server itself give up a query after so long, where that is a matter of each session."""
    if connection.dialect.name not in ("mysql", "mariadb"):
        return
    seconds = query_timeout * OF_THE_TIME_ALLOWED
    if getattr(connection.dialect, "is_mariadb", False):
        connection.execute(text("SET SESSION max_statement_time = :limit"), {"limit": seconds})
    else:
        connection.execute(text("SET SESSION max_execution_time = :limit"), {"limit": max(int(seconds * 1000), 1)})


def reach(connection: Connection) -> None:
    """The smallest question that needs the database itself to answer."""
    connection.execute(text("PRAGMA schema_version" if connection.dialect.name == "sqlite" else "SELECT 1")).scalar()


def session(connection: Connection) -> Session:
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
