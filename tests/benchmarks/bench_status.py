"""How quick `supervisor status` is, next to a Python that does nothing and one that only imports what it needs."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.benchmarks.timing import in_turns, table
from tests.support.homes import a_home

AIM = 5.0
"""40 ms where bare Python takes 8."""

FLOOR = "python -c pass"


def measure() -> str:
    """Run it against a daemon with one worker, and with none."""
    script = str(Path(sys.executable).with_name("supervisor"))
    programs = {
        FLOOR: [sys.executable, "-c", "pass"],
        "python -c 'import argparse, json, socket, yaml'": [
            sys.executable,
            "-c",
            "import argparse, json, socket, yaml",
        ],
        "supervisor status": [script, "status"],
        "supervisor status --json": [script, "status", "--json"],
    }
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder) / "home") as home:
        home.start_daemon()
        environ = {name: value for name, value in home.environ.items() if name != "PYTHONPATH"}
        times = in_turns(programs, environ, home.folder)
        home.supervisor("stop")
        without = in_turns({"supervisor status, no daemon": [script, "status"]}, environ, home.folder, rounds=20)
    return table({**times, **without}, FLOOR) + f"\n\nAimed at: {AIM:.0f} times the floor, with a daemon."
