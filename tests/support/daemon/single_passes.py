"""Passes of the real program with the demo worker: told what to do by a flag, and looked at as others see them."""

from __future__ import annotations

import getpass
import json
import sqlite3
from pathlib import Path
from typing import Any

from supervisor_core.workers.heartbeats.files import read_heartbeat_file
from tests.support.homes import Home
from tests.support.waiting import wait_until

ME = getpass.getuser()


def state(home: Home) -> Path:
    """The folder of pause flags and heartbeats."""
    return home.nas / "00_STATE"


def carry_out(
    home: Home, handler: str, label: str | None = None, code: int | None = 0, **params: Any
) -> dict[str, Any]:
    """Drop a flag, run a pass, and see its result."""
    task_id = f"task_{handler}_{len(list(home.outbox.glob('*'))) if home.outbox.exists() else 0}"
    body = {name: value for name, value in (("label", label), ("params", params)) if value}
    home.drop_flag(f"supervisor_{handler}_OrionMX_{task_id}.flag", body)
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert code is None or done.returncode == code, done.stderr
    result = home.result(handler, task_id)
    assert result is not None, done.stderr
    return result


def log_of(home: Home) -> str:
    """What the passes logged."""
    return (home.state_dir / "supervisor.log").read_text()


def labelled(home: Home, result: dict[str, Any], label: str) -> None:
    """The label is in the result, in the audit trail behind who asked, and in the lines of the log."""
    assert result["label"] == label
    (row,) = home.audit(result["task_id"])
    assert row["label"] == f"{ME} - {label}"
    assert json.loads(row["details_json"])["label"] == label
    lines = [line for line in log_of(home).splitlines() if result["task_id"] in line]
    assert any(f"[{result['task_id']} - {label}]" in line for line in lines), lines


def working(home: Home) -> int:
    """The worker, brought up by a pass and seen to beat; its PID."""
    assert home.supervisor("once", "--heal").returncode == 0
    (pid,) = home.running_copies("OrionMX")
    wait_until(lambda: beat(home).get("pid") == pid, 10, "the worker beats")
    return pid


def beat(home: Home) -> dict[str, Any]:
    """What the worker last said of itself."""
    return read_heartbeat_file(state(home) / "watcher_heartbeat_OrionMX.json") or {}


def rows(home: Home) -> dict[str, dict[str, Any]]:
    """`workers_t`, as another program reads it."""
    connection = sqlite3.connect(home.state_dir / "ledger.db")
    connection.row_factory = sqlite3.Row
    try:
        return {row["worker_id"]: dict(row) for row in connection.execute("SELECT * FROM workers_t")}
    finally:
        connection.close()
