"""Operators who send commands through Slack the whole time: to one worker, to many and to all, by a seed."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from slack_playground import NotSeen, Playground
from tests.support.daemon.fleet_homes import FleetHomes

VERBS = ("restart", "restart", "pause", "resume", "resume", "diagnostics")
"""The commands of operators: more resumes than pauses, so that most workers run."""

LONGEST_PAUSE = 1.5
"""The seconds between two commands, at most."""


@dataclass(frozen=True)
class SentCommand:
    """A command that somebody typed in Slack."""

    label: str
    verb: str
    workers: tuple[str, ...]
    """Their addresses."""
    acknowledged: bool
    """False if Slack had no acknowledgment: the command may have been lost, and Slack said so."""


@dataclass
class Traffic:
    """Commands from Slack, one after the other, each with a label of its own."""

    fleet: FleetHomes
    slack: Playground
    sent: list[SentCommand] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def workers(self) -> tuple[str, ...]:
        """The addresses of all workers."""
        return tuple(f"{name}/{each}" for name, host in self.fleet.hosts.items() for each in host.worker_ids)

    @property
    def acknowledged(self) -> list[str]:
        """The labels of the commands that Slack saw acknowledged."""
        return [command.label for command in self.sent if command.acknowledged]

    async def send(self, verb: str, target: str) -> bool:
        """Send a command; False if Slack got no acknowledgment."""
        label = f"round{next(self._numbers):03}"
        pattern = target.replace("host:", "") + ("/*" if target.startswith("host:") else "")
        workers = tuple(each for each in self.workers if target == "all" or fnmatchcase(each, pattern))
        assert workers, f"{target} names no worker"
        heard = True
        try:
            await self.slack.user("operator").slash(f"/supervisor {verb} {target} {label}")
        except NotSeen:  # the hub is away
            heard = False
        self.sent.append(SentCommand(label, verb, workers, heard))
        return heard

    async def send_round(self) -> None:
        """Restart the first worker of each host, one command each."""
        for name, host in self.fleet.hosts.items():
            await self.send("restart", f"{name}/{host.worker_ids[0]}")

    @asynccontextmanager
    async def going_on(self, chance: random.Random) -> AsyncIterator[None]:
        """Have operators send commands meanwhile."""
        over = asyncio.Event()
        sending = asyncio.create_task(self._keep_sending(chance, over))
        try:
            yield
        finally:
            over.set()
            await sending

    async def _keep_sending(self, chance: random.Random, over: asyncio.Event) -> None:
        while not over.is_set():
            await self.send(chance.choice(VERBS), chance.choice(self._targets()))
            with suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), chance.uniform(0, LONGEST_PAUSE))

    def _targets(self) -> Sequence[str]:
        """One worker three times as often as many or all."""
        hosts = [f"host:{name}" for name in self.fleet.hosts]
        same = [f"*/{each}" for each in next(iter(self.fleet.hosts.values())).worker_ids]
        return (*self.workers, *self.workers, *hosts, *same, "all")
