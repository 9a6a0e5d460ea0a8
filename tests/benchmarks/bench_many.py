"""One worker and many, under ours, supervisord and a bare Python program, in one run.

A worker is a shell that says through a pipe that it runs, so nothing here polls for a start. All settings that matter
to both are the defaults: ours calls a worker started after 2 s, supervisord after 1 s. The bare program starts and
signals processes and does nothing else: it's the floor. The machine should be quiet.
"""

from __future__ import annotations

import os
import random
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from supervisor_core.config.worker_settings import WorkerSettings
from tests.benchmarks.fifo import Starts
from tests.benchmarks.rows import Row, row_of
from tests.benchmarks.timing import milliseconds
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.supervisord import Supervisord
from tests.support.daemon.peers.system import Setting, System
from tests.support.waiting import wait_until

COUNTS = (1, 100)
KILLS = 20
STATUS_ROUNDS = 20
PATIENCE_SECONDS = 120.0
SETTLE_SECONDS, IDLE_SECONDS = 20.0, 60.0
TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")

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
        grace = float(WorkerSettings.model_fields["start_grace_seconds"].default)
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

    def kill(self, worker: str) -> None:
        """Kill it, wait for its end and start it again, as the shortest loop would."""
        pid = self._running[worker]
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        self.resume(worker)

    def status(self) -> float:
        return milliseconds([sys.executable, "-c", "pass"], os.environ, Path.cwd())

    def end(self) -> None:
        self.pause()
        self._idle.kill()
        self._idle.wait()


def measure() -> list[Row]:
    """Each system with each number of workers, one after the other. Ten minutes."""
    rows = []
    for count in COUNTS:
        found = {name: _measured(make, count) for name, make in FLEETS.items()}
        for key in found[Ours.name]:
            what, _, unit = key.rpartition(", ")
            what = f"{what}, {count} worker{'' if count == 1 else 's'}"
            rows += [row_of(what, name, each[key], Supervisord.name, unit) for name, each in found.items()]
    return rows


def _ours(starts: Starts, workers: Sequence[str], folder: Path) -> Fleet:
    return UnderDaemon(starts, workers, Ours, folder / "o")


def _supervisord(starts: Starts, workers: Sequence[str], folder: Path) -> Fleet:
    return UnderDaemon(starts, workers, Supervisord, folder / "s")


def _bare(starts: Starts, workers: Sequence[str], _folder: Path) -> Fleet:
    return Bare(starts, workers)


FLEETS = {Ours.name: _ours, Supervisord.name: _supervisord, Bare.name: _bare}


def _measured(make: Callable[[Starts, Sequence[str], Path], Fleet], count: int) -> Figures:
    workers = [f"W{number}" for number in range(count)]
    with _fleet(make, workers) as fleet:
        figures = {"boot until all run, ms": [_until_all_run(fleet, fleet.boot)]}
        time.sleep(SETTLE_SECONDS)
        figures |= _idle(fleet.pid)
        figures["`status`, ms"] = [fleet.status() for _ in range(STATUS_ROUNDS)]
        figures["`kill -9` until started again, ms"] = [_killed(fleet, random.Random(1)) for _ in range(KILLS)]
        figures["`pause all` until all are gone, ms"] = [_until_all_gone(fleet)]
        figures["`resume all` until all run, ms"] = [_until_all_run(fleet, fleet.resume)]
        fleet.pause()
        begun = time.perf_counter()
        fleet.resume(workers[0])
        figures["`resume` of one until the command returns, ms"] = [(time.perf_counter() - begun) * 1000]
    return figures


@contextmanager
def _fleet(make: Callable[[Starts, Sequence[str], Path], Fleet], workers: Sequence[str]) -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="p-") as folder:
        starts = Starts(Path(folder))
        fleet = make(starts, workers, Path(folder))
        try:
            yield fleet
        finally:
            fleet.end()
            starts.close()


def _until_all_run(fleet: Fleet, start: Callable[[], None]) -> float:
    begun = time.monotonic_ns()
    start()
    last = max(fleet.starts.after(worker, begun, PATIENCE_SECONDS) for worker in fleet.workers)
    return (last - begun) / 1e6


def _until_all_gone(fleet: Fleet) -> float:
    """Until the command has returned and each process has ended. A descriptor of each tells: a search would take as
    long as the command."""
    with ExitStack() as stack:
        ends = select.poll()
        handles = [os.pidfd_open(pid) for worker in fleet.workers for pid in fleet.pids(worker)]
        for handle in handles:
            stack.callback(os.close, handle)
            ends.register(handle, select.POLLIN)
        begun = time.perf_counter()
        fleet.pause()
        wait_until(lambda: len(ends.poll(0)) == len(handles), PATIENCE_SECONDS, "all are gone")
        return (time.perf_counter() - begun) * 1000


def _killed(fleet: Fleet, chance: random.Random) -> float:
    time.sleep(1.5 + chance.random())  # before that, supervisord doesn't call the worker started
    worker = fleet.workers[0]
    pids = fleet.pids(worker)
    begun = time.monotonic_ns()
    if isinstance(fleet, Bare):
        fleet.kill(worker)
    else:
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
    return (fleet.starts.after(worker, begun, PATIENCE_SECONDS) - begun) / 1e6


def _idle(pid: int) -> Figures:
    """The costs of doing nothing for a minute."""
    before, woken, begun = _ticks(pid), _switches(pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    seconds = time.monotonic() - begun
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    return {
        "CPU while idle, ms a second": [(_ticks(pid) - before) * TICK_MS / seconds],
        "wake-ups while idle, a second": [(_switches(pid) - woken) / seconds],
        "threads, ": [len(list(Path(f"/proc/{pid}/task").iterdir()))],
        "memory (RSS), MiB": [int(re.findall(r"^Rss:\s+(\d+)", rollup, re.MULTILINE)[0]) / 1024],
    }


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _switches(pid: int) -> int:
    """How often its threads gave up a processor; those of threads that ended are missing."""
    statuses = (task / "status" for task in Path(f"/proc/{pid}/task").iterdir())
    return sum(
        int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", path.read_text(), re.MULTILINE)[0]) for path in statuses
    )
