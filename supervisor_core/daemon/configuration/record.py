"""The record of each configuration that was applied or refused: an audit row, and a card in the alert channel.

A version being applied is stored until its end is recorded, so the daemon continues it after a crash.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from supervisor_core.alerts import messages as tidings
from supervisor_core.alerts import rows as alerts
from supervisor_core.commands.labels import Role
from supervisor_core.common.service import Blocking
from supervisor_core.common.text import random_id
from supervisor_core.common.times import to_text
from supervisor_core.config.changes import (
    APPLIED,
    REFUSED,
    TARGET,
    ChangeResult,
    ConfigChange,
    WorkerProgress,
    end_of,
    roles,
)
from supervisor_core.config.diff import ConfigDiff, list_names, setting_digests
from supervisor_core.daemon.configuration.files import ConfigFiles
from supervisor_core.daemon.configuration.service import ConfigVersion
from supervisor_core.host.files import read_json, write_json
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, record
from supervisor_core.workers.conditions.rules import WORKER, Target
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.worker import masked

if TYPE_CHECKING:
    from supervisor_core.daemon.reconciliation.reconciler import Reconciler

CONFIG_CHANGE_FILE = "config_change.json"
SETTINGS = "config_settings.json"
"""Digests of the settings that the last daemon began with, by name: those take effect with a start alone."""

AWAY = "changed while the supervisor wasn't running"
MOST_ERRORS = 4000  # characters
LOOK_SECONDS = 1.0
"""The interval of the looks at workers that were just started."""

log = logging.getLogger(__name__)


class ConfigRecord:
    """For the daemon. On the event loop; what blocks is done in one thread, in its order."""

    def __init__(self, parts: DaemonContext, reconciler: Reconciler, writing: Blocking) -> None:
        self._parts = parts
        self._reconciler = reconciler
        self._writing = writing
        self._change: ConfigChange | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._first = True
        """True until a second version is applied."""

    async def resume(self) -> None:
        """Continue the version that the previous daemon was applying when it crashed."""
        document = await self._writing(partial(read_json, self._path, tolerant=True))
        try:
            self._change = ConfigChange.from_json(document) if document and document.get("config_id") else None
        except (KeyError, TypeError, ValueError):
            log.warning("%s can't be read and is rewritten", self._path)
        await self._careful(self._compare_settings)

    def _compare_settings(self) -> None:
        """Record the settings that differ from those of the daemon before this one."""
        config = self._parts.host.config
        path, now = config.state_dir / SETTINGS, setting_digests(config)
        before = read_json(path, tolerant=True)
        if before == now:
            return
        changed = tuple(sorted(name for name in {*(before or now), *now} if (before or now).get(name) != now.get(name)))
        if changed:
            begun_at = to_text(datetime.now(UTC))
            self._write_down(
                ConfigChange(_new_id(), 1, "", str(config.path), begun_at, changed), ChangeResult.APPLIED, {}, {}
            )
        write_json(path, now)

    def applied(self, version: ConfigVersion) -> None:
        """This version is in force; what it changes about the workers begins."""
        changes, moves, before = _named(version.diff), _moves(version.diff), self._change
        if before is not None:
            progress = self._reconciler.progress(before.moves)
            if not before.told:
                self._end(before, ChangeResult.SUPERSEDED, progress)
            # A stop or restart of an earlier version that hasn't begun is carried out under this one.
            waiting, pids = (WorkerProgress.PENDING, WorkerProgress.HELD), self._reconciler.pids(before.moves)
            left = {
                worker_id: role
                for worker_id, role in before.moves.items()
                if progress[worker_id] in waiting
                and worker_id in pids
                and pids[worker_id] == before.pids.get(worker_id)
            }
            left = {each: role for each, role in left.items() if each in version.config.workers and each not in moves}
            changes += tuple(each for each in before.changes if each.partition(": ")[0] in left and each not in changes)
            moves = left | moves
        self._first = False
        self._begin(changes, moves, version.number)

    def refused(self, words: str, version: int) -> None:
        """The file can't be used."""
        config = self._parts.host.config
        error = masked(words, config.secrets())[:MOST_ERRORS]

        def work() -> None:
            owner = ConfigFiles(config.path).owner()
            entry = self._entry(owner, REFUSED, "failure", _new_id(), {"version": version, "error": error})
            place = self._place
            said = (config.supervisor.id, owner, str(config.path), version, error)
            messages = [tidings.config_refused(place, str(entry.task_id), *said)] if place else []
            self._record(entry, messages)

        self._do(work)

    def follow(self, restarting: Collection[str] = ()) -> None:
        """Something was done about workers. `restarting` are those that run with an older configuration."""
        if self._change is None:
            if restarting and self._first:  # of an edit that nobody saw
                self._begin((AWAY,), dict.fromkeys(sorted(restarting), str(Role.RESTARTED)), 1)
            return
        progress = self._reconciler.progress(self._change.moves)
        end = end_of(progress)
        if end is not None and end != self._change.told:
            self._end(self._change, end, progress)
        elif end is None and self._timer is None:  # a new process counts once it has run for a while
            self._timer = asyncio.get_running_loop().call_later(LOOK_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self.follow()

    async def shut_down(self) -> None:
        """Close what is still open."""
        if self._timer is not None:
            self._timer.cancel()
        if self._change is not None and not self._change.told:
            self._end(self._change, ChangeResult.INTERRUPTED)
        while self._tasks:
            await asyncio.wait(self._tasks)

    def _begin(self, changes: tuple[str, ...], moves: Mapping[str, str], version: int) -> None:
        path, now, pids = self._parts.host.config.path, to_text(datetime.now(UTC)), self._reconciler.pids(moves)
        self._change = change = ConfigChange(_new_id(), version, "", str(path), now, changes, moves, pids)

        def work() -> None:
            write_json(self._path, replace(change, owner=ConfigFiles(path).owner()).as_json())

        self._do(work)
        if not moves:
            self._end(change, ChangeResult.APPLIED)

    def _end(
        self, change: ConfigChange, end: ChangeResult, progress: Mapping[str, WorkerProgress] | None = None
    ) -> None:
        progress = self._reconciler.progress(change.moves) if progress is None else progress
        affected, left = (
            roles(change, progress, self._reconciler.pids(change.moves)),
            {each: str(how) for each, how in progress.items()},
        )
        over = end not in (ChangeResult.HALTED, ChangeResult.FAILED)
        self._change = None if over else replace(change, told=str(end))
        names = [f"{each} {Role(role).words}" for each, role in affected.items()]
        log.log(
            logging.INFO if end.good else logging.WARNING,
            "version %d of the configuration: %s%s",
            change.version,
            end,
            f"; {', '.join(names)}" if names else "",
        )

        def work() -> None:
            told = self._write_down(change, end, affected, left)
            write_json(self._path, {} if over else told.as_json())

        self._do(work)

    def _write_down(
        self, change: ConfigChange, end: ChangeResult, affected: Mapping[str, str], left: Mapping[str, str]
    ) -> ConfigChange:
        """The end of a change, as an audit row and a card."""
        told = replace(change, owner=ConfigFiles(self._parts.host.config.path).owner(), told=str(end))
        outcome = "success" if end.good else "interrupted" if end is ChangeResult.INTERRUPTED else "failure"
        details = {**told.as_json(), "ended": str(end), "workers": dict(left)}
        entry = self._entry(told.owner, APPLIED, outcome, told.config_id, details, affected)
        place = self._place
        messages = [tidings.config_applied(place, told, str(end), affected, left)] if place else []
        self._record(entry, messages)
        return told

    def _entry(
        self,
        owner: str,
        action: str,
        outcome: str,
        config_id: str,
        details: Mapping[str, Any],
        affected: Mapping[str, str] | None = None,
    ) -> AuditEntry:
        config = self._parts.host.config
        return AuditEntry(
            actor=owner,
            action=action,
            target_id=config.supervisor.id,
            target_type=TARGET,
            outcome=outcome,
            label=owner.partition(":")[2],
            task_id=config_id,
            details={"path": str(config.path), **details},
            affected=affected or {},
        )

    def _record(self, entry: AuditEntry, messages: list[Message]) -> None:
        """With the alerts of the workers concerned, which name the change."""
        ledger, now = self._parts.ledger, datetime.now(UTC)

        def work(connection: Connection) -> None:
            record(connection, ledger.supervisor_id, entry, messages, now)
            for worker_id, role in entry.affected.items():
                alert = alerts.live_of(connection, ledger.supervisor_id, Target(WORKER, worker_id))
                if role == Role.FAILED and alert is not None:
                    record(connection, ledger.supervisor_id, None, (alerts.refresh_message(alert.alert_id),), now)

        ledger.write(work)

    @property
    def _place(self) -> dict[str, str] | None:
        slack = self._parts.host.config.slack
        channel = slack.alert_channel or slack.fallback_channel
        return {"channel": channel} if slack.enabled and channel else None

    @property
    def _path(self) -> Any:  # noqa: ANN401
        return self._parts.host.config.state_dir / CONFIG_CHANGE_FILE

    def _do(self, work: Callable[[], None]) -> None:
        task = asyncio.ensure_future(self._careful(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _careful(self, work: Callable[[], None]) -> None:
        try:
            await self._writing(work)
        except Exception:  # the edge: the configuration is in force, whatever becomes of its record
            log.exception("a configuration change couldn't be recorded")


def _new_id() -> str:
    return f"config_{datetime.now(UTC):%Y%m%d_%H%M%S}_{random_id()}"


def _moves(diff: ConfigDiff) -> dict[str, str]:
    return {
        **dict.fromkeys((*diff.removed, *diff.stopped), str(Role.STOPPED)),
        **dict.fromkeys((*diff.added, *diff.started), str(Role.STARTED)),
        **dict.fromkeys((each.worker_id for each in diff.restarted), str(Role.RESTARTED)),
    }


def _named(diff: ConfigDiff) -> tuple[str, ...]:
    """Name the changed settings, never their values."""
    return (
        *(f"{each}: added" for each in diff.added),
        *(f"{each}: removed" for each in diff.removed),
        *(f"{each}: disabled" for each in diff.stopped),
        *(f"{each}: enabled" for each in diff.started),
        *(f"{each.worker_id}: {list_names(each.keys)}" for each in (*diff.restarted, *diff.changed)),
        *([f"teams: {list_names(diff.teams)}"] if diff.teams else []),
        *([f"commands: {list_names(diff.commands)}"] if diff.commands else []),
    )
