"""A ledger with a long audit trail, made quickly: the rows are as the daemon writes them, with their hashes."""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from supervisor_core.storage import migrations
from supervisor_core.storage.audit.chain import COLUMNS, GENESIS, command_of, row_hash
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger

HOST = "TestHost"
BEGUN = datetime(2025, 1, 1)  # noqa: DTZ001 (in UTC; a naive one is written faster)
LASTS = timedelta(days=365)
ACTIONS = ("PAUSE", "RESUME", "RESTART_WATCHER", "ROLLBACK_CODE", "UPDATE_CODE", "REFUSED")
PEOPLE = 500
WORKERS = 200
RARE = "cli:rare"
"""Somebody who did one thing, a long time ago."""

KEPT, COMPLETE = Path("/var/tmp"), "complete"

DETAILS = json.dumps({"label": "hotfix", "door": "slack", "params": {}, "approvals": [], "error": None, "seconds": 1.2})

_INSERT = "INSERT INTO audit_log_t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


def a_long_trail(folder: Path, rows: int) -> Ledger:
    """The ledger, to be closed by the caller. Its indexes are made once all rows are there, in a third of the time."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder / LEDGER_FILE, HOST)
    with closing(sqlite3.connect(Path(ledger.name), isolation_level=None)) as connection:
        for pragma in ("synchronous = OFF", "cache_size = -500000", "temp_store = MEMORY", "threads = 2"):
            connection.execute(f"PRAGMA {pragma}")
        made = connection.execute(
            "SELECT type, name, sql FROM sqlite_master WHERE tbl_name = 'audit_log_t' AND sql IS NOT NULL"
            " AND type = 'index'"
        ).fetchall()
        connection.execute("BEGIN")
        for kind, name, _ in made:
            connection.execute(f"DROP {kind} {name}")
        connection.executemany(_INSERT, _rows(rows))
        connection.execute("COMMIT")
        for *_, statement in made:
            connection.execute(statement)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return ledger


def a_kept_trail(rows: int) -> Ledger:
    """The same ledger, kept on the disk for the next run: ten million rows take minutes. It must not be written to."""
    made_by = [Path(__file__), *sorted(Path(str(migrations.__file__)).parent.glob("versions/*.py"))]
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in made_by)).hexdigest()
    folder = KEPT / f"supervisor_trail_{rows}_{digest[:12]}"
    if not (folder / COMPLETE).exists():
        for old in KEPT.glob("supervisor_trail_*"):
            shutil.rmtree(old)
        a_long_trail(folder, rows).close()
        (folder / COMPLETE).touch()
    return Ledger(folder / LEDGER_FILE, HOST)


def _rows(count: int) -> Iterator[tuple[Any, ...]]:
    """Rows of one year. Their canonical JSON is put together here from parts: that of the real function takes longer
    than all the rest."""
    previous = GENESIS
    details = json.dumps(DETAILS)
    people = [(f"slack:T0TEAM/U{person:05}", f"Person{person} - hotfix") for person in range(PEOPLE)]
    workers = [f"Worker{number:03}" for number in range(WORKERS)]
    apart = LASTS / count
    for number in range(1, count + 1):
        actor, label = people[number * 7 % PEOPLE] if number != 7 else (RARE, "rare - once")
        action, worker = ACTIONS[number % len(ACTIONS)], workers[number * 13 % WORKERS]
        at = f"{(BEGUN + number * apart).isoformat('T', 'microseconds')}Z"
        task = f"task_{number // 2}"
        hashed = (
            f'["{HOST}",{number},"success","{actor}","{action}","worker","{worker}","{label}","{at}",{details},'
            f'"{task}","{previous}"]'
        )
        row = (HOST, number, "success", actor, action, "worker", worker, label, at, DETAILS, task, previous)
        previous = hashlib.sha256(hashed.encode()).hexdigest()
        yield (*row, previous, command_of(action, {}))
    assert previous == row_hash(dict(zip(COLUMNS, row, strict=False))), "the chain is as the daemon writes it"
