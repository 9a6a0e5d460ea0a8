"""A worker, `North`, that ends by itself as often as a story wants, and what becomes of it, on clocks that jump."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from supervisor_core.workers.restarts.policy import JITTER
from tests.support.daemon.reconciliation import STEP_SHARE, World, until

LONG_SECONDS = 61.0
SOON_SECONDS = 1.0
HOUR_SECONDS = 3600.0
BACKOFF_SECONDS = 8.0


def ruled(policy: str = "on-failure", **more: Any) -> dict[str, Any]:
    """A worker with such a restart policy."""
    return {"restart": {"policy": policy, "backoff_seconds": BACKOFF_SECONDS, "max_per_hour": 5, **more}}


async def up(world: World) -> None:
    await world.reconciler.start()
    await until(lambda: world.state("North") == "running", "it runs")


async def dies(world: World, code: int = 1, *, after: float = 0.0) -> None:
    """It lives for so long, ends by itself, and that is noticed."""
    await asyncio.sleep(after)
    old = world.pid("North")
    world.adapter.die("North", code)
    await until(lambda: world.pictured("North").actual.pid != old, "its end is noticed", SOON_SECONDS)


async def seconds_until_it_runs(world: World, seconds: float = 1000.0) -> float:
    """How long that takes from now."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await until(lambda: world.runs("North"), "it runs again", seconds)
    taken = loop.time() - begun
    await until(lambda: world.state("North") == "running", "and that is seen", SOON_SECONDS)
    return taken


async def given_up(world: World, seconds: float = HOUR_SECONDS) -> int:
    """Have it end as often as it is started, until it is quarantined; how many lives it had from now on."""
    lives = 0
    while world.state("North") != "quarantined":
        await until(lambda: world.runs("North") or world.state("North") == "quarantined", "it goes on", seconds)
        if world.runs("North"):
            lives += 1
            await dies(world)
    return lives


def around(seconds: float) -> Any:
    """This pause with any jitter, as `until` measures it."""
    unseen = seconds * (1 + JITTER) * STEP_SHARE
    return pytest.approx(seconds, abs=seconds * JITTER + unseen + 0.2)
