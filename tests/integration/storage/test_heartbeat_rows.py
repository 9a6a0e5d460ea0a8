"""The heartbeats in the ledger."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml
from sqlalchemy import Connection, select

from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.storage.tables import workers
from supervisor_core.workers.heartbeats.files import (
    SupervisorHeartbeat,
    put_row,
    report_supervisor_heartbeat_to_database,
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


def report(connection: Connection) -> None:
    report_supervisor_heartbeat_to_database(connection, SAID, pid=4711, hostname="orion")


def test_heartbeats_are_inserted_then_updated_and_read_as_all_tables_are(config: SupervisorConfig) -> None:
    with opened_ledger(config) as ledger:
        ledger.write(report)
        ledger.write(report)
        long = {"hostname": "o" * 999, "status": "running\n" * 99, "summary": "s" * 999}
        ledger.write(lambda connection: put_row(connection, "OrionMX", NOW, pid=99, poll_seconds=30.0, **long))
        found = ledger.read(lambda connection: connection.execute(select(workers)).mappings().all())
    rows = {row["worker_id"]: row for row in found}
    assert set(rows) == {"supervisor_OrionMX", "OrionMX"}
    mine, its = rows["supervisor_OrionMX"], rows["OrionMX"]
    assert (mine["last_heartbeat_at"], mine["pid"], mine["hostname"], mine["status"]) == (NOW, 4711, "orion", "ok")
    assert mine["status_summary"] == "Supervisor OK - paused. Actions: pause"
    assert (its["last_heartbeat_at"], its["pid"], its["poll_seconds"]) == (NOW, 99, 30.0)
    lengths = {name: workers.c[name].type.length for name in ("hostname", "status", "status_summary")}  # type: ignore[attr-defined]
    assert {name: len(its[name]) for name in lengths} == lengths
