"""A plan that somebody has overtaken since it was made is not carried out; a new one is made instead."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from supervisor_core.common.events import EventType
from supervisor_core.daemon.worker import Worker
from supervisor_core.workers.planning import Action, ActionKind, Why
from tests.support.daemon.reconciliation import World, a_world, until, waiting

SOON_SECONDS = 1.0
"""Far less than the distance between two rounds, on the story's clock."""


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North={}, South={}) as made:
        yield made


async def up(world: World) -> Worker:
    """Both run; the actor of North."""
    await world.reconciler.start()
    await until(lambda: world.state("North") == world.state("South") == "running", "both run")
    actor = world.reconciler.workers.get("North")
    assert actor is not None
    return actor


def rounds(world: World) -> int:
    """How many plans there were for North."""
    return world.pictured("North").reconcile_count


def test_a_restart_for_new_settings_that_a_person_has_brought_about_is_not_done_once_more(world: World) -> None:
    async def story() -> None:
        await up(world)
        holds = {name: threading.Event() for name in ("North", "South")}
        for name, hold in holds.items():
            world.adapter.slow(name, hold)
        world.configure(North={"env": {"A": "b"}}, South={"env": {"A": "b"}})
        await until(lambda: any("stop" in world.adapter.done(name) for name in holds), "one of them has the turn")
        first, other = sorted(holds, key=lambda name: "stop" not in world.adapter.done(name))
        task = world.send("restart_watcher", other)
        holds[other].set()
        await until(lambda: world.job(task).outcome is not None, "a person restarts it")
        pid = world.pid(other)
        holds[first].set()
        for name in holds:
            await until(lambda: world.pictured(name).desired_version == 2, f"{name} is done")  # noqa: B023
        assert world.pid(other) == pid

    world.run_in_threads(story())


def test_a_restart_for_settings_that_it_has_already_does_nothing(world: World) -> None:
    async def story() -> None:
        actor = await up(world)
        pid = world.pid("North")
        actor.act(Action(ActionKind.RESTART, Why.CHANGED, datetime.now(UTC)))
        await until(lambda: not actor.acting and not world.pictured("North").actual.pending, "dropped", SOON_SECONDS)
        await asyncio.sleep(SOON_SECONDS)
        assert (world.pid("North"), world.adapter.done("North")) == (pid, ["start"])

    world.run(story())


@pytest.mark.parametrize(("kind", "why"), [(ActionKind.STOP, Why.NOT_ENABLED), (ActionKind.REMOVE, Why.NOT_CONFIGURED)])
def test_what_is_wanted_again_is_neither_stopped_nor_removed_and_a_new_plan_is_made(
    world: World, kind: ActionKind, why: Why
) -> None:
    async def story() -> None:
        actor = await up(world)
        await asyncio.sleep(SOON_SECONDS)
        pid, before = world.pid("North"), rounds(world)
        actor.act(Action(kind, why, datetime.now(UTC)))
        await until(lambda: rounds(world) > before, "it is planned anew", SOON_SECONDS)
        await asyncio.sleep(SOON_SECONDS)
        assert (world.pid("North"), world.adapter.done("North")) == (pid, ["start"])
        assert world.reconciler.workers.get("North") is actor

    world.run(story())


def test_one_that_rests_and_was_put_back_is_not_told_of_as_removed(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.configure(North={"enabled": False}, South={})
        await until(lambda: world.state("North") == "stopped")
        await asyncio.sleep(SOON_SECONDS)
        subscription = world.reconciler.subscribe([EventType.WORKER_REMOVED])
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        actor.act(Action(ActionKind.REMOVE, Why.NOT_CONFIGURED, datetime.now(UTC)))
        await asyncio.sleep(SOON_SECONDS)
        assert world.reconciler.workers.get("North") is actor
        assert waiting(subscription) == []

    world.run(story())


def test_a_version_counts_as_brought_about_only_once_it_is_not_while_monitoring_rests(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.resting = True
        before = rounds(world)
        world.configure(North={"env": {"A": "b"}}, South={})
        await until(lambda: rounds(world) > before, "there was a round", SOON_SECONDS)
        for name in ("North", "South"):
            assert world.pictured(name).desired_version == 1
        world.resting = False
        world.reconciler.plan_again()
        await until(lambda: world.pictured("North").desired_version == 2, "now it is", 5)
        assert world.pictured("South").desired_version == 2

    world.run(story())


@pytest.mark.parametrize("runs", [True, False])
def test_nor_while_the_worker_is_paused(world: World, runs: bool) -> None:
    async def story() -> None:
        await up(world)
        task = world.send("pause", "North")
        await until(lambda: world.job(task).outcome is not None and world.state("North") == "stopped")
        if runs:
            world.adapter.start_by_hand("North")
            world.reconciler.plan_again()
            await until(lambda: world.state("North") == "running", "a person has started it", SOON_SECONDS)
        before = rounds(world)
        world.configure(North={"env": {"A": "b"}}, South={})
        await until(lambda: world.pictured("South").desired_version == 2, "of South it is", SOON_SECONDS)
        assert rounds(world) > before
        assert world.pictured("North").desired_version == 1
        world.send("resume", "North")
        await until(lambda: world.pictured("North").desired_version == 2, "now it is", 60)

    world.run(story())
