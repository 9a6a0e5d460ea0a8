"""How many flags a second are each stored, run, audited and answered, next to the disk that stores as many answers."""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from tests.benchmarks.rows import FLOOR, OURS, Row, row_of
from tests.support.homes import Home, a_home, demo_command

FLAGS, WORKERS, ROUNDS = 500, 50, 5
PATIENCE_SECONDS = 120.0
ANSWER = b"x" * 600
"""As long as a result."""


def measure() -> list[Row]:
    """Rounds of flags for paused workers, each in turns with the floor on the same disk."""
    workers = {f"W{number:02}": {"command": demo_command(), "start_grace_seconds": 0.1} for number in range(WORKERS)}
    disk = Path(os.environ.get("BENCH_DISK", "/var/tmp"))  # a folder in memory has no fsync to compare with
    with tempfile.TemporaryDirectory(dir=disk) as folder, a_home(Path(folder) / "home", workers) as home:
        home.start_daemon()
        home.supervisor("send", "pause all", "--wait")
        floor, ours, one = [], [], []
        for number in range(ROUNDS + 1):
            floor.append(_files(home.folder / f"floor{number}"))
            ours.append(_flags(home, f"r{number}", list(workers)))
            one.append(_flags(home, f"s{number}", ["W00"]))
            _check(home, 2 * FLAGS * (number + 1))
    taken = {FLOOR: floor, f"{OURS}, {WORKERS} workers": ours, f"{OURS}, one worker": one}
    return [
        row_of(what, subject, [each / number for each in times[1:]], FLOOR)
        for what, number in ((f"{FLAGS} at once, to the last file", 1), ("of each, on average", FLAGS))
        for subject, times in taken.items()
    ]


def _files(folder: Path) -> float:
    """The least that durable answers need: a sync of each file, and one of the folder with all their names."""
    folder.mkdir()
    begun = time.perf_counter()
    for number in range(FLAGS):
        with (folder / f".{number}.tmp").open("wb") as file:
            file.write(ANSWER)
            file.flush()
            os.fsync(file.fileno())
        (folder / f".{number}.tmp").rename(folder / f"{number}.json")
    descriptor = os.open(folder, os.O_RDONLY)
    os.fsync(descriptor)
    os.close(descriptor)
    return (time.perf_counter() - begun) * 1000


def _flags(home: Home, name: str, workers: Sequence[str]) -> float:
    """From the first rename into the inbox to the last result file."""
    waiting = home.folder / f"flags_{name}"
    waiting.mkdir()
    flags = [f"supervisor_pause_{workers[number % len(workers)]}_{name}_{number}.flag" for number in range(FLAGS)]
    for flag in flags:
        (waiting / flag).write_text("{}")
    before = sum(1 for _ in home.outbox.iterdir()) if home.outbox.exists() else 0
    begun = time.perf_counter()
    for flag in flags:
        (waiting / flag).rename(home.inbox / flag)
    while sum(each.name.endswith(".json") for each in os.scandir(home.outbox)) < before + FLAGS:
        time.sleep(0.005)
        assert time.perf_counter() - begun < PATIENCE_SECONDS, f"{name}: not all were answered"
    return (time.perf_counter() - begun) * 1000


def _check(home: Home, flags: int) -> None:
    """Each ran once and is in the audit trail."""
    with closing(sqlite3.connect(home.state_dir / "ledger.db", timeout=30)) as ledger:
        for query in (
            "SELECT count(*) FROM jobs_t WHERE door = 'flag' AND state = 'done'",
            "SELECT count(DISTINCT task_id) FROM audit_log_t WHERE actor LIKE 'file:%' AND action = 'PAUSE'",
        ):
            (count,) = ledger.execute(query).fetchone()
            assert count == flags, f"{count} of {flags}: {query}"
