"""How soon a slash command is acknowledged, next to a bare Bolt app, sync and async, on the same local Slack.

Measured by the local Slack, from the envelope that it sends to the acknowledgement that it receives. It runs in this
process and every app in one of its own, so that nobody shares an event loop; the floor is what it takes by itself.

- **One at a time**: `/supervisor help`, the next one as soon as the last is acknowledged. Bolt's listener has nothing
  more to do then. The daemon has: it looks up who asked, answers and notes that it did, while the next one comes in.
- **500 at once, handlers busy**: 50 commands are under way, then 500 more come. Bolt's listeners sleep for a second
  after `ack()`, which costs it nothing. The daemon works: 50 times `pause`, each looked up, filed, carried out by the
  worker's actor, put into the audit trail and told on a card, and 500 times `status`.

The daemon is the real one, `supervisor run`: an envelope's row is synced to the disk before it is acknowledged.
"""

from __future__ import annotations

import asyncio
import gc
import math
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from slack_playground import Playground
from tests.benchmarks.ack_peers import COMMAND, QUICK
from tests.benchmarks.rows import FLOOR, OURS, Row
from tests.support.homes import ROOT, Home, a_home

ROUNDS = 5
"""Each app has a turn in each, so that a busy moment of the machine hits all; the median of the rounds is shown."""

WARM_UP, SERIAL = 20, 200
UNDER_WAY, AT_ONCE = 50, 500
HEAD_START_SECONDS = 0.3
"""Long enough for the earlier commands to be at work, too short for them to be done."""

START_SECONDS = 30.0
LIMIT_MS = 3000
"""Slack's own: an acknowledgement that comes later is none, and the person reads `operation_timeout`."""

PEER = "bare Bolt, async"
PEERS = {
    "bare Bolt, sync": "bolt-sync",
    PEER: "bolt-async",
    FLOOR: "floor",
}
APPS = (OURS, *PEERS)
ONE_BY_ONE, BUSY = "one at a time", f"{AT_ONCE} at once, handlers busy"


@dataclass(frozen=True)
class Times:
    """Milliseconds from sending to acknowledgement; infinite for each that was not acknowledged in time."""

    each: Sequence[float]

    @property
    def median(self) -> float:
        return statistics.median(self.each)

    @property
    def p95(self) -> float:
        return sorted(self.each)[math.ceil(len(self.each) * 0.95) - 1]

    @property
    def lost(self) -> int:
        return sum(math.isinf(each) for each in self.each)


class SlackHome(Home):
    """A home whose daemon is pointed at a local Slack."""

    slack: dict[str, str]

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, **self.slack}


def measure() -> list[Row]:
    """Every app under both loads, in turns."""
    found = asyncio.run(_in_turns())
    given = [(load, app, by_app[app]) for load, by_app in found.items() for app in APPS]
    return [*(_times_row(*each) for each in given), *(_lost_row(*each) for each in given)]


async def _in_turns() -> dict[str, dict[str, list[Times]]]:
    found: dict[str, dict[str, list[Times]]] = {load: {app: [] for app in APPS} for load in (ONE_BY_ONE, BUSY)}
    async with Playground(ROOT / "manifest.yml", patience=START_SECONDS) as slack:
        for turn in range(ROUNDS):
            first = turn % len(APPS)
            for app in APPS[first:] + APPS[:first]:
                with tempfile.TemporaryDirectory() as folder, _running(app, slack, Path(folder)):
                    await slack.connected()
                    with without_garbage_collection():
                        found[ONE_BY_ONE][app].append(await _one_by_one(slack))
                        found[BUSY][app].append(await _at_once(slack))
                await slack.connected(0)
                slack.server.world.reset()
    return found


@contextmanager
def _running(app: str, slack: Playground, folder: Path) -> Iterator[None]:
    if app == OURS:
        with a_home(folder / "home", make=SlackHome, slack={"enabled": True, "access": {"operators": ["*"]}}) as home:
            assert isinstance(home, SlackHome)
            home.slack = slack.environment
            home.start_daemon(wait=False)  # not waited for here: it needs the Slack that runs in this thread
            yield
        return
    with running_peer(PEERS[app], slack, folder):
        yield


@contextmanager
def running_peer(name: str, slack: Playground, folder: Path) -> Iterator[None]:
    """One of `ack_peers` in a program of its own."""
    environ = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "SLACK_"))}
    words = [sys.executable, "-m", "tests.benchmarks.ack_peers", name]
    with (folder / "log").open("wb") as log:
        peer = subprocess.Popen(words, cwd=ROOT, env={**environ, **slack.environment}, stdout=log, stderr=log)
        try:
            yield
        finally:
            peer.kill()
            peer.wait()


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """A pause of the local Slack would be counted as the app's."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _one_by_one(slack: Playground) -> Times:
    for _ in range(WARM_UP):
        await _give(slack, QUICK)
    begun = _last_entry(slack)
    for _ in range(SERIAL):
        await _give(slack, QUICK)
    return _times(slack, begun, QUICK)


async def _at_once(slack: Playground) -> Times:
    earlier = [asyncio.create_task(_give(slack, "pause")) for _ in range(UNDER_WAY)]
    await asyncio.sleep(HEAD_START_SECONDS)
    begun = _last_entry(slack)
    await asyncio.gather(*(_give(slack, "status") for _ in range(AT_ONCE)))
    await asyncio.gather(*earlier)
    return _times(slack, begun, "status")


async def _give(slack: Playground, text: str) -> None:
    """Run a command and wait for its acknowledgement, or for Slack's patience to end."""
    operator, ops = slack.user("operator").user, slack.channel("ops").channel
    await slack.server.people.slash(operator, ops, f"{COMMAND} {text}")


def _last_entry(slack: Playground) -> int:
    return int(slack.server.world.journal.entries[-1]["n"])


def _times(slack: Playground, since: int, text: str) -> Times:
    """From the journal's `at`, which has microseconds; its `ms` are too coarse for the quick ones."""
    entries = slack.server.world.journal.select(since=since)
    acked = {entry["envelope_id"]: entry["at"] for entry in entries if entry["kind"] == "ack" and not entry["late"]}
    sent = [entry for entry in entries if entry["kind"] == "envelope" and entry["payload"]["text"] == text]
    return Times([(acked.get(entry["envelope_id"], math.inf) - entry["at"]) * 1000 for entry in sent])


def _times_row(load: str, app: str, rounds: list[Times]) -> Row:
    median, p95 = _over(rounds, lambda times: times.median), _over(rounds, lambda times: times.p95)
    return Row(load, app, "ms", median, p95, PEER)


def _lost_row(load: str, app: str, rounds: list[Times]) -> Row:
    return Row(f"{load}: lost of {ROUNDS * AT_ONCE:,}", app, median=sum(times.lost for times in rounds))


def _over(rounds: list[Times], what: Callable[[Times], float]) -> float:
    """The median of the rounds. What was never acknowledged counts as Slack's limit."""
    return min(statistics.median(what(times) for times in rounds), LIMIT_MS)
