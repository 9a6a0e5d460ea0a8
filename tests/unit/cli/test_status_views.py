"""The status as people and programs read it: golden files at the widths of real terminals, and what holds at any.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/cli/test_status_views.py`, then look at the difference.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.cli.logs import LogLayout, LogSearch
from supervisor_core.cli.status import StatusText, plain_lines

GOLDEN = Path(__file__).parents[1] / "golden"
NOW, SEEN = datetime(2026, 2, 5, 14, 30, 20, tzinfo=UTC), "2026-02-05T14:30:15.234567Z"


def worker(worker_id: str = "OrionMX", **values: Any) -> dict[str, Any]:
    return {
        "id": worker_id,
        "state": "running",
        "health": "healthy",
        "reason": "running, heartbeat 0 s ago",
        "fine": True,
        "pid": 4711,
        "paused": False,
        "quarantined": False,
        "muted_until": None,
        "team": "archive",
        "started_at": "2026-02-05T14:18:00.000000Z" if values.get("pid", 1) else None,
        "last_health_at": SEEN,
        "last_error": None,
        "commit": "1a2b3c4d5e6f7890" * 2 + "12345678",
        "memory_bytes": 41_300_000 if values.get("pid", 1) else None,
        "cpu_seconds": 2.2 if values.get("pid", 1) else None,
        **values,
    }


def service(name: str, **values: Any) -> dict[str, Any]:
    usual = {"state": "running", "health": "healthy", "reason": "running", "last_health_at": SEEN, "last_error": None}
    return {"name": name, **usual, **values}


def status(workers: list[dict[str, Any]], services: list[dict[str, Any]], **supervisor: Any) -> dict[str, Any]:
    usual = {"id": "TestHost", "state": "running", "pid": 4242, "started_at": "2026-02-04T12:00:00.000000Z"}
    fine = all(each["fine"] for each in workers)
    return {"healthy": fine, "supervisor": {**usual, **supervisor}, "services": services, "workers": workers}


OFF = {"state": "disabled", "health": "unknown", "last_health_at": None}
WELL = status(
    [worker(), worker("West", pid=4712)],
    [service("queue_processor"), service("heartbeat"), service("slack", reason="slack.enabled is false", **OFF)],
    status="ACTIVE",
    configuration={"version": 1, "problem": "", "needs_restart": []},
    lost_events=0,
)
TRACEBACK = (
    "Traceback (most recent call last):\n  File \"watcher.py\", line 1\nModuleNotFoundError: No module named 'scan'"
)
ILL = status(
    [
        worker(),
        worker(
            "Backs-Off",
            state="backing_off",
            health="missing",
            fine=False,
            pid=None,
            reason="died within 2 s of its start (exit code 1)",
            restarts_last_hour=3,
            due_at="2026-02-05T14:31:00.000000Z",
            last_error=TRACEBACK,
        ),
        worker(
            "Rests",
            state="quarantined",
            health="unknown",
            fine=False,
            pid=None,
            quarantined=True,
            reason="quarantined after 5 restarts in an hour; resume or restart ends that",
            last_health_at="2026-02-04T23:59:59.000000Z",
        ),
        worker(
            "West",
            state="stopped",
            health="unknown",
            pid=None,
            paused=True,
            reason="paused by Ada - hotfix since 14:00 UTC",
        ),
    ],
    [
        service("queue_processor"),
        service("heartbeat", state="starting", health="unknown", reason="", last_health_at=None),
        service("forwarder", health="degraded", reason="The shared database is away; 12 rows waiting"),
        service("metrics", state="error", health="degraded", reason="failed; retrying in 4 s", last_error="OSError"),
        service("scheduler", reason="not available yet", **OFF),
        service("slack", reason="slack.enabled is false", **OFF),
    ],
    status="PAUSED",
    reason="Ada - maintenance of the drive",
    configuration={
        "version": 4,
        "problem": "config.yaml line 6: workers.West.stop_timout_seconds is not a setting",
        "needs_restart": ["nas.root", "slack.channels"],
    },
    lost_events=3,
)
STALE = {
    **status([worker()], [service("queue_processor", state="stopped", health="unknown", reason="no daemon")]),
    "healthy": False,
    "supervisor": {"id": "TestHost", "state": "stale", "pid": None, "started_at": None, "reason": "It died."},
}
TEAM = {
    **status([worker(), worker("West", fine=False, health="stale", reason="its heartbeat is 400 s old")], []),
    "team": {
        "team_id": "6f0c2f3e-2d0a-4a55-9a3f-5f9e2b7f4c10",
        "team_name": "archive",
        "objective": "keep the archive flowing",
        "member_count": 4,
        "active_members": 3,
        "ended_at": None,
        "recorded": True,
        "members": [
            {"agent_id": "OrionMX", "role": "LEAD", "active": True, "joined_at": SEEN, "left_at": None},
            {"agent_id": "West", "role": "MEMBER", "active": True, "joined_at": SEEN, "left_at": None},
            {"agent_id": "by=hand", "role": "TRAINEE", "active": True, "joined_at": SEEN, "left_at": None},
            {"agent_id": "Old", "role": "MEMBER", "active": False, "joined_at": SEEN, "left_at": SEEN},
        ],
    },
}
HOSTILE = status(
    [worker("Evil", fine=False, reason="a\x1b[2Jb\nworker.Evil.health=healthy", last_error="C:\\x\ty=\u202e")], []
)


def log_line(second: str, level: str, message: str, **fields: str) -> bytes:
    when = {"timestamp": f"2026-02-05T14:30:{second}Z", "level": level, "event": "log", "message": message}
    return json.dumps({**when, "logger": "x", "worker_id": None, "task_id": None, "label": None, **fields}).encode()


LOG_LINES = (
    log_line("15.234", "INFO", "supervisor TestHost is up"),
    log_line("16.001", "WARNING", "its heartbeat is late", worker_id="OrionMX"),
    log_line("17.500", "ERROR", "pause failed\nand why", worker_id="Backs-Off", task_id="task_20260205_143015_b41sepe"),
)


def view(document: dict[str, Any], width: int | None) -> str:
    return StatusText(width, NOW).status(document)


def logs() -> str:
    found = LogSearch().matching(LOG_LINES)
    return "\n".join(LogLayout(colored=False).lines(found))


CASES = {
    "status_well_80": lambda: view(WELL, 80),
    "status_ill_80": lambda: view(ILL, 80),
    "status_ill_120": lambda: view(ILL, 120),
    "status_ill_piped": lambda: view(ILL, None),
    "status_stale_80": lambda: view(STALE, 80),
    "status_team_80": lambda: view(TEAM, 80),
    "status_team_120": lambda: view(TEAM, 120),
    "status_ill_plain": lambda: "\n".join(plain_lines(ILL)),
    "status_team_plain": lambda: "\n".join(plain_lines(TEAM)),
    "status_hostile_plain": lambda: "\n".join(plain_lines(HOSTILE)),
    "logs": logs,
}


@pytest.mark.parametrize("name", CASES)
def test_status_and_logs_look_as_they_did(name: str) -> None:
    text = f"{CASES[name]()}\n"
    path = GOLDEN / f"{name}.txt"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(text)
    assert text == path.read_text()


def test_no_line_is_wider_than_the_terminal() -> None:
    for document in (WELL, ILL, STALE, TEAM, HOSTILE):
        for width in (20, 40, 79, 80, 81, 100, 120, 200):
            assert all(len(line) <= width for line in view(document, width).split("\n")), (width, document)


def test_a_problem_of_no_listed_service_is_shown_because_the_exit_code_counts_it() -> None:
    lines = view(status([worker()], [], problem="fleet_link: localhost:4222 can't be reached"), 80).split("\n")
    assert lines[1] == "! fleet_link: localhost:4222 can't be reached"


@pytest.mark.parametrize("said", ["restarting in 10 s (1 of 5 this hour)", "restarting now"])
def test_a_reason_with_a_countdown_shows_the_time_that_is_left(said: str) -> None:
    waits = worker("North", state="backing_off", fine=False, pid=None, reason=f"crashed (SIGKILL) after 27 s; {said}")
    rest = said.partition(" (")[2]
    shown = view(status([{**waits, "due_at": "2026-02-05T14:30:24.000000Z"}], []), None)
    assert f"crashed (SIGKILL) after 27 s; restarting in 4.0 s{' (' + rest if rest else ''}\n" in f"{shown}\n"


def test_a_table_shows_the_last_line_of_a_traceback_wherever_it_begins() -> None:
    error = f"West exited (code 1) within 2 s of its start. Last output:\nstart\n{TRACEBACK}"
    shown = view(status([worker("West", fine=False, health="degraded", reason="down", last_error=error)], []), None)
    assert "down. ModuleNotFoundError: No module named 'scan'" in shown
    assert "Traceback" not in shown


def test_what_a_worker_says_neither_moves_the_cursor_nor_makes_a_line() -> None:
    assert view(HOSTILE, 80).replace("\n", "").isprintable()
    lines = plain_lines(HOSTILE)
    assert all(line.isprintable() for line in lines)
    assert [line for line in lines if line.startswith("worker.Evil.health=")] == ["worker.Evil.health=healthy"]


def test_a_plain_value_is_the_text_again_when_it_is_unescaped() -> None:
    text = "C:\\new\n\ttab \x1b[0m é \U0001f600 \\n"
    (line,) = plain_lines({"reason": text})
    assert line.removeprefix("reason=").encode("latin-1", "backslashreplace").decode("unicode_escape") == text
