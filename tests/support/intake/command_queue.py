"""Commands for several workers in a real ledger, and whoever carries them out: a step at a time, as the test says."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.intake.filing import enqueue
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, Job, JobState
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.store import Ledger

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
ANNA = Issuer("cli:anna", "anna")


class Host:
    """One host: its ledger, and for each worker at most one job in hand. After each move all rules are checked."""

    def __init__(self, ledger: Ledger, parallel: int = 1) -> None:
        self.ledger = ledger
        self.parallel = parallel
        self.hand: dict[str, Job] = {}
        self.begun: list[str] = []
        """`t1/North`, in the order in which they were begun."""
        self._now = NOW
        self._tasks = 0

    def submit(self, name: str, workers: Sequence[str], door: str = "cli", **params: Any) -> str:
        """Somebody asks for it; its task id."""
        self._tasks += 1
        task_id = f"t{self._tasks}"
        checked = check_params(CATALOG[name], params)
        command = Command(name, ",".join(workers), tuple(workers), checked, "hotfix", ANNA, task_id)
        enqueue(self.ledger, command, door, self._tick())
        return task_id

    def take(self, worker_id: str) -> Job | None:
        """The worker's executor claims what is next, if it is free; what it has in hand then."""
        if worker_id not in self.hand:
            job = self.ledger.read(partial(jobs.next_to_run, worker_id=worker_id, parallel=self.parallel))
            if job is None:
                return None
            if job.state is JobState.QUEUED:
                assert self.ledger.step(jobs.claim(job, self._tick()))
            self.hand[worker_id] = self.job(job.task_id, worker_id)
        self.check()
        return self.hand[worker_id]

    def begin(self, worker_id: str) -> None:
        """It begins what it has claimed."""
        job = self.hand[worker_id]
        if job.state is JobState.CLAIMED:
            assert self.ledger.step(jobs.begin(job, self._tick()))
            self.begun.append(f"{job.task_id}/{worker_id}")
            self.hand[worker_id] = self.job(job.task_id, worker_id)
        self.check()

    def end(self, worker_id: str, *, well: bool = True) -> None:
        """It comes to an end with what it has in hand."""
        self.begin(worker_id)
        job, outcome = self.hand.pop(worker_id), Outcome.done() if well else Outcome.failed("It did not work.")
        assert self.ledger.step(jobs.finish(job, outcome, self._tick(), 0.1))
        self.check()

    def run(self, worker_id: str, *, well: bool = True) -> bool:
        """All of it for the next job of this worker; False where there is none."""
        if self.take(worker_id) is None:
            return False
        self.end(worker_id, well=well)
        return True

    def crash(self) -> None:
        """All executors die; those who follow report what was under way."""
        self.hand.clear()
        workers = [job.worker_id for job in self.all()]
        for job in self.ledger.read(lambda connection: jobs.waiting(connection, set(workers), (JobState.STARTED,))):
            assert self.ledger.step(jobs.interrupt(job, Outcome.failed("The supervisor ended."), self._tick()))
        self.check()

    def drain(self) -> None:
        """Everything that can be done is done: then nothing is left."""
        for worker_id in list(self.hand):
            self.end(worker_id)
        while waiting := self.ledger.read(jobs.workers_with_work):
            for worker_id in sorted(waiting):
                assert self.run(worker_id) or worker_id not in self.ledger.read(jobs.workers_with_work)
        assert all(job.state in FINAL for job in self.all()), [job for job in self.all() if job.state not in FINAL]

    def job(self, task_id: str, worker_id: str) -> Job:
        found = self.ledger.read(lambda connection: jobs.find(connection, task_id, worker_id))
        assert found is not None
        return found

    def of(self, task_id: str) -> list[Job]:
        return self.ledger.read(lambda connection: jobs.of_task(connection, task_id))

    def all(self) -> list[Job]:
        return [job for number in range(1, self._tasks + 1) for job in self.of(f"t{number}")]

    def told(self, task_id: str) -> list[tuple[str, str]]:
        """The trail of a command: worker and outcome, in its order."""
        rows = self.ledger.read(lambda connection: search(connection, AuditFilter(limit=10**6)))
        return [(row["target_id"], row["outcome"]) for row in reversed(rows) if row["task_id"] == task_id]

    def check(self) -> None:
        """In turn means: in order, one at a time, and up to the first failure."""
        if self.parallel > 1:
            return
        for number in range(1, self._tasks + 1):
            siblings = self.of(f"t{number}")
            if not jobs.is_sequential(siblings[0]):
                continue
            at_work = [job for job in siblings if job.state in (JobState.CLAIMED, JobState.STARTED)]
            assert len(at_work) <= 1
            begun = [job.state is not JobState.QUEUED for job in siblings]
            assert begun == sorted(begun, reverse=True), "nobody begins before those in front of it"
            for job in at_work:
                assert all(each.state in FINAL for each in siblings[: siblings.index(job)])

    def _tick(self) -> datetime:
        self._now += timedelta(seconds=1)
        return self._now
