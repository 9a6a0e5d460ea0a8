"""`status` as the daemon answers it: what is wrong makes it unhealthy and is named, whoever it is that suffers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.daemon.observer import WorkerObserver
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.life import LifeRecorder
from supervisor_core.daemon.status import status_document, worker_documents
from tests.support.daemon.agents import at_once
from tests.support.daemon.reconciliation import AtOnce, World, a_world, until

SOON_SECONDS = 1.0


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North={}, South={}) as made:
        yield made


async def up(world: World) -> None:
    await world.reconciler.start()
    await until(lambda: world.state("North") == world.state("South") == "running", "both run")


def shown(world: World) -> dict[str, dict[str, Any]]:
    """Each worker as `status` shows it now."""
    looked = WorkerObserver(world.parts).look(world.reconciler.settings())
    return {each["id"]: each for each in worker_documents(world.parts, world.reconciler, looked)}


def test_a_supervisor_that_has_failed_is_not_healthy(world: World) -> None:
    async def story() -> None:
        await up(world)
        config = world.parts.host.config
        agent = SupervisorAgent("TestHost", world.parts.ledger, heartbeat_seconds=0, elsewhere=at_once)
        living = LifeRecorder(agent, world.parts, lambda: "")
        configuration = ConfigService(config, AtOnce())

        def document() -> dict[str, Any]:
            workers, started = list(shown(world).values()), datetime.now(UTC)
            told = (world.parts.ledger, agent, configuration, living, world.reconciler)
            return status_document(*told, [], workers, [], started)

        await agent.spawn()
        await agent.start()
        assert document()["healthy"]
        await agent.fail("queue_processor: it broke")
        assert not document()["healthy"]
        assert (document()["supervisor"]["status"], document()["supervisor"]["reason"]) == (
            "FAILED",
            "queue_processor: it broke",
        )
        await agent.stop()
        assert not document()["healthy"], "nor is one whose life is over"

    world.run(story())


def test_a_removed_worker_that_runs_because_monitoring_is_paused_is_shown_with_its_reason(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.resting = True
        world.configure(South={})
        await asyncio.sleep(SOON_SECONDS)
        assert shown(world)["North"]["state"] == "running"
        assert "no longer in the configuration" in shown(world)["North"]["reason"]
        assert not shown(world)["North"]["fine"]
        assert shown(world)["South"]["fine"]

    world.run(story())


def test_one_whose_record_can_not_be_read_says_why(world: World) -> None:
    async def story() -> None:
        await up(world)
        world.processes.hide("North")
        await asyncio.sleep(SOON_SECONDS)
        north = shown(world)["North"]
        assert "The system doesn't say" in north["reason"]
        assert not north["fine"]

    world.run(story())
