"""The actor of a worker: it runs the commands in their order, and between them the newest plan, one at a time."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.errors import LedgerUnavailable, describe
from supervisor_core.common.events import EventType
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import wait_until
from supervisor_core.config.worker_settings import LAUNCH, WorkerSettings
from supervisor_core.daemon.execution import RetryLimit, execute
from supervisor_core.daemon.reconciliation.operations import OperationCancelled, OperationResult, WorkerOperations
from supervisor_core.host.logging.log import worker_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.observation import process_state
from supervisor_core.workers.planning import Action, ActionKind, Lifecycle, Why
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason

if TYPE_CHECKING:
    from supervisor_core.daemon.reconciliation.reconciler import Reconciler

PAUSE_AFTER_TROUBLE_SECONDS = 1.0
SETTLE_SECONDS = 2.0
"""The retry interval while a pause isn't on the drive yet."""

STARTS = ("resume", "restart_watcher")
"""The handlers after which the worker is looked at at once: its new process is put on record."""

_MOVES = {
    "pause": WorkerState.STOPPING,
    "restart_watcher": WorkerState.STOPPING,  # of its two halves it is the one that may take long
    "resume": WorkerState.STARTING,
}
"""The state that a command moves its worker through; one that changes code stops it as well."""

log = logging.getLogger(__name__)


class WorkerActor:
    """Its mailbox is the worker's jobs in the queue, and one place for the newest planned action.

    Nothing else in this program starts or stops the worker, or writes its pause.
    """

    def __init__(
        self,
        worker: WorkerSettings,
        parts: DaemonContext,
        adapter: WorkerAdapter,
        reconciler: Reconciler,
    ) -> None:
        self.worker = worker
        self.lifecycle = Lifecycle()
        self.planned = False
        """A plan has been made for it; until then it is coming up."""
        self.gone = False
        """True if the worker was removed and no process is left."""
        self.begun = 0
        """Its activities so far: an observation from before the newest one is outdated."""
        self.acting = False
        """A planned action is being done or decided on, so a new plan would be the same."""
        self.problem = ""
        self.pid: int | None = None
        """The worker's process, by the newest observation."""
        self._parts = parts
        self._adapter = adapter
        self._blocking = reconciler.blocking
        self._reconciler = reconciler
        self._replan = partial(reconciler.plan_again, worker.id)
        self.operations = WorkerOperations(worker.id, parts, adapter)
        self._woken = asyncio.Event()
        self._next: Action | None = None
        self._due: float | None = None
        self._busy: Job | None = None
        self._overtaken_by = ""
        """Why a start in progress stops waiting for its grace period; read by the handler's thread."""
        self._unsettled = False
        """True while a pause or its end isn't on the drive yet."""
        self._pause_differs = False
        """True if its pause flag was changed by hand."""
        self._logged: tuple[str, datetime | None] | None = None
        """The words and the due time of the decision that was logged last."""
        self._reconsider = False
        """True if the decision about its last exit must be made again."""

    @property
    def moving(self) -> WorkerState | None:
        """The state that an activity moves it through; None where its processes alone say how it is."""
        starts = self._next is not None and self._next.kind is ActionKind.START
        if self.lifecycle.moving is None and (starts or not self.planned):
            return WorkerState.STARTING
        return self.lifecycle.moving

    @property
    def unsettled(self) -> bool:
        """An observation would only show how far an activity is."""
        return self.acting or self.lifecycle.moving is not None

    @property
    def decision(self) -> RestartDecision | None:
        return self.lifecycle.waits

    @property
    def changes_code(self) -> bool:
        """The code that its worker runs from is being changed; others may run from it as well."""
        return self._busy is not None and _changes_code(self._busy)

    @property
    def pending(self) -> tuple[str, ...]:
        """The activity and the planned action, in words."""
        planned = (f"{self._next.kind}: {self._next.why}",) if self._next else ()
        return (*((self.lifecycle.in_hand,) if self.lifecycle.in_hand else ()), *planned)

    def wake(self) -> None:
        """Look into the queue, now."""
        self._woken.set()

    def act(self, action: Action) -> None:
        """Take the newest planned action, in place of an older one that still waits."""
        self.planned = True
        self._next = None if action.kind is ActionKind.NONE else action
        if self._next is not None:
            self._woken.set()

    def observe(self, found: FoundWorker, *, quarantined: bool) -> None:
        """Follow an observation; nothing was begun since."""
        state, pid = process_state(found), found.identity.pid if found.identity else None
        if not self.planned and pid is not None:
            about = LogEvent.WORKER_FOUND.extra(worker_id=self.worker.id, pid=pid)
            log.info("%s is already running (pid %d)", self.worker.id, pid, extra=about)
        lifecycle = self.lifecycle if state is self.lifecycle.seen else self.lifecycle.see(state)
        if quarantined != lifecycle.quarantined and not lifecycle.in_hand:  # else what is in hand reads it at its end
            lifecycle = lifecycle.give_up() if quarantined else lifecycle.release()
        self._set_pid(pid)
        self._set_lifecycle(lifecycle, pid=pid)

    def check_pause(self) -> None:
        """Put a pause flag that was changed by hand back, or follow it."""
        self._pause_differs = True
        self._woken.set()

    def reconfigure(self, worker: WorkerSettings) -> None:
        """Use these settings from now on.

        A changed restart policy causes a new decision about its last exit. Another command, environment or folder
        causes an immediate start.
        """
        before, self.worker = self.worker, worker
        launched_otherwise = any(getattr(worker, name) != getattr(before, name) for name in LAUNCH)
        failed = self.decision is not None or self.operations.error is not None
        if launched_otherwise:
            self.operations.error = None  # of the settings before: these haven't been tried yet
        if (worker.restart != before.restart or launched_otherwise) and failed:
            self.operations.may_start = launched_otherwise
            self._due = None
            self._set_lifecycle(self.lifecycle.see(self.lifecycle.seen, anew=True))
            self._reconsider = True

    def note_end(self, ended: WorkerEnded) -> None:
        """Note that a process ended; an observation and the plan decide what follows."""
        self.operations.note_end(ended)

    async def run(self, stopping: asyncio.Event) -> None:
        """Work until told to stop, between two activities, or until the worker is removed.

        The actor survives every error and reports its problem.
        """
        try:
            with worker_context(self.worker.id):
                while not (stopping.is_set() or self.gone):
                    self._woken.clear()
                    try:
                        idle = await self._work_once(stopping)
                    except Exception as error:
                        log.exception("the actor of %s failed", self.worker.id)
                        self.problem = describe(error)
                        self._abandon()
                        await wait_until(None, stopping, PAUSE_AFTER_TROUBLE_SECONDS)
                        continue
                    self.problem = ""
                    if idle:
                        await wait_until(self._woken, stopping, self._longest_sleep())
        except asyncio.CancelledError:
            if self.lifecycle.in_hand:
                words = "%s of %s is still running and is abandoned"
                log.error(words, self.lifecycle.in_hand, self.worker.id)  # noqa: TRY400 (nothing else to say)
            raise

    def _abandon(self) -> None:
        """Nothing is in hand any more, and the last observation counts."""
        if self.lifecycle.in_hand:
            self._set_lifecycle(self.lifecycle.done(self.lifecycle.seen))

    def _longest_sleep(self) -> float | None:
        """The longest sleep, in seconds; None where only a wake-up ends it."""
        waits = [SETTLE_SECONDS] if self._unsettled else []
        if self._due is not None and self.decision is not None:
            waits.append(max(0.0, self._due - asyncio.get_running_loop().time()))
        return min(waits, default=None)

    async def _work_once(self, stopping: asyncio.Event) -> bool:
        """Do what comes next, commands first; True where there was nothing."""
        job = await self._blocking(self._next_job)
        if job is not None:
            await self._run_commands(job, RetryLimit(stopping.is_set))
            return False
        if self._next is not None and await self._run_action(self._next, stopping.is_set):
            return False
        waits = self.decision is not None and self.decision.what is Next.WAIT
        if waits and self._due is not None and asyncio.get_running_loop().time() >= self._due:
            self.operations.may_start = True
            self._set_lifecycle(self.lifecycle.see(self.lifecycle.seen, anew=True))
            self._replan()
        pauses = self._parts.host.pauses
        self._unsettled = not (await self._blocking(pauses.settle, self.worker.id)).on_drive
        if self._pause_differs:
            self._pause_differs = False
            await self._blocking(pauses.read, self.worker.id)
            self._replan()
        return True

    def _next_job(self) -> Job | None:
        """Its next job in the queue; blocks."""
        parallel = self._parts.host.config.supervisor.parallel
        return self._parts.ledger.read(partial(jobs.next_to_run, worker_id=self.worker.id, parallel=parallel))

    async def _run_commands(self, first: Job, patience: RetryLimit) -> None:
        """Run a command, and those of its kind that wait behind it."""
        job: Job | None = first
        moving = WorkerState.STOPPING if _changes_code(first) else _MOVES.get(first.handler)
        self._begin(first.handler, moving)
        try:
            while job is not None:
                job = await self._run_command(job, patience, moving)
        finally:
            self._replan()

    async def _run_command(self, job: Job, patience: RetryLimit, moving: WorkerState | None) -> Job | None:
        """Run a command; return the next one in the queue if that's of the same kind. Else the activity has ended."""
        self._busy = job
        self._publish(EventType.COMMAND_STARTED, job)
        following, outcome, is_over = None, None, False
        self._overtaken_by = ""
        watch = asyncio.create_task(self._watch_for_pause()) if job.handler in STARTS else None
        loop = asyncio.get_running_loop()

        def overtaken() -> str:
            return "the daemon is stopping" if patience.should_stop() else self._overtaken_by

        def progressed(job: Job) -> None:
            loop.call_soon_threadsafe(self._reconciler.progressed, job)

        host, ledger = replace(self._parts.host, overtaken=overtaken), self._parts.ledger
        try:
            outcome = await self._blocking(execute, job, host, ledger, self._trouble, patience, progressed)
            is_over = True
            if outcome is not None and jobs.is_sequential(job):
                parallel = host.config.supervisor.parallel
                waiting = partial(jobs.workers_with_work, task_id=job.task_id, parallel=parallel)
                self._reconciler.next_turn(await self._blocking(ledger.read, waiting))
            if not (self.changes_code or job.handler in STARTS or patience.should_stop()):
                following = await self._blocking(self._next_job)
                if following is not None and following.handler != job.handler:
                    following = None
        finally:
            self._busy = None
            if watch is not None:
                watch.cancel()
            try:
                if following is None:
                    self._done(await self._blocking(partial(self.operations.after_command, moved=moving is not None)))
            finally:
                if is_over:  # also if the ledger can't be read any more: somebody waits for it
                    if outcome is not None:  # else it isn't ours
                        if outcome.success:
                            self.operations.error = None
                        self._publish(EventType.COMMAND_DONE, job, success=outcome.success)
                    self._reconciler.finished(job)
        return following

    async def _watch_for_pause(self) -> None:
        """Have a start stop waiting for its grace period once a pause waits behind it."""
        read = partial(self._parts.ledger.read, partial(jobs.pause_waits, worker_id=self.worker.id))
        while True:
            self._woken.clear()
            with contextlib.suppress(LedgerUnavailable):
                if await self._blocking(read):
                    break
            await self._woken.wait()
        self._overtaken_by = "a pause followed"

    def _publish(self, kind: EventType, job: Job, **more: object) -> None:
        self._reconciler.publish(kind, self.worker.id, {"task_id": job.task_id, "handler": job.handler, **more})

    async def _run_action(self, action: Action, stopped: Callable[[], bool]) -> bool:
        """Run a planned action; False where another worker is being restarted, so that no command waits for a turn."""
        if self._reconciler.resting():  # since the plan was made
            self._next = None
            return False
        in_turn = action.why is Why.CHANGED
        if in_turn and self._reconciler.restarting:
            self._reconciler.waiting_to_restart.add(self.worker.id)
            self._next = None  # once the other's is over, what became of it counts
            return False
        self.acting, error = True, ""
        if in_turn:
            self._reconciler.restarting = self.worker.id
        try:
            error = await (self._start(stopped) if action.kind is ActionKind.START else self._stop(action, stopped))
        except OperationCancelled:
            error = "cancelled: the supervisor is stopping"
            self._abandon()
        except Exception as failure:
            error = describe(failure)
            raise
        finally:
            self.acting = False
            self._next = None  # a plan from before it was done
            self._reconciler.action_ended(self.worker.id, error)
            if in_turn:
                self._reconciler.restarting = ""
                while self._reconciler.waiting_to_restart:
                    self._reconciler.plan_again(self._reconciler.waiting_to_restart.pop())
        return True

    async def _stop(self, action: Action, stopped: Callable[[], bool]) -> str:
        """Stop, remove or restart it; returns the error. A state that differs from the plan is left to the next one."""
        self._begin(str(action.kind), WorkerState.STOPPING)
        if action.kind is ActionKind.RESTART:
            return self._done(await self._blocking(self.operations.restart, self.worker, action.why, stopped))
        removes = action.kind is ActionKind.REMOVE
        log.info("%s is stopped: %s", self.worker.id, action.why)
        operation = self.operations.remove if removes else self.operations.stop
        result = await self._blocking(operation, self.worker, stopped)
        self._done(result)
        self.gone = removes and result.state is WorkerState.STOPPED and not result.plan_again  # else it was put back
        return result.error

    async def _start(self, stopped: Callable[[], bool]) -> str:
        """Start it, unless it must wait, rests, or is quarantined now; returns the error."""
        if self._reconsider:
            self._reconsider = False
            await self._blocking(self.operations.reconsider)
        decision = await self._blocking(self.operations.decide, self.worker, stopped)
        if decision is None or decision.what is Next.START:
            self._begin("start", WorkerState.STARTING)
            return self._done(await self._blocking(self.operations.start, self.worker, stopped))
        if decision.what is Next.QUARANTINE:
            await self._blocking(self.operations.give_up, decision)
            self._set_lifecycle(self.lifecycle.give_up(), reason=decision.words)
            self._replan()  # whoever follows its condition hears of it with the next status
        elif self.lifecycle.seen is WorkerState.STOPPED:  # else it has come up meanwhile, by somebody else's hand
            waits = decision.what is Next.WAIT
            self._due = asyncio.get_running_loop().time() + decision.pause_seconds if waits else None
            self._log_decision(decision)
            self._set_lifecycle(self.lifecycle.wait(decision), reason=decision.words)
        return ""

    def _log_decision(self, decision: RestartDecision) -> None:
        """Log a decision once: each round plans again what can't start yet."""
        if (decision.words, decision.due_at) != self._logged:
            level = logging.INFO if decision.reason is RestartReason.ENDED_WELL else logging.WARNING
            waits = decision.what is Next.WAIT
            about = LogEvent.WORKER_BACKING_OFF.extra(reason=decision.words) if waits else None
            log.log(level, "%s: %s", self.worker.id, decision.words, extra=about)
            self._logged = (decision.words, decision.due_at)

    def _begin(self, what: str, moving: WorkerState | None) -> None:
        """Begin an activity: what was planned before is outdated, and its end asks for a new plan."""
        self.begun += 1
        self._next = None
        self._due = None if moving else self._due
        self._set_lifecycle(self.lifecycle.begin(what, moving))

    def _done(self, result: OperationResult) -> str:
        """End the activity; observe the worker again if anything changed. Returns the error."""
        self.begun += 1
        changed = result.state is not self.lifecycle.seen
        self._set_pid(result.pid)
        self._set_lifecycle(self.lifecycle.done(result.state, quarantined=result.quarantined), pid=result.pid)
        if result.plan_again or changed:
            self._replan()
        return result.error

    def _set_lifecycle(self, lifecycle: Lifecycle, **payload: object) -> None:
        before, self.lifecycle = self.lifecycle, lifecycle
        if before != lifecycle:
            self._reconciler.actor_changed(self.worker.id)
        if before.state is lifecycle.state:
            return
        moved = {"from": before.state, "to": lifecycle.state, **payload}
        self._reconciler.publish(EventType.WORKER_STATE_CHANGED, self.worker.id, moved)

    def _set_pid(self, pid: int | None) -> None:
        before, self.pid = self.pid, pid
        if before not in (None, pid):
            self._reconciler.publish(EventType.WORKER_STOPPED, self.worker.id, {"pid": before})
        if pid not in (None, before):
            self._reconciler.publish(EventType.WORKER_STARTED, self.worker.id, {"pid": pid})

    def _trouble(self, words: str) -> None:
        """Called from the handler's thread."""
        self.problem = words


def _changes_code(job: Job) -> bool:
    definition = by_handler(job.handler)
    return definition is not None and definition.tier is Tier.CODE
