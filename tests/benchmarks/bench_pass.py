"""How quick a pass with nothing to do is, next to a Python that only imports the libraries it is made of."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.rows import Row, rows_of
from tests.benchmarks.timing import in_turns, milliseconds
from tests.support.homes import Home, a_home

FLOOR = "`python -c 'import psutil, yaml, sqlalchemy'`"
IMPORTS = "`python -c 'import yaml'`"

FLAGS = 20
"""Passes that have something to do: `pause`, of a worker that is paused already from the second one on."""


def measure() -> list[Row]:
    """One worker that runs and is well, an inbox without a flag; health, heartbeats and all else as always."""
    script = str(Path(sys.executable).with_name("supervisor"))
    programs = {
        FLOOR: [sys.executable, "-c", "import psutil, yaml, sqlalchemy"],
        IMPORTS: [sys.executable, "-c", "import yaml"],
        "`supervisor once`": [script, "once"],
        "`python -m supervisor_core`": [sys.executable, "-m", "supervisor_core"],
    }
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder) / "home") as home:
        healed = home.supervisor("once", "--heal")
        assert healed.returncode == 0, healed.stderr
        times = in_turns(programs, home.environ, home.folder)
        assert home.supervisor("once").returncode == 0, "it was well all the time"
        times["`supervisor once`, with a flag to follow"] = [_with_a_flag(home, number) for number in range(FLAGS)]
    return rows_of(times, FLOOR, {IMPORTS: "bare Python"})


def _with_a_flag(home: Home, number: int) -> float:
    home.drop_flag(f"supervisor_pause_OrionMX_task_bench_{number}.flag", {})
    script = str(Path(sys.executable).with_name("supervisor"))
    taken = milliseconds([script, "once"], home.environ, home.folder)
    assert home.result("pause", f"task_bench_{number}"), "it was followed"
    return taken
