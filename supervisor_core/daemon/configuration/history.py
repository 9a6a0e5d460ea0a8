"""The history of the configuration in the audit trail and the alert channel.

A version that is put in force has a row at once, with the workers that it affects, and a second one with the result of
each. A daemon that crashes in between leaves the first row, and the next daemon adds the second.

While the ledger can't be written, rows wait. A change that still waits when the daemon stops is recorded by the next
one, as an edit that no daemon saw.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from supervisor_core.alerts.messages import CONFIG
from supervisor_core.commands.labels import Role
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.service import Blocking, wait_until
from supervisor_core.common.text import random_id
from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.diff import RESTART_WORDS, ConfigDiff, compare, list_names
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.raw import text_digest
from supervisor_core.daemon.configuration import last_good
from supervisor_core.host.permissions import user_name
from supervisor_core.storage.audit.chain import (
    CONFIG_APPLIED,
    CONFIG_FINISHED,
    CONFIG_REFUSED,
    CONFIGURATION,
    AuditEntry,
)
from supervisor_core.storage.audit.search import AuditFilter, search
from supervisor_core.storage.steps import Message, record
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.worker import masked

if TYPE_CHECKING:
    from supervisor_core.daemon.reconciler import Reconciler

RETRY_SECONDS = 2.0

LOOK_SECONDS = 1.0
"""The interval of the looks at the workers of a change until each has its result."""

MAX_ERROR = 4000  # characters
FAILURES = frozenset({"failed", "kept", "held"})

Change = dict[str, Any]
"""The details of the row of a change: `config_id`, `version`, `from`, `to`, `begun_at`, `changes`, `affected`."""

log = logging.getLogger(__name__)


class ConfigHistory:
    """One task writes all rows in their order, and looks at the workers of the newest change in between."""

    def __init__(self, context: DaemonContext, reconciler: Reconciler) -> None:
        self._context = context
        self._reconciler = reconciler
        self._blocking = Blocking(1, "configuration history")
        self._queue: deque[tuple[str, Change, SupervisorConfig | None]] = deque()
        """The action and details of each row to write, and the configuration to keep then as the last good one."""
        self._woken, self._stopping = asyncio.Event(), asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._change: Change | None = None
        """The newest change with workers, unless all is well with it."""
        self._results: dict[str, str | None] = {}
        """The results of its workers at the last look; None for those that it hasn't reached."""
        self._recorded: dict[str, str | None] = {}
        """The results that are on record."""

    async def start(self) -> None:
        """Record an edit that no daemon saw, or continue the change that the previous daemon left unfinished."""
        try:
            await self._blocking(self._read_last_change)
        except Exception:  # the edge: the workers are supervised, whatever is on record
            log.exception("the history of the configuration couldn't be read")
        self._task = asyncio.create_task(self._run())

    def accept(self, text_before: str, config: SupervisorConfig, diff: ConfigDiff, version: int) -> None:
        """This file is in force as this version, except for the settings that wait for a restart.

        One that changes nothing is only kept as the last good one.
        """
        waiting = [f"{list_names(diff.needs_restart)}: {RESTART_WORDS}"] if diff.needs_restart else []
        self._queue.append((CONFIG_APPLIED, _describe(text_before, config, diff, waiting, version), config))
        self._woken.set()

    def refuse(self, error: str, version: int) -> None:
        """The file can't be used, and this version stays in force."""
        error = masked(error, self._context.host.config.secrets)[:MAX_ERROR]
        self._queue.append((CONFIG_REFUSED, {"config_id": _new_id(), "version": version, "error": error}, None))
        self._woken.set()

    async def shut_down(self) -> None:
        """Write what waits. The next daemon continues an unfinished change."""
        self._stopping.set()
        if self._task is not None:
            await self._task

    def _read_last_change(self) -> None:
        config, ledger = self._context.host.config, self._context.ledger
        before = last_good.load(config)
        if before is not None and before.text != config.text:
            diff = compare(before, config)
            change = _describe(before.text, config, diff, diff.needs_restart, 1)
            if change["changes"]:
                self._queue.append((CONFIG_APPLIED, change, None))
                return

        def find_newest(connection: Connection, action: str) -> Mapping[str, Any]:
            query = AuditFilter(action=action, limit=1, supervisor_id=ledger.supervisor_id)
            return next(iter(search(connection, query)), {})

        applied = ledger.read(partial(find_newest, action=CONFIG_APPLIED))
        finished = ledger.read(partial(find_newest, action=CONFIG_FINISHED))
        if applied and applied["task_id"] != finished.get("task_id"):
            self._follow(json.loads(applied["details_json"]))

    async def _run(self) -> None:
        while True:
            if not self._queue:
                await wait_until(self._woken, self._stopping, LOOK_SECONDS if self._change else None)
            self._woken.clear()
            try:
                if self._queue:
                    await self._record(*self._queue.popleft())
                elif self._stopping.is_set():
                    return
                elif self._change is not None:
                    await self._record_results(self._change)
            except LedgerUnavailable:  # it still can't be written, and the daemon stops
                return
            except Exception:  # the edge: the configuration is in force, whatever becomes of its record
                log.exception("a configuration change couldn't be recorded")

    async def _record(self, action: str, details: Change, config: SupervisorConfig | None) -> None:
        if action == CONFIG_REFUSED:
            await self._write(action, "failure", details, {})
            return
        if details["changes"]:
            older = self._change
            if older is not None:  # close it, and take over the workers that it hasn't reached
                if not self._recorded:
                    results = {worker_id: result or "superseded" for worker_id, result in self._results.items()}
                    await self._finish(older, results)
                known = (config or self._context.host.config).workers
                pending = [name for name, result in self._results.items() if result in (None, "held") and name in known]
                details["affected"] = {name: older["affected"][name] for name in pending} | details["affected"]
            await self._write(action, "success", details, details["affected"], has_card=not details["affected"])
            self._follow(details)
        if config is not None:
            await self._blocking(last_good.keep, config)

    def _follow(self, change: Change) -> None:
        self._change = change if change["affected"] else None
        self._results, self._recorded = dict.fromkeys(change["affected"]), {}

    async def _record_results(self, change: Change) -> None:
        """Record the results once all are known; again if a change that failed goes on, until all is well."""
        self._results = self._reconciler.config_results(change["affected"], from_text(change["begun_at"]))
        results = {worker_id: result for worker_id, result in self._results.items() if result is not None}
        if len(results) == len(self._results) and results != self._recorded:
            self._recorded = dict(results)
            await self._finish(change, results)
            if FAILURES.isdisjoint(results.values()):
                self._change = None

    async def _finish(self, change: Change, results: Mapping[str, str]) -> None:
        superseded = "superseded" in results.values()
        failed = not FAILURES.isdisjoint(results.values())
        outcome = "failure" if failed else "interrupted" if superseded else "success"
        text = ", ".join(f"{worker_id} {result}" for worker_id, result in results.items())
        level = logging.INFO if outcome == "success" else logging.WARNING
        log.log(level, "version %d of the configuration: %s", change["version"], text)
        affected = {worker_id: result for worker_id, result in results.items() if result in set(Role)}
        details = {**change, "workers": dict(results)}
        await self._write(CONFIG_FINISHED, outcome, details, affected, has_card=not superseded)

    async def _write(
        self, action: str, outcome: str, details: Change, affected: Mapping[str, str], *, has_card: bool = True
    ) -> None:
        """Write an audit row, and order the card of this configuration."""
        config, ledger = self._context.host.config, self._context.ledger
        try:
            owner = user_name(config.path.stat().st_uid)
        except OSError:
            owner = "unknown"
        entry = AuditEntry(
            actor=f"file:{owner}",
            action=action,
            target_id=config.supervisor.id,
            target_type=CONFIGURATION,
            outcome=outcome,
            label=owner,
            task_id=details["config_id"],
            details={"path": str(config.path), **details},
            affected=affected,
        )
        channel = config.slack.alert_channel or config.slack.fallback_channel
        messages = []
        if has_card and config.slack.enabled and channel:
            payload = {"channel": channel, "host": config.supervisor.id, "owner": entry.actor, **entry.details}
            messages = [Message(CONFIG, details["config_id"], payload)]
        write = partial(record, supervisor_id=ledger.supervisor_id, entry=entry, messages=messages)
        problem = ""
        while True:
            try:
                await self._blocking(ledger.write, partial(write, now=datetime.now(UTC)))
            except LedgerUnavailable as error:
                if not problem:
                    log.warning("the record of the configuration waits: %s", error)
                problem = str(error)
                if await wait_until(None, self._stopping, RETRY_SECONDS):
                    raise
            else:
                return


def _describe(
    text_before: str, config: SupervisorConfig, diff: ConfigDiff, waiting: Iterable[str], version: int
) -> Change:
    return {
        "config_id": _new_id(),
        "version": version,
        "from": text_digest(text_before),
        "to": text_digest(config.text),
        "begun_at": to_text(datetime.now(UTC)),
        "changes": [
            *(f"{worker_id}: added" for worker_id in diff.added),
            *(f"{worker_id}: removed" for worker_id in diff.removed),
            *(f"{worker_id}: disabled" for worker_id in diff.stopped),
            *(f"{worker_id}: enabled" for worker_id in diff.started),
            *(f"{worker.worker_id}: {list_names(worker.keys)}" for worker in (*diff.restarted, *diff.changed)),
            *([f"teams: {list_names(diff.teams)}"] if diff.teams else []),
            *([f"commands: {list_names(diff.commands)}"] if diff.commands else []),
            *waiting,
        ],
        "affected": {
            **dict.fromkeys((*diff.removed, *diff.stopped), str(Role.STOPPED)),
            **dict.fromkeys((*diff.added, *diff.started), str(Role.STARTED)),
            **dict.fromkeys((worker.worker_id for worker in diff.restarted), str(Role.RESTARTED)),
        },
    }


def _new_id() -> str:
    return f"config_{datetime.now(UTC):%Y%m%d_%H%M%S}_{random_id()}"
