"""The cost of a look at every process of the host, by /proc and by psutil."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil

from supervisor_core.host.process_facts import linux as platform_linux
from supervisor_core.host.process_facts import portable as platform_other
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE
from tests.benchmarks.rows import OURS, Row, row_of, rows_of
from tests.benchmarks.timing import in_turns

PROCESSES, ROUNDS, PROGRAM_ROUNDS = 200, 60, 40
Way = tuple[str, str]
ATTRIBUTES = ["pid", "name", "status", "ppid", "create_time", "environ"]

FACTS, WORDS = "facts and environment", "command line"
PSUTIL = "psutil"
BARE, IMPORT = "`python -c pass`", "`python -c 'import psutil'`"


def measure() -> list[Row]:
    """All ways in turns, beside 200 processes more than the host has; then psutil's import."""
    with _sleepers():
        times = _times(
            {
                (FACTS, OURS): lambda: [platform_linux.sight(pid) for pid in platform_linux.pids()],
                (FACTS, PSUTIL): lambda: [platform_other.sight(pid) for pid in platform_other.pids()],
                (FACTS, "psutil.process_iter"): lambda: list(psutil.process_iter(ATTRIBUTES)),
                (WORDS, OURS): lambda: [platform_linux.arguments(pid) for pid in platform_linux.pids()],
                (WORDS, PSUTIL): lambda: [platform_other.arguments(pid) for pid in platform_other.pids()],
            }
        )
    programs = {
        BARE: [sys.executable, "-c", "pass"],
        IMPORT: [sys.executable, "-c", "import psutil"],
    }
    with tempfile.TemporaryDirectory() as name:
        imports = in_turns(programs, dict(os.environ), Path(name), PROGRAM_ROUNDS)
    rows = [row_of(what, subject, taken, PSUTIL) for (what, subject), taken in times.items()]
    return rows + rows_of(imports, BARE, {IMPORT: PSUTIL})


@contextmanager
def _sleepers() -> Iterator[None]:
    """Processes with the environment of a worker."""
    environ = {**os.environ, GENERATION_VARIABLE: "benchmark"}
    started = [subprocess.Popen(["sleep", "600"], env=environ) for _ in range(PROCESSES)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
        for process in started:
            process.wait()


def _times(ways: Mapping[Way, Callable[[], object]]) -> dict[Way, list[float]]:
    """The milliseconds of each way, after one round that doesn't count."""
    times: dict[Way, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, walk in ways.items():
            begun = time.perf_counter()
            walk()
            if turn:
                times[name].append((time.perf_counter() - begun) * 1000)
    return times
