"""What becomes of a worker that has ended by itself, from its exit to its next life, on clocks that jump."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.events import EventType
from tests.support.daemon.reconciliation import SCHEDULE, World, a_world, until, waiting
from tests.support.processes.crashing_worker import (
    BACKOFF_SECONDS,
    HOUR_SECONDS,
    LONG_SECONDS,
    SOON_SECONDS,
    around,
    dies,
    given_up,
    ruled,
    seconds_until_it_runs,
    up,
)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North=ruled()) as made:
        yield made


@pytest.mark.sampled(1)
@pytest.mark.parametrize("life_seconds", [0.0, 2.0, LONG_SECONDS])
def test_too_many_starts_within_an_hour_end_in_quarantine_however_long_its_lives_are(
    world: World, life_seconds: float
) -> None:
    async def story() -> None:
        heard = world.reconciler.subscribe([EventType.WORKER_STATE_CHANGED])
        await up(world)
        for _ in range(5):
            await dies(world, after=life_seconds)
            await seconds_until_it_runs(world)
        await dies(world, after=life_seconds)
        await until(lambda: world.state("North") == "quarantined", "it is given up", SOON_SECONDS)
        await asyncio.sleep(HOUR_SECONDS * 2)
        assert world.adapter.done("North") == ["start"] * 6, "the first one was asked for, five were automatic"
        given = world.parts.host.quarantines.read("North")
        assert given is not None
        assert "5 restarts in an hour" in given.words
        assert waiting(heard)[-1].payload["to"] == "quarantined"
        assert world.pictured("North").desired.quarantined

    world.run(story())


@pytest.mark.parametrize("command", ["resume", "restart_watcher"])
def test_a_person_ends_the_quarantine_and_all_is_counted_anew(world: World, command: str) -> None:
    async def story() -> None:
        await up(world)
        await given_up(world)
        task = world.send(command, "North")
        await until(lambda: world.job(task).outcome is not None)
        outcome = world.job(task).outcome
        assert outcome is not None
        assert outcome.success
        assert outcome.details["was_quarantined"]
        await until(lambda: world.state("North") == "running", seconds=SOON_SECONDS)
        assert world.parts.host.quarantines.read("North") is None
        assert not world.pictured("North").desired.quarantined
        await dies(world)
        assert await seconds_until_it_runs(world) == around(BACKOFF_SECONDS), "the pauses begin anew as well"
        await dies(world)
        assert await given_up(world) == 4, "and so does the count: five automatic starts"

    world.run(story())


@pytest.mark.parametrize("command", ["resume", "restart_watcher"])
def test_a_schedule_does_not_end_a_quarantine(world: World, command: str) -> None:
    async def story() -> None:
        await up(world)
        await given_up(world)
        task = world.send(command, "North", SCHEDULE)
        await until(lambda: world.job(task).outcome is not None)
        outcome = world.job(task).outcome
        assert outcome is not None
        assert not outcome.success
        assert "quarantined" in (outcome.error or "")
        await asyncio.sleep(100)
        assert world.state("North") == "quarantined"
        assert not world.runs("North")

    world.run(story())


def test_a_start_that_fails_is_a_life_of_no_length_and_ends_in_quarantine(world: World) -> None:
    async def story() -> None:
        world.adapter.break_start("North", "the program is broken")
        await world.reconciler.start()
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        await until(lambda: world.state("North") == "backing_off", "it waits", SOON_SECONDS)
        assert "the program is broken" in (actor.start_error)
        await until(lambda: world.state("North") == "quarantined", "it is given up", HOUR_SECONDS)
        assert world.adapter.done("North") == ["start"] * 6

    world.run(story())


@pytest.mark.parametrize("before", ["it never ran", "it has ended"])
def test_a_drive_that_is_away_keeps_no_worker_down(world: World, before: str) -> None:
    async def story() -> None:
        if before == "it has ended":
            await up(world)
            world.lose_drive()
            await dies(world, after=LONG_SECONDS)
        else:
            world.lose_drive()
            await world.reconciler.start()
        assert await seconds_until_it_runs(world) <= SOON_SECONDS
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        assert actor.start_error == ""

    world.run(story())


def test_a_changed_policy_decides_anew_about_one_that_waits(world: World) -> None:
    async def story() -> None:
        await up(world)
        await dies(world)
        world.configure(North=ruled("never"))
        await asyncio.sleep(200)
        assert not world.runs("North")
        world.configure(North={"restart": {"backoff_seconds": 0}})
        assert await seconds_until_it_runs(world) < SOON_SECONDS

    world.run(story())


def test_a_command_that_only_looks_does_not_shorten_the_wait(world: World) -> None:
    async def story() -> None:
        world.configure(North=ruled(backoff_seconds=100))
        await up(world)
        await dies(world)
        died = asyncio.get_running_loop().time()
        task = world.send("verify_db", "North")
        await until(lambda: world.job(task).outcome is not None)
        assert world.state("North") == "backing_off"
        looked_for = asyncio.get_running_loop().time() - died
        assert looked_for + await seconds_until_it_runs(world) == around(100)

    world.run(story())


def test_a_person_may_start_one_that_waits(world: World) -> None:
    async def story() -> None:
        world.configure(North=ruled(backoff_seconds=100))
        await up(world)
        await dies(world)
        world.send("resume", "North")
        assert await seconds_until_it_runs(world) < SOON_SECONDS
        await asyncio.sleep(300)
        assert len(world.processes.started) == 2, "what it waited for is over"

    world.run(story())


def test_a_hung_one_is_restarted_where_that_is_wanted_and_given_up_where_it_hangs_too_often(
    world: World,
) -> None:
    async def story() -> None:
        world.configure(North=ruled(on_hang=True, max_per_hour=2))
        await up(world)
        for _ in range(2):
            old = world.pid("North")
            world.processes.freeze("North")
            await until(lambda: world.pid("North") not in (None, old), "it is restarted", 300)  # noqa: B023
        world.processes.freeze("North")
        await until(lambda: world.parts.host.quarantines.read("North"), "it is given up", 300)
        assert world.runs("North"), "and left as it is"

    world.run(story())
