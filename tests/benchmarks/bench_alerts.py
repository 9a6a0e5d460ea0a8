"""An alert, from the kill of a worker to the call of Slack's Web API; and what looking at ten thousand workers costs.

The worker's restart policy is `never`. The call is timed where the local Slack receives it; the worker is started again
by a command after each kill, and each kill comes at another moment of the daemon's rounds. The floor is one such call
by a program that does nothing else, in the same run. The other figures are of the
desk alone, with a real ledger: a tick when nothing is due, a whole round of looks in which nothing changed, and a
thousand workers that go down and come back at once, to the one message about them.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from slack_playground import Playground
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.status import WorkerStatus
from tests.benchmarks.rows import FLOOR, OURS, Row, row_of
from tests.support.alerts.alert_service import NEVER, AlertDesk, an_alert_desk
from tests.support.homes import ROOT, a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, started

KILLS = 30
WORKERS, STORM = 10_000, 1_000
TICKS = 50
PAUSE_SECONDS = 1.0
"""Between two kills at least: Slack bears one post a second in a channel, and what waits for that is not measured."""

CHANNEL = "C0OPS"


def measure() -> list[Row]:
    """A minute, and most of it is restarts."""
    with tempfile.TemporaryDirectory() as folder:
        times, bare = asyncio.run(_kills(Path(folder)))
    floor = row_of("one bare `chat.postMessage`", FLOOR, bare)
    ours = row_of("from `kill` to `chat.postMessage`", OURS, times, FLOOR)
    return [floor, ours, *(row_of(what, OURS, taken) for what, taken in _of_the_desk().items())]


async def _kills(folder: Path) -> tuple[list[float], list[float]]:
    """The times from a kill to its alert, and those of bare calls."""
    worker = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
    chance, times = random.Random(1), []
    async with Playground() as slack:
        settings = {"enabled": True, "access": ACCESS, "alert_channel": CHANNEL, "announce": False}
        often = {"flapping": {"flips": 2 * KILLS + 2}}  # else the fourth kill is part of one alert about flapping
        with a_home(folder / "home", {"OrionMX": worker}, make=SlackHome, slack=settings, alerts=often) as home:
            assert isinstance(home, SlackHome)
            await started(home, slack)
            for _ in range(KILLS):
                await asyncio.sleep(chance.uniform(PAUSE_SECONDS, 2 * PAUSE_SECONDS))
                times.append(await _one(home, slack))
        bare = await _bare(slack)
    return times, bare


async def _bare(slack: Playground) -> list[float]:
    words = [sys.executable, "-m", "tests.benchmarks.ack_peers", "post", CHANNEL]
    environ = {**os.environ, **slack.environment}
    program = await asyncio.create_subprocess_exec(*words, cwd=ROOT, env=environ, stdout=asyncio.subprocess.PIPE)
    said, _ = await program.communicate()
    return [float(each) for each in json.loads(said)]


async def _one(home: SlackHome, slack: Playground) -> float:
    (pid,) = home.running_copies("OrionMX")
    before = len(slack.channel("ops").messages())
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    while len(slack.channel("ops").messages()) == before:  # noqa: ASYNC110 (nobody tells of a message)
        await asyncio.sleep(0.001)
    taken = (time.perf_counter() - begun) * 1000
    await asyncio.to_thread(home.json, "send", "restart OrionMX", "--wait")
    await slack.channel("ops").shows("OrionMX recovered after")
    return taken


def _of_the_desk() -> dict[str, list[float]]:
    logging.getLogger("supervisor_core").setLevel(logging.CRITICAL)  # who reads the table needs no thousand lines
    names = [f"W{number}" for number in range(WORKERS)]
    with tempfile.TemporaryDirectory() as folder, an_alert_desk(Path(folder), *names) as desk:
        desk.away = True
        desk.well(*names)
        ticks = [_timed(lambda: (desk.alerting.work(desk.now), desk.alerting.due_at())) for _ in range(TICKS)]
        rounds = []
        for _ in range(5):
            statuses = [desk.status(name) for name in names]
            rounds.append(_timed(partial(desk.look, *statuses)))
        known = {"died": True, "decision": NEVER, "ended_at": desk.now}
        dead = [desk.status(name, WorkerState.STOPPED, **known) for name in names[:STORM]]
        storm = _timed(partial(desk.look, *dead))
        digest = _timed(desk.tell_all)
        back = [desk.status(name) for name in names[:STORM]]
        after = [_timed(lambda: (desk.alerting.work(desk.now), desk.alerting.due_at())) for _ in range(TICKS)]
        over = _timed(partial(_over, desk, back))
    return {
        f"a tick over {WORKERS:,} workers, nothing due": ticks,
        f"a tick with {STORM:,} alerts open, nothing due": after,
        f"{WORKERS:,} checks without a change": rounds,
        f"{STORM:,} workers down at once, until alerts and messages are stored": [storm],
        "their digest, composed for Slack": [digest],
        f"the same {STORM:,} back at once, until the digest is updated": [over],
    }


def _over(desk: AlertDesk, back: Sequence[WorkerStatus]) -> None:
    desk.look(*back)
    desk.tell_all()


def _timed(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1000
