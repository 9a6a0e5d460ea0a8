"""How watched workers are, by a live look of the daemon: what has happened between two looks is seen as well."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from supervisor_core.code.watch.rules import Bake, BakeState, WatchedWorker, judge
from supervisor_core.daemon.status import watched_workers
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.restarts import history as starts
from tests.support.daemon.reconciliation import World, a_world, until

W = WorkerState
GRACE = timedelta(seconds=30)
BOTH = ("North", "South")
OFTEN = {"restart": {"policy": "always", "max_per_hour": 5, "backoff_seconds": 60}}
AT_ONCE = {"restart": {"policy": "always", "max_per_hour": 1, "backoff_seconds": 0}}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North=OFTEN, South=AT_ONCE) as made:
        yield made


def look(world: World, *worker_ids: str) -> dict[str, WatchedWorker]:
    return watched_workers(world.parts, world.reconciler, worker_ids or BOTH)


def said(world: World, worker_id: str, since: datetime) -> BakeState | None:
    """What would be said of it now, if it were watched since then."""
    now = datetime.now(UTC)
    bake = Bake("task_1", worker_id, "TestHost", worker_id, since, since + timedelta(minutes=10))
    verdict = judge(bake, look(world).get(worker_id), now, GRACE)
    return verdict.state if verdict else None


async def up(world: World) -> datetime:
    """Both run, as after a command that has ended just now."""
    await world.reconciler.start()
    await until(lambda: world.state("North") == world.state("South") == "running", "both run")
    return datetime.now(UTC)


async def dies_and_is_back(world: World) -> None:
    """South ends by itself, and is started again at once."""
    old = world.pid("South")
    world.adapter.die("South")
    await until(lambda: world.pid("South") not in (None, old) and world.state("South") == "running", "it is back")


def test_one_that_has_just_died_is_seen_before_anybody_was_told(world: World) -> None:
    async def story() -> None:
        since = await up(world)
        world.processes.die("North", 1)
        assert said(world, "North", since) is BakeState.DEGRADED
        world.reconciler.plan_again("North")
        await until(lambda: look(world)["North"].state is W.BACKING_OFF, "it backs off")
        assert said(world, "North", since) is BakeState.DEGRADED
        assert "exited (code 1)" in look(world)["North"].reason

    world.run_in_threads(story())


def test_one_that_died_and_was_started_again_between_two_looks_did_not_keep_running(world: World) -> None:
    async def story() -> None:
        since = await up(world)
        await dies_and_is_back(world)
        south = look(world)["South"]
        assert (south.state, south.fine) == (W.RUNNING, True)
        assert said(world, "South", since) is BakeState.DEGRADED
        assert said(world, "South", datetime.now(UTC)) is None, "of a change after that it says nothing"

    world.run_in_threads(story())


def test_a_restart_by_a_person_is_no_fault_of_the_change(world: World) -> None:
    async def story() -> None:
        since = await up(world)
        old, task_id = world.pid("North"), world.send("restart_watcher", "North")
        await until(lambda: world.job(task_id).outcome, "it is restarted")
        await until(lambda: world.state("North") == "running", "it runs")
        assert world.pid("North") != old
        assert said(world, "North", since) is None

    world.run_in_threads(story())


def test_a_start_that_a_wrong_clock_noted_in_the_future_says_nothing(world: World) -> None:
    async def story() -> None:
        since = await up(world)
        starts.write_starts(world.parts.host.config.state_dir, "North", [since + timedelta(days=1)])
        assert look(world)["North"].started_again_at is None

    world.run_in_threads(story())
