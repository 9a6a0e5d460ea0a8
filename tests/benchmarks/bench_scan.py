"""The cost of a look at every process of the host, by /proc and by psutil."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import psutil

from supervisor_core.host.process_facts import linux as platform_linux
from supervisor_core.host.process_facts import portable as platform_other
from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE
from tests.benchmarks.timing import in_turns, table

PROCESSES, ROUNDS, PROGRAM_ROUNDS = 200, 60, 40
ATTRIBUTES = ["pid", "name", "status", "ppid", "create_time", "environ"]

WALK = "facts and environment, /proc"
WORDS = "command line, /proc"
BARE = "python -c pass"


def measure() -> str:
    """All ways in turns, beside 200 processes more than the host has; then psutil's import."""
    with _sleepers():
        processes = len(platform_linux.pids())
        times = _times(
            {
                WALK: lambda: [platform_linux.sight(pid) for pid in platform_linux.pids()],
                "facts and environment, psutil": lambda: [platform_other.sight(pid) for pid in platform_other.pids()],
                "the same, psutil.process_iter": lambda: list(psutil.process_iter(ATTRIBUTES)),
                WORDS: lambda: [platform_linux.arguments(pid) for pid in platform_linux.pids()],
                "command line, psutil": lambda: [platform_other.arguments(pid) for pid in platform_other.pids()],
            }
        )
    programs = {
        BARE: [sys.executable, "-c", "pass"],
        "python -c 'import psutil'": [sys.executable, "-c", "import psutil"],
    }
    with tempfile.TemporaryDirectory() as name:
        imports = in_turns(programs, dict(os.environ), Path(name), PROGRAM_ROUNDS)
    return f"{processes} processes:\n\n{_by_process(times, processes)}\n\n{table(imports, BARE)}"


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


def _times(ways: Mapping[str, Callable[[], object]]) -> dict[str, list[float]]:
    """The milliseconds of each way, after one round that doesn't count."""
    times: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(ROUNDS + 1):
        for name, walk in ways.items():
            begun = time.perf_counter()
            walk()
            if turn:
                times[name].append((time.perf_counter() - begun) * 1000)
    return times


def _by_process(times: Mapping[str, Sequence[float]], processes: int) -> str:
    lines = ["| what | median, ms | µs for each process | times /proc |", "| --- | --- | --- | --- |"]
    base = 0.0
    for name, taken in times.items():
        median = statistics.median(taken)
        base = median if name in (WALK, WORDS) else base
        lines.append(f"| {name} | {median:.1f} | {median / processes * 1000:.1f} | {median / base:.1f} |")
    return "\n".join(lines)
