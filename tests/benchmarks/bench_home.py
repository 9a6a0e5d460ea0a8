"""A change on the host, from the `kill -9` of a worker until the App Home of five readers shows it; and what making one
page takes, for 200 workers beside a long history."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import yaml
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import Connection

from bot.outbound.home import order_page
from bot.outbound.messages import HOME
from bot.views.home.sections import HomePosition
from slack_playground import Playground
from supervisor_core.config.load import load_supervisor_config
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.chain import HeadFile
from supervisor_core.storage.store import Ledger
from tests.benchmarks.rows import OURS, Row, row_of
from tests.support.homes import ROOT, demo_command
from tests.support.slack.app_home import pages_of
from tests.support.slack.host_pictures import worker
from tests.support.slack.slack_home import SlackHome, a_slack_home, started

ROUNDS = 2
APART_SECONDS = 45.0
"""Between two changes, so that each meets a quiet minute; for bursts see `bot/outbound/rate_limits.py`."""

PATIENCE = 30.0
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
SIZES = (1, 40, 400)
FEW = 12  # of many workers that run; the others are configured and not enabled
READERS = ("operator", "approver", "viewer", "anna", "bert")

AUDIT_ROWS, JOBS, MADE = 1_000_000, 200_000, 20
_NUMBERS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
_AT = "'2026-02-05T14:30:15.000000Z'"
HISTORY = (
    _NUMBERS.format(AUDIT_ROWS)
    + "INSERT INTO audit_log_t (supervisor_id, audit_id, outcome, actor, action, target_type, target_id, created_at,"
    " details_json, task_id, previous_hash, hash) SELECT 'Old', i, 'success', 'cli:anna', 'PAUSE', 'worker',"
    f" 'W' || (i % 200), {_AT}, '{{}}', 'task_' || (i / 200), '', '' FROM n",
    _NUMBERS.format(JOBS)
    + "INSERT INTO jobs_t (task_id, worker_id, supervisor_id, handler, params_json, issuer_id, issuer_name, door,"
    " approvals_json, state, tier, filed_at, created_at, finished_at, success, details_json, changed)"
    " SELECT 'task_' || (i / 200), 'W' || (i % 200), 'Host', 'pause', '{}', 'cli:anna', 'anna', 'cli', '[]', 'done',"
    f" 1, {_AT}, {_AT}, {_AT}, 1, '{{}}', i FROM n",
)
"""Commands for 200 workers each, as rows that somebody long ago has left."""


def measure() -> list[Row]:
    """For hosts with so many workers: until the first and the last of five readers sees it."""
    rows, one = [], f"{OURS}, {SIZES[0]} configured"
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            first, last = asyncio.run(_with(Path(folder), size))
        for what, taken in (("the first of five pages", first), ("all five pages", last)):
            rows.append(row_of(what, f"{OURS}, {size} configured", taken, one))
    with tempfile.TemporaryDirectory() as folder:
        made = asyncio.run(_made(Path(folder)))
    return [*rows, row_of("composing one page of 200 workers", OURS, made)]


async def _made(folder: Path) -> list[float]:
    """What making a page takes, beside a ledger with a history."""
    names = [f"W{number}" for number in range(200)]
    document = {"supervisor": {"id": "Host"}, "workers": {name: {"command": ["true"]} for name in names}}
    (folder / "config.yaml").write_text(yaml.safe_dump(document))
    config = load_supervisor_config(folder / "config.yaml", environ={})
    seen, times = [worker(name) for name in names], []
    async with Playground(ROOT / "manifest.yml") as slack:
        with Ledger(folder / "ledger.db", "Host", HeadFile(folder)) as ledger:
            for statement in HISTORY:
                ledger.write(partial(Connection.exec_driver_sql, statement=statement))
            client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
            pages = pages_of(config, ledger, client, slack.server.world.app.team_id, lambda: seen)
            user = slack.user("operator").id
            for _ in range(MADE):
                ledger.order([order_page(user, datetime.now(UTC), HomePosition())])
                (message,) = ledger.read(partial(outbox.pending_messages, kinds=(HOME,), now=datetime.now(UTC)))
                begun = time.perf_counter()
                await pages.compose(message)
                times.append((time.perf_counter() - begun) * 1000)
    return times


async def _with(folder: Path, size: int) -> tuple[list[float], list[float]]:
    workers = {f"W{number:03}": {**WORKER, "enabled": number < FEW} for number in range(size)}
    first, last = [], []
    with a_slack_home(folder / "home", workers) as home:
        async with Playground(ROOT / "manifest.yml", patience=PATIENCE) as slack:
            await started(home, slack)
            pages = [await slack.user(name).opens_home() for name in READERS]
            for page in pages:
                await page.shows("running")
            for number in range(min(ROUNDS, size, FEW)):
                await asyncio.sleep(APART_SECONDS)
                seen = await _killed(home, slack, f"W{number:03}", number + 1)
                first.append(min(seen))
                last.append(max(seen))
    return first, last


async def _killed(home: SlackHome, slack: Playground, worker_id: str, unwell: int) -> list[float]:
    """How long it takes until each page shows that so many need a look, in milliseconds."""
    homes, readers = slack.server.world.workspace.homes, [slack.user(name).id for name in READERS]
    words = f"{unwell} of "  # as in "2 of 40 workers need attention"
    (pid,) = home.running_copies(worker_id)
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    seen: dict[str, float] = {}

    def all_see_it() -> bool:
        for reader in readers:
            if reader not in seen and words in str(homes[reader]["blocks"][1]):
                seen[reader] = (time.perf_counter() - begun) * 1000
        return len(seen) == len(readers)

    await slack.eventually(all_see_it, f"not all saw that {words}")
    return list(seen.values())
