"""How quick `supervisor status` is, next to a Python that does nothing and one that only imports what it needs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.rows import Row, rows_of
from tests.benchmarks.timing import in_turns
from tests.support.homes import a_home

FLOOR = "`python -c pass`"
IMPORTS = "`python -c 'import argparse, json, socket, yaml'`"


def measure() -> list[Row]:
    """Run it against a daemon with one worker, and with none."""
    script = str(Path(sys.executable).with_name("supervisor"))
    programs = {
        FLOOR: [sys.executable, "-c", "pass"],
        IMPORTS: [sys.executable, "-c", "import argparse, json, socket, yaml"],
        "`supervisor status`": [script, "status"],
        "`supervisor status --json`": [script, "status", "--json"],
    }
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder) / "home") as home:
        home.start_daemon()
        environ = {name: value for name, value in home.environ.items() if name != "PYTHONPATH"}
        times = in_turns(programs, environ, home.folder)
        home.supervisor("stop")
        without = in_turns({"`supervisor status`, no daemon": [script, "status"]}, environ, home.folder, rounds=20)
    return rows_of({**times, **without}, FLOOR, {IMPORTS: "bare Python"})
