"""How quick the audit trail answers in Slack with a million rows, next to SQLite's own driver reading as many rows."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bot.access.rules import Person
from bot.answers.audit import AuditAnswer, where
from bot.requests.commands import Query
from bot.requests.request import Request
from bot.views.answers.audit import OLDER
from supervisor_core.commands.grammar import parse
from supervisor_core.config.load import grammar_context, load_supervisor_config
from tests.benchmarks.rows import Row, rows_of
from tests.support.homes import a_home, demo_command
from tests.support.storage.long_audit_trail import HOST, WORKERS, a_long_trail

ROWS = 1_000_000
ROUNDS = 20
FLOOR = "sqlite3: the newest 50 rows"

ASKED = {
    "audit": "",
    "audit, a page from the middle": where(OLDER, HOST, ROWS // 2),
    "audit Worker013": "",
    "audit all": "",
    "audit by person7": "",
    "audit by nobody": "",
    "audit command rollback": "",
    "audit command undo": "",
    "audit since 2025-12-01": "",
    "audit Worker001 by person7 command pause": "",
    "audit all by person7 command pause": where(OLDER, HOST, ROWS // 2),
}
"""What is asked for, and on which page."""


def measure() -> list[Row]:
    """A ledger with a million rows, 200 workers and 500 people; each question in turns with the floor."""
    workers = {f"Worker{number:03}": {"command": demo_command(), "enabled": False} for number in range(WORKERS)}
    with tempfile.TemporaryDirectory() as name, a_home(Path(name) / "home", workers) as home:
        config = load_supervisor_config(home.config, environ={})
        with a_long_trail(home.state_dir, ROWS) as ledger:
            look = AuditAnswer(config, ledger, lambda *_: "")
            questions = {text: _question(text.partition(",")[0], page, config) for text, page in ASKED.items()}
            with closing(sqlite3.connect(ledger.path)) as connection:
                times = asyncio.run(_times(look, questions, connection))
    return rows_of(times, FLOOR)


def _question(text: str, page: str, config: Any) -> Query:
    now = datetime.now(UTC)
    asked = Request(text, "U0OPER", "T0TEAM", "C0OPS", now, "key", response_url="http://127.0.0.1/", page=page)
    return Query(asked, parse(text, grammar_context(config)), Person("U0OPER", "T0TEAM", zone="Europe/Berlin"))


async def _times(
    look: Callable[[Query], Awaitable[Any]], questions: dict[str, Query], connection: sqlite3.Connection
) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {FLOOR: [], **{name: [] for name in questions}}
    for turn in range(ROUNDS + 1):
        begun = time.perf_counter()
        connection.execute("SELECT * FROM audit_log_t ORDER BY created_at DESC LIMIT 50").fetchall()
        took = {FLOOR: (time.perf_counter() - begun) * 1000}
        for name, question in questions.items():
            begun = time.perf_counter()
            await look(question)
            took[name] = (time.perf_counter() - begun) * 1000
        if turn:
            for name, milliseconds in took.items():
                times[name].append(milliseconds)
    return times
