"""The long story of a fleet: what fails while operators send commands, and for how long."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from slack_playground import Playground
from supervisor_core.fleet.hub.hosts import SERVER
from tests.support.daemon.fleet_faults.records import NOTING_WORKER, Fault
from tests.support.daemon.fleet_faults.traffic import Traffic
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.daemon.host_lines import HUB
from tests.support.slack.slack_home import started
from tests.support.storage.full_disk import ROOMY, Disk, a_small_disk

HOSTS = ("web-1", "web-2", "web-3")
WORKERS = {"fetcher": NOTING_WORKER, "mailer": NOTING_WORKER}
DISK_FULL_SECONDS = 4.0


@dataclass(frozen=True)
class Lengths:
    """How long things fail, in seconds."""

    partition: float
    deadline: float
    """Of a command. A host is away for longer."""


@dataclass(frozen=True)
class Parts:
    """The hosts, by what fails there."""

    cut: str
    away: str
    full: str


FULL = Lengths(partition=60, deadline=75)
SAMPLE = Lengths(partition=10, deadline=12)


@dataclass
class Story:
    """A running fleet, and all that fails in it."""

    fleet: FleetHomes
    slack: Playground
    traffic: Traffic
    parts: Parts
    disk: Disk
    lengths: Lengths
    chance: random.Random
    faults: list[Fault] = field(default_factory=list)

    async def happen(self) -> None:
        """Have everything fail in turn, in an order and on hosts of the seed, while operators send commands."""
        parts = self.parts
        kills: list[Callable[[], Awaitable[None]]] = [
            self.kill_server,
            self.kill_hub,
            partial(self.kill_host, parts.cut),
        ]
        self.chance.shuffle(kills)
        async with self.traffic.going_on(self.chance):
            await asyncio.gather(self.partition(parts.cut), self.fill_disk(parts.full))
            gone = asyncio.create_task(self.be_away(parts.away))
            for kill in kills:
                await kill()
            await gone

    async def partition(self, host: str) -> None:
        """Lose everything that a host and the server say to each other."""
        with self._fault("partition", host):
            self.fleet.lines[host].fall_silent("near", "far")
            await asyncio.sleep(self.lengths.partition)
            self.fleet.lines[host].mend()

    async def fill_disk(self, host: str) -> None:
        """Have no space left where a host keeps its ledger."""
        with self._fault("full disk", host):
            # In a thread: Slack runs in this one, and mustn't stand still meanwhile.
            await asyncio.to_thread(self.disk.fill, self.fleet.hosts[host].daemon_pid)
            await asyncio.sleep(DISK_FULL_SECONDS)
            self.disk.free(self.fleet.hosts[host].daemon_pid)

    async def be_away(self, host: str) -> None:
        """Have a host without its daemon for longer than a command waits."""
        with self._fault("away", host):
            self.fleet.hosts[host].kill_newest_daemon()
            await asyncio.sleep(self.lengths.deadline + 2)
            await asyncio.to_thread(self.fleet.hosts[host].start_daemon)

    async def kill_host(self, host: str) -> None:
        """`kill -9` of a host's daemon."""
        with self._fault("kill", host):
            self.fleet.hosts[host].kill_newest_daemon()
            await asyncio.sleep(self.chance.uniform(0, 1))
            await asyncio.to_thread(self.fleet.hosts[host].start_daemon)

    async def kill_server(self) -> None:
        """`kill -9` of the NATS server."""
        with self._fault("kill", SERVER):
            await asyncio.to_thread(self.fleet.kill_server)
            await asyncio.sleep(self.chance.uniform(0, 1))
            await asyncio.to_thread(self.fleet.server.start)

    async def kill_hub(self) -> None:
        """`kill -9` of the hub's daemon."""
        with self._fault("kill", HUB):
            self.fleet.hub.kill_newest_daemon()
            await asyncio.sleep(self.chance.uniform(0, 1))
            await started(self.fleet.hub, self.slack)

    @contextmanager
    def _fault(self, name: str, target: str) -> Iterator[None]:
        begun = datetime.now(UTC)
        yield
        self.faults.append(Fault(f"{name} of {target}", target, begun, datetime.now(UTC)))


@asynccontextmanager
async def a_story(
    folder: Path, database_url: str, lengths: Lengths, seed: int, environ: dict[str, str]
) -> AsyncIterator[Story]:
    """A fleet with small disks, its hub's ledger in this database, and Slack beside the hub."""
    slack, chance = Playground(patience=30), random.Random(seed)
    parts = Parts(*chance.sample(HOSTS, len(HOSTS)))
    await slack.server.start()
    try:
        with ExitStack() as ending:
            disk = ending.enter_context(a_small_disk(folder / parts.full / "var", ROOMY))
            made = a_fleet(
                folder,
                HOSTS,
                WORKERS,
                deadline_minutes=lengths.deadline / 60,
                environ=environ,
                database_url=database_url,
                alert_channel="C0OPS",
            )
            fleet = ending.enter_context(made)
            await fleet.start(slack)
            yield Story(fleet, slack, Traffic(fleet, slack), parts, disk, lengths, chance)
    except BaseException:
        print(slack.story())
        raise
    finally:
        await slack.server.stop()
