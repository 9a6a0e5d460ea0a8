"""Many workers under one daemon: how soon all run, what `status` and the end of all take, and what the daemon costs.

The workers are `sleep`, so what is measured is the daemon. It is idle when its memory and its time on the processors
are read: nobody asks it anything for as long.
"""

from __future__ import annotations

import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.benchmarks.timing import milliseconds
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.system import Setting
from tests.support.waiting import wait_until

COUNTS = (1, 100, 500)
IDLE_SECONDS = 10.0
SETTLE_SECONDS = 2.0
STATUS_ROUNDS = 5
START_SECONDS = 120.0
LOOK_SECONDS = 0.2
"""How often it is asked whether all run: seldom enough not to be what takes its time."""

TICK_MS = 1000 / os.sysconf("SC_CLK_TCK")
HEADINGS = (
    "workers",
    "all run after, ms",
    "a worker, ms",
    "`status`, ms",
    "`stop --workers`, ms",
    "a worker, ms",
    "RSS (PSS), MiB",
    "a worker, KiB",
    "threads",
    "idle, ms of CPU a second",
    "a worker, us a second",
)


def measure() -> str:
    """A daemon for each count, one after the other."""
    lines = [HEADINGS, ("---",) * len(HEADINGS)]
    base = 0.0
    for count in COUNTS:
        row, memory = _with(count, base)
        base = base or memory
        lines.append(row)
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _with(count: int, base: float) -> tuple[tuple[str, ...], float]:
    """The row, and the memory: what a worker costs is what comes on top of a daemon with one."""
    workers = {f"W{number}": ("sleep", "100000") for number in range(count)}
    with tempfile.TemporaryDirectory(prefix="p-") as folder:
        ours = Ours(Path(folder) / "d", Setting(workers))
        try:
            begun = time.monotonic()
            daemon = ours.launch()
            wait_until(_all_run(ours, daemon), START_SECONDS, "all of them to run")
            started = (time.monotonic() - begun) * 1000
            status = [milliseconds([*ours.control, "status"], ours.environ, ours.folder) for _ in range(STATUS_ROUNDS)]
            time.sleep(SETTLE_SECONDS)
            idle = _idle(daemon.pid)
            memory, shared, threads = _memory(daemon.pid)
            begun = time.monotonic()
            done = ours.call("stop", "--workers")
            stopped = (time.monotonic() - begun) * 1000
            assert done.returncode == 0, done.stderr
            assert not ours.living(""), "stopped is gone"
        finally:
            ours.end()
    row = (
        str(count),
        f"{started:.0f}",
        f"{started / count:.1f}",
        f"{statistics.median(status):.0f}",
        f"{stopped:.0f}",
        f"{stopped / count:.1f}",
        f"{memory:.1f} ({shared:.1f})",
        f"{(memory - base) * 1024 / (count - 1):.0f}" if count > 1 else "",
        str(threads),
        f"{idle:.2f}",
        f"{idle * 1000 / count:.1f}",
    )
    return row, memory


def _all_run(ours: Ours, daemon: subprocess.Popen[bytes]) -> Callable[[], bool]:
    def look() -> bool:
        assert daemon.poll() is None, ours.log()
        status = ours.status()
        if status and all(worker["state"] == ours.running for worker in status["workers"]):
            return True
        time.sleep(LOOK_SECONDS)
        return False

    return look


def _idle(pid: int) -> float:
    """Milliseconds on a processor, in user and kernel mode, for each second of doing nothing."""
    before, begun = _ticks(pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (_ticks(pid) - before) * TICK_MS / (time.monotonic() - begun)


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _memory(pid: int) -> tuple[float, float, int]:
    """Resident and proportional memory in MiB, and the number of threads."""
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    rss, pss = (int(re.findall(rf"^{name}:\s+(\d+)", rollup, re.MULTILINE)[0]) / 1024 for name in ("Rss", "Pss"))
    return rss, pss, len(list(Path(f"/proc/{pid}/task").iterdir()))
