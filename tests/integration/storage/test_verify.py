"""Verifying a database: bounded by the one who asks, whatever the server or the table does."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server, socket

import pytest
from sqlalchemy import Engine, create_engine, text

from supervisor_core.storage.database_check import ZERO, Verification, read_session, verify
from tests.support.waiting import wait_until

ENDLESS = "WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c) SELECT n FROM c"


def failed(found: Verification) -> list[str]:
    return [each.name for each in found.failures]


def threads() -> int:
    return sum(1 for each in threading.enumerate() if each.name == "database-question")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A database in a file, with a table, one whose name is a word of SQL, and a view that never ends."""
    path = tmp_path / "fleet.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(f'CREATE TABLE a_t (x); CREATE TABLE "order" (x); CREATE VIEW endless_t AS {ENDLESS}')
    connection.close()
    return path


def test_a_query_that_never_ends_is_ended_and_the_next_is_asked(file: Path) -> None:
    found = verify(f"sqlite:///{file}", ["endless_t", "a_t"], 0.3)
    assert failed(found) == ["table endless_t"]
    assert found.failures[0].message == "no response within 0.8 s"
    wait_until(lambda: threads() == 0, 10, "its thread has ended")


def test_a_name_is_a_name_whatever_it_looks_like(file: Path) -> None:
    found = verify(f"sqlite:///{file}", ["order", "main.a_t", "a_t; DROP"], 5)
    assert failed(found) == ["table a_t; DROP"]


def test_a_file_that_is_not_there_is_not_made_and_one_that_is_none_is_no_database(tmp_path: Path) -> None:
    missing = verify(f"sqlite:///{tmp_path / 'none.db'}", [], 5)
    assert (missing.connected, missing.asked[0].message) == (False, "unable to open database file")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "text.db").write_text("nothing like a database, and long enough to be read as one" * 10)
    other = verify(f"sqlite:///{tmp_path / 'text.db'}", [], 5)
    assert (other.connected, other.asked[0].message) == (False, "file is not a database")


def test_a_file_that_is_looked_at_stays_as_it_is(file: Path) -> None:
    before = file.read_bytes()
    assert verify(f"sqlite:///{file}", ["a_t"], 5).passed
    assert (file.read_bytes(), list(file.parent.iterdir())) == (before, [file])


@contextmanager
def a_server(answer: bytes) -> Iterator[int]:
    """Listens, says this to whoever comes, and then nothing any more."""
    with create_server(("127.0.0.1", 0)) as listening:
        kept: list[socket] = []

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                connection.sendall(answer)
                kept.append(connection)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            listening.shutdown(2)
            thread.join(10)
            for connection in kept:
                connection.close()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("answer", [b"", b"\x4a\0\0\0\x0a5.5.5-10.11", b"N"], ids=["nothing", "half a greeting", "N"])
@pytest.mark.parametrize("dialect", ["mysql+pymysql", "postgresql+psycopg"])
def test_a_server_that_accepts_and_never_answers_is_given_up(dialect: str, answer: bytes) -> None:
    with a_server(answer) as port:
        found = verify(f"{dialect}://me:hunter2@127.0.0.1:{port}/fleet", ["jobs_t"], 0.5)
    assert not found.connected
    assert [each.message for each in found.asked[1:]] == ["skipped: no connection"] * 3
    assert sum(each.seconds for each in found.asked) < 15
    assert "hunter2" not in str(found)


def test_where_nobody_listens_the_system_says_so() -> None:
    with create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    for dialect in ("mysql+pymysql", "postgresql+psycopg"):
        found = verify(f"{dialect}://me@127.0.0.1:{port}/fleet", [], 5)
        assert "refused" in found.asked[0].message.lower()


@contextmanager
def closing_engine(url: str) -> Iterator[Engine]:
    engine = create_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
@pytest.mark.parametrize(
    ("zone", "told"),
    [("+00:00", ZERO), ("UTC", ZERO), ("-05:30", "(-05:30)"), ("Europe/London", "Europe/London (+0")],
)
def test_a_zone_that_only_happens_to_be_at_zero_is_not_utc(database_url: str, zone: str, told: str) -> None:
    with closing_engine(database_url) as engine, engine.connect() as connection:
        if connection.dialect.name == "postgresql":
            offset = zone[0] in "+-"
            named = f"INTERVAL '{zone}' HOUR TO MINUTE" if offset else f"'{zone}'"
            connection.execute(text(f"SET TIME ZONE {named}"))
        else:
            known = connection.execute(text("SELECT CONVERT_TZ(now(), '+00:00', :zone)"), {"zone": zone}).scalar()
            if known is None:  # a server without the tables of zone names takes offsets alone
                zone, told = "SYSTEM", "SYSTEM (" if zone != "UTC" else told
            connection.execute(text("SET time_zone = :zone"), {"zone": "+00:00" if told == ZERO else zone})
        found = read_session(connection).zone
        assert told in found
        assert (found == ZERO) is (told == ZERO)
