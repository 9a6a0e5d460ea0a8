"""The audit trail page by page: every command once, in one order, forwards and back, whoever asks for what."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, event

from supervisor_core.storage.audit import chain, trail
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, find_rows, search
from supervisor_core.storage.audit.trail import BATCH, Page, page
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from tests.support.sampling import rounds
from tests.support.storage.long_audit_trail import RARE, a_long_trail

HOST = "TestHost"
NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
ROWS = rounds(300, sample=100)
ANNA, BOB = "slack:T0TEAM/U0ANNA", "slack:T0TEAM/U0BOB"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / LEDGER_FILE, HOST) as made:
        yield made


def put(ledger: Ledger, *entries: AuditEntry, at: datetime = NOW, apart: timedelta = timedelta(seconds=1)) -> None:
    def write(connection: object) -> None:
        for number, entry in enumerate(entries):
            chain.append(connection, HOST, entry, at + number * apart)  # type: ignore[arg-type]

    ledger.write(write)


def look(
    ledger: Ledger, size: int = 10, place: RowPosition | None = None, *, newer: bool = False, **wanted: Any
) -> Page:
    made = AuditFilter(**wanted)
    return ledger.read(lambda connection: page(connection, made, size, place, newer=newer))


def ids(shown: Page) -> list[int | None]:
    return [entry.audit_id for entry in shown.entries]


def beside(shown: Page, index: int) -> RowPosition:
    entry = shown.entries[index]
    return RowPosition(entry.supervisor_id, entry.audit_id)


def all_ids(ledger: Ledger, size: int, **wanted: Any) -> list[int | None]:
    """From the newest to the oldest, and the same way back."""
    pages = [look(ledger, size, **wanted)]
    assert not pages[0].newer
    while pages[-1].older:
        pages.append(look(ledger, size, beside(pages[-1], -1), **wanted))
        assert pages[-1].newer
        assert pages[-1].entries, "a button never leads to nothing"
    for before, after in zip(reversed(pages[:-1]), reversed(pages[1:]), strict=True):
        back = look(ledger, size, beside(after, 0), newer=True, **wanted)
        assert ids(back) == ids(before)
        assert back.older
        assert back.newer == before.newer
    return [number for each in pages for number in ids(each)]


@pytest.mark.sampled
def test_every_command_stands_once_at_its_newest_row_that_fits_also_back_again(ledger: Ledger) -> None:
    chance = random.Random(7)
    entries = []
    for _ in range(ROWS):
        task = chance.choice([None, *(f"t{number}" for number in range(ROWS // 5))])
        actor = chance.choice([ANNA, BOB, "cli:anna", "supervisor"])
        action = chance.choice(["PAUSE", "RESUME", "APPROVED", "REFUSED"])
        entries.append(AuditEntry(actor, action, chance.choice(["North", "South"]), task_id=task, label="x - y"))
    put(ledger, *entries[: ROWS // 2], apart=timedelta(0))  # all in one moment: then the number decides
    put(ledger, *entries[ROWS // 2 :], at=NOW - timedelta(hours=1))  # and a clock that was set back
    order = sorted(range(1, ROWS + 1), key=lambda number: (number > ROWS // 2, -number))
    for wanted in (
        {},
        {"targets": ("North",)},
        {"action": "PAUSE"},
        {"issuer": ANNA},
        {"issuer": "anna"},
        {"issuer": "U0BOB", "targets": ("South",), "action": "RESUME"},
        {"targets": ("North", "South")},
        {"since": NOW},
    ):
        fitting = [row["audit_id"] for row in ledger.read(lambda c, w=wanted: search(c, AuditFilter(limit=999, **w)))]  # type: ignore[misc]
        assert fitting == [number for number in order if number in set(fitting)]
        seen: set[str] = set()
        expected = []
        for number in fitting:
            task = entries[number - 1].task_id
            if task is None or task not in seen:
                expected.append(number)
            seen.add(task or "")
        for size in (1, 7, 10):
            assert all_ids(ledger, size, **wanted) == expected


def test_a_command_for_more_workers_than_are_read_at_once_is_one_entry(ledger: Ledger) -> None:
    put(ledger, AuditEntry(ANNA, "RESUME", "North", task_id="before"))
    many = [AuditEntry(ANNA, "PAUSE", f"W{number}", task_id="all") for number in range(3 * BATCH)]
    put(ledger, *many, at=NOW + timedelta(minutes=1))
    shown = look(ledger)
    assert [(entry.command, entry.outcome) for entry in shown.entries] == [
        ("pause", f"succeeded on all {3 * BATCH}"),
        ("resume", "succeeded"),
    ]
    assert shown.entries[0].about == f"W0, W1, W2 and {3 * BATCH - 3} more"


def test_who_asked_who_approved_and_what_came_of_it_are_of_one_entry(ledger: Ledger) -> None:
    details = {"command": "rollback", "label": "hotfix", "params": {"commits_back": 3}}
    voted = {**details, "votes": [{"id": BOB, "name": "Bob"}]}
    done = {**details, "error": "git says\nno", "approvals": [{"id": BOB, "name": "Bob"}]}
    put(
        ledger,
        AuditEntry(ANNA, "APPROVAL_REQUESTED", "North", label="Anna - hotfix", task_id="t", details=details),
        AuditEntry(BOB, "APPROVED", "North", label="Anna - hotfix", task_id="t", details=voted),
        AuditEntry(ANNA, "ROLLBACK_CODE", "North", "failure", "Anna - hotfix", "t", details=done),
    )
    for who in (None, "U0BOB", "anna"):
        (entry,) = look(ledger, issuer=who).entries
        assert (entry.command, entry.about, entry.label) == ("rollback 3", "North", "hotfix")
        assert (entry.asked.id, entry.asked.name) == (ANNA, "Anna")
        assert [(each.id, each.name) for each in entry.approved] == [(BOB, "Bob")]
        assert (entry.outcome, entry.well) == ("failed", False)
    assert look(ledger).entries[0].error == "git says no"


def test_whoever_approves_another_s_command_is_not_called_by_their_name(ledger: Ledger) -> None:
    put(ledger, AuditEntry(BOB, "APPROVED", "North", label="Anna - hotfix", task_id="t"))
    assert look(ledger, issuer="Anna").entries == ()
    put(ledger, AuditEntry(ANNA, "PAUSE", "North", label="Anna - hotfix", task_id="t2"))
    assert ids(look(ledger, issuer="anna")) == [2]


def test_a_name_that_is_somebody_s_id_does_not_bring_in_whoever_took_it(ledger: Ledger) -> None:
    put(
        ledger,
        AuditEntry(ANNA, "PAUSE", "North", label="Anna - x"),
        AuditEntry(BOB, "PAUSE", "North", label="U0ANNA - x"),
    )
    assert ids(look(ledger, issuer="U0ANNA")) == [1]


@pytest.mark.parametrize(
    ("actions", "outcome", "well"),
    [
        (["APPROVAL_REQUESTED"], "waiting for approval", None),
        (["APPROVAL_REQUESTED", "APPROVED"], "approved, not run yet", None),
        (["APPROVAL_REQUESTED", "DENIED"], "denied", False),
        (["APPROVAL_REQUESTED", "EXPIRED"], "expired before it was approved", False),
        (["APPROVAL_REQUESTED", "APPROVED", "STALE"], "not run: the approved change was outdated", False),
        (["REFUSED"], "refused", False),
        (["MUTED"], "done", True),
        (["APPROVED", "PAUSE"], "succeeded", True),
    ],
)
def test_what_came_of_it_is_said_in_words(ledger: Ledger, actions: list[str], outcome: str, well: bool | None) -> None:
    put(ledger, *(AuditEntry(ANNA, action, "North", task_id="t") for action in actions))
    (entry,) = look(ledger).entries
    assert (entry.outcome, entry.well) == (outcome, well)


def test_a_worker_that_is_the_target_and_what_it_means_stands_once(ledger: Ledger) -> None:
    put(ledger, AuditEntry(ANNA, "PAUSE", "North", task_id="t1"), AuditEntry(ANNA, "RESUME", "North", task_id="t2"))
    assert ids(look(ledger, targets=("North", "North"))) == [2, 1]


def test_a_command_is_all_of_its_rows_whatever_became_of_it(ledger: Ledger) -> None:
    """By its name also what was denied, waits or was refused; by an action, that alone."""
    rollback, other = (
        {"command": "rollback", "params": {"commits_back": 3}},
        {"command": "pause", "label": '"command":"rollback"'},
    )
    put(
        ledger,
        AuditEntry(ANNA, "APPROVAL_REQUESTED", "North", task_id="denied", details=rollback),
        AuditEntry(BOB, "DENIED", "North", "failure", task_id="denied", details=rollback),
        AuditEntry(ANNA, "APPROVAL_REQUESTED", "North", task_id="waits", details=rollback),
        AuditEntry(ANNA, "REFUSED", "North", "failure", task_id="refused", details=rollback),
        AuditEntry("schedule:x", "REFUSED", "x", "failure", details={"command": "rollback North 1"}),
        AuditEntry("file:root", "REFUSED", "North", "failure", details={"handler": "rollback_code"}),
        AuditEntry(ANNA, "ROLLBACK_CODE", "North", task_id="done", details=rollback),
        AuditEntry(ANNA, "APPROVAL_REQUESTED", "North", task_id="another", details=other),
        AuditEntry(ANNA, "SCHEDULE_ADDED", "x", details=rollback),
    )
    mine: dict[str, Any] = {"action": "ROLLBACK_CODE", "command": "rollback"}
    found = ledger.read(lambda connection: search(connection, AuditFilter(**mine)))
    assert [row["audit_id"] for row in found] == [7, 6, 5, 4, 3, 2, 1]
    assert all_ids(ledger, 2, **mine) == [7, 6, 5, 4, 3, 2]
    assert [entry.outcome for entry in look(ledger, **mine).entries][-2:] == ["waiting for approval", "denied"]
    assert ids(look(ledger, targets=("North",), issuer=ANNA, **mine)) == [7, 4, 3, 1]
    assert ids(look(ledger, action="ROLLBACK_CODE")) == [7]


def test_what_is_scheduled_is_not_told_as_done(ledger: Ledger) -> None:
    details = {"command": "rollback North 1 weekly", "schedule": "rb", "cron": "0 3 * * 1"}
    put(
        ledger,
        AuditEntry(ANNA, "SCHEDULE_ADDED", "rb", label="Anna", task_id="t1", details=details),
        AuditEntry(ANNA, "SCHEDULE_REMOVED", "rb", label="Anna", task_id="t2", details=details),
    )
    shown = [(each.command, each.about, each.outcome) for each in look(ledger).entries]
    about = "rb (rollback North 1 weekly)"
    assert shown == [("schedule remove", about, "done"), ("schedule add", about, "done")]


def test_details_that_are_no_object_and_a_place_that_is_not_there_hurt_nobody(ledger: Ledger) -> None:
    put(ledger, AuditEntry(ANNA, "PAUSE", "North", details=["odd"]))  # type: ignore[arg-type]
    assert ids(look(ledger)) == [1]
    assert ids(look(ledger, place=RowPosition(HOST, 99))) == [1], "the top is shown"
    assert ids(look(ledger, place=RowPosition("Elsewhere", 1), newer=True)) == [1]


def test_each_part_of_a_question_is_served_by_an_index(tmp_path: Path) -> None:
    """No query reads all rows; with a million of them that would be felt."""
    questions = (
        AuditFilter(),
        AuditFilter(targets=("Worker013",)),
        AuditFilter(issuer="U00007"),
        AuditFilter(issuer=RARE),
        AuditFilter(action="PAUSE"),
        AuditFilter(action="PAUSE", command="pause"),
        AuditFilter(since=NOW),
        AuditFilter(issuer="person7", targets=("Worker013",), action="PAUSE"),
        AuditFilter(targets=("Worker001", "Worker002")),
    )
    plans: list[str] = []

    def explained(connection: Connection, question: AuditFilter) -> None:
        asked: list[tuple[str, Any]] = []

        def note(_connection: object, _cursor: object, statement: str, parameters: Any, *_: object) -> None:
            if "task_id = ?" not in statement:  # the rows of one command are few
                asked.append((statement, parameters))

        event.listen(connection, "before_cursor_execute", note)
        page(connection, question, 10, RowPosition(HOST, 1000))
        event.remove(connection, "before_cursor_execute", note)
        for statement, parameters in asked:
            rows = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)
            plans.extend(row[3] for row in rows)

    with a_long_trail(tmp_path, 2_000) as ledger:
        for question in questions:
            ledger.read(partial(explained, question=question))
    assert [plan for plan in plans if plan.startswith("SCAN audit_log_t") and "INDEX" not in plan] == []
    assert "USE TEMP B-TREE FOR ORDER BY" not in plans


def test_rows_of_several_targets_are_the_newest_also_where_they_are_rare(tmp_path: Path) -> None:
    wanted = AuditFilter(targets=("Worker013", "Worker026", "Worker999"), since=datetime(2025, 2, 1, tzinfo=UTC))
    with a_long_trail(tmp_path, 2000) as ledger:
        every = ledger.read(lambda connection: find_rows(connection, AuditFilter(limit=9999)))
        fitting = [row for row in every if row["target_id"] in wanted.targets and row["created_at"] >= wanted.since]
        for limit in (2, 15, 50):
            asked = replace(wanted, limit=limit)
            found = ledger.read(partial(find_rows, wanted=asked))
            assert found == fitting[:limit]
            place = RowPosition(HOST, found[-1]["audit_id"])
            assert ledger.read(partial(find_rows, wanted=asked, beside=place, newer=True)) == found[-2::-1]


def test_a_command_with_more_rows_than_are_counted_keeps_the_newest(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trail, "MOST_OF_ONE_COMMAND", 20)
    many = [AuditEntry(ANNA, "PAUSE", f"W{number}", task_id="all") for number in range(25)]
    put(ledger, AuditEntry(ANNA, "RESUME", "North", task_id="before"), *many)
    shown = look(ledger, size=1).entries[0]
    assert (shown.command, shown.outcome) == ("pause", "succeeded on all 20")
    assert shown.about.startswith("W5, W6, W7 and")
