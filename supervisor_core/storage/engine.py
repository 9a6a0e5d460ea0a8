"""Engines and column types; each session is in UTC, strict, durable, and bounded in time."""

from __future__ import annotations

import contextlib
import os
import socket
import sqlite3
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import (
    TIMESTAMP,
    BigInteger,
    Connection,
    Dialect,
    Engine,
    Integer,
    NullPool,
    String,
    Text,
    TypeDecorator,
    create_engine,
    event,
    make_url,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.types import TypeEngine

from supervisor_core.common.times import from_text, require_aware, to_text
from supervisor_core.host.descriptors import PRIVATE_FILE, PRIVATE_FOLDER
from supervisor_core.storage.ledger_file import WRITER_SECONDS

CONNECT_SECONDS = 5
IDLE_SECONDS = 3
"""The longest pause of a program inside a write transaction on a server; ours last milliseconds."""
READING = "supervisor_reading"

SHARES = "supervisor_shares"
"""The execution option of an engine whose audit rows also go to a shared database."""

ORDERED = "outbox: ordered"
"""The key in a connection's `info` of the kinds of messages that its transaction has ordered."""


def ledger_engine(path: Path) -> Engine:
    """The local SQLite file: write-ahead log, full synchronous writes, writers take their lock at the start."""
    _create_private(path)
    engine = create_engine(f"sqlite:///{path}", connect_args={"timeout": WRITER_SECONDS}, hide_parameters=True)
    _pin_sqlite(engine)
    return engine


def shared_engine(url: str, query_timeout_seconds: float = 10, *, pooled: bool = True, wal: bool = True) -> Engine:
    """A database of any of the three kinds. `wal=False` leaves the journal mode of a SQLite file as it is.

    Without a pool, no connection stays open after its transaction, so nobody has to dispose the engine.
    """
    parsed = make_url(url)
    in_memory = parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:")
    pool: dict[str, Any] = {} if pooled or in_memory else {"poolclass": NullPool}
    if parsed.get_backend_name() == "sqlite":
        engine = create_engine(parsed, connect_args={"timeout": query_timeout_seconds}, hide_parameters=True, **pool)
        _pin_sqlite(engine, wal=wal)
        return engine
    if parsed.get_backend_name() == "postgresql":
        options = f"-c timezone=UTC -c statement_timeout={int(query_timeout_seconds * 1000)}"
        arguments: dict[str, Any] = {"connect_timeout": CONNECT_SECONDS, "options": options}
        engine = create_engine(parsed, connect_args=arguments, pool_pre_ping=True, hide_parameters=True, **pool)
        event.listen(engine, "connect", _read_any_moment)
        return engine
    arguments = {
        "connect_timeout": CONNECT_SECONDS,
        "read_timeout": query_timeout_seconds,
        "write_timeout": query_timeout_seconds,
        "charset": "utf8mb4",
        "init_command": "SET time_zone = '+00:00', sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'",
    }
    return create_engine(parsed, connect_args=arguments, pool_pre_ping=True, hide_parameters=True, **pool)


def server_ledger_engines(url: str, query_timeout_seconds: float) -> tuple[Engine, Engine]:
    """A writer and a reader of a ledger in a PostgreSQL server.

    A write transaction locks the ledger, so the server ends one whose program says nothing more: it may be frozen, or
    its machine gone. A reader sees one picture in each transaction.
    """
    writer, reader = shared_engine(url, query_timeout_seconds), shared_engine(url, query_timeout_seconds)

    @event.listens_for(writer, "connect")
    def _end_idle_transactions(dbapi: Any, _record: object) -> None:  # noqa: ANN401 (a driver's connection)
        dbapi.execute(f"SET idle_in_transaction_session_timeout = {IDLE_SECONDS * 1000}")
        dbapi.commit()  # else a rollback would undo it

    return writer, reader.execution_options(isolation_level="REPEATABLE READ", **{READING: True})


def reader_of(engine: Engine) -> Engine:
    """The same engine for readers: on SQLite they take no write lock."""
    return engine.execution_options(**{READING: True})


def decode_cell(stored: bytes) -> str:
    """The text of a cell of SQLite. Bytes that aren't UTF-8 become lone surrogates: one damaged cell must not keep
    all other rows from being read."""
    return stored.decode("utf-8", "surrogateescape")


def _read_any_moment(dbapi: Any, _record: object) -> None:  # noqa: ANN401 (a driver's connection)
    """PostgreSQL holds moments that Python has no value for, such as `infinity`. They are read as text."""
    from psycopg import DataError
    from psycopg.types.datetime import TimestamptzLoader

    class Loader(TimestamptzLoader):
        def load(self, data: Any) -> Any:  # noqa: ANN401 (a buffer of the driver's)
            try:
                return super().load(data)
            except DataError:
                return bytes(data).decode()

    dbapi.adapters.register_loader("timestamptz", Loader)


def _create_private(path: Path) -> None:
    """Make the file ours alone before SQLite does; its companions (-wal, -shm) take the same mode."""
    path.parent.mkdir(mode=PRIVATE_FOLDER, parents=True, exist_ok=True)
    with contextlib.suppress(FileExistsError):  # closing an existing file would drop this process's locks on it
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, PRIVATE_FILE))


def cut_connections(drivers: list[Any]) -> None:
    """End calls that wait for an answer, from another thread: a query of SQLite is interrupted, a server's connection
    is shut."""
    for driver in drivers:
        with contextlib.suppress(Exception):  # it may be closed already
            if hasattr(driver, "interrupt"):
                driver.interrupt()
            else:
                # What is shut is a copy of the descriptor: the driver's own must not be closed behind its back.
                descriptor = driver.fileno() if hasattr(driver, "fileno") else driver._sock.fileno()  # noqa: SLF001
                with socket.socket(fileno=os.dup(descriptor)) as copy:
                    copy.shutdown(socket.SHUT_RDWR)
    drivers.clear()


def _pin_sqlite(engine: Engine, *, wal: bool = True) -> None:
    @event.listens_for(engine, "connect")
    def _on_connect(dbapi: Any, _record: object) -> None:  # noqa: ANN401 (a driver's connection)
        dbapi.isolation_level = None  # we say BEGIN ourselves
        dbapi.text_factory = decode_cell
        cursor = dbapi.cursor()
        if wal:
            _enter_wal_mode(cursor)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def _on_begin(connection: Connection) -> None:
        reads = connection.get_execution_options().get(READING)
        connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _enter_wal_mode(cursor: Any) -> None:  # noqa: ANN401 (a driver's cursor)
    """Switching to the write-ahead log ignores the busy timeout, and several programs may open a new file at once."""

    deadline = time.monotonic() + WRITER_SECONDS
    while cursor.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.01)


RowId = BigInteger().with_variant(Integer(), "sqlite")  # SQLite counts up by itself on INTEGER alone


class LongText(TypeDecorator[str]):
    """Text of any length; a plain TEXT of MariaDB ends at 64 KB."""

    impl = Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects.mysql import LONGTEXT  # slow to import, and not needed on SQLite

            return dialect.type_descriptor(LONGTEXT())
        return dialect.type_descriptor(Text())


class UtcDateTime(TypeDecorator[datetime]):
    """An aware moment in UTC, to the microsecond. Naive values are rejected.

    SQLite keeps text of fixed width, which sorts as the moments do; MariaDB a DATETIME(6) that is UTC because the
    session's zone is pinned; PostgreSQL a timestamp that knows its zone.
    """

    impl = String(27)
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects.mysql import DATETIME

            return dialect.type_descriptor(DATETIME(fsp=6))
        if dialect.name == "postgresql":
            return dialect.type_descriptor(TIMESTAMP(timezone=True))
        return dialect.type_descriptor(String(27))

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> Any:  # noqa: ANN401
        if value is None:
            return None
        moment = require_aware(value)
        if dialect.name in ("mysql", "mariadb"):
            return moment.replace(tzinfo=None)
        return moment if dialect.name == "postgresql" else to_text(moment)

    def process_result_value(self, value: Any, dialect: Dialect) -> datetime | None:  # noqa: ANN401, ARG002
        if value is None:
            return None
        if isinstance(value, str):
            return from_text(value)
        moment: datetime = value
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class StoredMoment(UtcDateTime):
    """A moment of the audit trail: where the database holds something else in its place, that is what's read.

    On SQLite only the one written form counts as a moment. Another spelling of the same moment is an altered cell.
    """

    cache_ok = True

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:  # noqa: ANN401
        if not isinstance(value, str):
            return super().process_result_value(value, dialect) if isinstance(value, datetime) else value
        try:
            moment = from_text(value)
        except ValueError:
            return value
        return moment if dialect.name != "sqlite" or to_text(moment) == value else value


class JsonText(FunctionElement[str]):
    """The text at a path in a column of JSON; NULL where there is none."""

    name = "json_text"
    inherit_cache = False  # the path is part of the statement
    type = String()

    def __init__(self, column: ColumnElement[Any], *path: str) -> None:
        super().__init__(column)
        self.path = path


@compiles(JsonText)
def _json_text(element: JsonText, compiler: SQLCompiler, **kwargs: Any) -> str:  # noqa: ANN401
    text = compiler.process(element.clauses, **kwargs)  # damaged text mustn't fail the whole query
    return f"CASE WHEN json_valid({text}) THEN json_extract({text}, '$.{'.'.join(element.path)}') END"


@compiles(JsonText, "postgresql")
def _json_text_postgresql(element: JsonText, compiler: SQLCompiler, **kwargs: Any) -> str:  # noqa: ANN401
    # `jsonb` would refuse a NUL in any of its texts.
    return f"(CAST({compiler.process(element.clauses, **kwargs)} AS json) #>> '{{{','.join(element.path)}}}')"


class in_bytes(FunctionElement[str]):  # noqa: N801 (used as a function)
    """A column of text that is compared byte by byte; PostgreSQL compares as its locale sorts."""

    name = "in_bytes"
    inherit_cache = True
    type = String()


@compiles(in_bytes)
def _in_bytes(element: in_bytes, compiler: SQLCompiler, **kwargs: Any) -> str:  # noqa: ANN401
    return compiler.process(element.clauses, **kwargs)


@compiles(in_bytes, "postgresql")
def _in_bytes_postgresql(element: in_bytes, compiler: SQLCompiler, **kwargs: Any) -> str:  # noqa: ANN401
    return f'({compiler.process(element.clauses, **kwargs)} COLLATE "C")'
