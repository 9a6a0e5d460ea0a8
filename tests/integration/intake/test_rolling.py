"""A rolling change in the ledger: which jobs may start, one decision after the other, and what people decide."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.intake.rolling.rules import RollingMove
from supervisor_core.intake.rolling.service import MoveRefused, RollingChanges, RollingChore
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, JobState, RollingState, not_begun
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.tables import conditions
from tests.support.intake.command_queue import NOW, Host
from tests.support.storage.ledger_rows import opened

WORKERS = tuple(f"w{number}" for number in range(1, 8))
ELSEWHERE = tuple(f"web-{number}/fetcher" for number in range(1, 6))
ANNA, BOB = Issuer("slack:T1/U1", "anna"), Issuer("slack:T1/U2", "bob")
MINUTE = timedelta(minutes=1)


class Rolling(Host):
    """A host whose workers are healthy."""

    def start(self, workers: tuple[str, ...] = WORKERS, name: str = "restart", **params: Any) -> str:
        self.ledger.write(lambda connection: connection.execute(insert(conditions), [self.healthy(w) for w in workers]))
        return self.submit(name, workers, **params)

    def healthy(self, worker_id: str) -> dict[str, Any]:
        about = {"condition": "well", "reason": "", "since": NOW, "flip_id": 1}
        return {"supervisor_id": self.ledger.supervisor_id, "target_type": "worker", "target_id": worker_id, **about}

    def fall_silent(self, name: str) -> None:
        """Another host is unresponsive."""
        words = {"condition": "supervisor_silent", "reason": "no sign"}
        silent = {**self.healthy(name), "target_type": "supervisor", **words}
        self.ledger.write(lambda connection: connection.execute(insert(conditions), [silent]))

    def free(self) -> set[str]:
        return self.ledger.read(jobs.workers_with_work)

    def decide(self, now: datetime) -> RollingState:
        RollingChore(self.ledger).work(now)
        return self.state()

    def state(self) -> RollingState:
        return self.changes.status("t1").change.state

    @property
    def changes(self) -> RollingChanges:
        return RollingChanges(self.ledger)

    @property
    def end_of_all(self) -> datetime:
        return max(job.finished_at for job in self.all() if job.finished_at)

    def run_batch(self, *failing: str) -> None:
        while workers := self.free():
            for worker in sorted(workers):
                self.run(worker, well=worker not in failing)

    def actions(self) -> list[tuple[str, str]]:
        rows = self.ledger.read(lambda connection: search(connection, AuditFilter(limit=1000)))
        return [(row["action"], row["actor"]) for row in reversed(rows) if row["action"].startswith("ROLLING")]

    def check(self) -> None:
        """The rules of other commands don't hold for batches."""


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Rolling]:
    with opened(tmp_path / "var") as ledger:
        yield Rolling(ledger)


def test_each_batch_waits_until_the_one_before_is_healthy(host: Rolling) -> None:
    host.start(batch="3", healthy=60)
    assert host.free() == {"w1"}
    host.run("w1")
    assert host.decide(host.end_of_all + MINUTE / 2) is RollingState.RUNNING
    assert host.free() == set()
    host.decide(host.end_of_all + MINUTE)
    assert host.free() == {"w2"}, "one after the other on one host"
    host.run_batch()
    assert [job.state for job in host.of("t1")] == [JobState.DONE] * 4 + [JobState.QUEUED] * 3
    host.decide(host.end_of_all + MINUTE)
    host.run_batch()
    assert host.decide(host.end_of_all + MINUTE) is RollingState.DONE
    assert host.actions() == [
        ("ROLLING_STARTED", "cli:anna"),
        ("ROLLING_BATCH", "supervisor"),
        ("ROLLING_BATCH", "supervisor"),
        ("ROLLING_DONE", "supervisor"),
    ]


def test_workers_of_other_hosts_are_at_work_at_once_within_their_batch(host: Rolling) -> None:
    host.start(ELSEWHERE, batch="3", healthy=0)

    def to_send() -> list[str]:
        return [job.worker_id for job in host.ledger.read(lambda connection: remote.to_send(connection, 10))]

    assert to_send() == ["web-1/fetcher"]
    host.run("web-1/fetcher")
    host.decide(host.end_of_all)
    assert to_send() == list(ELSEWHERE[1:4])


def test_a_batch_is_decided_once_by_several_at_once(host: Rolling) -> None:
    host.start(batch="2", healthy=0)
    host.run("w1")
    chores = [RollingChore(host.ledger) for _ in range(3)]
    assert [chore.work(host.end_of_all) for chore in chores] == [True, False, False]
    assert host.changes.status("t1").change.released == 2


def test_failures_beyond_the_limit_halt_it_and_pass_nobody_over(host: Rolling) -> None:
    host.start(batch="3", healthy=0, max_failures=1)
    host.run("w1", well=False)
    assert host.decide(host.end_of_all) is RollingState.RUNNING
    host.run("w2", well=False)
    assert host.decide(host.end_of_all) is RollingState.HALTED
    assert host.free() == set(), "the rest of the batch doesn't start either"
    assert not any(not_begun(job) for job in host.of("t1"))
    assert host.changes.status("t1").change.reason == "w1: It did not work; w2: It did not work"
    host.changes.move("t1", RollingMove.CONTINUE, ANNA, "slack", NOW)
    assert host.decide(host.end_of_all) is RollingState.RUNNING
    assert host.free() == {"w3"}
    host.run_batch("w4")
    assert host.decide(host.end_of_all) is RollingState.RUNNING, "one more is allowed since"


def test_a_worker_that_is_not_healthy_halts_it_after_a_while(host: Rolling) -> None:
    host.start(batch="3", healthy=60)
    down = conditions.update().where(conditions.c.target_id == "w1").values(condition="down", reason="exited")
    host.ledger.write(lambda connection: connection.execute(down))
    host.run("w1")
    chore = RollingChore(host.ledger)
    assert not chore.work(host.end_of_all + MINUTE)
    assert chore.due_at() == host.end_of_all + 2 * MINUTE
    assert host.decide(host.end_of_all + 2 * MINUTE) is RollingState.HALTED
    assert host.changes.status("t1").change.reason == "w1: not healthy after 2 min: down (exited)"


def test_a_silent_host_is_not_healthy(host: Rolling) -> None:
    host.start(ELSEWHERE, batch="1", healthy=0)
    host.run("web-1/fetcher")
    host.fall_silent("web-1")
    assert host.decide(host.end_of_all) is RollingState.RUNNING
    assert host.free() == set()


def test_paused_it_starts_nobody_and_continued_it_goes_on(host: Rolling) -> None:
    host.start(batch="3", healthy=0)
    host.changes.move("t1", RollingMove.PAUSE, ANNA, "slack", NOW + MINUTE)
    assert host.free() == set()
    host.changes.move("t1", RollingMove.PAUSE, ANNA, "slack", NOW + MINUTE)
    host.changes.move("t1", RollingMove.CONTINUE, ANNA, "slack", NOW + 2 * MINUTE)
    assert host.free() == {"w1"}
    assert host.actions()[1:] == [("ROLLING_PAUSED", ANNA.id), ("ROLLING_CONTINUED", ANNA.id)], "each once"


def test_aborted_it_tells_each_of_the_rest_that_it_was_not_started(host: Rolling) -> None:
    host.start(batch="3", healthy=0)
    host.run("w1")
    host.changes.move("t1", RollingMove.ABORT, ANNA, "slack", NOW)
    left = [job for job in host.of("t1") if not_begun(job)]
    assert [job.worker_id for job in left] == list(WORKERS[1:])
    outcome = left[0].outcome
    assert outcome is not None
    assert outcome.error == "Not started: anna aborted the rolling change. Nothing was done."
    with pytest.raises(MoveRefused, match="already aborted"):
        host.changes.move("t1", RollingMove.CONTINUE, ANNA, "slack", NOW)


def test_undone_are_the_workers_that_were_changed_and_only_those(host: Rolling) -> None:
    host.start(name="update", batch="3", healthy=0)
    _changed(host, "w1")
    host.decide(host.end_of_all)
    _changed(host, "w2")
    with pytest.raises(MoveRefused, match="still running"):
        host.changes.undo_command("t1")
    host.run("w3", well=False)
    assert host.decide(host.end_of_all) is RollingState.HALTED
    command = host.changes.undo_command("t1")
    assert (command.name, command.workers, command.params["task_id"]) == ("undo", ("w1", "w2"), "t1")


def _changed(host: Rolling, worker_id: str) -> None:
    job = host.take(worker_id)
    assert isinstance(job, Job)
    host.begin(worker_id)
    outcome = Outcome.done(before="a" * 40, after="b" * 40)
    assert host.ledger.step(jobs.finish(host.hand.pop(worker_id), outcome, NOW, 0.1))


def test_nobody_continues_a_halt_that_they_have_not_seen(host: Rolling) -> None:
    host.start(batch="1", healthy=0)
    host.run("w1", well=False)
    assert host.decide(host.end_of_all) is RollingState.HALTED
    shown = host.changes.status("t1").change.mark
    host.changes.move("t1", RollingMove.CONTINUE, ANNA, "slack", NOW + MINUTE, shown=shown)
    host.changes.move("t1", RollingMove.CONTINUE, BOB, "slack", NOW + MINUTE, shown=shown)  # the same press, by another
    assert host.decide(NOW + MINUTE) is RollingState.RUNNING
    host.run("w2", well=False)
    assert host.decide(host.end_of_all + 2 * MINUTE) is RollingState.HALTED
    with pytest.raises(MoveRefused, match="stopped again since"):
        host.changes.move("t1", RollingMove.CONTINUE, BOB, "slack", NOW + 3 * MINUTE, shown=shown)
    assert [actor for action, actor in host.actions() if action == "ROLLING_CONTINUED"] == [ANNA.id]


def test_a_host_that_never_returns_does_not_keep_the_others_from_being_rolled_back(host: Rolling) -> None:
    host.start(ELSEWHERE, name="update", batch="1", healthy=0)
    _changed(host, "web-1/fetcher")
    host.decide(host.end_of_all)
    host.take("web-2/fetcher")
    host.changes.move("t1", RollingMove.ABORT, ANNA, "slack", NOW)
    with pytest.raises(MoveRefused, match="still at work"):
        host.changes.undo_command("t1")
    host.fall_silent("web-2")
    assert host.changes.undo_command("t1").workers == ("web-1/fetcher",)
