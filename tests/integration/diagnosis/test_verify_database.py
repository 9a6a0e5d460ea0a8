"""Verify-db where not all is well: a table that is missing, slow or cut off, and a server that hangs."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from sqlalchemy import create_engine, make_url, text

from tests.support.diagnosis.reports import (
    ARCHIVE_TABLES,
    OUR_TABLES,
    a_reporting_home,
    make_tables,
    passed,
    told,
    verified,
    with_database,
)
from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until


@pytest.fixture
def reporting(tmp_path: Path) -> Iterator[Home]:
    """A home whose worker has its code in a checkout."""
    with a_reporting_home(tmp_path) as home:
        yield home


def test_without_a_shared_database_the_ledger_is_verified(reporting: Home) -> None:
    reporting.start_daemon()
    answer = told(reporting, "verify-db")
    assert answer["success"] is True
    details = answer["details"]
    assert (details["database"], details["db_name"], details["tz"]) == ("the ledger", "ledger.db", "+00:00")
    assert [name for name in passed(answer) if name.startswith("table")] == [f"table {name}" for name in OUR_TABLES]
    shown = reporting.supervisor("verify-db").stdout
    assert re.search(r"^Report: .*/diagnostics/db_verification_\w+\.json$", shown, re.MULTILINE), shown


def test_all_workers_of_a_host_have_one_report(tmp_path: Path) -> None:
    workers = {name: {"command": demo_command()} for name in ("fetcher", "mailer")}
    with a_home(tmp_path, workers) as home:
        home.start_daemon()
        for target in ((), ("all",), ("*er",)):
            answer = home.json("send", " ".join(["verify-db", *target]), "--wait")
            assert answer["success"], answer
            assert answer["details"]["tests"], "the answer of one worker"
        assert len(list(home.nas.rglob("db_verification_*.json"))) == 3
        assert home.json("send", "verify-db mailer", "--wait")["success"]


def test_a_missing_table_is_a_failed_test_and_the_others_are_asked(tmp_path: Path, database_url: str) -> None:
    make_tables(database_url, ARCHIVE_TABLES[1:])
    with with_database(tmp_path, database_url) as home:
        answer = verified(home)
        failed = [name for name, well in passed(answer).items() if not well]
        assert failed == ["table containers_t"]
        assert "containers_t" in answer["error"]
        assert answer["details"]["tz"] == "+00:00"


@contextmanager
def locked_table(url: str) -> Iterator[Callable[[], None]]:
    """While it lasts, `containers_t` can't be read; yields what kills the connections that wait for it."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    kind = engine.dialect.name
    try:
        with engine.connect() as holder, engine.connect() as other:
            if kind == "postgresql":
                holder.execute(text("BEGIN"))
                holder.execute(text("LOCK TABLE containers_t IN ACCESS EXCLUSIVE MODE"))
            elif kind == "sqlite":
                holder.execute(text("PRAGMA journal_mode = DELETE"))
                holder.execute(text("BEGIN EXCLUSIVE"))
            else:
                holder.execute(text("LOCK TABLES containers_t WRITE"))

            def kill() -> None:
                if kind == "postgresql":
                    query = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%count%'"
                    (pid,) = wait_until(lambda: other.execute(text(query)).scalars().all(), 20, "it waits")
                    other.execute(text("SELECT pg_terminate_backend(:pid)"), {"pid": pid})
                else:
                    query = "SELECT id FROM information_schema.processlist WHERE state LIKE 'Waiting for table%'"
                    (pid,) = wait_until(lambda: other.execute(text(query)).scalars().all(), 20, "it waits")
                    other.execute(text(f"KILL {pid}"))

            yield kill
            holder.execute(text("UNLOCK TABLES" if kind in ("mysql", "mariadb") else "ROLLBACK"))
    finally:
        engine.dispose()


def test_a_slow_table_fails_in_its_time_and_alone(tmp_path: Path, database_url: str) -> None:
    """SQLite locks its whole file, so there it is not alone; it fails in its time all the same."""
    make_tables(database_url)
    only = [*OUR_TABLES[:1], "containers_t"]
    with with_database(tmp_path, database_url, query_timeout_seconds=0.6, critical_tables=only) as home:
        with locked_table(database_url):
            answer = verified(home)
        assert answer["success"] is False
        slow = next(test for test in answer["details"]["tests"] if not test["passed"])
        assert slow["duration_seconds"] < 8
        if "sqlite" not in database_url:
            assert [name for name, well in passed(answer).items() if not well] == ["table containers_t"]
            assert slow["duration_seconds"] >= 0.5


@pytest.mark.sampled(1)
@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_a_connection_killed_in_the_middle_fails_one_test_and_the_next_has_another(
    tmp_path: Path, database_url: str
) -> None:
    make_tables(database_url)
    with with_database(tmp_path, database_url) as home:
        home.start_daemon()
        with locked_table(database_url) as kill:
            sent = home.json("send", "verify-db")
            kill()
            answer = wait_until(lambda: home.result("verify_db", sent["task_id"]), 40, "there is a result")
        assert answer is not None
        assert [name for name, well in passed(answer).items() if not well] == ["table containers_t"]


@contextmanager
def frozen_server(url: str) -> Iterator[None]:
    """The server's processes, all of them, stopped by a signal."""
    query = make_url(url).query
    place = Path(str(query["host"])) if "host" in query else Path(str(query["unix_socket"])).parent
    pid_file = place / ("postmaster.pid" if "host" in query else "pid")
    server = psutil.Process(int(pid_file.read_text().split()[0]))
    processes = [server, *server.children(recursive=True)]
    try:
        signal_all(processes, signal.SIGSTOP)
        yield
    finally:
        signal_all(processes, signal.SIGCONT)


def signal_all(processes: list[psutil.Process], number: int) -> None:
    """PostgreSQL ends a process of its own at any time."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(number)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("database_url", ["postgresql", "mariadb"], indirect=True)
def test_a_frozen_server_holds_nobody_up(tmp_path: Path, database_url: str) -> None:
    make_tables(database_url)
    with with_database(tmp_path, database_url, query_timeout_seconds=1) as home:
        with frozen_server(database_url):
            answer = verified(home)
            home.drop_flag("supervisor_diagnostics_OrionMX_d1.flag", {})
            home.supervisor("once", "--worker-id", "OrionMX")
        assert answer["error"].startswith("The database can't be reached: ")
        assert sum(test["duration_seconds"] for test in answer["details"]["tests"]) < 20
        diagnostics = home.result("diagnostics", "d1")
        assert diagnostics is not None
        assert (diagnostics["success"], diagnostics["details"]["database_connected"]) == (True, False)
        assert verified(home, "v2")["success"] is True, "it answers again"
