"""The status of 10,000 workers on 1,000 hosts, from a hub whose ledger is in PostgreSQL to the shell and to Slack.

The hub is a real daemon. The hosts are the light ones of `bench_fleet`, with ten workers each: the hub knows their
names from its ledger, and their status from the hosts, which say every five seconds that they are there.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from multiprocessing.connection import Connection as Pipe
from pathlib import Path
from typing import Any

from sqlalchemy import Engine, insert

from slack_playground import Playground
from supervisor_core.common.times import to_text
from supervisor_core.storage.tables import fleet_hosts
from tests.benchmarks.bench_fleet import hosts_process
from tests.benchmarks.rows import OURS, Row, row_of
from tests.benchmarks.timing import milliseconds
from tests.support.daemon.fleets import NatsFleet
from tests.support.daemon.hub_pairs import HubHome
from tests.support.homes import ROOT, a_home
from tests.support.slack.slack_home import ACCESS

ROUNDS = 8
PATIENCE_SECONDS = 60.0
KEY = "hub.seed"
SHELL = ("status", "status --json", "status host:h7", "audit", "audit --command undo")
SLACK = ("status", "status host:h7")


def measure(url: str, writer: Engine, hosts: int, workers: int) -> list[Row]:
    """Of so many hosts with so many workers each, whose hub has its ledger in this database."""
    names = [f"h{number}" for number in range(hosts)]
    with tempfile.TemporaryDirectory(prefix="fs-") as name, _fleet(Path(name), names) as (fleet, child, pipe):
        now = datetime.now(UTC)
        known = [_host(each, key.public_key, now) for each, key in fleet.hosts.items()]
        with writer.begin() as connection:
            connection.execute(insert(fleet_hosts), known)
        asyncio.run(fleet.prepare())
        child.start()
        assert pipe.recv() == "connected"
        times = asyncio.run(_times(Path(name) / "hub", fleet, url, hosts * workers))
    return [row_of(f"{what}, {hosts * workers:,} workers", OURS, taken) for what, taken in times.items()]


def _host(name: str, key: str, now: datetime) -> dict[str, Any]:
    return {
        "host_id": name, "public_key": key, "state": "joined", "joined_at": now, "version": "1.0", "workers_json": "[]",
    }  # fmt: skip


def worker_status(number: int) -> dict[str, Any]:
    """The status of a worker, as its host reports it."""
    since = to_text(datetime(2026, 2, 5, 14, 30, tzinfo=UTC))
    return {
        "id": f"worker-{number}", "state": "running", "health": "healthy", "reason": "heartbeat 1 s ago", "fine": True,
        "pid": 4000 + number, "paused": False, "quarantined": False, "muted_until": None, "muted_for": None,
        "team": f"team-{number}", "enabled": True, "started_at": since, "last_health_at": since, "last_error": None,
        "commit": "1a2b3c4", "memory_bytes": 52_428_800, "cpu_percent": 0.4, "cpu_seconds": 120.5,
        "restarts_last_hour": 0, "due_at": None,
    }  # fmt: skip


@contextmanager
def _fleet(folder: Path, names: list[str]) -> Iterator[tuple[NatsFleet, Any, Pipe]]:
    fleet = NatsFleet(folder / "nats", names)
    fleet.server.start()
    here, there = multiprocessing.Pipe()
    seeds = {name: key.seed for name, key in fleet.hosts.items()}
    workers = [worker_status(number) for number in range(10)]
    arguments = (fleet.url, fleet.hub_keys.public_key, seeds, there, workers)
    child = multiprocessing.get_context("spawn").Process(target=hosts_process, args=arguments)
    try:
        yield fleet, child, here
    finally:
        child.kill() if child.is_alive() else None
        fleet.server.stop()


async def _times(folder: Path, fleet: NatsFleet, url: str, workers: int) -> Mapping[str, list[float]]:
    script = str(Path(sys.executable).with_name("supervisor"))
    times: dict[str, list[float]] = {}
    async with Playground(ROOT / "manifest.yml", patience=PATIENCE_SECONDS) as slack:
        with ExitStack() as ending:
            home = ending.enter_context(_hub(folder, fleet, url))
            operator = slack.user("operator")
            home.slack = slack.environment
            await asyncio.to_thread(home.start_daemon)
            await slack.connected()
            while not await asyncio.to_thread(_all_run, home, workers):  # noqa: ASYNC110 (another process)
                await asyncio.sleep(0.5)
            environ = {name: value for name, value in home.environ.items() if name != "PYTHONPATH"}
            for turn in range(ROUNDS + 1):
                taken = {}
                for text in SHELL:
                    words = [script, *text.split()]
                    taken[f"`supervisor {text}`"] = await asyncio.to_thread(milliseconds, words, environ, home.folder)
                for text in SLACK:
                    begun = time.perf_counter()
                    card = await operator.slash(f"/supervisor {text}")
                    await card.shows("running")
                    taken[f"`/supervisor {text}` until Slack has the answer"] = (time.perf_counter() - begun) * 1000
                for what, milliseconds_taken in taken.items() if turn else ():
                    times.setdefault(what, []).append(milliseconds_taken)
    return times


def _all_run(home: HubHome, workers: int) -> bool:
    found = home.status()["workers"]
    return len(found) == workers and all(each["state"] == "running" for each in found)


@contextmanager
def _hub(folder: Path, fleet: NatsFleet, url: str) -> Iterator[HubHome]:
    with a_home(
        folder,
        {},
        make=HubHome,
        supervisor={"id": "hub", "state_dir": "var"},
        database={"url": url},
        slack={"enabled": True, "access": ACCESS},
        fleet={"role": "hub", "url": fleet.url, "credentials": KEY, "server": {"folder": str(fleet.folder)}},
    ) as home:
        assert isinstance(home, HubHome)
        home.url = url
        seed = folder / KEY
        seed.touch(0o600)
        seed.write_text(fleet.hub_keys.seed)
        yield home
