"""Actors with a command that goes from one worker to the next: the turn is passed on at once, and ends up nowhere."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.daemon import execution as executing
from supervisor_core.daemon.handlers import HANDLERS
from supervisor_core.intake.filing import enqueue
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, Job, not_begun
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.workers.context import HostContext
from tests.support.daemon.reconciliation import World, a_world, until

WORKERS = ("West", "North", "South")
AT_ONCE_SECONDS = 0.5
"""On the story's clock: less than any poll."""

ROUNDS, STORM_COMMANDS = 4, 12


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, **{name: {} for name in WORKERS}) as made:
        yield made


class Handlers:
    """All handlers at once: which jobs they had in hand, in their order, and which of them fail."""

    def __init__(self, patch: pytest.MonkeyPatch, fails: Callable[[Job], bool] = lambda _: False) -> None:
        self.fails = fails
        self.order: list[tuple[str, str]] = []
        patch.setattr(executing, "HANDLERS", dict.fromkeys(HANDLERS, self))

    def __call__(self, _host: HostContext, job: Job) -> Outcome:
        self.order.append((job.task_id, job.worker_id))
        return Outcome.failed("It did not work.") if self.fails(job) else Outcome.done()


async def up(world: World) -> None:
    await world.reconciler.start()
    await until(lambda: all(world.state(name) == "running" for name in WORKERS), "all run")


def send(world: World, name: str, workers: Sequence[str], task_id: str, **params: Any) -> str:
    """Somebody asks for it, and the first look of the queue wakes whoever has something to do."""
    now = datetime.now(UTC)
    checked = check_params(CATALOG[name], params)
    command = Command(name, "all", tuple(workers), checked, None, Issuer("cli:anna", "anna"), task_id)
    enqueue(world.parts.ledger, command, "cli", now)
    world.reconciler.wake(world.parts.ledger.read(jobs.workers_with_work))
    return task_id


def of(world: World, task_id: str) -> list[Job]:
    return world.parts.ledger.read(lambda connection: jobs.of_task(connection, task_id))


def all_ended(world: World, *task_ids: str) -> bool:
    return all(job.state in FINAL for task_id in task_ids for job in of(world, task_id))


def test_the_next_worker_begins_as_soon_as_the_one_before_is_done(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    handlers = Handlers(monkeypatch)

    async def story() -> None:
        await up(world)
        task = send(world, "restart", WORKERS, "t1")
        await until(lambda: all_ended(world, task), "all had their turn, and nobody looked again", AT_ONCE_SECONDS)
        assert handlers.order == [(task, worker) for worker in WORKERS]

    world.run(story())


def test_whoever_sends_commands_to_other_hosts_hears_that_it_is_the_turn_of_one_of_them(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Handlers(monkeypatch)
    told: list[str] = []
    monkeypatch.setattr(world.reconciler.program, "wake_workers", told.extend)

    async def story() -> None:
        await up(world)
        task = send(world, "restart", ["West", "web-1/West"], "t1")
        await until(lambda: of(world, task)[0].state in FINAL, "its turn is over", AT_ONCE_SECONDS)
        assert told == ["web-1/West"]

    world.run(story())


def test_after_a_failure_the_others_end_without_having_begun(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handlers = Handlers(monkeypatch, lambda job: job.worker_id == "North")

    async def story() -> None:
        await up(world)
        task = send(world, "rollback", WORKERS, "t1")
        await until(lambda: all_ended(world, task), "it is over", AT_ONCE_SECONDS)
        assert [worker for _, worker in handlers.order] == ["West", "North"]
        assert [not_begun(job) for job in of(world, task)] == [False, False, True]
        other = send(world, "rollback", WORKERS, "t2", keep_going=True)
        await until(lambda: all_ended(world, other), "it is over", AT_ONCE_SECONDS)
        assert [worker for name, worker in handlers.order if name == other] == list(WORKERS)

    world.run(story())


@pytest.mark.parametrize("keep_going", [False, True])
def test_a_worker_that_nobody_configured_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch, keep_going: bool
) -> None:
    handlers = Handlers(monkeypatch, lambda job: job.worker_id not in WORKERS)

    async def story() -> None:
        await up(world)
        task = send(world, "restart", ("West", "Gone", "Lost", "South"), "t1", keep_going=keep_going)
        await until(lambda: all_ended(world, task), "it is over", AT_ONCE_SECONDS)
        outcomes = [(job.worker_id, job.outcome.success, not_begun(job)) for job in of(world, task) if job.outcome]
        kept = ("Lost", False, not keep_going), ("South", keep_going, not keep_going)
        assert outcomes == [("West", True, False), ("Gone", False, False), *kept]
        assert handlers.order[-1] == (task, "South" if keep_going else "Gone")

    world.run(story())


def test_a_worker_that_is_removed_before_its_turn_holds_nobody_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(job: Job) -> bool:
        if job.worker_id == "West":
            world.configure(West={}, South={})
        return job.worker_id not in world.parts.host.config.workers

    Handlers(monkeypatch, fails)

    async def story() -> None:
        await up(world)
        task = send(world, "restart", WORKERS, "t1", keep_going=True)
        await until(lambda: all_ended(world, task), "it is over")
        assert [job.outcome.success for job in of(world, task) if job.outcome] == [True, False, True]

    world.run(story())


@pytest.mark.parametrize("keep_going", [False, True])
def test_cut_off_between_two_workers_the_next_supervisor_goes_on_with_the_next(
    world: World, monkeypatch: pytest.MonkeyPatch, keep_going: bool
) -> None:
    handlers = Handlers(monkeypatch)

    async def story() -> None:
        await up(world)
        monkeypatch.setattr(
            world.reconciler.program, "wake_workers", lambda _: None
        )  # its supervisor dies before it can pass the turn on
        task = send(world, "restart", WORKERS, "t1", keep_going=keep_going)
        await until(lambda: of(world, task)[0].state in FINAL, "the first is done", AT_ONCE_SECONDS)
        await world.killed()
        assert [job.state in FINAL for job in of(world, task)] == [True, False, False]
        await world.reconciler.start()
        await until(lambda: all_ended(world, task), "it is over")
        assert [worker for _, worker in handlers.order] == list(WORKERS)

    world.run(story())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(ROUNDS))
def test_in_a_storm_of_commands_with_failures_and_cut_offs_all_end_in_order_and_are_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    handlers = Handlers(monkeypatch, lambda _: chance.random() < 0.2)
    names = [name for name, each in CATALOG.items() if each.handler]

    async def story() -> None:
        await up(world)
        tasks = []
        for number in range(STORM_COMMANDS):
            name = chance.choice(names)
            more = {"keep_going": True} if CATALOG[name].spread_options and chance.random() < 0.5 else {}
            workers = chance.sample([*WORKERS, "Gone"], chance.randint(1, 4))
            tasks.append(send(world, name, workers, f"t{number}", **more))
            for _ in range(chance.randint(0, 5)):
                await asyncio.sleep(0)
            if chance.random() < 0.2:
                await world.killed()
                await world.reconciler.start()
        await until(lambda: all_ended(world, *tasks), "all of it is over")
        for task in tasks:
            judge(task)

    def judge(task: str) -> None:
        siblings = of(world, task)
        rows = world.parts.ledger.read(lambda connection: search(connection, AuditFilter(limit=1000)))
        told = [row["target_id"] for row in reversed(rows) if row["task_id"] == task]
        workers = [job.worker_id for job in siblings]
        assert sorted(told) == sorted(workers)
        begun = [worker for name, worker in handlers.order if name == task]
        assert len(begun) == len(set(begun)), "once"
        assert not set(begun) & {job.worker_id for job in siblings if not_begun(job)}
        if CATALOG[siblings[0].command].spread_options:
            assert told == workers, "in turn"

    world.run(story())
