"""An actor whose task breaks is begun anew, alone: the others keep what they have in hand."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import Connection

from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.events import Event, EventBus, EventType
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, Job
from tests.support.daemon.reconciliation import World, a_world, until


class BrokenBus(EventBus):
    """What is to be told of a worker's states raises, so often, for whoever tells it."""

    def __init__(self) -> None:
        super().__init__()
        self.raises: dict[str, int] = {}

    def publish(self, event: Event) -> None:
        left = self.raises.get(event.subject, 0)
        if left and event.type is EventType.WORKER_STATE_CHANGED:
            self.raises[event.subject] = left - 1
            raise OSError("the bus is broken")
        super().publish(event)


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    with a_world(tmp_path, monkeypatch, North={}, South={}) as made:
        yield made


def test_one_actor_that_breaks_is_begun_anew_and_the_others_keep_what_is_in_hand(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        await world.reconciler.start()
        await until(lambda: world.state("North") == world.state("South") == "running", "both run")
        world.reconciler.bus = bus = BrokenBus()
        let_go = threading.Event()
        world.adapter.slow("South", let_go)
        slow = world.send("restart_watcher", "South")
        world.configure(North={}, South={"enabled": False})
        await until(lambda: world.job(slow).outcome is not None, "it is restarted")
        await until(lambda: world.adapter.done("South") == ["start", "stop"], "South is being stopped")
        bus.raises["North"] = 2  # the work, and the edge that deals with that
        task = world.send("restart_watcher", "North")
        await until(lambda: any("is restarted" in each.getMessage() for each in caplog.records), "its task broke")
        assert bus.raises["North"] == 0
        assert world.state("South") == "stopping", "what is in hand for the other stays so"
        after = world.send("diagnostics", "North")
        await until(lambda: world.job(after).outcome is not None, "it works again")
        assert world.job(task).outcome is not None, "what had not begun was not lost"
        let_go.set()
        await until(lambda: world.state("South") == "stopped", "and the other ends its own")
        assert world.reconciler.problem() == ""
        assert world.adapter.overlaps == []

    world.run_in_threads(story())


def test_a_command_is_reported_as_ended_although_the_queue_cannot_be_read_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, failed = jobs.next_to_run, 0

    def next_to_run(connection: Connection, worker_id: str, parallel: int = 1) -> Job | None:
        nonlocal failed
        ended = [job.state in FINAL for job in jobs.of_task(connection, "task_1")] == [True]
        if not failed and worker_id == "North" and ended:
            failed += 1
            raise LedgerUnavailable("the disk doesn't answer")
        return real(connection, worker_id, parallel)

    async def story() -> None:
        await world.reconciler.start()
        await until(lambda: world.state("North") == world.state("South") == "running", "both run")
        monkeypatch.setattr(jobs, "next_to_run", next_to_run)
        task = world.send("diagnostics", "North")
        await until(lambda: failed, "the queue couldn't be read")
        await until(lambda: [each.task_id for each in world.finished] == [task], "its end was reported", 0.5)
        assert world.reconciler.problem().endswith("the disk doesn't answer")
        await until(lambda: world.reconciler.problem() == "", "it goes on")

    world.run_in_threads(story())
