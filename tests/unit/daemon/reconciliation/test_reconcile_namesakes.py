"""What is for a worker that is not there is not for the one of the same name that comes later."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import Connection

from supervisor_core.commands.command import Outcome
from supervisor_core.daemon import execution as executing
from supervisor_core.daemon.handlers import HANDLERS
from supervisor_core.daemon.orphans import refuse_orphaned_jobs
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import DaemonContext, HostContext
from supervisor_core.workers.restarts import history as starts
from tests.support.daemon.reconciliation import World, a_world, until
from tests.support.processes.crashing_worker import HOUR_SECONDS, given_up, ruled

T = TypeVar("T")
SOON_SECONDS = 1.0
"""Far less than the distance between two rounds, on the story's clock."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North=ruled(max_per_hour=2), South={}) as made:
        yield made


async def up(world: World) -> None:
    await world.reconciler.start()
    await until(lambda: world.state("North") == world.state("South") == "running", "both run")


def error_of(world: World, task: str) -> str:
    outcome = world.job(task).outcome
    assert outcome is not None
    assert not outcome.success
    return outcome.error or ""


def test_a_command_for_a_worker_that_nobody_configured_fails_at_once_and_says_so(world: World) -> None:
    async def story() -> None:
        await up(world)
        task = world.send("restart_watcher", "Nobody")
        await until(lambda: world.job(task).outcome is not None, "it is ended", SOON_SECONDS)
        assert "Nobody" in error_of(world, task)
        await until(lambda: task in {job.task_id for job in world.finished}, "who waits is told", SOON_SECONDS)
        world.configure(North=ruled(max_per_hour=2), South={}, Nobody={})
        await until(lambda: world.state("Nobody") == "running", "one of that name comes", SOON_SECONDS)
        await asyncio.sleep(SOON_SECONDS)
        assert world.adapter.done("Nobody") == ["start"], "and is not restarted for it"

    world.run(story())


def test_one_that_waited_before_the_daemon_came_up_is_ended_with_its_first_round(world: World) -> None:
    async def story() -> None:
        task = world.send("pause", "Nobody")
        await world.reconciler.start()
        await until(lambda: world.job(task).outcome is not None, "it is ended", SOON_SECONDS)
        assert "Nobody" in error_of(world, task)

    world.run(story())


class Hurried:
    """The ledger, and something that happens right after the second look into it: who waits, then for what."""

    def __init__(self, world: World, happens: Callable[[], object]) -> None:
        self._real = world.parts.ledger
        self._looks = 0
        self._happens = happens

    def read(self, look: Callable[[Connection], T]) -> T:
        found = self._real.read(look)
        self._looks += 1
        if self._looks == 2:
            self._happens()
        return found

    def __getattr__(self, name: str) -> object:
        return getattr(self._real, name)


def test_one_for_a_worker_that_comes_at_this_very_moment_is_not_carried_out_by_who_refuses_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only its actor may do anything about a worker that is configured."""
    ran = threading.Event()

    def handler(host: HostContext, job: Job) -> Outcome:
        host.config.worker(job.worker_id)
        ran.set()
        return Outcome.done()

    monkeypatch.setattr(executing, "HANDLERS", {**HANDLERS, "diagnostics": handler})
    task = world.send("diagnostics", "Nobody")
    parts = DaemonContext(world.parts.host, world.parts.ledger)

    def comes() -> None:
        world.configure(Nobody={})
        parts.host = replace(parts.host, config=world.parts.host.config)

    parts.opened = Hurried(world, comes)  # type: ignore[assignment]
    refuse_orphaned_jobs(parts, ())
    assert not ran.is_set()
    assert "Nobody" in error_of(world, task)


def test_a_quarantine_and_starts_do_not_hold_for_a_namesake(world: World) -> None:
    async def story() -> None:
        await up(world)
        await given_up(world, HOUR_SECONDS)
        state_dir = world.parts.host.config.state_dir
        assert len(starts.read_starts(state_dir, "North")) == 2
        world.configure(South={})
        await until(lambda: world.reconciler.workers.get("North") is None, "it is removed", SOON_SECONDS)
        assert world.parts.host.quarantines.read("North") is None
        assert starts.read_starts(state_dir, "North") == []
        world.configure(North=ruled(max_per_hour=2), South={})
        await until(lambda: world.state("North") == "running", "its namesake runs at once", SOON_SECONDS)

    world.run(story())


def test_one_that_is_not_gone_yet_keeps_its_quarantine(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.parts.host.quarantines.begin("North", "by a hand", datetime.now(UTC))
        world.adapter.unkillable("North")
        world.configure(South={})
        await until(lambda: world.state("North") == "stuck", "it can't be ended", SOON_SECONDS)
        assert world.parts.host.quarantines.read("North") is not None

    world.run(story())


def test_one_that_is_removed_while_it_waits_for_its_next_start_is_gone_at_once(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.configure(North={"restart": {"policy": "always", "backoff_seconds": 300}}, South={})
        world.adapter.die("North")
        await until(lambda: world.state("North") == "backing_off", "it waits")
        world.configure(North=None, South={})
        await until(lambda: "North" not in world.reconciler.current_snapshot().workers, "nobody waits for it")

    world.run(story())
