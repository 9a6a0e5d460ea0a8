"""How quick the audit trail is searched with ten million rows, next to the same page read with SQL written by hand."""

from __future__ import annotations

import asyncio
import sqlite3
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from bot.access.rules import Person
from bot.answers import PAGE, AuditAnswer
from bot.requests.commands import Query
from bot.requests.request import Request
from supervisor_core.commands.grammar import parse
from supervisor_core.config.load import grammar_context, load_supervisor_config
from supervisor_core.storage.audit.search import AuditFilter, RowPosition, audit_filter
from supervisor_core.storage.audit.trail import BATCH, page
from supervisor_core.storage.store import Ledger
from tests.benchmarks.rows import OURS, Row, row_of
from tests.support.homes import a_home, demo_command
from tests.support.storage.long_audit_trail import HOST, WORKERS, a_kept_trail

ROWS = 10_000_000
ROUNDS, SLOW_ROUNDS, SLOW_MS = 30, 4, 500.0
"""A search that takes long is repeated less often."""

BY_HAND = "SQL by hand"
MIDDLE = RowPosition(HOST, ROWS // 2)


@dataclass(frozen=True)
class Search:
    """A search as it's typed, and its newest rows in SQL: the conditions, each column read by the best index."""

    text: str
    where: str
    values: tuple[object, ...] = ()
    person: str = ""
    """A name, whose actor must be looked up first; it's the last value."""
    beside: RowPosition | None = None


_ALL = f"+target_id IN ({', '.join(f'{chr(39)}Worker{number:03}{chr(39)}' for number in range(WORKERS))})"

_BESIDE = "created_at <= (SELECT created_at FROM audit_log_t WHERE supervisor_id = ? AND audit_id = ?)"
_PERSONS_PAUSES = "+command = 'pause' AND actor = ?"

SEARCHES = (
    Search("audit", "true"),
    Search(
        "audit, a page from the middle", f"{_BESIDE} AND +audit_id < ?", (HOST, ROWS // 2, ROWS // 2), beside=MIDDLE
    ),
    Search("audit Worker013", "target_id = ?", ("Worker013",)),
    Search("audit all", _ALL),
    Search("audit by person7", "actor = ?", person="person7"),
    Search("audit by nobody", "actor = ?", person="nobody"),
    Search("audit command rollback", "command = 'rollback'"),
    Search("audit command undo", "command = 'undo'"),
    Search("audit since 2025-12-01", "created_at >= ?", ("2025-12-01",)),
    Search(
        "audit Worker001 by person7 command pause", f"+target_id = 'Worker001' AND {_PERSONS_PAUSES}", person="person7"
    ),
    Search("audit all by person7 command pause", f"{_ALL} AND {_PERSONS_PAUSES}", person="person7"),
)

_ACTORS = """
WITH RECURSIVE walk(actor) AS (
    SELECT min(actor) FROM audit_log_t
    UNION ALL SELECT (SELECT min(actor) FROM audit_log_t WHERE actor > walk.actor) FROM walk WHERE actor IS NOT NULL
)
SELECT actor FROM walk WHERE actor IS NOT NULL AND lower((
    SELECT label FROM audit_log_t AS newest WHERE newest.actor = walk.actor AND label IS NOT NULL
    ORDER BY created_at DESC LIMIT 1
)) LIKE ? || ' - %'
"""


def measure() -> list[Row]:
    """A ledger with ten million rows, 200 workers and 500 people; each search in turns with its own SQL. The ledger is
    made by the first run."""
    workers = {f"Worker{number:03}": {"command": demo_command(), "enabled": False} for number in range(WORKERS)}
    with tempfile.TemporaryDirectory() as name, a_home(Path(name) / "home", workers) as home:
        config = load_supervisor_config(home.config, environ={})
        with a_kept_trail(ROWS) as ledger, closing(sqlite3.connect(Path(ledger.name))) as connection:
            rows: list[Row] = []
            for search in SEARCHES:
                wanted = audit_filter(parse(search.text.partition(",")[0], grammar_context(config)), datetime.now(UTC))
                rows += _compared(search, wanted, ledger, connection)
            return [*rows, asyncio.run(_answer(AuditAnswer(config, ledger, lambda *_: ""), config))]


def _compared(search: Search, wanted: AuditFilter, ledger: Ledger, connection: sqlite3.Connection) -> Sequence[Row]:
    times: Mapping[str, list[float]] = {OURS: [], BY_HAND: []}
    rounds = ROUNDS
    while len(times[OURS]) <= rounds:
        took, found = _timed(lambda: ledger.read(lambda reading: page(reading, wanted, PAGE, search.beside)))
        times[OURS].append(took)
        took, by_hand = _timed(partial(_by_hand, search, connection))
        times[BY_HAND].append(took)
        first = [(entry.supervisor_id, entry.audit_id) for entry in found.entries]
        assert set(first) <= set(by_hand), f"{search.text}: the SQL reads the same page"
        assert bool(first) == bool(by_hand) or search.beside, search.text
        rounds = SLOW_ROUNDS if took > SLOW_MS else ROUNDS
    return [row_of(f"`{search.text}`", name, taken[1:], BY_HAND) for name, taken in times.items()]


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    begun = time.perf_counter()
    done = work()
    return (time.perf_counter() - begun) * 1000, done


def _by_hand(search: Search, connection: sqlite3.Connection) -> list[tuple[str, int]]:
    """The keys of the newest rows that fit. Read are also all rows of their commands."""
    values = search.values
    if search.person:
        found = connection.execute(_ACTORS, (search.person,)).fetchall()
        if not found:
            return []
        values = (*values, *found[0])
    newest = f"SELECT * FROM audit_log_t WHERE {search.where} ORDER BY created_at DESC LIMIT {BATCH}"
    rows = connection.execute(newest, values).fetchall()
    if not rows:
        return []
    tasks = tuple({row[10] for row in rows})
    connection.execute(f"SELECT * FROM audit_log_t WHERE task_id IN ({_marks(tasks)})", tasks).fetchall()
    return [(row[0], row[1]) for row in rows]


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


async def _answer(answer: Callable[[Query], Awaitable[Any]], config: Any) -> Row:
    """The whole answer in Slack."""
    times = []
    for _ in range(ROUNDS + 1):
        now = datetime.now(UTC)
        asked = Request("audit", "U0OPER", "T0TEAM", "C0OPS", now, "key", response_url="http://127.0.0.1/")
        query = Query(asked, parse("audit", grammar_context(config)), Person("U0OPER", "T0TEAM", zone="Europe/Berlin"))
        begun = time.perf_counter()
        await answer(query)
        times.append((time.perf_counter() - begun) * 1000)
    return row_of("`audit`, to the finished message in Slack", OURS, times[1:])
