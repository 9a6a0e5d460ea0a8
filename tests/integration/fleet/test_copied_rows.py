"""A hub copies a host's rows: all of them, once, in their order, whatever is interrupted, repeated or lost."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from sqlalchemy import select, update

from supervisor_core.alerts.flips import ConditionChange, record_flips
from supervisor_core.commands.command import Outcome
from supervisor_core.fleet import rows
from supervisor_core.fleet.reports import InvalidReport
from supervisor_core.fleet.rows import DivergedLedger, Origin, Position
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState
from supervisor_core.storage import tables
from supervisor_core.storage.audit import chain
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Condition, Target
from tests.support.storage.ledger_rows import a_new_job, do_job, go_on, note_audit, opened

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)


@dataclass
class Pair:
    """A host's ledger, the hub's, and the copying between them."""

    host: Ledger
    hub: Ledger
    origin: Origin

    def report(self) -> dict[str, list[rows.Row]]:
        """All that the host has."""
        return self.host.read(lambda connection: rows.rows_after(connection, "web-1", Position()))

    def take(self, found: Mapping[str, Sequence[rows.Row]], origin: Origin | None = None) -> None:
        """Copy these rows of the host, or of another origin."""
        self.hub.write(lambda connection: rows.take_rows(connection, "hub", origin or self.origin, found, NOW))

    def step(self) -> bool:
        """Copy one batch; False if there was nothing new."""
        have = self.hub.read(lambda connection: rows.position_of(connection, self.origin))
        newest = self.host.read(lambda connection: rows.newest_rows(connection, "web-1"))
        if not have.is_behind(newest):
            return False
        found = self.host.read(lambda connection: rows.rows_after(connection, "web-1", have))
        self.take(found)
        return True

    def copy(self) -> None:
        """Copy all there is."""
        while self.step():
            pass

    def verified(self) -> tuple[int, list[chain.Fault]]:
        """The chains in the hub's ledger, checked."""
        return self.hub.read(chain.verify)[:2]

    def states(self, ledger: Ledger) -> dict[tuple[str, str], str]:
        """The state of each job."""
        query = select(tables.jobs.c.task_id, tables.jobs.c.worker_id, tables.jobs.c.state)
        found = ledger.read(lambda connection: connection.execute(query).all())
        return {(row.task_id, row.worker_id.rpartition("/")[2]): row.state for row in found}


@contextmanager
def a_pair(folder: Path) -> Iterator[Pair]:
    with opened(folder / "host", "web-1") as host, opened(folder / "hub", "hub") as hub:
        origin = host.write(lambda connection: rows.origin_of(connection, "web-1"))
        yield Pair(host, hub, origin)


def file_new(ledger: Ledger, new: jobs.NewJob) -> None:
    ledger.write(lambda connection: jobs.file(connection, ledger.supervisor_id, new, NOW))


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with a_pair(tmp_path) as made:
        yield made


def test_jobs_audit_rows_and_condition_changes_arrive_once(pair: Pair) -> None:
    do_job(pair.host, "task_1")
    note_audit(pair.host, 1)
    change = ConditionChange(Target(WORKER, "OrionMX"), None, Condition.DOWN, "crashed", NOW)
    pair.host.write(lambda connection: record_flips(connection, "web-1", [change], NOW))
    pair.copy()
    assert pair.states(pair.hub) == pair.states(pair.host)
    trail = select(tables.audit_log).where(tables.audit_log.c.supervisor_id == "web-1")
    there = pair.hub.read(lambda connection: connection.execute(trail).mappings().all())
    here = pair.host.read(lambda connection: connection.execute(trail).mappings().all())
    assert there == here
    assert pair.verified() == (len(here), [])
    (flip,) = pair.hub.read(lambda connection: connection.execute(select(tables.flips)).all())
    assert (flip.supervisor_id, flip.target_id, flip.new) == ("web-1", "OrionMX", "down")
    assert not pair.step()


def test_a_replaced_ledger_is_named_and_nothing_of_it_is_copied(pair: Pair, tmp_path: Path) -> None:
    for number in range(3):
        note_audit(pair.host, number)
    pair.copy()
    with opened(tmp_path / "other", "web-1") as other:
        for number in range(5):
            note_audit(other, number + 10)
        origin = other.write(lambda connection: rows.origin_of(connection, "web-1"))
        have = pair.hub.read(lambda connection: rows.position_of(connection, origin))
        found = other.read(lambda connection: rows.rows_after(connection, "web-1", have))
        with pytest.raises(DivergedLedger, match="doesn't continue"):
            pair.take(found, origin)
    assert len(pair.hub.read(lambda connection: connection.execute(select(tables.audit_log)).all())) == 3


def test_a_host_cannot_speak_for_another(pair: Pair) -> None:
    note_audit(pair.host, 1)
    found = pair.report()
    other = Origin("ledger", "web-2")
    with pytest.raises(DivergedLedger):
        pair.take(found, other)
    jobs_only = {**found, "audit_log_t": []}
    do_job(pair.host, "task_1")
    found = pair.report()
    pair.take({**jobs_only, "jobs_t": found["jobs_t"]}, other)
    (job,) = pair.hub.read(lambda connection: jobs.of_task(connection, "task_1"))
    assert job.worker_id == "web-2/OrionMX"


def test_a_refused_command_of_a_host_is_found_by_its_name_and_no_other_host_s_worker_by_it(pair: Pair) -> None:
    refused = AuditEntry("cli:anna", "REFUSED", "w1", "failure", details={"command": "undo", "error": "no right"})
    pair.host.write(lambda connection: chain.append(connection, "web-1", refused, NOW))
    found = pair.report()
    (row,) = found["audit_log_t"]
    pair.take({**found, "audit_log_t": [{**row, "command": "update"}]})  # the hub finds out by itself

    def rows_of(wanted: AuditFilter) -> list[str]:
        return [row["actor"] for row in pair.hub.read(lambda connection: search(connection, wanted))]

    assert rows_of(AuditFilter(action="UNDO_CODE", command="undo")) == ["cli:anna"]
    assert rows_of(AuditFilter(targets=("web-1/w1",), action="UNDO_CODE", command="undo")) == ["cli:anna"]
    assert rows_of(AuditFilter(action="UPDATE_CODE", command="update")) == []
    assert rows_of(AuditFilter(targets=("web-2/w1",))) == []


def test_a_host_cannot_add_to_a_command_of_the_hub(pair: Pair) -> None:
    file_new(pair.hub, a_new_job("task_1", "web-2/OrionMX"))
    door = update(tables.jobs).values(door="slack")
    pair.hub.write(lambda connection: connection.execute(door))
    do_job(pair.host, "task_1")
    pair.copy()
    assert [job.worker_id for job in pair.hub.read(lambda connection: jobs.of_task(connection, "task_1"))] == [
        "web-2/OrionMX"
    ]


def test_the_hub_follows_a_command_that_it_sent_and_its_next_worker_has_its_turn(pair: Pair) -> None:
    for worker in ("web-1/OrionMX", "web-2/OrionMX"):
        file_new(pair.hub, a_new_job("task_1", worker, "restart_watcher"))
    waiting = [job.worker_id for job in pair.hub.read(lambda connection: remote.to_send(connection, 10))]
    assert waiting == ["web-1/OrionMX"]
    pair.host.write(
        lambda connection: jobs.file(connection, "web-1", a_new_job("task_1", handler="restart_watcher"), NOW)
    )
    while go_on(pair.host, "task_1") != "done":
        pair.copy()
    pair.copy()
    first, _ = pair.hub.read(lambda connection: jobs.of_task(connection, "task_1"))
    assert first.outcome is not None
    waiting = [job.worker_id for job in pair.hub.read(lambda connection: remote.to_send(connection, 10))]
    assert waiting == (["web-2/OrionMX"] if first.outcome.success else [])


def test_the_hub_orders_no_result_file_for_a_worker_that_its_command_never_reached(pair: Pair) -> None:
    """Its name would have a slash, and it would hold up those of the hub's own workers."""
    for worker in ("web-1/OrionMX", "web-2/OrionMX", "OrionMX"):
        file_new(pair.hub, a_new_job("task_1", worker, "restart_watcher"))
    first, *_ = pair.hub.read(lambda connection: jobs.of_task(connection, "task_1"))
    pair.hub.write(lambda connection: take(connection, "hub", jobs.refuse(first, Outcome.failed("gone"), NOW), NOW))
    ended = pair.hub.read(lambda connection: jobs.of_task(connection, "task_1"))
    assert [job.state for job in ended] == [JobState.DONE] * 3
    query = select(tables.outbox.c.subject).where(tables.outbox.c.kind == jobs.RESULT_FILE)
    assert pair.hub.read(lambda connection: connection.execute(query).scalars().all()) == ["task_1/OrionMX"]


def test_every_outcome_of_a_host_is_taken_also_of_a_skipped_worker_and_of_a_plug_in(pair: Pair) -> None:
    for worker in ("North", "South"):
        file_new(pair.host, a_new_job("task_1", worker, "restart_watcher"))
    first, _ = pair.host.read(lambda connection: jobs.of_task(connection, "task_1"))
    interrupted = {"before": "abc1", "after": "abc2", "checkout": {"folder": "/srv/app", "clean": True, "changes": []}}
    step = jobs.refuse(first, Outcome.failed("gone", **interrupted), NOW)
    pair.host.write(lambda connection: take(connection, "web-1", step, NOW))
    do_job(pair.host, "task_2")
    plug_in = {"details_json": '{"files":3,"message":"sent","of":{"x":1}}'}
    of_plug_in = tables.jobs.c.task_id == "task_2"
    pair.host.write(lambda connection: connection.execute(update(tables.jobs).where(of_plug_in).values(plug_in)))
    pair.copy()
    north, south = pair.hub.read(lambda connection: jobs.of_task(connection, "task_1"))
    (sent,) = pair.hub.read(lambda connection: jobs.of_task(connection, "task_2"))
    assert north.outcome is not None
    assert (north.outcome.details["after"], north.outcome.details["checkout"]["clean"]) == ("abc2", True)
    assert south.outcome is not None
    assert "Skipped" in str(south.outcome.error)
    assert sent.outcome is not None
    assert dict(sent.outcome.details) == {"message": "sent", "of": {"x": 1}}, "a field that the hub reads as a list"


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_in_whatever_order_both_have_the_same_in_the_end(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with a_pair(tmp_path) as pair:
        filed = 0
        for _ in range(60):
            match chance.randrange(5):
                case 0:
                    filed += 1
                    file_new(pair.host, a_new_job(f"task_{filed}", chance.choice(["North", "South"])))
                case 1 | 2 if filed:
                    number = chance.randrange(filed) + 1
                    (job,) = pair.host.read(partial(jobs.of_task, task_id=f"task_{number}"))
                    go_on(pair.host, job.task_id, job.worker_id, NOW + timedelta(seconds=chance.random()))
                case 3:
                    note_audit(pair.host, chance.randrange(1000))
                case _:
                    pair.step()
        pair.copy()
        assert pair.states(pair.hub) == pair.states(pair.host)
        assert pair.verified() == (pair.host.read(chain.verify).rows, [])


def test_what_a_host_says_has_addresses_where_the_hub_needs_them(pair: Pair) -> None:
    do_job(pair.host, "task_1")
    query = select(tables.jobs.c.details_json, tables.jobs.c.error, tables.jobs.c.progress_json)
    pair.host.write(
        lambda connection: connection.execute(
            update(tables.jobs).values(
                error="OrionMX is down. To start it: resume OrionMX.",
                details_json='{"message":"OrionMX is running","workers":{"OrionMX":{"new_pid":1}}}',
                progress_json='[{"at":"2026-11-19T12:00:00Z","words":"stopping OrionMX"}]',
            )
        )
    )
    pair.copy()
    copied = pair.hub.read(lambda connection: connection.execute(query).one())
    assert copied.error == "OrionMX is down. To start it: resume web-1/OrionMX."
    assert copied.details_json == '{"message":"OrionMX is running","workers":{"web-1/OrionMX":{"new_pid":1}}}'
    assert copied.progress_json == '[{"at":"2026-11-19T12:00:00Z","words":"stopping OrionMX"}]'


def test_rows_of_a_worker_whose_address_is_too_long_stay_at_its_host_and_keep_no_others_back(pair: Pair) -> None:
    longest = "w" * (64 - len("web-1/"))
    for number, worker in enumerate((longest, f"{longest}w")):
        file_new(pair.host, a_new_job(f"task_{number}", worker))
    note_audit(pair.host, 1)
    pair.copy()
    assert list(pair.states(pair.hub)) == [("task_0", longest)]
    assert pair.verified() == (1, [])


def test_a_row_with_a_value_that_no_column_holds_is_refused_before_a_driver_sees_it(pair: Pair) -> None:
    note_audit(pair.host, 1)
    found = pair.report()
    odd = {**found, "audit_log_t": [{**found["audit_log_t"][0], "label": ["a", "b"]}]}
    with pytest.raises(InvalidReport, match="label"):
        pair.take(odd)
