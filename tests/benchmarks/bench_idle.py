"""The costs of an idle daemon, with one worker and many, beside supervisord and a Python that waits for a signal.

All of them idle during the same minute, each on its own: a figure is of one process, with the threads that ended.
The kernel counts: CPU time in nanoseconds by the clock of the process, wake-ups by `perf stat -e context-switches`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.fleets import COUNTS, FLEETS, Figures, a_fleet, rows_by_count, until_all_run
from tests.benchmarks.rows import Row

SETTLE_SECONDS, IDLE_SECONDS = 25.0, 60.0
PERF = shutil.which("perf")


def measure() -> list[Row]:
    """Every system with each number of workers at once. Without perf, the wake-ups are left out."""
    with ExitStack() as stack:
        fleets = {(name, count): stack.enter_context(a_fleet(name, count)) for count in COUNTS for name in FLEETS}
        for fleet in fleets.values():
            until_all_run(fleet, fleet.boot)
        time.sleep(SETTLE_SECONDS)
        idle = {key: Idle(fleet.pid) for key, fleet in fleets.items()}
        time.sleep(IDLE_SECONDS)
        return rows_by_count({key: each.figures() for key, each in idle.items()})


class Idle:
    """A process that is counted from now on."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        words = [str(PERF), "stat", "-x,", "-e", "context-switches", "-p", str(pid), "sleep", f"{IDLE_SECONDS:.0f}"]
        self._perf = subprocess.Popen(words, stderr=subprocess.PIPE, text=True) if PERF else None
        self._begun, self._cpu = time.monotonic(), _cpu_seconds(pid)

    def figures(self) -> Figures:
        """The counts since then, at the end of `IDLE_SECONDS`."""
        seconds = time.monotonic() - self._begun
        cpu = (_cpu_seconds(self._pid) - self._cpu) * 1000 / seconds
        rollup = Path(f"/proc/{self._pid}/smaps_rollup").read_text()
        return {
            "CPU while idle, ms a second": [cpu],
            **self._wake_ups(),
            "threads, ": [len(list(Path(f"/proc/{self._pid}/task").iterdir()))],
            "memory (RSS), MiB": [int(re.findall(r"^Rss:\s+(\d+)", rollup, re.MULTILINE)[0]) / 1024],
        }

    def _wake_ups(self) -> Figures:
        if self._perf is None:
            return {}
        counted = re.findall(r"^(\d+),", self._perf.communicate()[1], re.MULTILINE)  # "<not counted>" if it's zero
        return {"wake-ups while idle, a second": [int(counted[0]) / IDLE_SECONDS if counted else 0.0]}


def _cpu_seconds(pid: int) -> float:
    """The CPU time of a process and its ended threads, by its CPU clock (`clock_getcpuclockid`)."""
    return time.clock_gettime((~pid << 3) | 2)
