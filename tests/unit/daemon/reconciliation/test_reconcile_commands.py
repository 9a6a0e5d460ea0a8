"""Actors: one thing at a time for each worker, all workers at the same time, and the newest plan for the older."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.command import Outcome
from supervisor_core.common.events import EventType
from supervisor_core.daemon import execution as executing
from supervisor_core.daemon.handlers import HANDLERS
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.processes.records import write_record
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.pauses import pause_flag_path
from supervisor_core.workers.planning import Action, ActionKind, Why
from tests.support.daemon.reconciliation import World, a_world, until, waiting

WORKERS = ("North", "South", "West")
STORM_ROUNDS = 60
SOON_SECONDS = 5.0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, **{name: {} for name in WORKERS}) as made:
        yield made


class Diagnostics:
    """A handler that lasts until it is let go, and notes who was in hand."""

    def __init__(self, world: World, patch: pytest.MonkeyPatch) -> None:
        self._world = world
        self.begun: list[str] = []
        self.hold = threading.Event()
        patch.setattr(executing, "HANDLERS", {**HANDLERS, "diagnostics": self})

    def __call__(self, host: HostContext, job: Job) -> Outcome:
        with self._world.adapter.during(job.worker_id, "diagnostics"):
            self.begun.append(job.task_id)
            assert self.hold.wait(20)
            return Outcome.done()


async def up(world: World) -> None:
    await world.reconciler.start()
    await until(lambda: all(world.state(name) == "running" for name in WORKERS), "all run")


def test_commands_for_one_worker_run_in_their_order_and_those_for_others_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Diagnostics(world, monkeypatch)

    async def story() -> None:
        await up(world)
        first, second, third = (world.send("diagnostics", "North") for _ in range(3))
        elsewhere = world.send("diagnostics", "South")
        await until(lambda: {first, elsewhere} <= set(handler.begun), "two workers at the same time", SOON_SECONDS)
        assert set(handler.begun) == {first, elsewhere}
        handler.hold.set()
        await until(lambda: world.job(third).outcome is not None)
        assert [task for task in handler.begun if task != elsewhere] == [first, second, third]
        assert world.adapter.overlaps == []

    world.run_in_threads(story())


def test_a_slow_worker_delays_nobody(world: World) -> None:
    async def story() -> None:
        let_go = threading.Event()
        world.adapter.slow("North", let_go)
        await world.reconciler.start()
        await until(lambda: world.runs("South", "West"), "the others are up", SOON_SECONDS)
        assert not world.runs("North")
        await until(lambda: world.state("North") == "starting")
        task = world.send("restart_watcher", "West")
        await until(lambda: world.job(task).outcome is not None, "a command for another", SOON_SECONDS)
        world.configure(North={}, South={"enabled": False}, West={})
        await until(lambda: not world.runs("South"), "a plan for another", SOON_SECONDS)
        let_go.set()
        await until(lambda: world.runs("North"))

    world.run_in_threads(story())


def test_several_restarts_are_announced_and_go_one_by_one(world: World, caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        await up(world)
        let_go = {name: threading.Event() for name in WORKERS}
        for name in WORKERS:
            world.adapter.slow(name, let_go[name])
        world.configure(**{name: {"command": ["sleep", "2"]} for name in WORKERS})
        seen: list[str] = []
        for _ in WORKERS:
            under_way = await until(lambda: [name for name in WORKERS if world.state(name) == "stopping"])
            assert len(under_way) == 1
            seen += under_way
            let_go[under_way[0]].set()
            done = under_way[0]
            await until(lambda: world.pictured(done).desired_version == 2)  # noqa: B023
        assert sorted(seen) == sorted(WORKERS)
        assert [world.adapter.done(name) for name in WORKERS] == [["start", "stop", "start"]] * 3

    world.run_in_threads(story())
    assert "configuration version 2 restarts 3 workers, one at a time: North, South, West" in caplog.text


def test_commands_do_not_wait_for_the_turn_of_a_planned_restart(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Diagnostics(world, monkeypatch)
    handler.hold.set()

    async def story() -> None:
        await up(world)
        let_go = threading.Event()
        world.adapter.slow("North", let_go)
        world.configure(North={"command": ["sleep", "2"]}, South={}, West={})
        await until(lambda: world.state("North") == "stopping")
        world.configure(**{name: {"command": ["sleep", "2"]} for name in WORKERS})
        await until(lambda: world.pictured("South").actual.pending, "its restart waits")
        task = world.send("diagnostics", "South")
        await until(lambda: world.job(task).outcome is not None, "the command does not", SOON_SECONDS)
        assert world.adapter.done("South") == ["start", "diagnostics"]
        let_go.set()
        await until(lambda: world.adapter.done("South")[-2:] == ["stop", "start"])

    world.run_in_threads(story())


def test_the_newest_plan_takes_the_place_of_one_that_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    handler = Diagnostics(world, monkeypatch)

    async def story() -> None:
        await up(world)
        world.send("diagnostics", "North")
        await until(lambda: handler.begun)
        others: dict[str, Any] = {"South": {}, "West": {}}
        world.configure(North={"command": ["sleep", "2"]}, **others)
        await until(lambda: any("restart" in each for each in world.pictured("North").actual.pending), "it waits")
        world.configure(North={"enabled": False}, **others)
        await until(lambda: any("stop:" in each for each in world.pictured("North").actual.pending), "replaced")
        assert not any("restart" in each for each in world.pictured("North").actual.pending)
        handler.hold.set()
        await until(lambda: not world.runs("North"))
        await until(lambda: world.state("North") == "stopped")
        assert world.adapter.done("North") == ["start", "diagnostics", "stop"]

    world.run_in_threads(story())


@pytest.mark.parametrize("resting", [True, False])
def test_what_was_planned_before_monitoring_was_paused_is_not_begun_after_it(world: World, resting: bool) -> None:
    async def story() -> None:
        await up(world)
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        world.resting = resting  # and no round has been made since
        actor.act(Action(ActionKind.RESTART, Why.HUNG, datetime.now(UTC)))
        await asyncio.sleep(SOON_SECONDS)
        assert ("stop" in world.adapter.done("North")) is not resting

    world.run(story())


def test_a_quarantine_that_appears_while_a_command_is_in_hand_counts_after_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Diagnostics(world, monkeypatch)

    async def story() -> None:
        await up(world)
        world.send("diagnostics", "North")
        await until(lambda: handler.begun)
        world.parts.host.quarantines.begin("North", "by a hand", datetime.now(UTC))
        before = world.pictured("South").reconcile_count
        world.reconciler.plan_again()
        await until(lambda: world.pictured("South").reconcile_count > before, "the round fails for nobody")
        assert not world.reconciler.problem()
        handler.hold.set()
        await until(lambda: world.pictured("North").desired.quarantined)

    world.run_in_threads(story())


def test_a_stop_waits_for_what_is_in_hand_and_begins_nothing_more(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = Diagnostics(world, monkeypatch)

    async def story() -> None:
        await up(world)
        task, after = world.send("diagnostics", "North"), world.send("diagnostics", "North")
        let_go = threading.Event()
        world.adapter.slow("South", let_go)
        world.configure(North={}, South={"command": ["sleep", "2"]}, West={})
        await until(lambda: handler.begun and world.state("South") == "stopping")
        stopping = asyncio.ensure_future(world.reconciler.stop())
        await asyncio.sleep(0.05)
        assert not stopping.done()
        handler.hold.set()
        let_go.set()
        await stopping
        assert world.job(task).outcome is not None
        assert world.job(after).outcome is None, "what had not begun is the next daemon's"
        assert world.adapter.done("South") == ["start", "stop", "start"], "a restart is not cut in two"
        assert world.runs(*WORKERS)

    world.run_in_threads(story())


def test_what_waits_for_a_worker_that_is_removed_fails_and_says_so(world: World) -> None:
    async def story() -> None:
        await up(world)
        let_go = threading.Event()
        world.adapter.slow("North", let_go)
        world.configure(South={}, West={})
        await until(lambda: "remove" in world.adapter.done("North"))
        tasks = [world.send("diagnostics", "North") for _ in range(2)]
        let_go.set()
        for task in tasks:
            await until(lambda: world.job(task).outcome is not None, f"{task} has its outcome")  # noqa: B023
            outcome = world.job(task).outcome
            assert outcome is not None
            assert not outcome.success
            assert "North" in (outcome.error or "")
        await until(lambda: {job.task_id for job in world.finished} >= set(tasks), "who waits is told")
        await until(lambda: world.reconciler.workers.get("North") is None)
        assert not world.reconciler.problem()

    world.run_in_threads(story())


def test_a_command_that_was_cut_off_for_a_worker_that_is_configured_no_more_is_reported(world: World) -> None:
    """It was removed from the configuration while no daemon ran, and its process goes on."""

    async def story() -> None:
        await up(world)
        record = world.processes.find("North").record
        assert record is not None
        await world.reconciler.stop()
        task = world.send("pause", "North")
        world.parts.ledger.step(jobs.claim(world.job(task), datetime.now(UTC)))
        world.parts.ledger.step(jobs.begin(world.job(task), datetime.now(UTC)))
        write_record(world.parts.host.config.state_dir, record)
        world.configure(South={}, West={})
        again = await world.killed()
        await again.start()
        await until(lambda: world.job(task).outcome is not None)
        outcome = world.job(task).outcome
        assert outcome is not None
        assert "isn't run again automatically" in (outcome.error or "")
        await until(lambda: not world.runs("North"), "it is ended like any other that is removed")

    world.run(story())


def test_commands_are_told_as_events(world: World) -> None:
    async def story() -> None:
        heard = world.reconciler.subscribe([each for each in EventType if each.startswith("command.")])
        await up(world)
        task = world.send("restart_watcher", "North")
        await until(lambda: world.job(task).outcome is not None)
        await until(lambda: heard.waiting >= 2)
        told = [(str(event.type), event.payload["task_id"], event.payload.get("success")) for event in waiting(heard)]
        assert told == [("command.started", task, None), ("command.done", task, True)]

    world.run(story())


@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(4))
def test_in_a_storm_of_plans_versions_commands_and_deaths_no_worker_has_two_things_in_hand(
    world: World, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    handler = Diagnostics(world, monkeypatch)
    handler.hold.set()
    chance = random.Random(seed)

    def settings() -> dict[str, Any]:
        return {"command": ["sleep", str(chance.randint(1, 3))], "enabled": chance.random() < 0.8}

    async def story() -> None:
        await up(world)
        tasks: list[str] = []
        for _ in range(STORM_ROUNDS):
            name = chance.choice(WORKERS)
            match chance.randint(0, 4):
                case 0:
                    world.reconciler.plan_again(chance.choice((None, name)))
                case 1:
                    world.configure(**{each: settings() for each in WORKERS if each != name or chance.random() < 0.8})
                case 2 if name in world.parts.host.config.workers:
                    tasks.append(world.send(chance.choice(("diagnostics", "restart_watcher", "pause", "resume")), name))
                case 3 if world.runs(name):
                    world.adapter.die(name)
                case _:
                    world.reconciler.wake()
            await asyncio.sleep(chance.choice((0, 0, 0.002)))
        rules = {"backoff_seconds": 0, "max_per_hour": 3600}
        world.configure(**{each: {"command": ["sleep", "9"], "restart": rules} for each in WORKERS})
        tasks += [world.send("resume", each) for each in WORKERS]
        await until(lambda: all(world.job(task).outcome for task in tasks), "each command has its outcome")
        await until(
            lambda: all(world.runs(each) and world.pictured(each).desired_version == world.version for each in WORKERS),
            "what was wanted last has come about",
        )
        assert [world.processes.find(each).record.command for each in WORKERS] == [("sleep", "9")] * 3  # type: ignore[union-attr]
        assert world.adapter.overlaps == []

    world.run_in_threads(story())


def test_a_resume_reaches_the_drive_also_if_monitoring_is_paused_before_a_planned_start(
    world: World, tmp_path: Path
) -> None:
    host = world.parts.host

    async def story() -> None:
        await up(world)
        world.send("pause", "North")
        await until(lambda: world.state("North") == "stopped", "it is paused")
        flag = pause_flag_path(host.config.folder("state"), "North")
        assert flag.exists()
        world.lose_drive()
        world.send("resume", "North")
        await until(lambda: world.state("North") == "running", "it runs again")
        planned = iter([False])
        world.rests = lambda: next(planned, True)  # paused between the next plan and its start
        world.adapter.die("North")
        await until(lambda: world.state("North") == "stopped", "its end is noticed")
        await asyncio.sleep(SOON_SECONDS)
        world.find_drive()
        await until(lambda: not flag.exists(), "the drive has the resume", SOON_SECONDS)

    world.run(story())
