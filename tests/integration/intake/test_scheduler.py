"""The scheduler: what is due is dealt with when it is due, whoever wrote it, and across restarts."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from queue import Queue
from threading import Event

import pytest

from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.service import Blocking, ServiceRegistry, ServiceReport, ServiceState
from supervisor_core.intake import scheduler as module
from supervisor_core.intake import ticker as ticking
from supervisor_core.intake.approvals.rules import ApprovalState, Choice
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.scheduler import ApprovalsChore, Chore, Scheduler
from supervisor_core.intake.ticker import Ticker
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext
from tests.support.intake.approvals import ANNA, BOB, Desk, FakeHosts, a_desk, a_scheduler, local_approvals
from tests.support.waiting import wait_until

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

    def __init__(self, desk: Desk, *chores: Chore) -> None:
        self.desk = desk
        self.filed = 0
        self.loop: asyncio.AbstractEventLoop | None = None
        if chores:
            self.service = Scheduler(desk.ledger, Blocking(), chores, Ticker(QUICK_SECONDS), self._count)
        else:
            self.service = a_scheduler(desk.parts, desk.approvals, FakeHosts(desk.parts, wake=self._count))

    def _count(self) -> None:
        self.filed += 1

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
def running(desk: Desk, *chores: Chore) -> Iterator[Running]:
    made, loops = Running(desk, *chores), Queue[tuple[asyncio.AbstractEventLoop, asyncio.Event]]()
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
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost") as other:
            approve(local_approvals(DaemonContext(desk.parts.host, other), desk.rights), approval_id)
        scheduler.until(S.EXECUTING)


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
        with Ledger(tmp_path / "var" / LEDGER_FILE, "TestHost") as other:
            approve(local_approvals(DaemonContext(desk.parts.host, other), desk.rights), approval_id)
        scheduler.until(S.EXECUTING)
        hanging.let_go.set()
