"""How long a genuine flag waits behind 50,000 junk flags, and how much the ledger grows by them.

`JUNK` in the environment sets another number. An empty flag with a right name isn't junk but a command.
"""

from __future__ import annotations

import os
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tests.benchmarks.rows import OURS, Row, row_of
from tests.support.homes import Home, a_home

JUNK = int(os.environ.get("JUNK", "50000"))
EVERY_SECONDS = 1.0
"""Between two genuine flags while the junk is cleared."""

PATIENCE_SECONDS = 900.0

ODD_NAME = "supervisor_dance_OrionMX_{}.flag"
KINDS: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("supervisor_pause_OrionMX_junk{}.flag", lambda path: path.write_bytes(b'{"task_id": ')),
    ("supervisor_pause_OrionMX_list{}.flag", lambda path: path.write_bytes(b"[]")),
    ("supervisor_resume_OrionMX_disagrees{}.flag", lambda path: path.write_bytes(b'{"task_id": "another"}')),
    (ODD_NAME, lambda path: path.write_bytes(b"")),
    ("random{}.flag", lambda path: path.write_bytes(b"junk")),
)
RARE: tuple[tuple[str, Callable[[Path], object]], ...] = (
    ("supervisor_pause_OrionMX_fifo{}.flag", os.mkfifo),
    ("supervisor_pause_OrionMX_folder{}.flag", Path.mkdir),
    ("supervisor_pause_OrionMX_large{}.flag", lambda path: path.write_bytes(b"x" * 70_000)),
)
RARELY = 250


def measure() -> list[Row]:
    """A daemon, junk that arrives all at once, and genuine flags one after another until it's cleared."""
    with tempfile.TemporaryDirectory() as folder, a_home(Path(folder) / "home") as home:
        home.start_daemon()
        home.supervisor("send", "pause", "--wait")
        size = _ledger(home)
        beside = home.folder / "junk"
        beside.mkdir()
        names = _make(beside)
        begun = time.perf_counter()
        for name in names:
            (beside / name).rename(home.inbox / name)
        arrived = time.perf_counter() - begun
        waits = [_genuine(home, 0)]
        ours = {name for name in names if "OrionMX" in name}
        while _left(home, ours) and time.perf_counter() - begun < PATIENCE_SECONDS:
            time.sleep(EVERY_SECONDS)
            waits.append(_genuine(home, len(waits)))
        cleared = time.perf_counter() - begun
        results = sum(1 for _ in home.outbox.iterdir())
        grown = _ledger(home) - size
        aside = sum(1 for _ in (home.inbox / "rejected").iterdir())
    figures = (
        ("all junk flags, until they are in the inbox", arrived, "s"),
        ("the first genuine flag, to its result", waits[0], "s"),
        ("the slowest genuine flag, to its result", max(waits), "s"),
        ("until no junk for our worker is left", cleared, "s"),
        ("growth of the ledger", grown / 1e6, "MB"),
        ("files in `rejected`", aside, ""),
        ("result files", results, ""),
    )
    return [row_of(what, OURS, [value], unit=unit) for what, value, unit in figures]


def _make(folder: Path) -> list[str]:
    names = []
    for number in range(JUNK):
        kinds = RARE if number % RARELY == 0 else KINDS
        pattern, make = kinds[number % len(kinds) if kinds is KINDS else number // RARELY % len(kinds)]
        make(folder / pattern.format(number))
        names.append(pattern.format(number))
    return names


def _genuine(home: Home, number: int) -> float:
    task_id = f"genuine_{number}"
    result = home.outbox / f"supervisor_result_pause_{task_id}.json"
    temporary = home.inbox / ".genuine.tmp"
    temporary.write_text("{}")
    begun = time.perf_counter()
    temporary.rename(home.inbox / f"supervisor_pause_OrionMX_{task_id}.flag")
    while not result.exists():
        time.sleep(0.005)
        if time.perf_counter() - begun > PATIENCE_SECONDS:
            return PATIENCE_SECONDS
    return time.perf_counter() - begun


def _left(home: Home, ours: set[str]) -> int:
    return sum(1 for path in home.inbox.iterdir() if path.name in ours)


def _ledger(home: Home) -> int:
    """Bytes of the ledger's pages, without its write-ahead log, which SQLite reuses and removes."""
    with closing(sqlite3.connect(home.state_dir / "ledger.db", timeout=30)) as ledger:
        (pages,), (size,) = (ledger.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size"))
    return int(pages) * int(size)
