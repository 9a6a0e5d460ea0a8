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
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from supervisor_core.alerts.messages import CONFIG
from supervisor_core.commands.labels import Role
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.service import Blocking
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

Change = dict[str, Any]
"""The details of the row of a change: `config_id`, `version`, `from`, `to`, `begun_at`, `changes`, `affected`."""

log = logging.getLogger(__name__)


class ConfigHistory:
    """For the daemon. On the event loop; what blocks is done in one thread, in its order."""

    def __init__(self, context: DaemonContext, reconciler: Reconciler) -> None:
        self._context = context
        self._reconciler = reconciler
        self._writing = Blocking(1, "configuration history")
        self._ending = threading.Event()
        self._waits = False
        """True while a row waits for the ledger, and for good if the daemon stops meanwhile."""
        self._change: Change | None = None
        """The newest change with workers, unless all is well with it."""
        self._results: dict[str, str | None] = {}
        """The results of its workers at the last look; None for those that it hasn't reached."""
        self._recorded: dict[str, str] = {}
        """Those that are on record."""
        self._following: asyncio.Task[None] | None = None
        self._writes: set[asyncio.Task[None]] = set()

    async def resume(self) -> None:
        """Record an edit that no daemon saw, or continue the change that the previous daemon left unfinished."""
        try:
            change, is_new = await self._writing(self._read_last_change)
        except Exception:  # the edge: the workers are supervised, whatever is on record
            log.exception("the history of the configuration couldn't be read")
            return
        if change is not None and is_new:
            self._run(partial(self._record_start, change))
        self._follow(change)

    def accept(self, text_before: str, config: SupervisorConfig, diff: ConfigDiff, version: int) -> None:
        """This file is in force as this version, except for the settings that wait for a restart.

        One that changes nothing is only kept as the last good one.
        """
        waiting = [f"{list_names(diff.needs_restart)}: {RESTART_WORDS}"] if diff.needs_restart else []
        change = _change(text_before, config.text, diff, waiting, version)
        if change["changes"]:
            older, self._change = self._change, None
            if older is not None:  # close it, and take over the workers that it hasn't reached
                if not self._recorded:
                    results = {worker_id: result or "superseded" for worker_id, result in self._results.items()}
                    self._run(partial(self._record_results, older, results))
                pending = [worker_id for worker_id, result in self._results.items() if result in (None, "held")]
                roles = {name: older["affected"][name] for name in pending if name in config.workers}
                change["affected"] = roles | change["affected"]
            self._run(partial(self._record_start, change))
            self._follow(change)

        def keep() -> None:
            if not self._waits:
                last_good.keep(config)

        self._run(keep)

    def refuse(self, error: str, version: int) -> None:
        """The file can't be used, and this version stays in force."""
        error = masked(error, self._context.host.config.secrets)[:MAX_ERROR]
        details = {"config_id": _new_id(), "version": version, "error": error}
        self._run(partial(self._write, CONFIG_REFUSED, "failure", details, {}))

    async def shut_down(self) -> None:
        """Write what waits. The next daemon continues an unfinished change."""
        if self._following is not None:
            self._following.cancel()
        self._ending.set()
        while self._writes:
            await asyncio.wait(self._writes)

    def _follow(self, change: Change | None) -> None:
        if change is not None and change["affected"]:
            self._change, self._recorded = change, {}
            self._results = dict.fromkeys(change["affected"])
            self._following = asyncio.create_task(self._follow_workers(change))

    async def _follow_workers(self, change: Change) -> None:
        """Record the results once all are known; again if a change that failed goes on, until all is well."""
        while self._change is change:
            await asyncio.sleep(LOOK_SECONDS)
            if self._change is not change:
                return
            try:
                self._results = self._reconciler.config_results(change["affected"], from_text(change["begun_at"]))
            except Exception:
                log.exception("the results of a configuration can't be looked up now")
                continue
            results = {worker_id: result for worker_id, result in self._results.items() if result is not None}
            if len(results) == len(self._results) and results != self._recorded:
                self._recorded = results
                self._run(partial(self._record_results, change, results))
                if not _is_failure(results):
                    self._change = None

    def _read_last_change(self) -> tuple[Change | None, bool]:
        """An edit since the last daemon, or the newest change if its results aren't on record; and whether it's new."""
        config, ledger = self._context.host.config, self._context.ledger
        before = last_good.load(config)
        if before is not None and before.text != config.text:
            diff = compare(before, config)
            change = _change(before.text, config.text, diff, diff.needs_restart, 1)
            if change["changes"]:
                return change, True

        def newest(action: str) -> Mapping[str, Any]:
            query = AuditFilter(action=action, limit=1, supervisor_id=ledger.supervisor_id)
            return next(iter(ledger.read(lambda connection: search(connection, query))), {})

        applied = newest(CONFIG_APPLIED)
        if not applied or applied["task_id"] == newest(CONFIG_FINISHED).get("task_id"):
            return None, False
        change = json.loads(applied["details_json"])
        return {**change, "affected": dict(change["affected"])}, False

    def _record_start(self, change: Change) -> None:
        self._write(CONFIG_APPLIED, "success", change, change["affected"], has_card=not change["affected"])

    def _record_results(self, change: Change, results: Mapping[str, str]) -> None:
        superseded = "superseded" in results.values()
        outcome = "failure" if _is_failure(results) else "interrupted" if superseded else "success"
        text = ", ".join(f"{worker_id} {result}" for worker_id, result in results.items())
        level = logging.INFO if outcome == "success" else logging.WARNING
        log.log(level, "version %d of the configuration: %s", change["version"], text)
        affected = {worker_id: result for worker_id, result in results.items() if result in set(Role)}
        details = {**change, "workers": dict(results)}
        self._write(CONFIG_FINISHED, outcome, details, affected, has_card=not superseded)

    def _write(
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
        while True:
            try:
                ledger.write(
                    lambda connection: record(connection, ledger.supervisor_id, entry, messages, datetime.now(UTC))
                )
            except LedgerUnavailable as error:
                if not self._waits:
                    log.warning("the record of the configuration waits: %s", error)
                self._waits = True
                if self._ending.wait(RETRY_SECONDS):
                    raise
            else:
                self._waits = False
                return

    def _run(self, work: Callable[[], None]) -> None:
        async def run() -> None:
            try:
                await self._writing(work)
            except Exception:  # the edge: the configuration is in force, whatever becomes of its record
                log.exception("a configuration change couldn't be recorded")

        task = asyncio.ensure_future(run())
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)


def _change(before: str, after: str, diff: ConfigDiff, more: Sequence[str], version: int) -> Change:
    return {
        "config_id": _new_id(),
        "version": version,
        "from": text_digest(before),
        "to": text_digest(after),
        "begun_at": to_text(datetime.now(UTC)),
        "changes": [
            *(f"{worker_id}: added" for worker_id in diff.added),
            *(f"{worker_id}: removed" for worker_id in diff.removed),
            *(f"{worker_id}: disabled" for worker_id in diff.stopped),
            *(f"{worker_id}: enabled" for worker_id in diff.started),
            *(f"{worker.worker_id}: {list_names(worker.keys)}" for worker in (*diff.restarted, *diff.changed)),
            *([f"teams: {list_names(diff.teams)}"] if diff.teams else []),
            *([f"commands: {list_names(diff.commands)}"] if diff.commands else []),
            *more,
        ],
        "affected": {
            **dict.fromkeys((*diff.removed, *diff.stopped), str(Role.STOPPED)),
            **dict.fromkeys((*diff.added, *diff.started), str(Role.STARTED)),
            **dict.fromkeys((worker.worker_id for worker in diff.restarted), str(Role.RESTARTED)),
        },
    }


def _new_id() -> str:
    return f"config_{datetime.now(UTC):%Y%m%d_%H%M%S}_{random_id()}"


def _is_failure(results: Mapping[str, str]) -> bool:
    return not {"failed", "kept", "held"}.isdisjoint(results.values())
