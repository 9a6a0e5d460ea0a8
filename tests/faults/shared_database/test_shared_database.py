"""The shared database gets audit rows and heartbeats in the columns that its tables have, in order, each row once."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sqlite3
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from supervisor_core.common import crashpoints
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.services.forwarder import Forwarder
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.shared_database import SharedDatabase, SharedDatabaseSender
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext, open_doors
from tests.support.homes import Home, a_home
from tests.support.programs.armed import armed
from tests.support.storage import database_servers as servers
from tests.support.storage.document_tables import (
    audit_rows,
    engine_of,
    heartbeats,
    make_archive,
    numbers,
    picture,
    stored,
)
from tests.support.waiting import wait_until

# PyMySQL leaves it to the garbage collector to close a connection that a killed server didn't even greet.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")

SECONDS = 1.0
"""The time limit of a query in these tests."""

BUSY_SECONDS = 25.0
"""Longer than each of these waits takes on a busy machine, and shorter than without a time limit."""


def shared_home(tmp_path: Path, url: str, **more: Any) -> Any:
    return a_home(tmp_path / "home", database={"url": url, "query_timeout_seconds": SECONDS}, **more)


def forwarder(home: Home) -> dict[str, Any]:
    return next(service for service in home.status()["services"] if service["name"] == "forwarder")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    folder = tmp_path / "var"
    with Ledger(folder / LEDGER_FILE, "TestHost", shares=True) as opened:
        yield opened
    gc.collect()


def sender_of(ledger: Ledger, url: str, tmp_path: Path) -> SharedDatabaseSender:
    return SharedDatabaseSender(ledger, SharedDatabase(url, SECONDS), tmp_path / "var", SECONDS)


def add_rows(ledger: Ledger, count: int, **more: Any) -> None:
    for number in range(count):
        ledger.audit(AuditEntry("cli:anna", "REFUSED", "OrionMX", **{"details": {"n": number}, **more}))


# The columns


@pytest.mark.sampled(3)
@pytest.mark.parametrize("columns", [(), ("label VARCHAR(100)", "task_id VARCHAR(128)", "outcome VARCHAR(16)")])
def test_a_pass_fills_the_columns_that_the_archive_has(
    tmp_path: Path, shared_url: str, columns: tuple[str, ...]
) -> None:
    make_archive(shared_url, *columns)
    before = picture(shared_url)
    with shared_home(tmp_path, shared_url) as home:
        home.drop_flag("supervisor_pause_OrionMX_t1.flag", {"label": "impl HT acquire"})
        home.supervisor("once")
        home.drop_flag("supervisor_resume_OrionMX_t2.flag", {})
        started = datetime.now(UTC)
        home.supervisor("once")
        first, second = audit_rows(shared_url)
        assert (first["action"], first["target_type"], first["target_id"]) == ("PAUSE", "worker", "OrionMX")
        assert first["details_json"]["label"] == "impl HT acquire"
        assert first["actor"].startswith("file:")
        assert (second["action"], second["details_json"]["label"]) == ("RESUME", None)
        moment = datetime.fromisoformat(str(second["created_at"])).replace(tzinfo=UTC)
        assert abs(moment - started) < timedelta(seconds=60)
        if columns:
            assert [row["label"] for row in (first, second)] == ["impl HT acquire", None]
            assert [row["task_id"] for row in (first, second)] == ["t1", "t2"]
        else:
            details = [row["details_json"] for row in (first, second)]
            assert [(row["task_id"], row["outcome"]) for row in details] == [("t1", "success"), ("t2", "success")]
        assert len(audit_rows(shared_url)) == len(home.audit())
        beats = heartbeats(shared_url)
        assert "resume" in beats["supervisor_OrionMX"]["status_summary"]
        assert set(beats) <= {"supervisor_OrionMX", "OrionMX"}
    assert picture(shared_url) == before


@pytest.mark.sampled(1)
def test_the_daemon_sends_rows_to_tables_that_db_upgrade_creates(tmp_path: Path, shared_url: str) -> None:
    with shared_home(tmp_path, shared_url) as home:
        home.start_daemon()
        assert home.json("send", "pause hotfix", "--wait")["success"]
        wait_until(lambda: "supervisor db upgrade" in forwarder(home)["reason"], 20, "status says what is missing")
        check = next(check for check in home.json("doctor")["checks"] if check["name"] == "database")
        assert (check["ok"], "supervisor db upgrade" in check["remedy"]) == (False, True)
        assert home.supervisor("db", "upgrade").returncode == 0
        assert home.json("send", "resume", "--wait")["success"]
        wait_until(lambda: forwarder(home)["health"] == "healthy", 20, "the forwarder is well")
        ledger = home.audit()
        wait_until(lambda: len(stored(shared_url, "audit_log_t", "audit_id")) == len(ledger), 20, "all rows are there")
        rows = stored(shared_url, "audit_log_t", "audit_id")
        for name in ("supervisor_id", "audit_id", "outcome", "actor", "action", "target_id", "task_id", "hash"):
            assert [row[name] for row in rows] == [row[name] for row in ledger], name
        assert [row["label"] for row in rows] == ["hotfix", None]
        wait_until(lambda: len(heartbeats(shared_url)) == 2, 40, "the heartbeats are there")
        assert next(check for check in home.json("doctor")["checks"] if check["name"] == "database")["ok"]
        assert set(picture(shared_url)["columns"]) == {"audit_log_t", "workers_t"}
        assert home.supervisor("stop").returncode == 0


def test_a_text_that_a_column_cannot_hold_is_cut_and_the_details_stay_json(
    tmp_path: Path, ledger: Ledger, shared_url: str
) -> None:
    make_archive(shared_url, "label VARCHAR(5)")
    add_rows(ledger, 1, details={"label": "a long label", "output": "é" * 70_000, "nul": "\0", "half": "\ud800"})
    assert sender_of(ledger, shared_url, tmp_path).send().problem == ""
    (row,) = audit_rows(shared_url)
    assert row["label"] == "a lon"
    assert row["details_json"]["label"] == "a long label"
    assert row["details_json"].get("truncated", False) is ("mysql" in shared_url)


def test_a_newer_heartbeat_in_the_database_stays(tmp_path: Path, shared_url: str) -> None:
    make_archive(shared_url)
    with engine_of(shared_url) as engine, engine.begin() as connection:
        moment = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=30)
        theirs = {"worker": "supervisor_OrionMX", "moment": moment.isoformat(" ")}
        connection.execute(text("INSERT INTO workers_t VALUES (:worker, :moment, 'theirs')"), theirs)
    with shared_home(tmp_path, shared_url) as home:
        home.supervisor("once")
        assert heartbeats(shared_url)["supervisor_OrionMX"]["status_summary"] == "theirs"


# Rows that the database refuses


def test_a_row_that_the_database_refuses_is_set_aside_and_reported_and_the_others_go_on(
    tmp_path: Path, ledger: Ledger, shared_url: str
) -> None:
    make_archive(shared_url, "CHECK (target_id <> 'refused')")
    sender = sender_of(ledger, shared_url, tmp_path)
    add_rows(ledger, 2)
    ledger.audit(AuditEntry("cli:anna", "REFUSED", "refused"))
    add_rows(ledger, 2)
    result = sender.send()
    assert (result.sent, result.waiting, result.problem) == (4, 1, "")
    assert result.refused.startswith("1 row was refused and set aside:")
    assert numbers(shared_url) == [1, 2, 4, 5]
    add_rows(ledger, 1)
    assert sender.send().refused, "it is still reported"
    assert numbers(shared_url) == [1, 2, 4, 5, 6]


def test_a_database_that_refuses_every_row_keeps_them_in_order(tmp_path: Path, ledger: Ledger, shared_url: str) -> None:
    make_archive(shared_url, "CHECK (actor = 'anna')")
    add_rows(ledger, 3)
    sender = sender_of(ledger, shared_url, tmp_path)
    for _ in range(2):
        result = sender.send()
        assert (result.sent, result.waiting, result.refused) == (0, 3, "")
        assert "refuses every row of audit_log_t" in result.problem
    with engine_of(shared_url) as engine, engine.begin() as connection:
        connection.execute(text("DROP TABLE audit_log_t"))
        for name in ("workers_t", "containers_t", "jobs_t", "segments_t"):
            connection.execute(text(f"DROP TABLE {name}"))
    make_archive(shared_url)
    assert sender.send().sent == 3
    assert numbers(shared_url) == [1, 2, 3]


def test_a_refused_row_that_was_long_alone_holds_up_no_later_row(
    tmp_path: Path, ledger: Ledger, shared_url: str
) -> None:
    make_archive(shared_url, "CHECK (target_id <> 'refused')")
    sender = sender_of(ledger, shared_url, tmp_path)
    ledger.audit(AuditEntry("cli:anna", "REFUSED", "refused"))
    for _ in range(10):
        assert "refuses every row of audit_log_t" in sender.send().problem
    add_rows(ledger, 2)
    result = sender.send()
    assert (result.sent, result.waiting, result.problem) == (2, 1, "")
    assert numbers(shared_url) == [2, 3]


# Programs and servers that are killed


@pytest.mark.sampled(2)
@pytest.mark.parametrize("point", ["shared.commit:before", "shared.commit:after"])
@pytest.mark.parametrize("own_tables", [False, True])
def test_a_daemon_killed_around_the_commit_sends_each_row_once(
    tmp_path: Path, shared_url: str, point: str, own_tables: bool
) -> None:
    with shared_home(tmp_path, shared_url, workers={}) as home:
        if own_tables:
            assert home.supervisor("db", "upgrade").returncode == 0
        else:
            make_archive(shared_url)
        with opened_ledger_of(home) as ledger:
            add_rows(ledger, 300)
        for _ in range(2):  # in the first batch, then in the one that goes on from there
            daemon = home.start_daemon(program=armed(point), wait=False)
            assert daemon.wait(30) == -signal.SIGKILL, home.daemon_log()
        home.start_daemon()
        wait_until(lambda: len(all_numbers(shared_url, own_tables)) >= 300, 30, "all rows are there")
        assert all_numbers(shared_url, own_tables) == list(range(1, 301))
        assert home.supervisor("audit", "verify").returncode == 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize("delay", [0.0, 0.02, 0.1])
def test_a_server_killed_while_rows_come_and_go_gets_each_once_and_in_order(
    server: servers.Server, url: str, tmp_path: Path, ledger: Ledger, delay: float
) -> None:
    make_archive(url)
    sender = sender_of(ledger, url, tmp_path)
    for _ in range(3):
        timer = threading.Timer(delay, server.kill)
        timer.start()
        end = time.monotonic() + 20
        while not sender.send().problem and time.monotonic() < end:
            add_rows(ledger, 5)
        timer.join()
        server.start()
    wait_until(lambda: not sender.send().waiting, 30, "all rows are there")
    assert numbers(url) == list(range(1, len(numbers(url)) + 1))
    assert ledger.audit(AuditEntry("cli:anna", "REFUSED", "OrionMX")).audit_id == len(numbers(url)) + 1


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", ["at once", "shared.commit:before", "shared.commit:after"])
def test_a_frozen_server_holds_up_nothing_and_has_each_row_once_when_it_goes_on(
    server: servers.Server, url: str, tmp_path: Path, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    make_archive(url)
    sender = sender_of(ledger, url, tmp_path)
    add_rows(ledger, 3)
    frozen = threading.Event()

    def freeze_at(name: str) -> None:
        if name == point and not frozen.is_set():
            frozen.set()
            server.freeze()

    monkeypatch.setattr(crashpoints, "reach", freeze_at)
    freeze_at("at once")
    started = time.monotonic()
    first = sender.send()
    assert time.monotonic() - started < BUSY_SECONDS, "connecting has 5 s, and a query 1 s here"
    assert bool(first.problem) is (point != "shared.commit:after")
    add_rows(ledger, 2)
    server.thaw()
    wait_until(lambda: not sender.send().waiting, 30, "all rows are there")
    assert numbers(url) == [1, 2, 3, 4, 5]


@pytest.mark.sampled(1)
def test_while_the_server_is_away_commands_go_on_and_status_says_how_many_rows_wait(
    server: servers.Server, url: str, tmp_path: Path
) -> None:
    make_archive(url)
    with shared_home(tmp_path, url) as home:
        home.start_daemon()
        wait_until(lambda: forwarder(home)["health"] == "healthy", 20, "the forwarder is well")
        server.freeze()
        for number in range(4):
            started = time.monotonic()
            assert home.json("send", "resume" if number % 2 else "pause", "--wait")["success"]
            assert time.monotonic() - started < BUSY_SECONDS
        wait_until(lambda: "waiting" in forwarder(home)["reason"], 40, "it is seen to be frozen")
        server.kill()
        assert home.supervisor("status").returncode == 1
        server.start()
        wait_until(lambda: forwarder(home)["health"] == "healthy", 80, "the forwarder is well")
        wait_until(lambda: len(audit_rows(url)) == 4, 20, "all rows are there")
        assert numbers(url) == [1, 2, 3, 4]
        server.freeze()
        started = time.monotonic()
        assert home.supervisor("stop").returncode == 0, home.daemon_log()
        assert time.monotonic() - started < BUSY_SECONDS


@pytest.mark.sampled(1)
def test_a_pass_waits_for_a_frozen_server_only_a_moment(server: servers.Server, url: str, tmp_path: Path) -> None:
    make_archive(url)
    with shared_home(tmp_path, url) as home:
        assert home.supervisor("once", "--heal").returncode == 0
        server.freeze()
        home.drop_flag("supervisor_pause_OrionMX_t1.flag", {})
        started = time.monotonic()
        done = home.supervisor("once")
        assert (done.returncode, time.monotonic() - started < BUSY_SECONDS) == (0, True)
        assert "row" in done.stderr
        assert "waiting" in done.stderr
        server.thaw()
        home.supervisor("once")
        assert numbers(url) == [1]


@pytest.mark.sampled(1)
def test_two_programs_that_send_at_once_send_each_row_once(tmp_path: Path, ledger: Ledger, shared_url: str) -> None:
    make_archive(shared_url)
    add_rows(ledger, 300)
    senders = [sender_of(ledger, shared_url, tmp_path) for _ in range(3)]
    threads = [threading.Thread(target=sender.send) for sender in senders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    wait_until(lambda: not senders[0].send().waiting, 30, "all rows are there")
    assert numbers(shared_url) == list(range(1, 301))


# A SQLite file


def test_a_file_that_is_locked_or_missing_is_left_for_later(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "shared.db"
    sender = sender_of(ledger, f"sqlite:///{path}", tmp_path)
    add_rows(ledger, 2)
    assert "supervisor db upgrade" in sender.send().problem
    assert not path.exists()
    make_archive(f"sqlite:///{path}")
    with sqlite3.connect(path, isolation_level=None) as holder:
        mode = holder.execute("PRAGMA journal_mode").fetchone()
        holder.execute("BEGIN EXCLUSIVE")
        assert "locked" in sender.send().problem
        holder.execute("ROLLBACK")
        assert sender.send().sent == 2
        assert holder.execute("PRAGMA journal_mode").fetchone() == mode, "the file is its owner's"
    holder.close()


# Other ways to it


def test_without_a_shared_database_nothing_is_kept_for_one(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", workers={}) as home:
        home.start_daemon()
        service = forwarder(home)
        assert (service["state"], "database.url" in service["reason"]) == ("disabled", True)
        metrics = json.dumps(home.status())
        assert "shared-database" not in metrics


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "mysql+pymysql"])
def test_a_password_is_in_no_message(tmp_path: Path, scheme: str) -> None:
    with shared_home(tmp_path, f"{scheme}://anna:hunter2@127.0.0.1:1/x") as home:
        done = home.supervisor("once")
        assert "The shared database" in done.stderr
        upgrade = home.supervisor("db", "upgrade")
        assert (upgrade.returncode, upgrade.stderr.count("\n")) == (1, 1)
        assert "can't be used" in upgrade.stderr
        assert upgrade.stdout.startswith("Ledger "), "that was upgraded all the same"
        assert "hunter2" not in done.stderr + upgrade.stderr + home.supervisor("doctor").stdout


def opened_ledger_of(home: Home) -> Ledger:
    return Ledger(home.state_dir / LEDGER_FILE, "TestHost", shares=True)


def test_a_long_backlog_is_no_silence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    make_archive(url)
    monkeypatch.setattr("supervisor_core.storage.shared_database.BATCH_ROWS", 1)
    monkeypatch.setattr("supervisor_core.daemon.services.forwarder.CONNECT_SECONDS", 1.0)
    monkeypatch.setattr(crashpoints, "reach", lambda point: time.sleep(0.3 if point == "shared.commit:before" else 0))

    async def send_all(forwarder: Forwarder) -> set[str]:
        stopping, problems = asyncio.Event(), set[str]()
        running = asyncio.create_task(forwarder.run(stopping))
        async with asyncio.timeout(BUSY_SECONDS):
            while len(audit_rows(url)) < 10:
                problems.add(forwarder.problem())
                await asyncio.sleep(0.05)
        stopping.set()
        await running
        return problems

    with shared_home(tmp_path, url) as home:
        config = load_supervisor_config(str(home.config))
        with opened_ledger_of(home) as ledger:
            add_rows(ledger, 10)
            assert asyncio.run(send_all(Forwarder(DaemonContext(open_doors(config), ledger), Blocking()))) == {""}


def all_numbers(url: str, own_tables: bool) -> list[int]:
    if own_tables:
        return [row["audit_id"] for row in stored(url, "audit_log_t", "audit_id")]
    return numbers(url)


# What reads it


@pytest.mark.sampled(1)
def test_verify_db_counts_the_tables_that_the_archive_has(tmp_path: Path, shared_url: str) -> None:
    make_archive(shared_url)
    with shared_home(tmp_path, shared_url) as home:
        before = picture(shared_url)
        upgrade = home.supervisor("db", "upgrade")
        assert (upgrade.returncode, "nothing to create" in upgrade.stdout) == (0, True), upgrade.stderr
        home.drop_flag("supervisor_verify_db_OrionMX_v1.flag", {"label": "AA v1-2"})
        home.supervisor("once")
        result = home.result("verify_db", "v1")
        assert result is not None
        assert result["success"], result
        names = ["containers_t", "jobs_t", "workers_t", "segments_t", "audit_log_t"]
        tests = [test["name"] for test in result["details"]["tests"]]
        assert [name for name in tests if name.startswith("table ")] == [f"table {name}" for name in names]
        assert result["details"]["tz"] == "+00:00"
        assert "AA_v1-2" in result["details"]["report_path"]
        assert picture(shared_url) == before
        with engine_of(shared_url) as engine, engine.begin() as connection:
            connection.execute(text("DROP TABLE segments_t"))
            connection.execute(text("DROP TABLE workers_t"))
        home.drop_flag("supervisor_verify_db_OrionMX_v2.flag", {})
        home.supervisor("once")
        result = home.result("verify_db", "v2")
        assert result is not None
        assert [test["name"] for test in result["details"]["tests"] if not test["passed"]] == ["table workers_t"]


def test_rows_that_wait_for_the_database_are_not_archived(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    with shared_home(tmp_path, url, workers={}) as home:
        with opened_ledger_of(home) as ledger:
            old = datetime.now(UTC) - timedelta(days=60)
            for _ in range(3):
                ledger.audit(AuditEntry("cli:anna", "REFUSED", "OrionMX"), old)
        before = f"{datetime.now(UTC) - timedelta(days=30):%Y-%m-%d}"
        home.supervisor("audit", "archive", "--before", before, "--out", str(tmp_path / "first.jsonl"))
        assert len(home.audit()) == 3
        make_archive(url)
        with opened_ledger_of(home) as ledger:
            assert sender_of(ledger, url, tmp_path / "home").send().sent == 3
        done = home.supervisor("audit", "archive", "--before", before, "--out", str(tmp_path / "second.jsonl"))
        assert done.returncode == 0, done.stderr
        assert [row["action"] for row in home.audit()] == ["AUDIT_ARCHIVED"]


def test_rows_that_were_sent_after_a_backup_are_not_sent_again_after_its_restore(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'shared.db'}"
    make_archive(url)
    with shared_home(tmp_path, url, workers={}) as home:
        with opened_ledger_of(home) as ledger:
            add_rows(ledger, 3)
        assert home.supervisor("backup", str(tmp_path / "copy.db")).returncode == 0
        with opened_ledger_of(home) as ledger:
            assert sender_of(ledger, url, tmp_path / "home").send().sent == 3
        done = home.supervisor("restore", str(tmp_path / "copy.db"))
        assert done.returncode == 0, done.stderr
        with opened_ledger_of(home) as ledger:
            sender_of(ledger, url, tmp_path / "home").send()
        assert numbers(url) == [1, 2, 3, 4]
        assert audit_rows(url)[-1]["action"] == "LEDGER_RESTORED"
