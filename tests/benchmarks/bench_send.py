"""How long a stop and a start of a worker take on the command line, with ours, supervisorctl and a bare Python."""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from tests.benchmarks.rows import FLOOR, OURS, Row, row_of
from tests.benchmarks.timing import milliseconds
from tests.support.daemon.peers.supervisord import Supervisord
from tests.support.daemon.peers.system import Setting
from tests.support.homes import a_home

ROUNDS = 15
LIFE_SECONDS = 1.2
"""Before that, supervisord would not yet call a worker started, and stops it more slowly."""

BARE = "`python -c pass`"
WORKER = ["/bin/sleep", "86400"]


def measure() -> list[Row]:
    """Each once in each round; both workers end at once on SIGTERM."""
    script = str(Path(sys.executable).with_name("supervisor"))
    settings = {"command": WORKER, "start_grace_seconds": 0.1}
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="s-")))
        home = stack.enter_context(a_home(folder / "home", {"W": settings}))
        home.start_daemon()
        peer = Supervisord(folder / "peer", Setting({"W": WORKER}))
        stack.callback(peer.end)
        peer.start("W")
        environ = {name: value for name, value in home.environ.items() if name != "PYTHONPATH"}

        def ours(*words: str) -> Callable[[], float]:
            return lambda: milliseconds([script, "send", *words, "--wait"], environ, home.folder)

        def theirs(word: str) -> Callable[[], float]:
            return lambda: milliseconds([*peer.control, word, "W"], peer.environ, peer.folder)

        steps: dict[tuple[str, str], Callable[[], float]] = {
            ("stop a worker", FLOOR): lambda: milliseconds([sys.executable, "-c", "pass"], environ, home.folder),
            ("stop a worker", OURS): ours("pause W"),
            ("stop a worker", "supervisorctl"): theirs("stop"),
            ("stop a stopped worker", OURS): ours("pause W"),
            ("stop a stopped worker", "supervisorctl"): theirs("stop"),
            ("start a worker", OURS): ours("resume W"),
            ("start a worker", "supervisorctl"): theirs("start"),
        }
        times: dict[tuple[str, str], list[float]] = {key: [] for key in steps}
        for turn in range(ROUNDS + 1):
            time.sleep(LIFE_SECONDS)
            for key, step in steps.items():
                taken = step()
                if turn:
                    times[key].append(taken)
    named = {OURS: "`supervisor send … --wait`: {}", "supervisorctl": "`supervisorctl`: {}", FLOOR: BARE}
    return [row_of(named[who].format(what), who, taken, FLOOR) for (what, who), taken in times.items()]
