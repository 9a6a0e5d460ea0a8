"""A worker of the daemon: one coroutine that runs its commands and, between them, what the plan says.

    STOPPED -> STARTING -> RUNNING -> STOPPING -> STOPPED, or STUCK if something of it can't be killed
    RUNNING -> STOPPED (it exited) -> BACKING_OFF -> STOPPED -> STARTING
    STOPPED -> QUARANTINED (it was started too often) -> STOPPED (a person ended that)

Nothing else in this program starts or stops the worker, or writes its pause.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Tier
from supervisor_core.commands.labels import Role
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError, describe
from supervisor_core.common.events import EventType
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import wait_until
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import LAUNCH, WorkerSettings
from supervisor_core.daemon.execution import RetryLimit, execute
from supervisor_core.host.logging.log import worker_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.handler_checks import check_alone, check_startable
from supervisor_core.jobs.handlers import BETWEEN_SECONDS
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.stopping import StopReport
from supervisor_core.workers.adapter import WorkerEnded
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.observation import process_state, started_at
from supervisor_core.workers.planning import Action, ActionKind, Why
from supervisor_core.workers.restarts import history as restarts
from supervisor_core.workers.restarts.history import Quarantine, RestartHistory, TooManyStarts
from supervisor_core.workers.restarts.policy import (
    Next,
    RestartDecision,
    RestartReason,
    automatic_starts,
    decide,
    exit_in_words,
)
from supervisor_core.workers.status import DesiredState, ProcessEnd, WorkerSnapshot, WorkerStatus

if TYPE_CHECKING:
    from supervisor_core.daemon.reconciler import Reconciler

PAUSE_AFTER_TROUBLE_SECONDS = 1.0
SETTLE_SECONDS = 2.0
"""The retry interval while a pause isn't on the drive yet."""

SEARCH_HOLDS_SECONDS = 1.0
"""The search that an exit was judged by also serves the start that follows within this time."""

STABLE_AFTER = timedelta(seconds=10)
"""A worker must have run for so long with a new configuration before that counts as applied."""

STARTS = ("resume", "restart_watcher")
"""The handlers after which the worker is looked at immediately: its new process is put on record."""

MOVES = {
    "pause": WorkerState.STOPPING,
    "restart_watcher": WorkerState.STOPPING,  # of its two halves it is the one that may take long
    "resume": WorkerState.STARTING,
}
"""The state that a command moves its worker through; one that changes code stops it as well."""

APPLIED = frozenset({Why.NOTHING_TO_DO, Why.NOT_ENABLED, Why.ENDED})
"""Reasons of no action that mean a version of the configuration is applied."""

DEFERRED = frozenset({Why.PAUSED, Why.QUARANTINED, Why.MONITORING_PAUSED})
"""Reasons to keep a worker running with an older configuration."""

log = logging.getLogger(__name__)


class OperationCancelled(Exception):
    """The supervisor is stopping, so the action didn't begin; the next run plans it again."""


class Worker:
    """Its state changes here alone: on the event loop, or in the thread of the one blocking call that it waits for.

    Its mailbox is its jobs in the queue, and the newest planned action.
    """

    def __init__(self, settings: WorkerSettings, reconciler: Reconciler) -> None:
        self.settings = settings
        self.found = FoundWorker(settings.id, Presence.STOPPED)
        """Its processes, by the newest look."""
        self.activity = ""
        self.moving: WorkerState | None = None
        """Starting or stopping, if the activity does that; None if it leaves the processes alone."""
        self.activities = 0
        """Begins and ends of activities: an observation from before the newest one is outdated."""
        self.acting = False
        """A planned action is being done or decided on, so a new plan would be the same."""
        self.decision: RestartDecision | None = None
        """The decision for which it waits or rests after an exit."""
        self.quarantine: Quarantine | None = None
        self.start_error = ""
        """Why it couldn't be started; empty once it was."""
        self.problem = ""
        """The trouble that keeps this coroutine from its work."""
        self.job: Job | None = None
        self.planned = False
        """A plan has been made for it; until then it is coming up."""
        self.removed = False
        self.observed: WorkerStatus | None = None
        self.missed_observation = False
        """An observation was dropped, because something was just being done."""
        self._reconciler = reconciler
        self._blocking = reconciler.blocking
        self._adapter = reconciler.adapter
        self._context = reconciler.context
        self._woken = asyncio.Event()
        self._next: Action | None = None
        self._due: float | None = None
        """When its backoff ends, on the event loop's clock."""
        self._overtaken_by = ""
        """Why a start in progress stops waiting for its grace period; read by the handler's thread."""
        self._pause_settled = True
        """False while a pause or its end isn't on the drive yet."""
        self._pause_differs = False
        """True if its pause flag was changed by hand."""
        self._policy_changed = False
        """True if the decision about its last exit must be made again."""
        self._backoff_over = False
        """The next start needs no decision."""
        self._automatic = False
        """The next start is automatic, and so is counted."""
        self._failed_to_start = False
        """True if the last start didn't create a process."""
        self._plan_again = False
        """It isn't in the planned state and can be brought there right now."""
        self._end: tuple[WorkerEnded, datetime, float] | None = None
        """The newest end of its process, when it was noticed, also by the monotonic clock."""
        self._last_search: tuple[float, FoundWorker] | None = None
        """The search that its exit was judged by, and its monotonic time."""
        self._history: RestartHistory | None = None
        self._logged: tuple[str, datetime | None] | None = None
        """The words and the due time of the decision that was logged last."""
        self._recalling = threading.Lock()
        self._published: tuple[object, ...] = ()
        self._published_state = WorkerState.STOPPED
        self._why: Why | None = None
        self._planned_version = 0
        self._applied_version = self._reconciliations = 0
        self._reconciled_at: datetime | None = None

    # What it is

    @property
    def id(self) -> str:
        return self.settings.id

    @property
    def state(self) -> WorkerState:
        if self.moving is not None:
            return self.moving
        seen = process_state(self.found)
        if seen is not WorkerState.STOPPED:
            return seen
        if self.settings.quarantined or self.quarantine is not None:
            return WorkerState.QUARANTINED
        return WorkerState.BACKING_OFF if self._waits else WorkerState.STOPPED

    @property
    def next_state(self) -> WorkerState | None:
        """The state that an activity or the planned start moves it to; None where nothing moves it."""
        starts = self._next is not None and self._next.kind is ActionKind.START
        return WorkerState.STARTING if self.moving is None and (starts or not self.planned) else self.moving

    @property
    def unsettled(self) -> bool:
        """An observation would only show how far an activity is; its end asks for a new one."""
        return self.acting or self.moving is not None

    @property
    def changes_code(self) -> bool:
        """The code that its worker runs from is being changed; others may run from it as well."""
        return self.job is not None and changes_code(self.job)

    @property
    def exit_text(self) -> str:
        """The newest exit of its process: `exited (code 1)`; empty if its code is unknown."""
        code = self._end[0].exit_code if self._end else None
        return "" if code is None else exit_in_words(code)

    @property
    def status(self) -> WorkerStatus | None:
        """Its newest status; None before the first observation."""
        seen = self.observed
        if seen is None:
            return None
        end, planned = self._end, (f"{self._next.kind}: {self._next.why}",) if self._next else ()
        recorded = self.found.record.identity if self.found.record else None
        same = self.found.identity == seen.found.identity
        return replace(
            seen,
            worker=self.settings,
            state=self.state,
            found=self.found,
            quarantine=self.quarantine,
            started_at=seen.started_at if same else started_at(self.found),
            decision=self.decision,
            start_error=self.start_error if self.found.identity is None else "",
            end=ProcessEnd(end[1], self.exit_text) if end and recorded == end[0].identity else None,
            failed_after_seconds=self._history.failed_after_seconds if self._history else 0.0,
            pending=(*((self.activity,) if self.activity else ()), *planned),
        )

    def desired(self, config: SupervisorConfig) -> DesiredState:
        """The state that the newest configuration and people want; nothing of a worker that was removed."""
        configured = config.workers.get(self.id)
        return DesiredState(
            config.spec_hash(configured) if configured else "",
            enabled=configured.enabled if configured else False,
            quarantined=self.settings.quarantined or self.quarantine is not None,
            paused=self.observed is not None and self.observed.paused,
            left_alone=configured.quarantined if configured else False,
        )

    def snapshot(self, config: SupervisorConfig) -> WorkerSnapshot | None:
        """Its part of the snapshot; None before the first observation."""
        status = self.status
        if status is None:
            return None
        rounds = self._applied_version, self._reconciled_at, self._reconciliations
        return WorkerSnapshot(self.desired(config), status, *rounds)

    def config_result(self, version: int, role: str, begun_at: datetime, *, halted: bool) -> str | None:
        """The result of a configuration for the worker; None while it is pending.

        That is `role` where its process is newer than the change. `halted`: another worker fails with that version.
        """
        if self.unsettled or self.next_state is not None or self._planned_version < version:
            return None
        if self._why in DEFERRED:
            return "deferred"
        running = process_state(self.found) is WorkerState.RUNNING
        if not running:
            finished = self.decision is not None and self.decision.reason is RestartReason.ENDED_WELL
            if not finished and (self.start_error or self.decision is not None or self.quarantine is not None):
                return Role.FAILED
        elif self._why is Why.CHANGED and self.start_error:
            return "kept"
        if self._applied_version < version:
            return "held" if self._why is Why.CHANGED and halted else None
        if not running:
            return Role.STOPPED
        started = self.observed.started_at if self.observed else None
        if started is not None and datetime.now(UTC) - started < STABLE_AFTER:
            return None
        return role if started is None or started >= begun_at else "unchanged"

    # What it is told

    def wake(self) -> None:
        """Look into the queue, now."""
        self._woken.set()

    def observe(self, status: WorkerStatus) -> None:
        """Follow an observation; no activity has begun or ended since."""
        before, self.observed = self.observed, status
        log_health_change(before, status)
        if not self.planned and status.pid is not None:
            about = LogEvent.WORKER_FOUND.extra(worker_id=self.id, pid=status.pid)
            log.info("%s is already running (pid %d)", self.id, status.pid, extra=about)
        if process_state(status.found) is not process_state(self.found):
            self.decision = None  # RUNNING -> STOPPED or STUCK, or back by somebody's hand
        if not self.activity:  # else it is read when that ends
            self.quarantine = status.quarantine  # STOPPED -> QUARANTINED, or back by a person's command
            if self.quarantine is not None:
                self.decision = None
        self._take(status.found)
        if status.pause_differs:
            self._pause_differs = True
            self._woken.set()

    def plan(self, action: Action, version: int, now: datetime, *, held_back: bool) -> None:
        """Take the newest planned action, instead of an older one that still waits."""
        if action.why is Why.NOTHING_TO_DO:
            self.start_error = ""  # a mistake in the configuration that was corrected
        self._why, self._planned_version = action.why, version
        if held_back:
            return
        self.act(action)
        if action.kind is ActionKind.NONE and action.why in APPLIED:
            self._applied_version = version
        self._reconciled_at, self._reconciliations = now, self._reconciliations + 1

    def act(self, action: Action) -> None:
        self.planned = True
        self._next = None if action.kind is ActionKind.NONE else action
        if self._next is not None:
            self._woken.set()

    def reconfigure(self, settings: WorkerSettings) -> None:
        """Use these settings from now on.

        A changed restart policy causes a new decision about its last exit. Another command, environment or folder
        causes an immediate start.
        """
        before, self.settings = self.settings, settings
        launched_otherwise = any(getattr(settings, name) != getattr(before, name) for name in LAUNCH)
        failed = self.decision is not None or bool(self.start_error)
        if launched_otherwise:
            self.start_error = ""  # of the settings before: these haven't been tried yet
        if (settings.restart != before.restart or launched_otherwise) and failed:
            self._backoff_over, self._policy_changed = launched_otherwise, True
            self.decision = self._due = None  # BACKING_OFF -> STOPPED
            self._changed()

    def note_end(self, ended: WorkerEnded) -> None:
        """Note that a process ended; an observation and the plan decide what follows."""
        self._end = ended, datetime.now(UTC), time.monotonic()

    def recall(self) -> RestartHistory:
        """Its past runs, read once: also by the first look of a daemon, which must know what its process follows."""
        with self._recalling:
            if self._history is None:
                self._history = RestartHistory(self._host.config.state_dir, self.id)
            return self._history

    # What it does

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until told to stop, between two activities, or until the worker is removed.

        It survives every error and reports its problem.
        """
        try:
            with worker_context(self.id):
                while not (stopping.is_set() or self.removed):
                    self._woken.clear()
                    try:
                        idle = await self._work_once(stopping)
                    except Exception as error:
                        log.exception("the worker %s failed", self.id)
                        self.problem = describe(error)
                        self._abandon()
                        await wait_until(None, stopping, PAUSE_AFTER_TROUBLE_SECONDS)
                        continue
                    self.problem = ""
                    if idle:
                        waits = [] if self._pause_settled else [SETTLE_SECONDS]
                        if self._due is not None and self.decision is not None:
                            waits.append(max(0.0, self._due - asyncio.get_running_loop().time()))
                        await wait_until(self._woken, stopping, min(waits, default=None))
        except asyncio.CancelledError:
            if self.activity:
                words = "%s of %s is still running and is abandoned"
                log.error(words, self.activity, self.id)  # noqa: TRY400 (nothing else to say)
            raise

    async def _work_once(self, stopping: asyncio.Event) -> bool:
        """Do what comes next, commands first; True where there was nothing."""
        job, self._pause_settled = await self._blocking(self._read_queue)
        if job is not None:
            await self._run_job(job, RetryLimit(stopping.is_set))
            return False
        if self._next is not None:
            await self._carry_out(self._next, stopping.is_set)
            return False
        if self._waits and self._due is not None and asyncio.get_running_loop().time() >= self._due:
            self._backoff_over, self.decision = True, None  # BACKING_OFF -> STOPPED; the plan starts it
            self._changed()
            self._replan()
        if self._pause_differs:
            self._pause_differs = False
            await self._blocking(self._host.pauses.read, self.id)
            self._replan()
        return True

    async def _run_job(self, job: Job, limit: RetryLimit) -> None:
        """Run a job. Whoever waits for it hears of its end, also if the ledger can't be read any more."""
        moving = WorkerState.STOPPING if changes_code(job) else MOVES.get(job.handler)
        self.job, self._overtaken_by = job, ""
        self._begin(job.handler, moving)  # any -> STARTING or STOPPING, if the command moves it
        self._publish(EventType.COMMAND_STARTED, task_id=job.task_id, handler=job.handler)
        watch = asyncio.create_task(self._watch_for_pause()) if job.handler in STARTS else None
        loop, program, ledger = asyncio.get_running_loop(), self._reconciler.program, self._context.ledger

        def overtaken() -> str:
            return "the daemon is stopping" if limit.should_stop() else self._overtaken_by

        def note_trouble(words: str) -> None:
            self.problem = words

        def progressed(job: Job) -> None:
            loop.call_soon_threadsafe(program.job_progressed, job)

        host, outcome, is_over = replace(self._host, overtaken=overtaken), None, False
        try:
            outcome = await self._blocking(execute, job, host, ledger, note_trouble, limit, progressed)
            is_over = True
            if outcome is not None and jobs.is_sequential(job):
                parallel = host.config.supervisor.parallel
                waiting = partial(jobs.workers_with_work, task_id=job.task_id, parallel=parallel)
                program.wake_workers(await self._blocking(ledger.read, waiting))
        finally:
            self.job = None
            if watch is not None:
                watch.cancel()
            try:
                self._finish(await self._blocking(self._look_after_job, moving is not None))
            finally:
                if is_over:
                    if outcome is not None:  # else it isn't ours
                        if outcome.success:
                            self.start_error = ""
                        done = {"task_id": job.task_id, "handler": job.handler, "success": outcome.success}
                        self._publish(EventType.COMMAND_DONE, **done)
                    program.job_finished(job)
                self._replan()

    async def _watch_for_pause(self) -> None:
        """Have a start stop waiting for its grace period once a pause waits behind it."""
        read = partial(self._context.ledger.read, partial(jobs.pause_waits, worker_id=self.id))
        while True:
            self._woken.clear()
            with contextlib.suppress(LedgerUnavailable):
                if await self._blocking(read):
                    break
            await self._woken.wait()
        self._overtaken_by = "a pause followed"

    async def _carry_out(self, action: Action, should_stop: Callable[[], bool]) -> None:
        """Carry out a planned action. It's dropped where another worker is being restarted, so that no command waits
        for its turn."""
        if self._reconciler.program.monitoring_paused():  # since the plan was made
            self._next = None
            return
        in_turn = action.why is Why.CHANGED
        if in_turn and not self._reconciler.take_turn(self.id):
            self._next = None  # once the other's is over, what became of it counts
            return
        self.acting, error = True, ""
        try:
            match action.kind:
                case ActionKind.START:
                    error = await self._start_by_policy(should_stop)
                case ActionKind.RESTART:
                    self._begin("restart", WorkerState.STOPPING)  # RUNNING -> STOPPING
                    error = self._finish(await self._blocking(self._locked, self.restart, should_stop, action.why))
                case _:
                    log.info("%s is stopped: %s", self.id, action.why)
                    self._begin(str(action.kind), WorkerState.STOPPING)  # any -> STOPPING
                    operation = self.remove if action.kind is ActionKind.REMOVE else self.stop
                    error = self._finish(await self._blocking(self._locked, operation, should_stop))
        except OperationCancelled:
            error = "cancelled: the supervisor is stopping"
            self._abandon()
        except Exception as failure:
            error = describe(failure)
            raise
        finally:
            self.acting = False
            self._next = None  # a plan from before it was done
            self._reconciler.action_ended(self, error)
            if in_turn:
                self._reconciler.end_turn()

    async def _start_by_policy(self, should_stop: Callable[[], bool]) -> str:
        """Start it, unless it must wait, rests, or is quarantined now; returns the error."""
        decision = await self._blocking(self._decide, should_stop)
        if decision is None or decision.what is Next.START:
            self._begin("start", WorkerState.STARTING)  # STOPPED -> STARTING
            return self._finish(await self._blocking(self._locked, self.start, should_stop))
        if decision.what is Next.QUARANTINE:
            self.quarantine = await self._blocking(self._give_up, decision.words)
            self.decision = None
            self._changed(reason=decision.words)  # STOPPED -> QUARANTINED
            self._replan()  # whoever follows its condition hears of it with the next status
        elif process_state(self.found) is WorkerState.STOPPED:  # else it has come up meanwhile, by somebody's hand
            waits = decision.what is Next.WAIT
            self._due = asyncio.get_running_loop().time() + decision.pause_seconds if waits else None
            if (decision.words, decision.due_at) != self._logged:  # each round plans again what can't start yet
                self._logged = (decision.words, decision.due_at)
                level = logging.INFO if decision.reason is RestartReason.ENDED_WELL else logging.WARNING
                about = LogEvent.WORKER_BACKING_OFF.extra(reason=decision.words) if waits else None
                log.log(level, "%s: %s", self.id, decision.words, extra=about)
            self.decision = decision
            self._changed(reason=decision.words)  # STOPPED -> BACKING_OFF, or it stays stopped
        return ""

    # What blocks, in a thread

    def start(self, *, waits: bool = False) -> str:
        """Start it, unless it was paused or quarantined since the plan was made; returns the error."""
        host, automatic, failed = self._host, self._automatic, self._failed_to_start
        self._failed_to_start = self._backoff_over = self._automatic = False
        try:
            if host.pauses.read(self.id) or host.quarantines.read(self.id):
                return ""
            search, self._last_search = self._last_search, None
            recent = search is not None and time.monotonic() - search[0] < SEARCH_HOLDS_SECONDS
            found = search[1] if search and recent else self._adapter.search(self.id)
            if found.identity is not None:  # by somebody's hand, since the plan
                return ""
            check_alone(found)
            check_startable(host, self.settings)  # what would fail for sure is not tried, and so not counted
        except (SupervisorError, OSError) as error:
            self._automatic, self._failed_to_start = automatic, failed  # nothing has come of it
            return self._note_start_error(error)
        try:
            if automatic and restarts.restarts_count(host.drive):
                restarts.note_start(host.config.state_dir, self.settings, host.now())
            self._adapter.start(self.id, found, waits=waits)
        except TooManyStarts as error:
            self.recall().forget_decision()  # the next plan decides with the count as it is now
            self._plan_again = True
            return self._note_start_error(error)
        except LaunchError as error:
            self._plan_again = True
            found = self._adapter.state(self.id)
            if found.record is None or found.record.identity is None:
                self.recall().failed_to_start(host.now(), asked=not automatic)
                self._failed_to_start = True
            else:  # its end is seen like any other
                self.recall().began(found.record, host.now(), asked=not automatic)
            return self._note_start_error(error)
        except (SupervisorError, OSError) as error:
            return self._note_start_error(error)
        self.start_error = ""
        self._record_launch(self._adapter.state(self.id), asked=not automatic)
        return ""

    def stop(self) -> str:
        """Stop it, unless it was enabled again, or quarantined, since the plan was made; returns the error."""
        configured = self._host.config.workers.get(self.id)
        if configured is not None and (configured.enabled or configured.quarantined):
            self._plan_again = True
            return ""
        return _stop_error(self._adapter.stop(self.id, Why.NOT_ENABLED))

    def remove(self) -> str:
        """Stop and forget it, unless it was put back since the plan was made; returns the error."""
        if self.id in self._host.config.workers:
            self._plan_again = True
            return ""
        report = self._adapter.remove(self.id)
        if report.stopped:
            self._host.quarantines.end(self.id)  # a namesake begins with nothing held against it
            self.removed = True
        return _stop_error(report)

    def restart(self, why: Why) -> str:
        """Restart it, unless the start would surely fail or it hangs too often; returns the error."""
        host, settings = self._host, self.settings
        found = self._adapter.search(self.id)
        if why is Why.CHANGED and found.record and found.record.spec_hash == host.config.spec_hash(settings):
            return ""  # a person's restart has brought it about already
        if why is Why.HUNG:
            count = automatic_starts(restarts.read_starts(host.config.state_dir, self.id), host.now())
            if count >= settings.restart.max_per_hour:
                self._give_up(f"quarantined: it hangs again after {count} automatic restarts in the last hour")
                return ""
        try:
            check_alone(found)
            check_startable(host, settings)
        except (SupervisorError, OSError) as error:
            return self._note_start_error(error, "isn't restarted and keeps running")
        log.warning("restarting %s: %s", self.id, why, extra=LogEvent.WORKER_RESTARTING.extra(reason=str(why)))
        report = self._adapter.stop(self.id, why)
        self._automatic = why is Why.HUNG
        if process_state(self._adapter.state(self.id)) is not WorkerState.STOPPED:
            return _stop_error(report)
        time.sleep(BETWEEN_SECONDS)
        return self.start(waits=why is Why.CHANGED)  # the next worker's restart depends on it

    def _decide(self, should_stop: Callable[[], bool]) -> RestartDecision | None:
        """Decide about a restart after its exit; None if it didn't exit on its own and may be started.

        Its code doesn't change meanwhile: a code change stops it, which isn't an exit on its own.
        """
        host, history = self._host, self.recall()
        now = host.now()
        if self._policy_changed:
            self._policy_changed = False
            history.forget_decision()
        self._automatic = True
        if self._backoff_over:
            return None
        with self._code_locked(should_stop):
            exited = self._exited_on_its_own(history, now)
        if not exited and not self._failed_to_start:
            history.forget_decision()
            self._automatic = False
            return None
        if history.decision is not None and history.decision.what is not Next.QUARANTINE:  # that a person has ended
            decision = history.decision.at(now)  # perhaps of the daemon before this one: the rest of it
            if decision.due_at is None:
                return decision
            return replace(decision, pause_seconds=max(0.0, (decision.due_at - now).total_seconds()))
        counts = restarts.restarts_count(host.drive)
        count = automatic_starts(restarts.read_starts(host.config.state_dir, self.id), now) if counts else None
        decision = decide(self.settings.restart, history.lives, count, now, random.random())  # noqa: S311 (jitter)
        history.decided(decision)
        return decision

    def _exited_on_its_own(self, history: RestartHistory, now: datetime) -> bool:
        """True if it ran and wasn't stopped: a stop is recorded first, and its record removed after it.

        A process that ended with its host didn't exit on its own.
        """
        self._last_search = time.monotonic(), (found := self._adapter.search(self.id))
        identity = found.record.identity if found.record else None
        if found.record is None or identity is None or process_state(found) is not WorkerState.STOPPED or found.ordered:
            return False
        me = self._host.processes.identify(os.getpid())
        if me is not None and me.boot_id != identity.boot_id:
            return False
        code, ago = None, 0.0
        if self._end is not None and self._end[0].identity == identity:
            code, ago = self._end[0].exit_code, max(0.0, time.monotonic() - self._end[2])
        if code is None:
            code = self._host.processes.exit_code(identity, waits=True)
        if history.ended(found.record, code, now, ago) is not None:
            about = LogEvent.WORKER_EXITED.extra(pid=identity.pid, exit_code=code)
            log.warning("%s (pid %d) %s", self.id, identity.pid, exit_in_words(code), extra=about)
        return True

    def _give_up(self, words: str) -> Quarantine | None:
        """Quarantine it, until a person resumes or restarts it."""
        self._host.quarantines.begin(self.id, words, self._host.now())
        log.error("%s is %s", self.id, words, extra=LogEvent.WORKER_QUARANTINED.extra(reason=words))
        return self._host.quarantines.read(self.id)

    def _note_start_error(self, error: Exception, what: str = "can't start") -> str:
        if str(error) != self.start_error:
            about = LogEvent.WORKER_START_FAILED.extra(error=str(error))
            log.error("%s %s: %s", self.id, what, error, extra=about)
        self.start_error = str(error)
        return self.start_error

    def _look_after_job(self, moved: bool) -> tuple[str, FoundWorker, Quarantine | None]:
        """Look at it after a command; where that `moved` the worker, its new process was requested."""
        found = self._adapter.state(self.id)
        if moved:
            self._failed_to_start = self._backoff_over = False
            self._record_launch(found, asked=True)
        return "", found, self._host.quarantines.read(self.id)

    def _record_launch(self, found: FoundWorker, *, asked: bool) -> None:
        if found.record is not None and found.record.identity is not None:  # dead or alive
            self.recall().began(found.record, self._host.now(), asked=asked)

    def _locked(
        self, operation: Callable[..., str], should_stop: Callable[[], bool], *arguments: Why
    ) -> tuple[str, FoundWorker, Quarantine | None]:
        """Carry out an operation while its code holds still; returns its error, and what a look shows after it."""
        with self._code_locked(should_stop):
            error = operation(*arguments)
            if self.removed:
                return error, FoundWorker(self.id, Presence.STOPPED), None
            return error, self._adapter.state(self.id), self._host.quarantines.read(self.id)

    @contextlib.contextmanager
    def _code_locked(self, should_stop: Callable[[], bool]) -> Iterator[None]:
        """Hold its code still; `OperationCancelled` where this program was asked to stop before that."""
        with checkout_shared(self._host, self.settings, wait=True, should_stop=should_stop) as ours:
            if not ours:
                raise OperationCancelled
            yield

    def _read_queue(self) -> tuple[Job | None, bool]:
        """Its next job in the queue; where nothing is to be done, whether the drive has its pause."""
        parallel = self._host.config.supervisor.parallel
        job = self._context.ledger.read(partial(jobs.next_to_run, worker_id=self.id, parallel=parallel))
        busy = job is not None or self._next is not None
        return job, busy or self._host.pauses.settle(self.id).on_drive

    # How it changes

    def _begin(self, activity: str, moving: WorkerState | None) -> None:
        """Begin an activity: what was planned before is outdated. A start or a stop ends the wait for a restart."""
        self.activities += 1
        self.activity, self.moving = activity, moving
        self._next, self._plan_again = None, False
        if moving is not None:
            self.decision = self._due = None
        self._changed()

    def _finish(self, result: tuple[str, FoundWorker, Quarantine | None]) -> str:
        """End the activity with what a look shows: STARTING or STOPPING -> RUNNING, STOPPED or STUCK."""
        error, found, self.quarantine = result
        self.activities += 1
        self.activity, self.moving = "", None
        changed = process_state(found) is not process_state(self.found)
        if changed:
            self.decision = None
        self._take(found)
        if changed or self._plan_again:
            self._replan()
        return error

    def _abandon(self) -> None:
        """Nothing is in hand any more, and the last look counts."""
        if self.activity:
            self.activity, self.moving = "", None
            self._changed()

    def _take(self, found: FoundWorker) -> None:
        """Its processes as they were found."""
        before, now = (each.identity.pid if each.identity else None for each in (self.found, found))
        self.found = found
        if before not in (None, now):
            self._publish(EventType.WORKER_STOPPED, pid=before)
        if now not in (None, before):
            self._publish(EventType.WORKER_STARTED, pid=now)
        self._changed(pid=now)

    def _changed(self, **payload: object) -> None:
        """Publish its status and its state, where they have changed."""
        facts = self.found.identity, self.state, self.activity, self.moving, self.decision, self.quarantine
        if facts == self._published:
            return
        self._published = facts
        before, self._published_state = self._published_state, self.state
        self._reconciler.worker_changed(self)
        if before is not self._published_state:
            moved = {"from": before, "to": self._published_state, **payload}
            self._publish(EventType.WORKER_STATE_CHANGED, **moved)

    def _publish(self, kind: EventType, **payload: object) -> None:
        self._reconciler.publish(kind, self.id, payload)

    def _replan(self) -> None:
        self._reconciler.plan_again(self.id)

    @property
    def _waits(self) -> bool:
        return self.decision is not None and self.decision.what is Next.WAIT

    @property
    def _host(self) -> HostContext:
        return self._context.host


def changes_code(job: Job) -> bool:
    definition = by_handler(job.handler)
    return definition is not None and definition.tier is Tier.CODE


def _stop_error(report: StopReport) -> str:
    """The reason why a stop failed; empty where nothing is left."""
    return "" if report.stopped else f"stuck: {', '.join(map(str, report.survivors))} can't be stopped"


def log_health_change(before: WorkerStatus | None, seen: WorkerStatus) -> None:
    if seen.found.identity is None:
        return
    verdict = seen.verdict
    was_unwell = before is not None and before.found.identity is not None and not before.verdict.fine
    if verdict.fine and was_unwell:
        about = LogEvent.WORKER_RECOVERED.extra(worker_id=seen.worker_id, reason=verdict.reason)
        log.info("%s recovered: %s", seen.worker_id, verdict.reason, extra=about)
    same = before is not None and before.verdict.health is verdict.health
    if not verdict.fine and not (was_unwell and same):
        health, reason = str(verdict.health), verdict.reason
        about = LogEvent.WORKER_UNHEALTHY.extra(worker_id=seen.worker_id, condition=health, reason=reason)
        log.warning("%s is %s: %s", seen.worker_id, health, reason, extra=about)
