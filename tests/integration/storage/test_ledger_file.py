"""The ledger of a pass that has nothing to do: it sees what waits, and whatever is odd sends it to the whole ledger."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from sqlalchemy import select

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.single_pass.work import LedgerOnDemand
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage import ledger_file, outbox
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import workers
from supervisor_core.workers.health import Heartbeat
from supervisor_core.workers.heartbeats.files import SupervisorHeartbeat
from supervisor_core.workers.heartbeats.writer import (
    Execute,
    put,
    report_supervisor_heartbeat_to_database,
    row_of_worker,
)

NOW = datetime(2026, 2, 5, 14, 30, 15, 234567, tzinfo=UTC)
SAID = SupervisorHeartbeat("TestHost", "OrionMX", NOW, True, None, ("pause",), "paused")


@pytest.fixture
def config(tmp_path: Path) -> SupervisorConfig:
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var"},
        "workers": {"OrionMX": {"command": ["{python}", "-V"]}},
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(document))
    return load_supervisor_config(tmp_path / "config.yaml")


@pytest.fixture
def path(config: SupervisorConfig) -> Path:
    with opened_ledger(config) as ledger:
        return Path(ledger.name)


def report(execute: Execute) -> None:
    report_supervisor_heartbeat_to_database(execute, SAID, pid=4711, hostname="orion")


def filed(ledger: Ledger, worker_id: str = "OrionMX") -> Job:
    new = jobs.NewJob("t1", worker_id, "pause", {}, None, Issuer("cli:anna", "anna"), "cli", NOW)
    job = ledger.write(lambda connection: jobs.file(connection, "TestHost", new, NOW))
    assert job is not None
    return job


def altered(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_nothing_waits_until_a_job_does_and_until_its_result_is_delivered(config: SupervisorConfig, path: Path) -> None:
    with opened_ledger(config) as ledger:
        assert ledger_file.nothing_waits(path, "OrionMX", NOW)
        job = filed(ledger)
        for step in (None, jobs.claim(job, NOW), jobs.begin(job, NOW), jobs.finish(job, Outcome.done(), NOW, 0.1)):
            assert step is None or ledger.step(step, NOW)
            assert not ledger_file.nothing_waits(path, "OrionMX", NOW)
        (message,) = ledger.read(lambda connection: outbox.due_messages(connection, jobs.RESULT_FILE, NOW))
        assert ledger.step(outbox.mark_sent(message, NOW), NOW)
        assert ledger_file.nothing_waits(path, "OrionMX", NOW)


def test_what_waits_for_another_worker_or_for_later_is_none_of_its(config: SupervisorConfig, path: Path) -> None:
    with opened_ledger(config) as ledger:
        job = filed(ledger, "West")
        assert ledger_file.nothing_waits(path, "OrionMX", NOW)
        for step in (jobs.claim(job, NOW), jobs.begin(job, NOW), jobs.finish(job, Outcome.done(), NOW, 0.1)):
            ledger.step(step, NOW)
        assert ledger_file.nothing_waits(path, "OrionMX", NOW - timedelta(seconds=1))
        assert not ledger_file.nothing_waits(path, "OrionMX", NOW), "a result is anybody's to deliver"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b"not a database, and long enough to be taken for one" * 100),
        lambda path: path.write_bytes(b""),
        lambda path: altered(path, "UPDATE alembic_version SET version_num = '9999'"),
        lambda path: altered(path, "UPDATE alembic_version SET version_num = '0016'"),
        lambda path: altered(path, "DELETE FROM alembic_version"),
        lambda path: altered(path, "DROP TABLE jobs_t"),
    ],
    ids=["no file", "no database", "an empty file", "newer", "older", "no version", "a table is missing"],
)
def test_whatever_is_not_as_expected_is_for_the_whole_ledger(path: Path, spoil: Callable[[Path], object]) -> None:
    assert ledger_file.nothing_waits(path, "OrionMX", NOW)
    spoil(path)
    there = path.exists()
    assert not ledger_file.nothing_waits(path, "OrionMX", NOW)
    assert path.exists() == there, "a look makes no file"


@pytest.mark.parametrize("opened", [False, True], ids=["quickly", "through the one writer"])
def test_heartbeats_are_inserted_then_updated_and_read_as_all_tables_are(
    config: SupervisorConfig, path: Path, opened: bool
) -> None:
    with LedgerOnDemand(config) as ledger:
        if opened:
            ledger.open()
        ledger.write(report)
        ledger.write(report)
        beat = Heartbeat("running\n" * 99, NOW, "", 99, "o" * 999, 30.0)
        ledger.write(lambda execute: put(execute, row_of_worker("OrionMX", beat, "s" * 999)))
        found = ledger.open().read(lambda connection: connection.execute(select(workers)).mappings().all())
    rows = {row["worker_id"]: row for row in found}
    assert set(rows) == {"supervisor_OrionMX", "OrionMX"}
    mine, its = rows["supervisor_OrionMX"], rows["OrionMX"]
    assert (mine["last_heartbeat_at"], mine["pid"], mine["hostname"], mine["status"]) == (NOW, 4711, "orion", "ok")
    assert mine["status_summary"] == "Supervisor OK - paused. Actions: pause"
    assert (its["last_heartbeat_at"], its["pid"], its["poll_seconds"]) == (NOW, 99, 30.0)
    lengths = {name: workers.c[name].type.length for name in ("hostname", "status", "status_summary")}  # type: ignore[attr-defined]
    assert {name: len(its[name]) for name in lengths} == lengths


def test_a_ledger_that_is_not_there_yet_is_made_for_the_first_heartbeat(config: SupervisorConfig) -> None:
    with LedgerOnDemand(config) as ledger:
        assert not ledger.nothing_waits("OrionMX")
        ledger.write(report)
    assert ledger_file.nothing_waits(config.state_dir / ledger_file.LEDGER_FILE, "OrionMX", NOW)


def test_a_heartbeat_that_can_not_be_written_is_said_in_our_words(config: SupervisorConfig, path: Path) -> None:
    path.write_bytes(b"not a database, and long enough to be taken for one" * 100)
    with LedgerOnDemand(config) as ledger, pytest.raises(LedgerUnavailable, match=r"ledger\.db is damaged"):
        ledger.write(report)
