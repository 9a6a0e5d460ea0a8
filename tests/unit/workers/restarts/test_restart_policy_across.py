"""What becomes of a worker that has ended by itself where the daemon ends as well, or the whole host goes down."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon.reconciliation import World, a_world, until
from tests.support.processes.crashing_worker import (
    BACKOFF_SECONDS,
    HOUR_SECONDS,
    LONG_SECONDS,
    SOON_SECONDS,
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


@pytest.mark.parametrize("end", ["stopped", "killed", "reboot"])
def test_a_quarantine_outlives_the_daemon_and_a_reboot(world: World, end: str) -> None:
    async def story() -> None:
        await up(world)
        await given_up(world)
        if end == "stopped":
            await world.end()
        if end == "reboot":
            world.processes.reboot()
        again = await world.killed()
        await again.start()
        await until(lambda: world.state("North") == "quarantined", "the next one knows", SOON_SECONDS)
        await asyncio.sleep(HOUR_SECONDS * 2)
        assert world.adapter.done("North") == [], "the next one starts nothing"

    world.run(story())


def test_a_daemon_that_follows_one_that_waited_goes_on_waiting_for_the_rest(world: World) -> None:
    async def story() -> None:
        world.configure(North=ruled(backoff_seconds=100))
        await up(world)
        await dies(world)
        actor = world.reconciler.workers.get("North")
        assert actor is not None
        await until(lambda: actor.decision)
        assert actor.decision is not None
        pause = actor.decision.pause_seconds
        await asyncio.sleep(70)
        again = await world.killed()
        await again.start()
        await until(lambda: world.state("North") == "backing_off", "it waits on", SOON_SECONDS)
        assert 70 + await seconds_until_it_runs(world) == pytest.approx(pause, abs=2)

    world.run(story())


@pytest.mark.parametrize(("policy", "starts_again"), [("never", False), ("on-failure", True), ("always", True)])
def test_one_that_ended_while_no_daemon_ran_is_dealt_with_by_its_policy(
    world: World, policy: str, starts_again: bool
) -> None:
    async def story() -> None:
        world.configure(North=ruled(policy))
        await up(world)
        await asyncio.sleep(LONG_SECONDS)
        again = await world.killed()
        world.processes.die("North", 1)
        await again.start()
        await asyncio.sleep(BACKOFF_SECONDS * 2)
        assert world.runs("North") is starts_again
        assert world.adapter.done("North") == ["start"] * starts_again

    world.run(story())


@pytest.mark.parametrize("policy", ["never", "on-failure", "always"])
def test_after_a_reboot_it_is_started_whatever_its_policy_is_and_that_is_no_end_of_its_own(
    world: World, policy: str
) -> None:
    async def story() -> None:
        world.configure(North=ruled(policy, max_per_hour=0))
        await up(world)
        world.processes.reboot()
        again = await world.killed()
        await again.start()
        assert await seconds_until_it_runs(world) < SOON_SECONDS

    world.run(story())


def test_one_that_rests_goes_on_resting_with_the_next_daemon(world: World) -> None:
    async def story() -> None:
        await up(world)
        await dies(world, 0)
        await until(lambda: world.state("North") == "stopped")
        again = await world.killed()
        await again.start()
        await asyncio.sleep(200)
        assert not world.runs("North")

    world.run(story())
