"""One worker as the reconciler keeps it: its actor, its newest status, and the progress of its plan."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from supervisor_core.commands.labels import Role
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.reconciliation.actor import WorkerActor
from supervisor_core.processes.finding import Presence
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.planning import Action, ActionKind, Why, plan
from supervisor_core.workers.restarts.policy import RestartReason, exit_in_words
from supervisor_core.workers.status import (
    ActualState,
    DesiredState,
    ProcessEnd,
    Reconciliation,
    WorkerSnapshot,
    WorkerStatus,
)

APPLIED = frozenset({Why.AS_WANTED, Why.NOT_ENABLED, Why.ENDED})
"""Reasons of no action that mean a version of the configuration is applied."""

LEFT_ALONE = frozenset({Why.PAUSED, Why.QUARANTINED, Why.RESTING})
"""Reasons to keep a worker running with an older configuration."""

STABLE_AFTER = timedelta(seconds=10)
"""A worker must have run for so long with a new configuration before that counts as applied."""

log = logging.getLogger(__name__)


class ManagedWorker:
    """On the event loop alone."""

    def __init__(self, actor: WorkerActor) -> None:
        self.actor = actor
        self.task: asyncio.Task[None] | None = None
        self.status: WorkerStatus | None = None
        self.skipped = False
        """The newest observation was dropped, because something was just being done."""
        self.why: Why | None = None
        self._planned_version = 0
        self._reconciliation = Reconciliation()
        self._end: tuple[WorkerEnded, datetime] | None = None

    @property
    def runs(self) -> bool:
        return self.actor.lifecycle.state is WorkerState.RUNNING

    def note_end(self, ended: WorkerEnded) -> None:
        self._end = ended, datetime.now(UTC)
        self.actor.note_end(ended)

    @property
    def exit_text(self) -> str:
        """The newest exit of its process: `exited (code 1)`; empty if its code is unknown."""
        code = self._end[0].exit_code if self._end else None
        return "" if code is None else exit_in_words(code)

    def shows_something(self) -> bool:
        """False if an observation would only show how far an activity is; the end of that asks for a new one."""
        self.skipped = self.skipped or self.actor.unsettled
        return not (self.actor.gone or self.actor.unsettled)

    def observe(self, status: WorkerStatus) -> None:
        self.status = status
        self.actor.observe(status.found, quarantined=status.quarantine is not None)
        if status.pause_differs:
            self.actor.check_pause()

    def note_plan(self, action: Action, version: int) -> None:
        """Take over the newest plan, executed or held back."""
        if action.why is Why.AS_WANTED:
            self.actor.operations.error = None  # a mistake in the configuration that was corrected
        self.why, self._planned_version = action.why, version

    def act(self, action: Action, version: int, now: datetime) -> None:
        """Have its actor carry it out."""
        self.actor.act(action)
        applied = action.kind is ActionKind.NONE and action.why in APPLIED
        self._reconciliation = self._reconciliation.next_round(version, now, applied=applied)

    def current_status(self) -> WorkerStatus | None:
        """Its newest status, completed with what its actor knows."""
        status, actor = self.status, self.actor
        if status is None:
            return None
        return replace(
            status,
            stage=actor.moving or actor.lifecycle.state,
            decision=actor.decision,
            start_error=(actor.operations.error or "") if status.found.identity is None else "",
            end=self._process_end(status),
            observation=status.observation._replace(failed_after_seconds=actor.operations.failed_after_seconds),
        )

    def _process_end(self, status: WorkerStatus) -> ProcessEnd | None:
        record = status.found.record
        if self._end is None or record is None or record.identity != self._end[0].identity:
            return None
        code = self._end[0].exit_code
        return ProcessEnd(self._end[1], "" if code is None else exit_in_words(code))

    def desired(self, config: SupervisorConfig, status: WorkerStatus) -> DesiredState:
        """The state that the newest configuration and people want; nothing of a worker that was removed."""
        configured = config.workers.get(status.worker_id)
        return DesiredState(
            config.spec_hash(configured) if configured else "",
            enabled=configured.enabled if configured else False,
            quarantined=status.worker.quarantined or self.actor.lifecycle.quarantined,
            paused=status.pause is not None,
            left_alone=configured.quarantined if configured else False,
        )

    def actual(self, status: WorkerStatus) -> ActualState:
        """Its state: its processes as they were observed, and what its actor does."""
        lifecycle, found = self.actor.lifecycle, status.found
        state, running = lifecycle.state, lifecycle.seen is WorkerState.RUNNING
        quarantined = status.worker.quarantined or lifecycle.quarantined
        pid = self.actor.pid if running else None
        return ActualState(
            WorkerState.QUARANTINED if quarantined and state is WorkerState.STOPPED else state,
            pid,
            status.observation.started_at if found.identity is not None and found.identity.pid == pid else None,
            status.verdict.health,
            status.verdict.reason,
            status.at,
            self.actor.pending,
            spec_hash=found.record.spec_hash if found.record is not None and running else "",
            ended=lifecycle.rests,
            hung=status.worker.restart.on_hang and bool(status.hangs),
        )

    def snapshot(self, config: SupervisorConfig) -> WorkerSnapshot | None:
        """Its place in the snapshot; None before the first observation."""
        status = self.status
        if status is None:
            return None
        return WorkerSnapshot(
            self.desired(config, status), self.actual(status), self._reconciliation, self.actor.worker
        )

    def config_result(self, version: int, role: str, begun_at: datetime, *, halted: bool) -> str | None:
        """The result of a configuration for the worker; None while it is pending.

        That is `role` where its process is newer than the change. `halted`: another worker fails with that version.
        """
        actor = self.actor
        if actor.unsettled or actor.moving is not None or self._planned_version < version:
            return None
        if self.why in LEFT_ALONE:
            return "deferred"
        running = actor.lifecycle.seen is WorkerState.RUNNING
        if not running:
            ended_well = actor.decision is not None and actor.decision.reason is RestartReason.ENDED_WELL
            if not ended_well and (actor.operations.error or actor.decision is not None or actor.lifecycle.quarantined):
                return Role.FAILED
        elif self.why is Why.CHANGED and actor.operations.error:
            return "kept"
        if self._reconciliation.desired_version < version:
            return "held" if self.why is Why.CHANGED and halted else None
        if not running:
            return Role.STOPPED
        started_at = self.status.observation.started_at if self.status else None
        if started_at is not None and datetime.now(UTC) - started_at < STABLE_AFTER:
            return None
        return role if started_at is None or started_at >= begun_at else "unchanged"


class ManagedWorkers(dict[str, ManagedWorker]):
    """All workers with an actor, by id, including removed ones that are still running."""

    def workers(self) -> list[WorkerSettings]:
        return [managed.actor.worker for managed in self.values()]

    def changing_code(self) -> list[WorkerSettings]:
        """The workers whose code is being changed right now."""
        return [managed.actor.worker for managed in list(self.values()) if managed.actor.changes_code]

    def seen_since(self, moment: datetime) -> list[WorkerStatus] | None:
        """The status of each worker, if all were observed since then."""
        statuses = [managed.status for managed in self.values() if managed.status is not None]
        recent = len(statuses) == len(self) and all(each.at >= moment for each in statuses)
        return statuses if recent else None

    def healthy(self) -> dict[str, bool]:
        """The health of each worker that was seen running and isn't paused."""
        statuses = [managed.status for managed in self.values() if managed.status is not None]
        return {each.worker_id: each.verdict.fine for each in statuses if each.found.identity and each.pause is None}

    def watch_new(self, statuses: Iterable[WorkerStatus], adapter: WorkerAdapter) -> list[str]:
        """Have the adapter notice the exit of processes that weren't known yet, such as after a restart of the daemon,
        and read what they follow; return the workers that exited meanwhile."""
        ended = []
        for status in statuses:
            identity, managed = status.found.identity, self.get(status.worker_id)
            before = managed.status if managed else None
            if identity is None or (before is not None and before.found.identity == identity):
                continue
            if managed is not None:
                with suppress(OSError):  # its actor reports that
                    managed.actor.operations.recall()
            if adapter.state(status.worker_id).presence is Presence.STOPPED:
                ended.append(status.worker_id)
        return ended

    def plan(
        self, config: SupervisorConfig, observed: Mapping[str, WorkerStatus], now: datetime, *, resting: bool
    ) -> dict[str, Action]:
        """The actions that these workers need by this configuration."""
        known = {each: status for each, status in observed.items() if each in config.workers}
        desired = {each: self[each].desired(config, status) for each, status in known.items()}
        actual = {each: self[each].actual(status) for each, status in observed.items()}
        return plan(desired, actual, now, resting=resting)

    def problems(self) -> list[str]:
        """The troubles that keep actors from their work."""
        problems = {worker_id: managed.actor.problem for worker_id, managed in self.items()}
        return [f"{worker_id}: {problem}" for worker_id, problem in problems.items() if problem]

    def run_actors(self, stopping: asyncio.Event, done: Callable[[], object]) -> list[str]:
        """Start the actors that are new or broke; the answer names those that ended because their worker is gone."""
        gone = []
        for worker_id, managed in self.items():
            task = managed.task
            if task is not None and task.done():
                managed.task = None
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.error("the actor of %s failed and is restarted", worker_id, exc_info=error)
            if managed.task is None and managed.actor.gone:
                gone.append(worker_id)
            elif managed.task is None:
                managed.task = asyncio.create_task(managed.actor.run(stopping), name=worker_id)
                managed.task.add_done_callback(lambda _: done())
        return gone

    def tasks(self) -> list[asyncio.Task[None]]:
        return [managed.task for managed in self.values() if managed.task is not None]

    async def cancel(self) -> None:
        tasks = self.tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for managed in self.values():
            managed.task = None
