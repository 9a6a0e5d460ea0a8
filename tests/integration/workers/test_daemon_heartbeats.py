"""The heartbeats of a whole daemon: of every worker, on the drive and in the ledger, and without the drive."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.common.times import from_text
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home, demo_command
from tests.support.waiting import wait_until

PATIENCE_SECONDS = 30.0
EVERY_SECONDS = 0.2
BEATING = {"command": demo_command(), "start_grace_seconds": 0.05, "stop_timeout_seconds": 10}
OFF = {**SLEEPER, "enabled": False}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    settings = {"id": "TestHost", "state_dir": "var", "inbox_poll_seconds": 0.2, "heartbeat_seconds": EVERY_SECONDS}
    workers = {"North": BEATING, "South": SLEEPER, "Off": OFF}
    with a_home(tmp_path / "home", workers, make=Host, supervisor=settings) as made:
        assert isinstance(made, Host)
        yield made


def rows(home: Host, query: str) -> list[dict[str, Any]]:
    with closing(sqlite3.connect(home.state_dir / "ledger.db")) as connection:
        connection.row_factory = sqlite3.Row
        return [dict(row) for row in connection.execute(query)]


def workers_rows(home: Host) -> dict[str, dict[str, Any]]:
    return {row["worker_id"]: row for row in rows(home, "SELECT * FROM workers_t")}


def said(home: Host, worker_id: str) -> dict[str, Any]:
    path = home.nas / "00_STATE" / f"supervisor_heartbeat_{worker_id}.json"
    document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return document


def beat(home: Host) -> str:
    return str(rows(home, "SELECT * FROM supervisors_t")[0]["last_heartbeat_at"])


def service(home: Host) -> dict[str, Any]:
    return next(each for each in home.status()["services"] if each["name"] == "heartbeat")


def test_every_worker_has_its_file_and_its_rows_and_the_supervisor_its_own(home: Host) -> None:
    home.start_daemon()
    wait_until(lambda: all(said(home, each) for each in home.worker_ids), PATIENCE_SECONDS, "each has its file")
    wait_until(lambda: "North" in workers_rows(home), PATIENCE_SECONDS, "what the worker says has its row")
    first = said(home, "North")
    assert (first["supervisor_id"], first["worker_id"]) == ("TestHost", "North")
    wait_until(lambda: said(home, "North")["timestamp"] > first["timestamp"], PATIENCE_SECONDS, "it beats on")
    wait_until(lambda: all(said(home, each)["success"] for each in home.worker_ids), PATIENCE_SECONDS, "all is well")
    found = workers_rows(home)
    assert {"supervisor_North", "supervisor_South", "supervisor_Off", "North"} <= set(found)
    assert found["North"]["pid"] == home.pids()["North"]
    assert found["supervisor_North"]["pid"] == home.status()["supervisor"]["pid"]
    (supervisor,) = rows(home, "SELECT * FROM supervisors_t")
    assert (supervisor["supervisor_id"], supervisor["status"]) == ("TestHost", "ACTIVE")
    before = str(supervisor["last_heartbeat_at"])
    wait_until(lambda: beat(home) > before, PATIENCE_SECONDS, "the supervisor's own beat goes on")


def test_from_its_start_on_it_tells_the_truth_and_not_after_the_next_beat(tmp_path: Path) -> None:
    slow = {**SLEEPER, "start_grace_seconds": 1.0}
    with a_home(tmp_path / "home", {"South": slow}, make=Host) as home:  # with the usual 30 s between two beats
        assert isinstance(home, Host)
        home.start_daemon(wait=False)
        first = wait_until(lambda: said(home, "South"), PATIENCE_SECONDS, "it has its file")
        assert (first["success"], first["error"]) == (True, None), "it is starting, and not missing"

        def row() -> str:
            return str(workers_rows(home).get("supervisor_South", {}).get("status_summary", ""))

        assert "OK" in wait_until(row, PATIENCE_SECONDS, "it has its row")
        wait_until(lambda: "running" in row(), 10, "its row tells that it runs")
        assert said(home, "South")["success"]


def test_a_worker_that_is_added_is_told_of_as_well(home: Host) -> None:
    home.start_daemon()
    home.configure({"North": BEATING, "South": SLEEPER, "Off": OFF, "West": SLEEPER})
    wait_until(lambda: said(home, "West").get("success"), PATIENCE_SECONDS, "it has its file")
    assert "supervisor_West" in workers_rows(home)


def test_a_drive_that_goes_away_degrades_the_service_the_rows_go_on_and_it_recovers(home: Host) -> None:
    home.start_daemon()
    wait_until(lambda: service(home)["health"] == "healthy" and said(home, "South"), PATIENCE_SECONDS, "all is well")
    pids = home.pids()
    away = home.nas.with_name("away")
    home.nas.rename(away)
    wait_until(lambda: service(home)["health"] == "degraded", PATIENCE_SECONDS, "it is seen")
    shown = service(home)
    assert (shown["state"], "heartbeats can't be written to the drive" in shown["reason"]) == ("running", True)
    assert home.supervisor("status").returncode == 1

    def summary() -> dict[str, Any]:
        return workers_rows(home)["supervisor_South"]

    wait_until(lambda: "written to the drive" in str(summary()["status_summary"]), PATIENCE_SECONDS, "the rows say so")
    since = summary()["last_heartbeat_at"]
    wait_until(lambda: summary()["last_heartbeat_at"] > since, PATIENCE_SECONDS, "the rows go on")
    assert home.pids() == pids, "nobody is restarted for it"
    away.rename(home.nas)
    now = datetime.now(UTC)
    wait_until(lambda: service(home)["health"] == "healthy", PATIENCE_SECONDS, "it is well again")
    wait_until(lambda: from_text(said(home, "South")["timestamp"]) > now, PATIENCE_SECONDS, "files are written again")
    wait_until(lambda: home.supervisor("status").returncode == 0, PATIENCE_SECONDS, "and so is the whole")
    assert home.pids() == pids
    assert not home.nas.with_name("away").exists()
