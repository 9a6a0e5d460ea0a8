"""The daemon's heartbeats: a file and two rows for each worker, whatever the drive, a look or one worker does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import text

from supervisor_core.common.service import Blocking
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import DaemonContext, HostContext, open_doors
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.heartbeats.files import supervisor_heartbeat_path, write_heartbeat_rows
from supervisor_core.workers.heartbeats.service import HeartbeatService
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.status import WorkerStatus
from tests.support.daemon.worker_statuses import worker_status
from tests.support.processes.fake_processes import FakeProcesses

PATIENCE_SECONDS = 20.0


@dataclass
class Place:
    """A host with two workers that rest, without processes."""

    host: HostContext
    ledger: Ledger
    nas: Path

    def rows(self) -> dict[str, str]:
        """What each row says."""
        query = text("SELECT worker_id, status_summary FROM workers_t")
        return self.ledger.read(lambda connection: {row[0]: row[1] for row in connection.execute(query)})

    def file(self, worker_id: str) -> Any:
        path = supervisor_heartbeat_path(self.host.config.folder("state"), worker_id)
        return json.loads(path.read_text()) if path.is_file() else None

    async def look(self) -> list[WorkerStatus]:
        host = self.host
        return await Blocking(1)(observe_workers, host, list(host.config.workers.values()))


def write_config(folder: Path, *worker_ids: str, **more: Any) -> Path:
    workers = {each: {"command": ["true"], "enabled": False} for each in worker_ids}
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var", **more},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "workers": workers,
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    return folder / "config.yaml"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    (tmp_path / "nas").mkdir()
    config = load_supervisor_config(write_config(tmp_path, "a", "b", heartbeat_seconds=0.05), environ={})
    with opened_ledger(config) as ledger:
        host = replace(open_doors(config), processes=FakeProcesses())
        yield Place(host, ledger, tmp_path / "nas")


def play(
    place: Place,
    story: Callable[
        [HeartbeatService, DaemonContext, Callable[[Callable[[], object]], Awaitable[None]]], Awaitable[None]
    ],
    look_at: Callable[[], Awaitable[list[WorkerStatus]]] | None = None,
) -> HeartbeatService:
    async def run() -> HeartbeatService:
        parts = DaemonContext(place.host, place.ledger)
        service, stopping = HeartbeatService(parts, Blocking(4), look_at or place.look), asyncio.Event()
        await service.initialise()
        task = asyncio.create_task(service.run(stopping))

        async def until(condition: Callable[[], object]) -> None:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    assert not task.done(), task.exception()
                    await asyncio.sleep(0.01)

        try:
            await story(service, parts, until)
        finally:
            stopping.set()
            async with asyncio.timeout(PATIENCE_SECONDS):
                await task
        return service

    return asyncio.run(run())


def test_one_bad_worker_keeps_no_other_from_being_told(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    def tell(execute: Any, said: Any, seen: Any, **options: Any) -> None:
        if said.worker_id == "a":
            raise OverflowError("too large for a column")
        write_heartbeat_rows(execute, said, seen, **options)

    monkeypatch.setattr("supervisor_core.workers.heartbeats.service.write_heartbeat_rows", tell)

    async def story(service: HeartbeatService, _parts: DaemonContext, until: Any) -> None:
        await until(lambda: place.file("b"))
        assert "a couldn't be written" in service.problem()
        assert set(place.rows()) == {"supervisor_b"}
        assert place.file("a"), "its file has room for what its row has not"

    play(place, story)


def test_workers_that_can_not_be_looked_at_are_told_of_as_such(place: Place) -> None:
    async def fail() -> list[WorkerStatus]:
        raise OSError(5, "Input/output error")

    async def story(service: HeartbeatService, _parts: DaemonContext, until: Any) -> None:
        await until(lambda: place.file("a"))
        assert "the workers couldn't be checked" in service.problem()
        assert "Input/output error" in place.rows()["supervisor_a"]
        assert not place.file("a")["success"]

    play(place, story, fail)


def test_a_look_that_never_comes_back_does_not_hold_up_the_end(place: Place) -> None:
    begun = asyncio.Event()

    async def never() -> list[WorkerStatus]:
        begun.set()
        await asyncio.Event().wait()
        return []

    async def story(_service: HeartbeatService, _parts: DaemonContext, _until: Any) -> None:
        await begun.wait()

    play(place, story, never)


def status(worker_id: str, state: WorkerState) -> WorkerStatus:
    return worker_status(worker_id, datetime.now(UTC), state)


def test_one_whose_condition_changes_is_told_of_at_once_and_alone(place: Place) -> None:
    place.host = replace(
        place.host, config=load_supervisor_config(write_config(place.nas.parent, "a", "b"), environ={})
    )

    async def story(service: HeartbeatService, _parts: DaemonContext, until: Any) -> None:
        await until(lambda: place.file("a") and place.file("b"))
        before = place.file("a")["timestamp"], place.file("b")["timestamp"]
        service.see([status("a", WorkerState.STARTING), status("b", WorkerState.STOPPED)])
        await until(lambda: place.file("a")["timestamp"] > before[0] and place.file("b")["timestamp"] > before[1])
        before = place.file("a")["timestamp"], place.file("b")["timestamp"]
        service.see([status("a", WorkerState.RUNNING), status("b", WorkerState.STOPPED)])
        await until(lambda: place.file("a")["timestamp"] > before[0])
        assert place.file("b")["timestamp"] == before[1]

    play(place, story)
