"""How quick `status`, `teams`, `logs`, `why` and `history` are answered for 200 workers that all are in trouble."""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import Connection

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.people import People
from bot.access.rules import AccessRules, Person
from bot.answers.history import HistoryAnswer
from bot.answers.logs import LogsAnswer
from bot.answers.workers import WhyAnswer, WorkerAnswers
from bot.outbound.channel_health import ChannelHealth
from bot.requests.commands import Query, QueryHandler
from bot.requests.request import Request
from supervisor_core.alerts import flips
from supervisor_core.alerts.flips import ConditionChange
from supervisor_core.commands.grammar import parse
from supervisor_core.config.load import SupervisorConfig, grammar_context, load_supervisor_config
from supervisor_core.diagnosis.why.gathering import Explainer
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import NewestLines, WorkerLog
from supervisor_core.processes.records import RUNNING, WorkerRecord
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import WORKER, Condition, Target
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.restarts.history import RestartHistory
from supervisor_core.workers.worker import worker_log
from tests.benchmarks.rows import Row, rows_of
from tests.support.alerts.alert_service import NEVER
from tests.support.homes import a_home, demo_command
from tests.support.storage.long_audit_trail import a_long_trail

WORKERS, TEAMS, ROUNDS = 200, 8, 10
AUDIT_ROWS, FLIPS, LIVES = 1_000_000, 200, 5
"""Rows of the whole trail; flips and lives of each worker."""

LINE = "2026-02-05T14:27:58Z INFO reading archive 17, and this is as long as a line is in a log\n"
LOG = LINE * 800 + "Traceback (most recent call last):\n  read(archive)\nValueError: no such archive\n"
FLOOR = "the look at 200 workers alone"
ASKED = (
    "status all",
    "status team:T3",
    "teams",
    "logs all",
    "why all",
    "why W013",
    "history W013 7d",
    "history all 7d",
)


def measure() -> list[Row]:
    """Beside a ledger with a million audit rows; each question in turns with the look that all of them need."""
    workers = {f"W{number:03}": {"command": demo_command(), "team": f"T{number % TEAMS}"} for number in range(WORKERS)}
    teams = {f"T{number}": {"objective": "keep the archive flowing"} for number in range(TEAMS)}
    with tempfile.TemporaryDirectory() as name, a_home(Path(name) / "home", workers, teams=teams) as home:
        config = load_supervisor_config(home.config, environ={})
        with a_long_trail(home.state_dir, AUDIT_ROWS) as ledger:
            _fill(config, ledger)
            times = asyncio.run(_times(config, ledger))
    return rows_of(times, FLOOR)


def _fill(config: SupervisorConfig, ledger: Ledger) -> None:
    """Each of them has died, and has flapped before."""
    now = datetime.now(UTC)
    for worker in config.workers.values():
        past = RestartHistory(config.state_dir, worker.id)
        for number in range(LIVES):
            at = now - timedelta(minutes=10 - number)
            past.ended(WorkerRecord(worker.id, "g1", RUNNING)._replace(started_at=at.isoformat()), 1, now)
        past.decided(NEVER)
        log = worker_log(config, worker)
        log.parent.mkdir(parents=True, exist_ok=True)
        log.write_text(LOG)
    for number in range(FLIPS):
        at = now - timedelta(minutes=40 * (FLIPS - number))
        new = Condition.WELL if number % 2 else Condition.STALE
        ledger.write(partial(_flip, workers=tuple(config.workers), new=new, at=at))


def _flip(connection: Connection, workers: Sequence[str], new: Condition, at: datetime) -> None:
    known = flips.current_conditions(connection, "TestHost")
    targets = [Target(WORKER, name) for name in workers]
    changes = [ConditionChange(target, known.get(target), new, f"it is {new}", at) for target in targets]
    flips.record_flips(connection, "TestHost", changes, at)


async def _times(config: SupervisorConfig, ledger: Ledger) -> dict[str, list[float]]:
    host, explainer, newest = open_doors(config), Explainer(ledger), NewestLines()

    async def seen() -> list[dict[str, Any]]:
        looked = await asyncio.to_thread(observe_workers, host, list(config.workers.values()))
        return [each.as_json() for each in looked]

    async def explain(wanted: Collection[str]) -> list[Explanation]:
        looked = await asyncio.to_thread(observe_workers, host, list(config.workers.values()))
        return await asyncio.to_thread(explainer, host, looked, [each.as_json() for each in looked], wanted)

    async def written(workers: Sequence[str], count: int) -> list[WorkerLog]:
        return await asyncio.to_thread(newest, host.drive, config, workers, count)

    rules = AccessRules(config.slack, config.teams, config.workers, "T0TEAM")
    offering = AllowedCommands(config, AccessChecks(People(AsyncWebClient(), set()), rules))
    shown = WorkerAnswers(config, ledger, seen, ChannelHealth(AsyncWebClient(), lambda: config.slack))
    tellers: dict[str, QueryHandler] = {
        "status": shown.status,
        "teams": shown.teams,
        "logs": LogsAnswer(config, written),
        "why": WhyAnswer(explain, offering),
        "history": HistoryAnswer(config, ledger),
    }
    times: dict[str, list[float]] = {FLOOR: [], **{text: [] for text in ASKED}}
    for turn in range(ROUNDS + 1):
        took = {FLOOR: await _timed(seen)}
        for text in ASKED:
            took[text] = await _timed(partial(tellers[text.partition(" ")[0]], _question(text, config)))
        if turn:
            for name, milliseconds in took.items():
                times[name].append(milliseconds)
    return times


async def _timed(work: Callable[[], Awaitable[Any]]) -> float:
    begun = time.perf_counter()
    await work()
    return (time.perf_counter() - begun) * 1000


def _question(text: str, config: SupervisorConfig) -> Query:
    asked = Request(text, "U0OPER", "T0TEAM", "C0OPS", datetime.now(UTC), "key", response_url="http://127.0.0.1/")
    return Query(asked, parse(text, grammar_context(config)), Person("U0OPER", "T0TEAM", zone="Europe/Berlin"))
