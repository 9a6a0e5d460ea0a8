"""The rules that judge the records of a fleet: whole records break none, and each planted defect is found."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from supervisor_core.commands.definitions import Tier
from supervisor_core.storage.audit.chain import GENESIS, row_hash
from tests.support.daemon.fleet_faults.defects import DEFECTS, Plant
from tests.support.daemon.fleet_faults.effects import explained
from tests.support.daemon.fleet_faults.records import Fault, FleetRecord, LedgerRecord, Row, SlackMessage
from tests.support.daemon.fleet_faults.rules import RULES, violations
from tests.support.daemon.fleet_faults.traffic import SentCommand

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
HOST, WORKER = "web-1", "web-1/fetcher"
DID = (("pause", "paused"), ("resume", "resumed"), ("restart_watcher", "restarted"))


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def a_job(number: int, handler: str, worker: str, **values: Any) -> Row:
    return {
        "job_id": number,
        "task_id": f"task_{number}",
        "worker_id": worker,
        "handler": handler,
        "tier": Tier.LIFECYCLE,
        "label": f"round{number}",
        "issuer_id": "slack:T0/U0",
        "state": "done",
        "success": True,
        "error": None,
        "details_json": "{}",
        "filed_at": at(number),
        "claimed_at": at(number + 0.1),
        "started_at": at(number + 0.2),
        "finished_at": at(number + 0.3),
        **values,
    }


def a_trail(jobs: Sequence[Row]) -> list[Row]:
    rows: list[Row] = []
    for number, job in enumerate(jobs, 1):
        row = {
            "supervisor_id": HOST,
            "audit_id": number,
            "outcome": "success",
            "actor": job["issuer_id"],
            "action": job["handler"].upper(),
            "target_type": "worker",
            "target_id": job["worker_id"],
            "label": job["label"],
            "created_at": job["finished_at"],
            "details_json": "{}",
            "task_id": job["task_id"],
            "previous_hash": rows[-1]["hash"] if rows else GENESIS,
        }
        rows.append({**row, "hash": row_hash(row)})
    return rows


def a_record() -> FleetRecord:
    """Three commands for one worker, and a partition with its alert."""
    here = [a_job(number, handler, WORKER) for number, (handler, _) in enumerate(DID)]
    there = [a_job(number, handler, "fetcher") for number, (handler, _) in enumerate(DID)]
    trail = a_trail(there)
    alert = {
        "alert_id": "abcdefgh",
        "target_id": HOST,
        "condition": "silent",
        "reason": "no message",
        "state": "closed",
        "opened_at": at(1),
        "closed_at": at(3),
        "told_at": at(2),
        "parent_id": None,
    }
    cards = [SlackMessage(f"task_{number}", f":ok: {WORKER} {word}") for number, (_, word) in enumerate(DID)]
    return FleetRecord(
        sent=[SentCommand(f"round{number}", handler, (WORKER,), True) for number, (handler, _) in enumerate(DID)],
        hub=LedgerRecord(here, trail, [alert]),
        hosts={HOST: LedgerRecord(there, trail, [])},
        notes={WORKER: ["start", "stop", "start", "stop", "start"]},
        messages=[*cards, SlackMessage("abcdefgh", "web-1 recovered")],
        faults=[Fault("partition of web-1", HOST, at(0), at(4))],
    )


def test_whole_records_break_no_rule() -> None:
    assert violations(a_record()) == []


@pytest.mark.parametrize(
    ("rule", "plant"),
    [pytest.param(rule, plant, id=f"{rule}: {plant.__name__}") for rule, plants in DEFECTS.items() for plant in plants],
)
def test_a_planted_defect_is_found(rule: str, plant: Plant) -> None:
    assert any(words.startswith(f"{rule}: ") for words in violations(plant(a_record())))


def test_each_rule_has_a_defect_that_breaks_it() -> None:
    assert DEFECTS.keys() == RULES.keys()


CUT_OFF = {"state": "interrupted", "success": False}


@pytest.mark.parametrize(
    ("handler", "values", "notes", "expected"),
    [
        ("restart_watcher", {}, "start stop start", True),
        ("restart_watcher", {}, "start", False),
        ("restart_watcher", {}, "start stop start stop start", False),
        ("restart_watcher", CUT_OFF, "start", True),
        ("restart_watcher", CUT_OFF, "start stop start", True),
        ("restart_watcher", CUT_OFF, "start stop start stop start", False),
        ("restart_watcher", {**CUT_OFF, "started_at": None}, "start stop start", False),
        ("restart_watcher", {"success": False, "error": "It came late. Nothing was done."}, "start stop start", False),
        ("pause", {}, "start stop", True),
        ("pause", {}, "start stop start", False),
        ("pause", CUT_OFF, "start stop start", True),
        ("resume", {}, "start", True),
        ("resume", {}, "start start", False),
        ("diagnostics", {}, "start stop", False),
    ],
)
def test_the_starts_and_stops_of_a_worker_follow_from_its_jobs(
    handler: str, values: dict[str, Any], notes: str, expected: bool
) -> None:
    assert explained(notes.split(), [a_job(1, handler, "fetcher", **values)]) is expected
