"""The handlers as a pass carries them out, by the names that readers of the requirements look for.

All is real: the worker's processes, the drive's files, the ledger. A command is a flag that is dropped by hand.
"""

from __future__ import annotations

import getpass
import json
import os
import signal
import socket
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.adapters import is_watcher_paused, read_heartbeat_file, write_supervisor_heartbeat_file
from tests.support.homes import Home, a_home, demo_command
from tests.support.waiting import wait_until

ME = getpass.getuser()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        yield made


def state(home: Home) -> Path:
    """The folder of pause flags and heartbeats."""
    return home.nas / "00_STATE"


def carry_out(home: Home, handler: str, label: str | None = None, code: int | None = 0) -> dict[str, Any]:
    """Drop a flag, run a pass, and see its result."""
    task_id = f"task_{handler}_{len(list(home.outbox.glob('*'))) if home.outbox.exists() else 0}"
    home.drop_flag(f"supervisor_{handler}_OrionMX_{task_id}.flag", {"label": label} if label else {})
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


def test_pause_watcher_flag_created(home: Home) -> None:
    working(home)
    result = carry_out(home, "pause")
    assert (result["success"], result["error"], result["details"]["ending"]) == (True, None, "graceful")
    assert is_watcher_paused(state(home), "OrionMX")
    flag = json.loads((state(home) / "supervisor_pause_OrionMX.flag").read_text())
    assert (flag["worker_id"], flag["by"], flag["task_id"]) == ("OrionMX", f"file:{ME}", result["task_id"])
    assert home.everybody() == []
    assert "stopped after" in (home.nas / "05_LOGS/workers/OrionMX.log").read_text(), "what was in hand was finished"
    assert home.supervisor("once", "--heal").returncode == 0
    assert home.running_copies("OrionMX") == [], "nothing starts it by itself"


def test_pause_watcher_with_label(home: Home) -> None:
    working(home)
    result = carry_out(home, "pause", "disk is full")
    labelled(home, result, "disk is full")
    flag = json.loads((state(home) / "supervisor_pause_OrionMX.flag").read_text())
    assert flag["label"] == f"{ME} - disk is full"


def test_pause_watcher_already_paused(home: Home) -> None:
    first = carry_out(home, "pause", "first")
    flag = (state(home) / "supervisor_pause_OrionMX.flag").read_text()
    again = carry_out(home, "pause", "again")
    assert (again["success"], again["details"]["already_paused"]) == (True, True)
    said = json.loads(flag)
    assert f"already paused by {ME} - first since " in again["details"]["message"]
    details = again["details"]
    assert (details["by"], details["at"], details["task_id"]) == (f"file:{ME}", said["at"], first["task_id"])
    assert (state(home) / "supervisor_pause_OrionMX.flag").read_text() == flag


def test_resume_watcher_flag_deleted(home: Home) -> None:
    carry_out(home, "pause")
    result = carry_out(home, "resume")
    assert (result["success"], result["details"]["was_paused"]) == (True, True)
    assert not is_watcher_paused(state(home), "OrionMX")
    assert home.running_copies("OrionMX") == [result["details"]["pid"]]


def test_resume_watcher_with_label(home: Home) -> None:
    carry_out(home, "pause", "disk is full")
    labelled(home, carry_out(home, "resume", "disk is cleared"), "disk is cleared")


def test_resume_watcher_already_running(home: Home) -> None:
    pid = working(home)
    result = carry_out(home, "resume")
    assert (result["success"], result["details"]["already_running"], result["details"]["pid"]) == (True, True, pid)
    assert home.running_copies("OrionMX") == [pid]


def test_resume_watcher_that_dies_at_once_is_a_failure_with_the_end_of_its_stderr(tmp_path: Path) -> None:
    command = ["sh", "-c", "echo before; echo no such table: pages_t >&2; exit 3"]
    with a_home(tmp_path / "home", {"OrionMX": {"command": command, "start_grace_seconds": 5}}) as home:
        carry_out(home, "pause")
        result = carry_out(home, "resume", code=1)
        assert not result["success"]
        assert "exit code 3" in result["error"]
        assert "no such table: pages_t" in result["error"]
        assert "is not paused any more, but could not be started" in result["error"]
        assert result["details"]["was_paused"]
        (row,) = home.audit(result["task_id"])
        assert (row["action"], row["outcome"]) == ("RESUME", "failure")


def test_restart_watcher_respects_pause_flag(home: Home) -> None:
    old = working(home)
    (state(home) / "supervisor_pause_OrionMX.flag").write_text("")
    result = carry_out(home, "restart_watcher")
    assert (result["success"], result["details"]["paused"]) == (True, True)
    assert result["details"]["old_pid"] == old
    assert is_watcher_paused(state(home), "OrionMX"), "the flag is left in place"
    (new,) = home.running_copies("OrionMX")
    wait_until(lambda: beat(home)["pid"] == new, 10, "the new one beats")
    assert (beat(home)["status"], beat(home)["items_done"]) == ("paused", 0)
    os.kill(new, signal.SIGKILL)
    assert home.supervisor("once", "--heal").returncode == 0, "once was all that the restart asked for"
    assert home.running_copies("OrionMX") == []


def test_restart_watcher_with_label(home: Home) -> None:
    old = working(home)
    result = carry_out(home, "restart_watcher", "hangs on a scan")
    labelled(home, result, "hangs on a scan")
    (new,) = home.running_copies("OrionMX")
    assert (result["details"]["old_pid"], result["details"]["new_pid"]) == (old, new)


@pytest.mark.parametrize("words", ["ignore-term", "fork", "daemonize"])
def test_pause_ends_a_worker_that_ignores_term_and_one_that_forks(tmp_path: Path, words: str) -> None:
    worker = {"command": demo_command("--misbehave", words), "start_grace_seconds": 0.2, "stop_timeout_seconds": 1}
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        working(home)
        result = carry_out(home, "pause")
        assert result["success"], result
        assert result["details"]["killed"], "somebody did not end when asked"
        assert home.everybody() == []


def test_heartbeat_file_atomic_write(tmp_path: Path) -> None:
    """Whoever reads while it is written sees the old one or the new one, whole; and nothing else is left."""
    path = write_supervisor_heartbeat_file(tmp_path, "OrionMX", {"number": 0})
    assert path == tmp_path / "supervisor_heartbeat_OrionMX.json"
    over, seen = threading.Event(), []

    def read() -> None:
        while not over.is_set():
            seen.append(json.loads(path.read_bytes()))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 200):
            write_supervisor_heartbeat_file(tmp_path, "OrionMX", {"number": number, "padding": "x" * 20_000})
    finally:
        over.set()
        reader.join()
    numbers = [document["number"] for document in seen]
    assert numbers == sorted(numbers)
    assert len(set(numbers)) > 1, "it was read while it was written"
    with pytest.raises(ValueError, match="JSON"):
        write_supervisor_heartbeat_file(tmp_path, "OrionMX", {"number": float("nan")})
    assert json.loads(path.read_text())["number"] == 199
    assert os.listdir(tmp_path) == [path.name]
    assert path.stat().st_mode & 0o777 == 0o640


def test_heartbeat_file_says_how_the_pass_went(home: Home) -> None:
    path = state(home) / "supervisor_heartbeat_OrionMX.json"
    assert home.supervisor("once").returncode == 1
    said = json.loads(path.read_text())
    assert set(said) == {"supervisor_id", "worker_id", "timestamp", "success", "error", "actions"}
    assert (said["supervisor_id"], said["worker_id"], said["success"]) == ("TestHost", "OrionMX", False)
    assert "OrionMX is missing" in said["error"]
    carry_out(home, "pause")
    said = json.loads(path.read_text())
    assert (said["success"], said["error"], said["actions"]) == (True, None, ["pause"])


def test_heartbeat_database_insert(home: Home) -> None:
    pid = working(home)
    assert home.supervisor("once").returncode == 0
    first = rows(home)
    assert set(first) == {"OrionMX", "supervisor_OrionMX"}
    mine, its = first["supervisor_OrionMX"], first["OrionMX"]
    assert mine["status_summary"] == "Supervisor OK - running, healthy. Actions: none"
    assert (its["pid"], its["status"], its["poll_seconds"]) == (pid, "running", 1.0)
    assert its["hostname"] == mine["hostname"] == socket.gethostname()
    assert its["status_summary"].startswith("running, healthy: running, heartbeat")
    wait_until(lambda: beat(home)["utc"] > its["last_heartbeat_at"], 10, "it beats again")
    assert home.supervisor("once").returncode == 0
    second = rows(home)
    assert set(second) == set(first), "updated, and not inserted again"
    for name, row in second.items():
        assert row["last_heartbeat_at"] > first[name]["last_heartbeat_at"]
    carry_out(home, "pause", "with a label")
    assert rows(home)["supervisor_OrionMX"]["status_summary"] == "Supervisor OK - paused. Actions: pause"
    (state(home) / "supervisor_pause_OrionMX.flag").unlink()
    assert home.supervisor("once").returncode == 1
    said = rows(home)["supervisor_OrionMX"]
    assert said["status"] == "error"
    assert said["status_summary"].startswith("Supervisor ERROR - OrionMX is missing: ")
    assert said["status_summary"].endswith(". State: stopped, missing")
