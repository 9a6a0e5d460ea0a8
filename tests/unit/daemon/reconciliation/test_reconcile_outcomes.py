"""What the reconciler tells of its rounds: one event when the actions have ended, and whether one of them failed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.common.events import Event, EventType, Subscription
from tests.support.daemon.reconciliation import World, a_world, until, waiting

OUTCOMES = (EventType.RECONCILE_COMPLETED, EventType.RECONCILE_FAILED)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North={}, South={}) as made:
        yield made


async def first(heard: Subscription) -> Event:
    await until(lambda: heard.waiting, "an outcome")
    [*_, event] = waiting(heard)[:1]
    return event


def test_each_action_has_its_outcome_and_a_failed_one_is_tried_again(world: World) -> None:
    async def story() -> None:
        heard = world.reconciler.subscribe(OUTCOMES)
        world.adapter.break_start("North", "no such program")
        await world.reconciler.start()
        await until(lambda: world.runs("South") and heard.waiting >= 2, "both outcomes")
        outcomes = [event for event in waiting(heard) if event.payload["actions"]]
        (failed,) = [event for event in outcomes if event.type == "reconcile.failed"]
        assert failed.payload["actions"] == {"North": "start"}
        assert {"South": "start"} in [event.payload["actions"] for event in outcomes if event is not failed]
        assert failed.payload["error"].startswith("North: ")
        assert "no such program" in failed.payload["error"]
        world.adapter.break_start("North", "")
        await until(lambda: world.runs("North"), "it starts after its backoff", 60)
        await until(lambda: any(each.type == "reconcile.completed" for each in waiting(heard)), "and that is told")

    world.run(story())


def test_a_stop_that_fails_has_failed(world: World) -> None:
    async def story() -> None:
        await world.reconciler.start()
        await until(lambda: world.runs("North", "South"))
        heard = world.reconciler.subscribe([EventType.RECONCILE_FAILED])
        world.adapter.unkillable("North")
        world.configure(North={"enabled": False}, South={})
        event = await first(heard)
        assert event.payload["actions"] == {"North": "stop"}
        assert "can't be stopped" in event.payload["error"]

    world.run(story())


def test_a_worker_that_is_removed_is_told_of(world: World) -> None:
    async def story() -> None:
        await world.reconciler.start()
        await until(lambda: world.runs("North", "South"))
        heard = world.reconciler.subscribe(OUTCOMES)
        world.configure(South={})
        await until(lambda: any(each.payload["actions"] == {"North": "remove"} for each in waiting(heard)), "its end")

    world.run(story())


def test_after_the_start_each_worker_is_in_the_snapshot(world: World) -> None:
    async def story() -> None:
        await world.reconciler.start()
        snapshot = world.reconciler.current_snapshot()
        assert list(snapshot.workers) == ["North", "South"]
        assert [worker.connected for worker in snapshot.workers.values()] == [False, False]
        await until(lambda: world.pictured("North").connected, "it runs")
        assert not snapshot.workers["North"].connected
        assert world.pictured("North").enabled
        assert not world.pictured("North").quarantined
        assert world.reconciler.current_snapshot().version > snapshot.version

    world.run(story())
