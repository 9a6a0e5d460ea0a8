"""The scheduler: what is due is dealt with when it is due, whoever wrote it, and across restarts."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event
from typing import TypeVar

import pytest
from apscheduler.job import Job

from supervisor_core.alerts import rows as alerts
from supervisor_core.alerts.monitor import AlertMonitor
from supervisor_core.alerts.rules import Alert
from supervisor_core.common import service as services
from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.service import Blocking, ServiceRegistry, ServiceReport, ServiceState
from supervisor_core.daemon.wiring import build_approvals, build_scheduler
from supervisor_core.intake import scheduler as module
from supervisor_core.intake import ticker as ticking
from supervisor_core.intake.approvals.rules import ApprovalState, Choice
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.scheduler import ApprovalsChore, Chore, Scheduler, SchedulerDoors
from supervisor_core.intake.ticker import CHECK, Ticker
from supervisor_core.storage.audit.chain import HeadFile
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import WORKER, Target
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import Heartbeat
from supervisor_core.workers.status import WorkerStatus
from tests.support.daemon.worker_statuses import worker_status
from tests.support.intake.approvals import ANNA, BOB, Desk, a_desk
from tests.support.waiting import wait_until

T = TypeVar("T")
S = ApprovalState
SOON_MINUTES = 0.01
FAR_SECONDS = 3600.0
QUICK_SECONDS = 0.1


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path) as made:
        yield made


@pytest.fixture
def no_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job comes long after the test."""
    monkeypatch.setattr(ticking, "Ticker", lambda _: Ticker(FAR_SECONDS))


@pytest.fixture
def quick_tick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job comes soon."""
    monkeypatch.setattr(ticking, "Ticker", lambda _: Ticker(QUICK_SECONDS))


class Running:
    """A scheduler that runs, and how often it said that something was filed."""

    def __init__(self, desk: Desk, *chores: Chore, statuses: Callable[[], list[WorkerStatus]] = list) -> None:
        self.desk = desk
        self.statuses = statuses
        self.filed = 0
        self.looked_again = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        if chores:
            seeing = next((chore.see for chore in chores if isinstance(chore, AlertMonitor)), lambda _: None)
            self.service = Scheduler(
                desk.ledger,
                Blocking(),
                chores,
                Ticker(QUICK_SECONDS),
                self._count,
                look_again=self._look_again,
                seeing=seeing,
            )
        else:
            doors = SchedulerDoors(Blocking(), self._count, lambda _: {}, look_again=self._look_again)
            self.service = build_scheduler(desk.parts, desk.approvals, doors)

    def _count(self) -> None:
        self.filed += 1

    def _look_again(self) -> None:
        self.looked_again += 1
        if statuses := self.statuses():
            self.service.see(statuses)

    def until(self, state: ApprovalState, task_id: str = "task_1") -> None:
        """Wait until the approval stands so."""

        def stands() -> bool:
            found = self.desk.approvals.of_task(task_id)
            return found is not None and found.state is state

        wait_until(stands, 10, f"the approval is {state}")

    def wake(self) -> None:
        """As somebody on its event loop does."""
        assert self.loop is not None
        self.loop.call_soon_threadsafe(self.service.wake)

    def on_loop(self, call: Callable[[], T]) -> T:
        """What this returns on its event loop."""

        async def called() -> T:
            return call()

        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(called(), self.loop).result(10)

    def without_job(self) -> Job:
        """Pause the job, and wait until nothing that it started is under way."""
        assert self.loop is not None
        jobs = self.service.ticker.jobs
        assert jobs is not None
        job = self.on_loop(partial(jobs.get_job, CHECK))
        self.on_loop(job.pause)
        asyncio.run_coroutine_threadsafe(self.service.check(), self.loop).result(10)
        return job

    async def live(self, loops: Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]]) -> list[ServiceReport]:
        """Run as in a daemon until told to stop; how it was then."""
        stopping, told = asyncio.Event(), asyncio.Event()
        registry = ServiceRegistry([self.service])
        await registry.start(stopping)
        loops.put((asyncio.get_running_loop(), told))
        await told.wait()
        reports = registry.reports()
        stopping.set()
        assert await registry.stop(5) == []
        return reports


@contextmanager
def running(desk: Desk, *chores: Chore, statuses: Callable[[], list[WorkerStatus]] = list) -> Iterator[Running]:
    made, loops = Running(desk, *chores, statuses=statuses), Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()
    with ThreadPoolExecutor(1) as pool:
        life = pool.submit(lambda: asyncio.run(made.live(loops)))
        loop, told = loops.get(timeout=10)
        made.loop = loop
        try:
            yield made
        finally:
            loop.call_soon_threadsafe(told.set)
        (report,) = life.result(10)
        assert report.state is ServiceState.RUNNING


def ask(desk: Desk, task_id: str = "task_1") -> str:
    command = desk.gateway.parse("restart North hotfix").issued(ANNA, task_id)
    return desk.approvals.request(command, "slack").approval_id


def approve(approvals: Approvals, approval_id: str) -> None:
    approvals.vote(approval_id, BOB, Choice.APPROVE)


@pytest.mark.usefixtures("no_tick")
def test_an_approval_expires_when_its_time_is_over_and_no_tick_comes(tmp_path: Path) -> None:
    with a_desk(tmp_path, expires_minutes=SOON_MINUTES) as desk:
        with running(desk) as scheduler:
            ask(desk)
            scheduler.until(S.EXPIRED)
        found = desk.approvals.of_task("task_1")
        assert found is not None
        assert found.finished_at is not None
        assert found.finished_at >= found.expires_at


@pytest.mark.usefixtures("no_tick")
def test_what_is_approved_in_this_program_is_carried_out_at_once_and_ends_with_its_jobs(desk: Desk) -> None:
    with running(desk) as scheduler:
        approve(desk.approvals, ask(desk))
        scheduler.until(S.EXECUTING)
        wait_until(lambda: scheduler.filed, 10, "whoever carries out was told")
        desk.end_jobs()
        scheduler.until(S.DONE)


@pytest.mark.usefixtures("quick_tick")
def test_what_another_program_approved_is_found_with_the_tick(desk: Desk, tmp_path: Path) -> None:
    with running(desk) as scheduler:
        approval_id = ask(desk)
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost", HeadFile(tmp_path / "var")) as other:
            approve(build_approvals(DaemonContext(desk.parts.host, other), desk.rights), approval_id)
        scheduler.until(S.EXECUTING)


@pytest.mark.usefixtures("quick_tick")
def test_without_the_job_no_condition_and_no_row_of_another_program_is_checked(desk: Desk, tmp_path: Path) -> None:
    approval_id = ask(desk)
    with running(desk) as scheduler:
        job = scheduler.without_job()
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost", HeadFile(tmp_path / "var")) as other:
            approve(build_approvals(DaemonContext(desk.parts.host, other), desk.rights), approval_id)
        looked_again = scheduler.looked_again
        time.sleep(8 * QUICK_SECONDS)
        assert (desk.approvals.find("task_1")[0].state, scheduler.looked_again) == (S.APPROVED, looked_again)
        scheduler.on_loop(job.resume)
        scheduler.until(S.EXECUTING)
        wait_until(lambda: scheduler.looked_again > looked_again, 10, "conditions are checked")


class CountingChore:
    """A chore with no due row."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.rounds = 0

    def due_at(self) -> datetime | None:
        return None

    def work(self, now: datetime) -> bool:
        self.rounds += 1
        return False


def test_a_check_runs_only_the_chores_that_may_have_something_to_do(desk: Desk, tmp_path: Path) -> None:
    always, seldom = CountingChore("always"), CountingChore("seldom")

    async def story() -> list[int]:
        service = Scheduler(
            desk.ledger, Blocking(), (always, seldom), Ticker(FAR_SECONDS), restless={always: lambda: True}
        )
        stopping = asyncio.Event()
        running = asyncio.create_task(service.run(stopping))
        await asyncio.to_thread(wait_until, lambda: seldom.rounds, 10, "all run once at the start")
        rounds = []
        for _ in range(3):
            await service.check()
            rounds.append(seldom.rounds)
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost", HeadFile(tmp_path / "var")) as other:
            approve(build_approvals(DaemonContext(desk.parts.host, other), desk.rights), ask(desk))
        for _ in range(2):
            await service.check()
            rounds.append(seldom.rounds)
        stopping.set()
        await running
        return rounds

    rounds = asyncio.run(story())
    before, after = rounds[2], rounds[4]
    assert rounds == [before, before, before, after, after], "only a change of the ledger's files counts"
    assert after > before
    assert always.rounds >= after + 3


def unwell(desk: Desk) -> Alert | None:
    """The alert of the worker that is unwell."""
    return desk.ledger.read(lambda connection: alerts.live_of(connection, "TestHost", Target(WORKER, "North")))


def status(error: str) -> WorkerStatus:
    """A look at a worker that runs, and says that this is wrong."""
    now = datetime.now(UTC)
    beat = Heartbeat("running", now, error=error)
    return worker_status("North", now, heartbeat=beat, started_at=now - timedelta(days=1))


def test_a_condition_is_checked_by_the_job_alone(desk: Desk) -> None:
    """Nothing else tells of this one."""
    error = ""
    with running(desk, AlertMonitor(desk.ledger, lambda: desk.config), statuses=lambda: [status(error)]) as scheduler:
        job = scheduler.without_job()
        error = "no space left"
        time.sleep(8 * QUICK_SECONDS)
        assert unwell(desk) is None
        scheduler.on_loop(job.resume)
        wait_until(lambda: unwell(desk), 10, "an alert is open")


@pytest.mark.usefixtures("no_tick")
def test_without_apscheduler_nothing_happens_when_a_row_is_due(tmp_path: Path) -> None:
    with a_desk(tmp_path, expires_minutes=SOON_MINUTES) as desk, running(desk) as scheduler:
        jobs = scheduler.service.ticker.jobs
        assert jobs is not None
        scheduler.on_loop(jobs.pause)
        ask(desk)
        time.sleep(60 * SOON_MINUTES + 0.5)
        assert desk.approvals.find("task_1")[0].state is S.PENDING
        scheduler.on_loop(jobs.resume)
        scheduler.until(S.EXPIRED)


@pytest.mark.usefixtures("no_tick")
def test_what_was_due_while_nobody_was_there_is_dealt_with_at_the_start(tmp_path: Path) -> None:
    with a_desk(tmp_path, expires_minutes=SOON_MINUTES) as desk:
        approve(desk.approvals, ask(desk))
        ask(desk, "task_2")
        wait_until(lambda: desk.approvals.find("task_2")[0].expires_at < datetime.now(UTC), 10, "its time is over")
        with running(desk) as scheduler:
            scheduler.until(S.EXECUTING)
            scheduler.until(S.EXPIRED, "task_2")


class Broken:
    """A chore that fails until it is repaired."""

    name = "broken"

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    def due_at(self) -> datetime | None:
        return None

    def work(self, now: datetime) -> bool:
        if self.error is not None:
            raise self.error
        return False


@pytest.mark.parametrize(
    ("error", "says"),
    [(RuntimeError("a mistake"), "broken: RuntimeError: a mistake"), (TemporaryError("The disk is full."), "full")],
)
def test_a_chore_that_fails_is_told_of_keeps_no_other_from_its_work_and_recovers(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.05)
    broken = Broken(error)
    with running(desk, broken, ApprovalsChore(desk.approvals)) as scheduler:
        wait_until(scheduler.service.problem, 10, "it says what is wrong")
        assert says in scheduler.service.problem()
        approve(desk.approvals, ask(desk))
        scheduler.until(S.EXECUTING)
        broken.error = None
        well = partial(lambda service: not service.problem(), scheduler.service)
        wait_until(well, 10, "it is well again")


@pytest.mark.usefixtures("no_tick")
def test_it_looks_when_it_is_told_to(desk: Desk, tmp_path: Path) -> None:
    """As a shell has it told that voted in a program of its own."""
    with running(desk) as scheduler:
        approval_id = ask(desk)
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost", HeadFile(tmp_path / "var")) as other:
            approve(build_approvals(DaemonContext(desk.parts.host, other), desk.rights), approval_id)
        scheduler.wake()
        scheduler.until(S.EXECUTING)


class Filing:
    """A chore that files commands each time."""

    name = "filing"

    def due_at(self) -> datetime | None:
        return None

    def work(self, now: datetime) -> bool:
        return True


def test_a_mistake_outside_the_chores_fails_the_service(desk: Desk) -> None:
    def filed() -> None:
        raise RuntimeError("nobody to tell")

    service = Scheduler(desk.ledger, Blocking(), [Filing()], Ticker(FAR_SECONDS), filed)
    with pytest.raises(RuntimeError, match="nobody to tell"):
        asyncio.run(service.run(asyncio.Event()))


class Hanging:
    """A chore that hangs until it is let go."""

    name = "hanging"

    def __init__(self) -> None:
        self.begun, self.let_go = Event(), Event()

    def due_at(self) -> datetime | None:
        return None

    def work(self, now: datetime) -> bool:
        self.begun.set()
        self.let_go.wait(30)
        return False


def test_a_chore_that_hangs_stops_neither_the_job_nor_the_others(desk: Desk, tmp_path: Path) -> None:
    hanging = Hanging()
    with running(desk, hanging, ApprovalsChore(desk.approvals)) as scheduler:
        wait_until(hanging.begun.is_set, 10, "it hangs")
        approval_id = ask(desk)
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost", HeadFile(tmp_path / "var")) as other:
            approve(build_approvals(DaemonContext(desk.parts.host, other), desk.rights), approval_id)
        scheduler.until(S.EXECUTING)
        hanging.let_go.set()


def test_a_chore_that_hangs_is_named_until_it_comes_to_an_end(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WORK_SECONDS", 0.0)
    monkeypatch.setattr(services, "PATIENCE_SECONDS", 0.05)
    hanging = Hanging()
    with running(desk, hanging) as scheduler:
        pulse = scheduler.service.pulse
        assert wait_until(pulse.late, 10, "it says what hangs").startswith("hanging: unresponsive for ")
        hanging.let_go.set()
        wait_until(lambda: not pulse.late(), 10, "it came to its end")
