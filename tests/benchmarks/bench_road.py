"""How long the road is, from `send` to the outcome and from a flag to its result, next to what it needs at least."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from supervisor_core.daemon.control.client import ask
from tests.benchmarks.rows import FLOOR, OURS, Row, row_of
from tests.support.homes import Home, a_home

ROUNDS = 40
BARE = "bare Python"
STEPS = 5
"""A command is five transactions: filed, claimed, started, done, and its result sent; each is an fsync."""


def measure() -> list[Row]:
    """`pause` of a worker that is paused already: all of the road, and none of the worker's own time."""
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder) / "home") as home:
        home.start_daemon()
        home.supervisor("send", "pause", "--wait")
        imports = ("-c", "import yaml, sqlalchemy")
        send = _timed(lambda: home.supervisor("send", "pause", "--wait"), ROUNDS // 4)
        bare = _timed(lambda: home.supervisor(*imports, program=(sys.executable,)), ROUNDS // 4)
        asked = _timed(lambda: ask(str(home.state_dir), {"do": "status"}), ROUNDS)
        return [
            row_of("one fsync of a small file", FLOOR, _fsync(home.folder)),
            row_of("a flag, from its rename to its result file", OURS, [_flag(home, n) for n in range(ROUNDS)], FLOOR),
            row_of("a request to the daemon for its status", OURS, asked, FLOOR),
            row_of("`python -c 'import yaml, sqlalchemy'`", BARE, bare),
            row_of("`supervisor send … --wait`, the whole program", OURS, send, BARE),
        ]


def _timed(work: Callable[[], object], rounds: int) -> list[float]:
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append((time.perf_counter() - begun) * 1000)
    return times


def _flag(home: Home, number: int) -> float:
    task_id = f"task_bench_{number}"
    result = home.outbox / f"supervisor_result_pause_{task_id}.json"
    temporary = home.inbox / ".bench.tmp"
    temporary.write_text("{}")
    begun = time.perf_counter()
    temporary.rename(home.inbox / f"supervisor_pause_OrionMX_{task_id}.flag")
    while not result.exists():
        time.sleep(0.0005)
    return (time.perf_counter() - begun) * 1000


def _fsync(folder: Path) -> list[float]:
    path = folder / "fsync"
    with path.open("wb") as file:

        def once() -> None:
            file.write(b"x" * 200)
            file.flush()
            os.fsync(file.fileno())

        return _timed(once, ROUNDS)
