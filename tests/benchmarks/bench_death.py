"""The death of a worker, from `kill -9` to the one that takes its place, with ours and supervisord in one run.

The new one tells that it has started by a pipe, so that nothing here polls; the shell that it is takes about 1 ms of
each figure. A daemon sees one death at a time, for a second one would wake supervisord before its time: it looks around
every second. So several daemons of each are at work, and each worker is killed at a moment that is
spread over at least one such period, after a life of 1.5 s or more. Ours is told to wait for nothing before it starts
a worker again; supervisord's rules are as they come, which is the same. One daemon of ours and of supervisord's has 100
workers.
"""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.benchmarks.fifo import Starts
from tests.benchmarks.rows import FLOOR, Row, row_of
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.supervisord import Supervisord
from tests.support.daemon.peers.system import Setting, System
from tests.support.waiting import wait_until

KILLS, KILLS_OF_MANY = 50, 20
LIFE_SECONDS = 1.5
"""Before that, supervisord would not yet call the worker started."""

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Lane:
    """How many daemons of a system share the kills, and over which time these are spread: one period of its own."""

    kind: type[System]
    daemons: int
    period_seconds: float
    workers: int = 1
    kills: int = KILLS

    @property
    def what(self) -> str:
        return f"`kill -9` until started again, {self.workers} worker{'' if self.workers == 1 else 's'}"


LANES = (
    Lane(Ours, 5, 1.0),
    Lane(Supervisord, 5, 1.0),
    Lane(Ours, 1, 1.0, 100, KILLS_OF_MANY),
    Lane(Supervisord, 1, 1.0, 100, KILLS_OF_MANY),
)


def measure() -> list[Row]:
    """All systems at the same time; a minute, and most of it is waiting."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="p-")))
        starts = Starts(folder)
        stack.callback(starts.close)
        floor = [_spawned(starts) for _ in range(KILLS)]
        pool = stack.enter_context(ThreadPoolExecutor(sum(lane.daemons for lane in LANES)))
        up = {lane: [_up(lane, folder, starts, number, stack) for number in range(lane.daemons)] for lane in LANES}
        running = {lane: [pool.submit(_killed, each, lane, starts) for each in daemons] for lane, daemons in up.items()}
        times = {lane: [taken for future in futures for taken in future.result()] for lane, futures in running.items()}
    rows = [row_of(lane.what, lane.kind.name, taken, Supervisord.name) for lane, taken in times.items()]
    return [*rows, row_of("fork and exec", FLOOR, floor, Supervisord.name)]


def _up(lane: Lane, folder: Path, starts: Starts, number: int, stack: ExitStack) -> System:
    name = f"{lane.kind.name}{lane.workers}x{number}"
    workers = [f"{name}x{worker}" for worker in range(lane.workers)]
    commands = {worker: starts.command(worker) for worker in workers}
    setting = Setting(commands, policy="always", max_per_hour=3600, backoff_seconds=0.0)
    system = lane.kind(folder / name, setting)
    stack.callback(system.end)
    begun = time.monotonic_ns()
    system.launch()
    for worker in workers:
        starts.after(worker, begun, PATIENCE_SECONDS)
    return system


def _killed(system: System, lane: Lane, starts: Starts) -> list[float]:
    """The milliseconds of each death among this daemon's workers, one after the other."""
    workers = list(system.setting.workers)
    chance = random.Random(workers[0])
    taken = []
    for number in range(lane.kills // lane.daemons):
        worker = workers[number % len(workers)]
        time.sleep(LIFE_SECONDS + chance.uniform(0, lane.period_seconds))
        (pid,) = wait_until(partial(system.living, worker), message="one copy")
        begun = time.monotonic_ns()
        os.kill(pid, signal.SIGKILL)
        taken.append((starts.after(worker, begun, PATIENCE_SECONDS) - begun) / 1e6)
    return taken


def _spawned(starts: Starts) -> float:
    """The same worker started by hand: what no supervisor can go below."""
    command = starts.command("floor")
    begun = time.monotonic_ns()
    pid = os.posix_spawn(command[0], command, dict(os.environ))
    heard = starts.after("floor", begun, PATIENCE_SECONDS)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return (heard - begun) / 1e6
