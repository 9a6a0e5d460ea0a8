"""A reconciler with real doors and a real ledger over workers that exist only in the test, and clocks that jump.

`World.run` runs a story on a loop whose clock is virtual and whose blocking calls are done at once, so that nothing
waits; `World.run_in_threads` does it as the daemon does.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from supervisor_core.commands.command import Issuer
from supervisor_core.common.events import Event, EventBus
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon import worker as operations
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.daemon.reconciler import Program, Reconciler
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.jobs.rows import NewJob
from supervisor_core.storage.store import Ledger
from supervisor_core.workers import observation as frozen
from supervisor_core.workers.context import DaemonContext, HostContext, open_doors
from supervisor_core.workers.restarts import history as past
from supervisor_core.workers.status import WorkerSnapshot
from tests.support.daemon.virtual_time import VirtualLoop
from tests.support.processes.fake_adapter import ScriptedAdapter

T = TypeVar("T")
BEGINNING = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
COMMAND = ["sleep", "1000"]
BEYOND_SECONDS = 1e-6
STEP_SECONDS = 0.05
STEP_SHARE = 0.02  # of what was waited already
PATIENCE_SECONDS = 20.0
PERSON, SCHEDULE = "cli:anna", "schedule:nightly"


class Clock:
    """The time of day and the monotonic clock of a story: those of its loop, and they go on from story to story."""

    before = 0.0

    def monotonic(self) -> float:
        return self.before + asyncio.get_running_loop().time()

    def now(self) -> datetime:
        return BEGINNING + timedelta(seconds=self.monotonic())

    def sleep(self, seconds: float) -> None:
        """What is done at once waits for nothing."""


class TimedHost(HostContext):
    """A host whose time of day is the story's."""

    __slots__ = ()
    clock = Clock()

    def now(self) -> datetime:
        return self.clock.now()


class AtOnce(Blocking):
    """Calls that block are done where they are asked for, in the order in which they are asked for."""

    async def __call__(self, work: Callable[..., T], *arguments: Any) -> T:
        await asyncio.sleep(0)
        return work(*arguments)


class Around(Program):
    """The program of a story."""

    reconciler: Reconciler

    def __init__(self, world: World, blocking: Blocking) -> None:
        self.world = world
        self.context = world.parts
        self.blocking = blocking
        self.bus = EventBus()

    def monitoring_paused(self) -> bool:
        return self.world.rests()

    def job_finished(self, job: Job) -> None:
        self.world.finished.append(job)

    def wake_workers(self, worker_ids: Collection[str] | None = None) -> None:
        self.reconciler.wake(worker_ids)


class World:
    """One host, the workers of its configuration, and the newest of its supervisors."""

    def __init__(self, folder: Path, ledger: Ledger, config: SupervisorConfig, patch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._patch = patch
        self._tasks = itertools.count(1)
        real = open_doors(config)
        self.adapter = ScriptedAdapter(lambda: self.parts.host.config)
        self.processes = self.adapter.processes
        fields = {name: getattr(real, name) for name in HostContext.__dataclass_fields__}
        self.clock = Clock()
        self.parts = DaemonContext(HostContext(**{**fields, "processes": self.processes}), ledger)
        self.configuration = ConfigService(config, AtOnce())
        self.resting = False
        self.rests: Callable[[], bool] = lambda: self.resting
        self.finished: list[Job] = []
        self.reconciler = self._another()

    # --- stories

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        """Run it on virtual clocks."""
        host = self.parts.host
        self.parts.host = TimedHost(**{name: getattr(host, name) for name in HostContext.__dataclass_fields__})
        TimedHost.clock = self.clock
        for module in (past, operations, frozen):
            self._patch.setattr(module, "time", self.clock)
        self._patch.setattr("supervisor_core.jobs.handlers.time", self.clock)
        with asyncio.Runner(loop_factory=lambda: VirtualLoop(BEYOND_SECONDS)) as runner:

            async def whole() -> T:
                try:
                    return await story
                finally:
                    await self.end()
                    self.clock.before = self.clock.monotonic()

            return runner.run(whole())

    def run_in_threads(self, story: Coroutine[Any, Any, T]) -> T:
        """Run it on the real clock, with threads for what blocks."""
        self._patch.setattr(operations, "BETWEEN_SECONDS", 0.0)
        self._patch.setattr("supervisor_core.jobs.handlers.BETWEEN_SECONDS", 0.0)
        self.reconciler = self._another(Blocking())

        async def whole() -> T:
            try:
                return await story
            finally:
                await self.end()

        return asyncio.run(whole())

    async def end(self) -> None:
        """The supervisor ends in good order."""
        await self.reconciler.stop()

    async def killed(self) -> Reconciler:
        """The supervisor is cut off, and another one follows that knows nothing but what is on the disk."""
        lives = [task for task in asyncio.all_tasks() if task.get_name() == self.reconciler.name]
        for life in lives:
            life.cancel()
        await asyncio.gather(*lives, return_exceptions=True)
        await self.reconciler.shut_down()
        known, self.adapter = self.adapter, ScriptedAdapter(lambda: self.parts.host.config)
        self.adapter.processes = known.processes
        self.reconciler = self._another()
        return self.reconciler

    def _another(self, blocking: Blocking | None = None) -> Reconciler:
        around = Around(self, blocking or AtOnce())
        around.reconciler = Reconciler(self.configuration, self.adapter, program=around)
        return around.reconciler

    # --- what happens to it

    def configure(self, **workers: Any) -> ConfigVersion:
        """This is in the configuration from now on, and the daemon has it; a worker that is None is removed from it."""
        self.configuration.apply(configured(self._folder, workers))
        return self.configuration.current

    @property
    def version(self) -> int:
        """The number of the newest configuration."""
        return self.configuration.current.number

    def send(self, handler: str, worker_id: str, issuer: str = PERSON) -> str:
        """Somebody asks for it; its task id."""
        task_id, now = f"task_{next(self._tasks)}", datetime.now(UTC)
        new = NewJob(task_id, worker_id, handler, {}, None, Issuer(issuer, "anna"), "cli", now)
        self.parts.ledger.write(lambda connection: jobs.file(connection, "TestHost", new, now))
        self.reconciler.wake([worker_id])
        return task_id

    def lose_drive(self) -> None:
        """The drive is not there any more."""
        (self._folder / "nas").rename(self._folder / "away")

    def find_drive(self) -> None:
        """It is back."""
        (self._folder / "away").rename(self._folder / "nas")

    # --- how it is

    def job(self, task_id: str) -> Job:
        """The only job of this task."""
        (found,) = self.parts.ledger.read(lambda connection: jobs.of_task(connection, task_id))
        return found

    def pid(self, worker_id: str) -> int | None:
        """Its process, by a fresh look."""
        found = self.processes.find(worker_id).identity
        return found.pid if found else None

    def runs(self, *worker_ids: str) -> bool:
        """Whether all of them do."""
        return all(self.pid(each) for each in worker_ids)

    def pictured(self, worker_id: str) -> WorkerSnapshot:
        """Its place in the current snapshot."""
        return self.reconciler.current_snapshot().workers[worker_id]

    def state(self, worker_id: str) -> str:
        """Its state in the current snapshot; empty where it is not in it."""
        found = self.reconciler.current_snapshot().workers.get(worker_id)
        return str(found.actual.state) if found else ""


def configured(folder: Path, workers: dict[str, Any]) -> SupervisorConfig:
    """The configuration with these workers, and what they do not say themselves."""
    usual = {"command": COMMAND, "heartbeat_max_age_seconds": 0}
    document = {
        "supervisor": {"id": "TestHost", "state_dir": "var", "parallel": 1},
        "nas": {"root": "nas", "layout": "cornerstone"},
        "teams": {"archive": {}},
        "workers": {name: {**usual, **said} for name, said in workers.items() if said is not None},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    return load_supervisor_config(folder / "config.yaml")


@contextmanager
def a_world(folder: Path, patch: pytest.MonkeyPatch, **workers: Any) -> Iterator[World]:
    """A host with these workers, of which none runs yet."""
    (folder / "nas").mkdir(parents=True)
    patch.setattr(logging.getLogger("supervisor_core"), "propagate", True)
    config = configured(folder, workers)
    with opened_ledger(config) as ledger:
        yield World(folder, ledger, config, patch)


async def until(condition: Callable[[], T], message: str = "the condition", seconds: float = PATIENCE_SECONDS) -> T:
    """The first true answer of the condition, on the clock of the loop."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while not (answer := condition()):
        waited = loop.time() - begun
        assert waited < seconds, f"waited {seconds:g} s in vain for {message}; the last answer was {answer!r}"
        await asyncio.sleep(max(STEP_SECONDS, waited * STEP_SHARE))
    return answer


def waiting(subscription: Any) -> list[Event]:
    """The events that wait for this subscriber."""
    found: list[Event] = []
    while subscription.waiting:
        found.append(subscription.get(0))
    return found
