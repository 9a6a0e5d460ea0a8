"""How long the demo's tour and the tests take in a fresh clone, and their CPU time in starts of a Python.

`SUITE=1` in the environment also measures `make check`, every test and `.ci/run`, which take many minutes.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.benchmarks.rows import FLOOR, OURS, Row, row_of

ROOT = Path(__file__).parents[2]
STARTS = 40
TAIL = 4000
"""Characters of a failed command's output that are shown."""

SHORT: Mapping[str, Sequence[str]] = {
    "`make demo ARGS=--tour`, the first time": ("make", "demo", "ARGS=--tour"),
    "`make demo ARGS=--tour`, again": ("make", "demo", "ARGS=--tour"),
    "`make setup`": ("make", "setup"),
    "`make test-fast`": ("make", "test-fast", "ARGS=-q"),
}
LONG: Mapping[str, Sequence[str]] = {
    "`make check`": ("make", "check"),
    "`make test`": ("make", "test", "ARGS=-q"),
    "`.ci/run`": (".ci/run",),
}


def measure() -> list[Row]:
    """Once each, in this order in one clone: a run is minutes of work, and CPU time is much the same each time."""
    commands = {**SHORT, **(LONG if os.environ.get("SUITE") else {})}
    starts = [_taken((sys.executable, "-c", "pass"), ROOT)[1] for _ in range(STARTS)]
    rows = [row_of("CPU time of `python -c pass`", FLOOR, starts, unit="s")]
    with tempfile.TemporaryDirectory(prefix="suite-") as folder:
        clone = Path(folder) / "clone"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        for name, command in commands.items():
            passed, cpu = _taken(command, clone)
            rows += [row_of(name, OURS, [passed], unit="s"), row_of(f"{name}: CPU time", OURS, [cpu], FLOOR, unit="s")]
    return rows


def _taken(command: Sequence[str], folder: Path) -> tuple[float, float]:
    """The seconds that passed, and those of the processors, of all processes that were waited for."""
    before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    passed, after = time.monotonic() - begun, resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout[-TAIL:]}"
    return passed, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
