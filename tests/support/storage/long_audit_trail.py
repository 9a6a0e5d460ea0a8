"""A ledger with a long audit trail, made quickly: the rows are as the daemon writes them, with their hashes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from supervisor_core.common.times import to_text
from supervisor_core.storage.audit.chain import GENESIS, row_hash
from supervisor_core.storage.audit.rows import COLUMNS
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger

HOST = "TestHost"
BEGUN = datetime(2025, 1, 1, tzinfo=UTC)
APART = timedelta(seconds=30)
ACTIONS = ("PAUSE", "RESUME", "RESTART_WATCHER", "ROLLBACK_CODE", "UPDATE_CODE", "REFUSED")
PEOPLE = 500
WORKERS = 200
RARE = "cli:rare"
"""Somebody who did one thing, a long time ago."""

DETAILS = json.dumps({"label": "hotfix", "door": "slack", "params": {}, "approvals": [], "error": None, "seconds": 1.2})

_INSERT = "INSERT INTO audit_log_t VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class NoHeads:
    """Nothing is noted outside the ledger: nobody verifies this trail."""

    def read(self, supervisor_id: str) -> None:
        """Not known."""

    def keep(self, head: object) -> None:
        """Not kept."""


def a_long_trail(folder: Path, rows: int) -> Ledger:
    """The ledger, to be closed by the caller."""
    folder.mkdir(parents=True, exist_ok=True)
    ledger = Ledger(folder / LEDGER_FILE, HOST, NoHeads())
    with closing(sqlite3.connect(ledger.path)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        connection.executemany(_INSERT, _rows(rows))
        connection.commit()
    return ledger


def _rows(count: int) -> Iterator[tuple[Any, ...]]:
    previous = GENESIS
    for number in range(1, count + 1):
        person = number * 7 % PEOPLE
        actor, label = f"slack:T0TEAM/U{person:05}", f"Person{person} - hotfix"
        if number == 7:
            actor, label = RARE, "rare - once"
        action = ACTIONS[number % len(ACTIONS)]
        worker = f"Worker{number * 13 % WORKERS:03}"
        at = to_text(BEGUN + number * APART)
        task = f"task_{number // 2}"
        row = (HOST, number, "success", actor, action, "worker", worker, label, at, DETAILS, task, previous)
        previous = row_hash(dict(zip(COLUMNS, row, strict=False)))
        yield (*row, previous)
