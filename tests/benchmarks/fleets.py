"""One worker and many, under ours, supervisord and a bare Python program, which is the floor.

A worker is a shell that says through a pipe that it runs, so nothing here polls for a start. All settings that matter
to both daemons are the defaults: ours calls a worker started after 2 s, supervisord after 1 s.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from supervisor_core.config.worker_settings import WorkerSettings
from tests.benchmarks.fifo import Starts
from tests.benchmarks.rows import Row, row_of
from tests.benchmarks.timing import milliseconds
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.supervisord import Supervisord
from tests.support.daemon.peers.system import Setting, System

COUNTS = (1, 100)
PATIENCE_SECONDS = 120.0

Figures = dict[str, list[float]]
"""Samples by what is measured and, behind the last comma, its unit."""


class Fleet(ABC):
    """Workers under one system."""

    name: str

    def __init__(self, starts: Starts, workers: Sequence[str]) -> None:
        self.starts = starts
        self.workers = workers

    @property
    @abstractmethod
    def pid(self) -> int:
        """The process that looks after the workers."""

    @abstractmethod
    def boot(self) -> None:
        """Start that process, which starts the workers."""

    @abstractmethod
    def pids(self, worker: str) -> list[int]:
        """The live processes of a worker."""

    @abstractmethod
    def pause(self) -> None:
        """Stop all workers."""

    @abstractmethod
    def resume(self, worker: str = "") -> None:
        """Start a worker, or all of them."""

    @abstractmethod
    def status(self) -> float:
        """The milliseconds of a look at all workers."""

    @abstractmethod
    def end(self) -> None:
        """End everything."""


class UnderDaemon(Fleet):
    """Ours or a peer."""

    def __init__(self, starts: Starts, workers: Sequence[str], kind: type[System], folder: Path) -> None:
        super().__init__(starts, workers)
        self.name = kind.name
        grace = WorkerSettings(command=()).start_grace_seconds
        commands = {worker: starts.command(worker) for worker in workers}
        setting = Setting(commands, start_grace_seconds=grace, policy="always", max_per_hour=3600, backoff_seconds=0.0)
        self._system = kind(folder, setting)
        self._is_ours = kind is Ours

    @property
    def pid(self) -> int:
        return self._system.daemons[-1].pid

    def boot(self) -> None:
        self._system.launch()

    def pids(self, worker: str) -> list[int]:
        return self._system.living(worker)

    def pause(self) -> None:
        self._call(*(("pause", "all", "--wait") if self._is_ours else ("stop", "all")))

    def resume(self, worker: str = "") -> None:
        self._call("resume" if self._is_ours else "start", worker or "all")

    def status(self) -> float:
        return milliseconds([*self._system.control, "status"], self._system.environ, self._system.folder)

    def end(self) -> None:
        self._system.end()

    def _call(self, *words: str) -> None:
        done = self._system.call(*words)
        assert done.returncode == 0, done.stdout + done.stderr


class Bare(Fleet):
    """A Python program that starts, signals and waits for processes: the floor."""

    name = "bare Python"

    def __init__(self, starts: Starts, workers: Sequence[str]) -> None:
        super().__init__(starts, workers)
        self._idle = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        self._running: dict[str, int] = {}

    @property
    def pid(self) -> int:
        return self._idle.pid

    def boot(self) -> None:
        self.resume()

    def pids(self, worker: str) -> list[int]:
        return [self._running[worker]] if worker in self._running else []

    def pause(self) -> None:
        for pid in self._running.values():
            os.kill(pid, signal.SIGTERM)
        for pid in self._running.values():
            os.waitpid(pid, 0)
        self._running.clear()

    def resume(self, worker: str = "") -> None:
        for each in [worker] if worker else self.workers:
            command = self.starts.command(each)
            self._running[each] = os.posix_spawn(command[0], list(command), os.environ)

    def status(self) -> float:
        return milliseconds([sys.executable, "-c", "pass"], os.environ, Path.cwd())

    def end(self) -> None:
        self.pause()
        self._idle.kill()
        self._idle.wait()


def _ours(starts: Starts, workers: Sequence[str], folder: Path) -> Fleet:
    return UnderDaemon(starts, workers, Ours, folder / "o")


def _supervisord(starts: Starts, workers: Sequence[str], folder: Path) -> Fleet:
    return UnderDaemon(starts, workers, Supervisord, folder / "s")


def _bare(starts: Starts, workers: Sequence[str], _folder: Path) -> Fleet:
    return Bare(starts, workers)


FLEETS: Mapping[str, Callable[[Starts, Sequence[str], Path], Fleet]] = {
    Ours.name: _ours,
    Supervisord.name: _supervisord,
    Bare.name: _bare,
}


@contextmanager
def a_fleet(name: str, count: int) -> Iterator[Fleet]:
    """So many workers under one of `FLEETS`, not yet booted."""
    with tempfile.TemporaryDirectory(prefix="p-") as folder:
        starts = Starts(Path(folder))
        fleet = FLEETS[name](starts, [f"W{number}" for number in range(count)], Path(folder))
        try:
            yield fleet
        finally:
            fleet.end()
            starts.close()


def until_all_run(fleet: Fleet, start: Callable[[], None]) -> float:
    """The milliseconds from before `start` until each worker has said that it runs."""
    begun = time.monotonic_ns()
    start()
    last = max(fleet.starts.after(worker, begun, PATIENCE_SECONDS) for worker in fleet.workers)
    return (last - begun) / 1e6


def rows_by_count(found: Mapping[tuple[str, int], Figures]) -> list[Row]:
    """Rows from the figures of each system and number of workers, compared with supervisord."""
    rows = []
    for count in COUNTS:
        figures = {name: found[name, count] for name in FLEETS}
        for key in figures[Ours.name]:
            what, _, unit = key.rpartition(", ")
            what = f"{what}, {count} worker{'' if count == 1 else 's'}"
            rows += [row_of(what, name, each[key], Supervisord.name, unit) for name, each in figures.items()]
    return rows
