"""A command for several workers in the queue: at once, or in turn up to the first failure; and all come to an end."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import Spread
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import JobState, not_begun
from supervisor_core.jobs.rows import ORDERED
from tests.support.intake.command_queue import Host
from tests.support.sampling import examples
from tests.support.storage.ledger_rows import count_pending, opened

WORKERS = ("West", "North", "South")
"""In no order of the alphabet: that of the command counts."""

CHANGES = [each.name for each in CATALOG.values() if each.handler and each.spread is not Spread.AT_ONCE]
AT_ONCE = [each.name for each in CATALOG.values() if each.handler and each.spread is Spread.AT_ONCE]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    with opened(tmp_path / "var") as ledger:
        yield Host(ledger)


def free(host: Host, task_id: str | None = None) -> set[str]:
    return host.ledger.read(lambda connection: jobs.workers_with_work(connection, task_id))


def test_a_restart_runs_on_a_few_workers_at_once_and_after_a_failure_no_new_ones_begin(tmp_path: Path) -> None:
    with opened(tmp_path / "var") as ledger:
        host = Host(ledger, parallel=2)
        task = host.submit("restart", (*WORKERS, "East", "Far"))
        assert free(host) == {"West"}, "one at a time unless more are allowed"
        assert [host.take(each) is not None for each in (*WORKERS, "East")] == [True, True, False, False]
        host.begin("North")
        host.end("North")
        assert [host.take(each) is not None for each in ("South", "East")] == [True, False]
        host.begin("West")
        host.end("West", well=False)
        assert host.job(task, "South").state is JobState.DONE, "it was claimed, and hadn't begun"
        assert free(host) == set()
        assert host.told(task)[:2] == [("North", "success"), ("West", "failure")]
        assert [each.worker_id for each in host.of(task) if not_begun(each)] == ["South", "East", "Far"]


def test_after_the_first_failure_nobody_else_begins_and_each_of_them_is_told(host: Host) -> None:
    task = host.submit("rollback", WORKERS)
    host.run("West")
    host.run("North", well=False)
    assert free(host) == set()
    left = host.job(task, "South")
    assert (left.state, not_begun(left), left.outcome and left.outcome.success) == (JobState.DONE, True, False)
    assert left.outcome is not None
    assert dict(left.outcome.details) == {"not_begun": True, "after": "North"}
    assert str(left.outcome.error).startswith(
        "Skipped: rollback failed on North. Fix North, then send the command again "
    )
    assert host.told(task) == [("West", "success"), ("North", "failure"), ("South", "failure")]
    assert not not_begun(host.job(task, "North"))
    results = host.ledger.read(lambda connection: count_pending(connection, jobs.RESULT_FILE))
    assert results == len(WORKERS), "each has its result file"


def test_an_interruption_is_no_success_and_stops_the_others_as_well(host: Host) -> None:
    task = host.submit("update", WORKERS)
    host.take("West")
    host.begin("West")
    host.crash()
    assert host.told(task) == [("West", "interrupted"), ("North", "failure"), ("South", "failure")]
    error = host.job(task, "North").outcome
    assert error is not None
    assert "update was interrupted on West" in str(error.error)


def test_who_is_waited_for_is_told(host: Host) -> None:
    host.submit("restart", WORKERS)
    host.run("West")

    def waited_for(worker: str) -> list[tuple[str, str]]:
        found = host.ledger.read(lambda connection: jobs.blocked_jobs(connection, worker))
        return [(job.worker_id, first.worker_id) for job, first in found]

    assert waited_for("South") == [("South", "North")]
    assert waited_for("North") == []


def test_a_step_that_others_follow_is_taken_with_them_or_not_at_all(host: Host) -> None:
    task = host.submit("restart", WORKERS)
    host.take("West")
    host.begin("West")
    with host.ledger._engine.begin() as connection:  # noqa: SLF001 (a ledger that does not take the last of it)
        what = "WHEN NEW.worker_id = 'South' AND NEW.state = 'done' BEGIN SELECT RAISE(ABORT, 'not here'); END"
        connection.exec_driver_sql(f"CREATE TRIGGER refusing BEFORE UPDATE ON jobs_t {what}")
    with pytest.raises(Exception, match="not here"):
        host.end("West", well=False)
    assert [job.state for job in host.of(task)] == [JobState.STARTED, JobState.QUEUED, JobState.QUEUED]
    assert host.told(task) == []


class AnyCommands(RuleBasedStateMachine):
    """Whatever is asked for, in whatever order its parts are done, fail and are cut off."""

    @initialize()
    def begin(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._ledger = opened(Path(self._folder.name))
        self.host = Host(self._ledger)

    @rule(
        name=st.sampled_from([*CHANGES, *AT_ONCE]),
        workers=st.permutations(WORKERS).flatmap(lambda order: st.integers(1, 3).map(lambda many: order[:many])),
        door=st.sampled_from(["cli", "slack", "flag"]),
        keep_going=st.booleans(),
    )
    def ask(self, name: str, workers: list[str], door: str, keep_going: bool) -> None:
        self.host.submit(name, workers, door, **({"keep_going": keep_going} if name in CHANGES else {}))

    @rule(worker=st.sampled_from(WORKERS))
    def take(self, worker: str) -> None:
        self.host.take(worker)

    @rule(worker=st.sampled_from(WORKERS))
    def start(self, worker: str) -> None:
        if worker in self.host.hand:
            self.host.begin(worker)

    @rule(worker=st.sampled_from(WORKERS), well=st.booleans())
    def end(self, worker: str, well: bool) -> None:
        if worker in self.host.hand:
            self.host.end(worker, well=well)

    @rule()
    def crash(self) -> None:
        self.host.crash()

    def teardown(self) -> None:
        try:
            self.host.drain()
            self._judge()
        finally:
            self._ledger.close()
            self._folder.cleanup()

    def _judge(self) -> None:
        host = self.host
        for task in {job.task_id for job in host.all()}:
            siblings = host.of(task)
            told = host.told(task)
            assert sorted(who for who, _ in told) == sorted(job.worker_id for job in siblings), "one row for each"
            in_turn = siblings[0].door != "flag" and siblings[0].handler in ORDERED
            if in_turn:
                assert [who for who, _ in told] == [job.worker_id for job in siblings], "in the order of the command"
            ended_well = [word == "success" for _, word in told]
            left = [job for job in siblings if not_begun(job)]
            if in_turn and not siblings[0].params.get("keep_going") and False in ended_well:
                assert left == siblings[ended_well.index(False) + 1 :]
            else:
                assert left == []
            assert not {f"{task}/{job.worker_id}" for job in left} & set(host.begun)
        assert len(host.begun) == len(set(host.begun)), "nothing is begun twice"


TestAnyCommands = AnyCommands.TestCase
TestAnyCommands.settings = settings(max_examples=examples(30), stateful_step_count=30)
