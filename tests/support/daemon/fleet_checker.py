"""Checks a fleet after a fault: ledgers, audit trails, the workers' own record, NATS and Slack agree on every command.

The workers are shells that note each of their starts in a file: what a host says that it did can be counted there.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from slack_playground import NotSeen, Playground
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.streams import call
from supervisor_core.fleet.transport.subjects import COMMANDS, HUB_INBOX
from tests.support.daemon.fleet_homes import KEY, FleetHomes
from tests.support.homes import Home
from tests.support.slack.slack_home import WAITING, SlackHome
from tests.support.waiting import wait_until

STARTS = "starts.log"
NOTING_WORKER = {
    "command": ["/bin/sh", "-c", f"echo $$ >> {STARTS}; exec sleep 1000"],
    "start_grace_seconds": 0.2,
    "stop_timeout_seconds": 5,
    "heartbeat_max_age_seconds": 0,
}
SETTLED_SECONDS = 60.0
ENDS = ("restarted", "failed", "interrupted", "Restart of")


@dataclass
class Traffic:
    """Commands from Slack, one after the other, each with a label of its own."""

    fleet: FleetHomes
    slack: Playground
    acknowledged: list[str] = field(default_factory=list)
    """Their labels."""
    _numbers: Any = field(default_factory=itertools.count)

    async def send(self, host: str) -> bool:
        """Have a host's worker restart; False if Slack got no acknowledgment."""
        label = f"round{next(self._numbers):03}"
        operator = self.slack.user("operator")
        try:
            await operator.slash(f"/supervisor restart {host}/fetcher {label}")
        except NotSeen:  # the hub is away
            return False
        self.acknowledged.append(label)
        return True

    async def send_round(self) -> None:
        """One command to each host."""
        for host in self.fleet.hosts:
            await self.send(host)


class FleetChecker:
    """All that must hold once everybody is back."""

    def __init__(self, traffic: Traffic) -> None:
        self._fleet = traffic.fleet
        self._slack = traffic.slack
        self._acknowledged = traffic.acknowledged

    async def check(self) -> list[dict[str, Any]]:
        """Wait until nothing waits, and check everything; the hub's jobs."""
        await asyncio.to_thread(self._settle)
        jobs = self._jobs(self._fleet.hub)
        by_label = {job["label"]: job for job in jobs}
        assert len(by_label) == len(jobs), "no command has two jobs"
        assert set(self._acknowledged) <= by_label.keys(), f"acknowledged and lost:\n{self._fleet.hub.daemon_log()}"
        for name, host in self._fleet.hosts.items():
            here = [job for job in jobs if job["worker_id"] == f"{name}/fetcher"]
            self._check_host(name, host, here)
        await self._check_cards(jobs)
        await self._check_streams()
        return jobs

    def _settle(self) -> None:
        for home in (self._fleet.hub, *self._fleet.hosts.values()):
            wait_until(partial(_nothing_waits, home), SETTLED_SECONDS, f"nothing waits in {home.folder}")
        wait_until(self._is_copied, SETTLED_SECONDS, f"all is copied:\n{self._fleet.hub.daemon_log()}")
        wait_until(lambda: not self._fleet.hub.rows(WAITING), SETTLED_SECONDS, "nothing waits in the hub")

    def _is_copied(self) -> bool:
        return all(self._chain(self._fleet.hub, name) == self._chain(host, name) for name, host in self._hosts())

    def _hosts(self) -> list[tuple[str, Home]]:
        return list(self._fleet.hosts.items())

    def _check_host(self, name: str, host: Home, here: list[dict[str, Any]]) -> None:
        """The hub's rows are the host's, in their order, and each was carried out once."""
        there = self._jobs(host)
        known = {job["task_id"]: job for job in there}
        assert len(known) == len(there)
        order = [job["task_id"] for job in here if job["task_id"] in known]
        assert order == [job["task_id"] for job in there], "the order is kept"
        for job in here:
            assert job["state"] in ("done", "interrupted"), job
            assert job["task_id"] in known, f"the host never got {job}"
            mine = known[job["task_id"]]
            assert (job["state"], job["success"], job["error"]) == (mine["state"], mine["success"], mine["error"])
        rows = Counter(
            row["task_id"] for row in _rows(host, "select task_id from audit_log_t where action like 'RES%'")
        )
        assert set(rows.values()) <= {1}, f"one audit row for each: {rows}"
        done = sum(1 for job in there if job["success"])
        cut_off = sum(1 for job in there if not job["success"] and job["started_at"])
        starts = len((host.folder / STARTS).read_text().splitlines())
        assert starts <= 1 + done + cut_off, (name, starts, done, cut_off)  # one may end before it has noted itself
        for home in (host, self._fleet.hub):
            verified = home.supervisor("audit", "verify")
            assert verified.returncode == 0, verified.stdout
        assert self._chain(self._fleet.hub, name) == self._chain(host, name)

    async def _check_cards(self, jobs: list[dict[str, Any]]) -> None:
        """Each command has one card, with its outcome."""
        texts = [str(message) for message in self._slack.channel("ops").messages()]
        for job in jobs:
            cards = [text for text in texts if job["label"] in text]
            assert len(cards) == 1, (job["label"], cards)
            assert any(word in cards[0] for word in ENDS), cards[0]

    async def _check_streams(self) -> None:
        key = KeyPair.read(self._fleet.hub.folder / KEY)
        async with FleetConnection(self._fleet.url, key, name="checker", inbox=f"{HUB_INBOX}.checker") as connection:
            await connection.wait_connected(10)
            found, ends = await call(connection, f"STREAM.INFO.{COMMANDS}"), time.monotonic() + SETTLED_SECONDS
            while found["state"]["messages"] and time.monotonic() < ends:  # one that a killed host had comes again
                await asyncio.sleep(0.1)
                found = await call(connection, f"STREAM.INFO.{COMMANDS}")
            assert found["state"]["messages"] == 0, "every command is acknowledged"

    def _jobs(self, home: Home) -> list[dict[str, Any]]:
        return _rows(home, "select * from jobs_t where label is not null order by job_id")

    def _chain(self, home: Home, name: str) -> list[str]:
        query = f"select hash from audit_log_t where supervisor_id = '{name}' order by audit_id"
        return [row["hash"] for row in _rows(home, query)]


def _nothing_waits(home: Home) -> bool:
    return not _rows(home, WAITING)


def _rows(home: Home, query: str) -> list[dict[str, Any]]:
    return SlackHome.rows(home, query)  # type: ignore[arg-type]
