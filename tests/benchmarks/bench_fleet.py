"""A command to all hosts of a fleet, beside a bare loop: as many messages through the same stream, which the same hosts
acknowledge and nothing else. And hosts that vanish together.

The hosts are light: one process speaks the real protocol for all of them, with a connection, a key and a consumer each.
It checks each command's signature; in place of a ledger it keeps the job's row in memory.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import func, select

from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import canonical_json
from supervisor_core.common.times import to_text
from supervisor_core.fleet.hub.dispatch import SENT_AT_ONCE, CommandDispatcher
from supervisor_core.fleet.hub.hosts import FleetHosts
from supervisor_core.fleet.keys import CommandMessage, KeyPair, read_command
from supervisor_core.fleet.members import FleetMembers, apply_members
from supervisor_core.fleet.questions import USUAL_SECONDS, Asker, PresenceMessage
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection, FleetMessage
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage import tables
from supervisor_core.storage.store import Ledger
from tests.benchmarks.rows import OURS, Row, row_of
from tests.support.daemon.fleets import NatsFleet, a_hub_daemon
from tests.support.storage.ledger_rows import opened

SIZES = (10, 100, 1000)
PATIENCE = 60.0
ANNA = Issuer("slack:T0/U0ANNA", "anna")
MIB = 1024**2
BARE = b"x" * 600
BARE_LOOP = "JetStream alone"
VANISHING = 500
WORKER: Mapping[str, Any] = {"id": "w", "team": "", "enabled": True, "state": "running"}


class LightHost:
    """One host without a ledger."""

    def __init__(
        self, url: str, name: str, seed: str, hub_key: str, workers: Sequence[Mapping[str, Any]] = (WORKER,)
    ) -> None:
        self.name = name
        self._workers = list(workers)
        self.received: list[float] = []
        self.bare: list[float] = []
        self._hub_key = hub_key
        self._closed = False
        self._row: dict[str, Any] | None = None
        self._connection = FleetConnection(url, KeyPair(seed), name=name, inbox=subjects.host_inbox(name))

    async def connect(self) -> None:
        await self._connection.subscribe(subjects.ask_subject(self.name), self._answer)
        self._connection.start()
        await self._connection.wait_connected(PATIENCE)
        await self.speak()

    async def run(self) -> None:
        while not self._closed:
            with suppress(SupervisorError):
                for message in await self._connection.pull(subjects.COMMANDS, self.name):
                    if message.data == BARE:
                        await message.acknowledge()
                        self.bare.append(time.time())
                        continue
                    command = read_command(message.data, self.name, self._hub_key)
                    self._row = _row_of(self.name, command)
                    await message.acknowledge()
                    self.received.append(time.time())
                    await self.speak()

    async def live(self) -> None:
        while True:
            await asyncio.sleep(USUAL_SECONDS)
            with suppress(SupervisorError):
                await self.speak()

    async def close(self) -> None:
        self._closed = True
        await self._connection.close()

    async def speak(self) -> None:
        position = {"jobs": 1 if self._row else 0, "audit": 0, "flips": 0}
        said = PresenceMessage(self.name, datetime.now(UTC), f"ledger-{self.name}", position, 1, "life", "1.0")
        await self._connection.publish(subjects.presence_subject(self.name), said.encode())

    async def _answer(self, message: FleetMessage) -> None:
        asked = json.loads(json.loads(message.data)["signed"])["body"]["question"]
        rows = {"jobs_t": [self._row] if self._row else [], "audit_log_t": [], "flips_t": []}
        snapshot = {"life": "life", "number": 1, "workers": self._workers, "readings": []}
        await message.respond(canonical_json({"answer": rows if asked == "rows" else snapshot}).encode())


def _row_of(host: str, sent: CommandMessage) -> dict[str, Any]:
    now, command = to_text(datetime.now(UTC)), sent.command
    row = {column.name: None for column in tables.jobs.c}
    return row | {
        "job_id": 1, "changed": 1, "task_id": command.task_id, "worker_id": "w", "supervisor_id": host,
        "handler": "pause", "params_json": "{}", "issuer_id": ANNA.id, "issuer_name": ANNA.name, "door": sent.door,
        "approvals_json": "[]", "state": "done", "success": True, "details_json": "{}", "tier": 1,
        "filed_at": now, "created_at": now, "started_at": now, "finished_at": now,
    }  # fmt: skip


def hosts_process(
    url: str, hub_key: str, seeds: Mapping[str, str], pipe: Pipe, workers: Sequence[Mapping[str, Any]] = (WORKER,)
) -> None:
    """The hosts with these seeds, each with these workers."""

    async def main() -> None:
        hosts = [LightHost(url, name, seed, hub_key, workers) for name, seed in seeds.items()]
        for first in range(0, len(hosts), 50):
            await asyncio.gather(*(host.connect() for host in hosts[first : first + 50]))
        running = [asyncio.create_task(host.run()) for host in hosts]
        speaking = [asyncio.create_task(host.live()) for host in hosts]
        pipe.send("connected")
        while (said := await asyncio.to_thread(pipe.recv)) != "end":
            if said == "vanish":
                for task in (*running[:VANISHING], *speaking[:VANISHING]):
                    task.cancel()
                await asyncio.gather(*(host.close() for host in hosts[:VANISHING]))
            else:
                pipe.send([at for host in hosts for at in (host.bare if said == "bare" else host.received)])
        for task in (*running, *speaking):
            task.cancel()

    asyncio.run(main())


def measure() -> list[Row]:
    """The times and the memory by the number of hosts."""
    return [row for size in SIZES for row in measure_size(size)]


def measure_size(size: int) -> list[Row]:
    """One command to so many hosts."""
    names = [f"h{number}" for number in range(size)]
    with tempfile.TemporaryDirectory() as folder:
        fleet = NatsFleet(Path(folder) / "nats", names)
        fleet.server.start()
        here, there = multiprocessing.Pipe()
        seeds = {name: key.seed for name, key in fleet.hosts.items()}
        arguments = (fleet.url, fleet.hub_keys.public_key, seeds, there)
        child = multiprocessing.get_context("spawn").Process(target=hosts_process, args=arguments)
        try:
            with opened(Path(folder) / "hub", "hub") as ledger:
                return asyncio.run(_measure(fleet, ledger, child, here))
        finally:
            child.kill() if child.is_alive() else None
            fleet.server.stop()


async def _measure(fleet: NatsFleet, ledger: Ledger, child: Any, pipe: Pipe) -> list[Row]:
    members, now, size = FleetMembers(ledger), datetime.now(UTC), len(fleet.hosts)
    for name, key in fleet.hosts.items():
        members.join(members.invite(name, ANNA, now).invite_id, name, key.public_key, "1.0", now)
    await fleet.prepare()
    async with fleet.hub() as hub:
        await apply_members(hub, members, fleet.folder, fleet.hub_keys.public_key)
        ask = Asker(hub, fleet.hub_keys)
        silences: list[float] = []
        daemon = a_hub_daemon(on_silence_changed=lambda: silences.append(time.time()))
        hosts = FleetHosts(ledger, Blocking(), ask, members, hub, daemon)
        hosts.begin(members.hosts())
        dispatcher = CommandDispatcher(
            ledger, Blocking(), hub, fleet.hub_keys, hosts.hosts.keys, timedelta(minutes=10), lambda: ""
        )
        daemon.on_rows_copied = dispatcher.wake

        async def heard(message: FleetMessage) -> None:
            hosts.hear(subjects.last_word(message.subject), message.data)

        await hub.subscribe(subjects.ALL_PRESENCE, heard)
        stopping = asyncio.Event()
        running = [asyncio.create_task(each.run(stopping)) for each in (hosts, dispatcher)]
        child.start()
        assert await asyncio.to_thread(pipe.recv) == "connected"
        while len(hosts.announced()) < size:  # noqa: ASYNC110 (nobody tells)
            await asyncio.sleep(0.01)
        begun, stored = time.time(), await _bare(hub, fleet)
        acknowledged = await _told(pipe, "bare", size)
        submitted, results = time.time(), list[float]()
        ledger.write(lambda connection: _file(connection, fleet.hosts))
        dispatcher.wake()
        done = select(func.count()).where(tables.jobs.c.state == "done")
        while len(results) < size:
            ended = await asyncio.to_thread(ledger.read, lambda look: look.execute(done).scalar_one())
            results += [time.time()] * (ended - len(results))
            await asyncio.sleep(0.005)
        received = await _told(pipe, "received", size)
        memory = [psutil.Process().memory_info().rss / MIB, _server_memory(fleet)]
        vanished = await _vanish(hosts, silences, pipe) if size > VANISHING else []
        pipe.send("end")
        stopping.set()
        await asyncio.gather(*running)
    what = f"a command to {size:,} hosts"
    times = {"received": [at - submitted for at in received], "result at the hub": [at - submitted for at in results]}
    ends = [at - begun for at in acknowledged]  # with its acknowledgement a bare message is done
    floors = {"stored": [at - begun for at in stored], "received": ends, "result at the hub": ends}
    rows = [*_rows(what, OURS, times), *_rows(what, BARE_LOOP, floors)]
    rows.append(Row(f"{size:,} hosts: memory of the hub's process", OURS, "MiB", memory[0]))
    rows.append(Row(f"{size:,} hosts: memory of the NATS server", OURS, "MiB", memory[1]))
    return rows + vanished


def _rows(what: str, subject: str, times: Mapping[str, Sequence[float]]) -> list[Row]:
    """Two rows for each: the median, compared with the bare loop's, and the 99th percentile."""
    rows = []
    for name, taken in times.items():
        milliseconds = [1000 * each for each in taken]
        rows.append(row_of(f"{what}: {name}", subject, milliseconds, BARE_LOOP))
        rows.append(Row(f"{what}: {name} (99 %)", subject, "ms", _p99(milliseconds), against=BARE_LOOP))
    return rows


async def _told(pipe: Pipe, what: str, size: int) -> list[float]:
    """What the hosts have noted, once all have."""
    while True:
        pipe.send(what)
        found: list[float] = await asyncio.to_thread(pipe.recv)
        if len(found) >= size:
            return found
        await asyncio.sleep(0.05)


async def _vanish(hosts: FleetHosts, silences: list[float], pipe: Pipe) -> list[Row]:
    """Half of the hosts vanish at once."""
    silences.clear()
    logging.getLogger("supervisor_core").setLevel(logging.CRITICAL)  # a line for each of them
    pipe.send("vanish")
    begun = time.time()
    while not silences:  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.05)
    told = len(hosts.silent())
    what = f"{VANISHING} of {len(hosts.hosts):,} hosts vanish"
    return [
        Row(f"{what}: until the alert", OURS, "s", silences[0] - begun),
        Row(f"{what}: hosts in the first alert", OURS, median=told),
    ]


def _file(connection: Any, names: Mapping[str, object]) -> None:
    now = datetime.now(UTC)
    new = [jobs.NewJob("task_bench", f"{name}/w", "pause", {}, "all", ANNA, "slack", now) for name in names]
    jobs.file_all(connection, "hub", new, now)


async def _bare(hub: FleetConnection, fleet: NatsFleet) -> list[float]:
    """A message of the same size to each host, which only acknowledges it: when each was stored."""
    places, times = asyncio.Semaphore(SENT_AT_ONCE), list[float]()

    async def publish(number: int, host: str) -> None:
        async with places:
            await hub.publish_durably(subjects.command_subject(host), BARE, f"bare-{number}")
            times.append(time.time())

    await asyncio.gather(*(publish(number, host) for number, host in enumerate(fleet.hosts)))
    return times


def _server_memory(fleet: NatsFleet) -> float:
    running = fleet.server.identity
    return float(psutil.Process(running.pid).memory_info().rss / MIB) if running else 0.0


def _p99(samples: Sequence[float]) -> float:
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * 0.99))]
