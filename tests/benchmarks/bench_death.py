"""The death of a worker, from `kill -9` to the one that takes its place, with ours, supervisord and circus in one run.

The new one tells that it has started by a pipe, so that nothing here polls; the shell that it is takes about 1 ms of
each figure. Each daemon has one worker, for a second death would wake supervisord before its time: it looks around
every second, circus every 5 s. So several daemons of each are at work, and each worker is killed at a moment that is
spread over at least one such period, after a life of 1.5 s or more. Ours is told to wait for nothing before it starts
a worker again; the peers' rules are as they come, which is the same.
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
from pathlib import Path

from tests.benchmarks.fifo import Starts
from tests.benchmarks.rows import FLOOR, Row, row_of
from tests.support.daemon.peers.circus import Circus
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.supervisord import Supervisord
from tests.support.daemon.peers.system import Setting, System
from tests.support.waiting import wait_until

KILLS = 50
LIFE_SECONDS = 1.5
"""Before that, supervisord would not yet call the worker started."""

PATIENCE_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Lane:
    """How many daemons of a system share the kills, and over which time these are spread: one period of its own."""

    kind: type[System]
    daemons: int
    period_seconds: float


LANES = (Lane(Ours, 5, 1.0), Lane(Supervisord, 5, 1.0), Lane(Circus, 10, 5.0))


def measure() -> list[Row]:
    """All systems at the same time; a minute, and most of it is waiting."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="p-")))
        starts = Starts(folder)
        stack.callback(starts.close)
        floor = [_spawned(starts) for _ in range(KILLS)]
        pool = stack.enter_context(ThreadPoolExecutor(sum(lane.daemons for lane in LANES)))
        up = {lane: [_up(lane.kind, folder, starts, number, stack) for number in range(lane.daemons)] for lane in LANES}
        running = {
            lane.kind.name: [pool.submit(_killed, each, lane, starts) for each in daemons]
            for lane, daemons in up.items()
        }
        times = {name: [taken for future in futures for taken in future.result()] for name, futures in running.items()}
    rows = [row_of("`kill -9` until started again", name, taken, Supervisord.name) for name, taken in times.items()]
    return [*rows, row_of("fork and exec", FLOOR, floor, Supervisord.name)]


def _up(kind: type[System], folder: Path, starts: Starts, number: int, stack: ExitStack) -> System:
    worker = f"{kind.name}{number}"
    setting = Setting({worker: starts.command(worker)}, policy="always", max_per_hour=3600, backoff_seconds=0.0)
    system = kind(folder / worker, setting)
    stack.callback(system.end)
    system.start(worker)
    return system


def _killed(system: System, lane: Lane, starts: Starts) -> list[float]:
    """The milliseconds of each death of this daemon's worker."""
    (worker,) = system.setting.workers
    chance = random.Random(worker)
    taken = []
    for _ in range(KILLS // lane.daemons):
        time.sleep(LIFE_SECONDS + chance.uniform(0, lane.period_seconds))
        (pid,) = wait_until(lambda: system.living(worker), message="one copy")
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
