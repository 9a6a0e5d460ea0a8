"""One actor per worker: carries out its commands, in order, and between them the newest plan; one thing at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.errors import describe
from supervisor_core.common.events import EventType
from supervisor_core.common.service import Blocking, wait_until
from supervisor_core.common.threads import CallbackLock
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.execution import RetryLimit, execute
from supervisor_core.daemon.reconciliation.operations import OperationCancelled, OperationResult, WorkerOperations
from supervisor_core.host.logging.log import worker_context
from supervisor_core.jobs import queries as turns
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.observation import process_state
from supervisor_core.workers.planning import Action, ActionKind, Lifecycle, Why
from supervisor_core.workers.restarts.policy import Next, RestartDecision, RestartReason

PAUSE_AFTER_TROUBLE_SECONDS = 1.0
SETTLE_SECONDS = 2.0
"""How often the drive is tried while it does not know of a pause yet."""

LAUNCH = tuple(name for name in WorkerSettings.model_fields if name not in WorkerSettings.LIVE)
"""The settings that a process is started with."""

_MOVES = {
    "pause": WorkerState.STOPPING,
    "restart_watcher": WorkerState.STOPPING,  # of its two halves it is the one that may take long
    "resume": WorkerState.STARTING,
}
"""What a command does to its worker's life; one that changes code stops it as well."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Hooks:
    """Whom an actor tells. All are called on the event loop."""

    finished: Callable[[Job], None]
    """After each command."""
    next_turn: Callable[[Collection[str]], None]
    """After a command that goes from worker to worker, with those whose turn has come."""
    progressed: Callable[[Job], None]
    """After each step that a handler says it takes."""
    plan_again: Callable[[str], None]
    """Something is different with this worker: a new plan is needed, now."""
    settled: Callable[[str], None]
    """A planned action is over: a look says something again."""
    changed: Callable[[str], None]
    """Its standing has changed: whoever shows it reads it anew."""
    publish: Callable[[EventType, str, Mapping[str, Any]], None]
    resting: Callable[[], bool] = lambda: False
    """Whether monitoring is paused: then nothing planned is begun."""


class WorkerActor:
    """Its mailbox is the worker's rows in the queue, and one place for the newest planned action.

    Nobody else in this program starts or stops the worker, or writes its pause.
    """

    def __init__(
        self,
        worker: WorkerSettings,
        parts: DaemonContext,
        adapter: WorkerAdapter,
        blocking: Blocking,
        hooks: Hooks,
        turn: CallbackLock,
    ) -> None:
        self.worker = worker
        self.standing = Lifecycle()
        self.planned = False
        """Whether a plan has been made for it: until then it is coming up."""
        self.gone = False
        """It was removed, and nothing of it is left."""
        self.begun = 0
        """How many things it has taken in hand: a look from before the newest of them says nothing any more."""
        self.acting = False
        """Whether a planned action is being done, or thought about: until then a new plan for it would be the same."""
        self.has_turn = False
        """Whether it is just being restarted for a version of the configuration."""
        self.problem = ""
        """What keeps it from its work."""
        self.pid: int | None = None
        """The worker's process, by the newest look of all; None where none was seen."""
        self._parts = parts
        self._adapter = adapter
        self._blocking = blocking
        self._hooks = hooks
        self._turn = turn
        self._tending = WorkerOperations(worker.id, parts, adapter)
        self._woken = asyncio.Event()
        self._next: Action | None = None
        self._due: float | None = None
        self._busy: Job | None = None
        self._unsettled = False
        """Whether the drive does not know yet of a pause or its end."""
        self._pause_differs = False
        """Whether somebody has changed its pause flag by hand."""
        self._said: tuple[str, datetime | None] | None = None
        """What the log was told last about what follows on its end."""
        self._reconsider = False
        """Whether what was decided after its last end is to be decided anew."""

    @property
    def moving(self) -> WorkerState | None:
        """What is being done about the worker; None where its processes alone say how it is."""
        starts = self._next is not None and self._next.kind is ActionKind.START
        if self.standing.moving is None and (starts or not self.planned):
            return WorkerState.STARTING
        return self.standing.moving

    @property
    def unsettled(self) -> bool:
        """Whether what a look shows now is only how far something is."""
        return self.acting or self.standing.moving is not None

    @property
    def start_error(self) -> str | None:
        """Why the worker could not be brought up."""
        return self._tending.error

    @property
    def decision(self) -> RestartDecision | None:
        """For what it waits, or why it rests, after it has ended by itself."""
        return self.standing.waits

    @property
    def changes_code(self) -> bool:
        """Whether the code that its worker runs from is being changed: others may run from it as well."""
        definition = by_handler(self._busy.handler) if self._busy else None
        return definition is not None and definition.tier is Tier.CODE

    @property
    def pending(self) -> tuple[str, ...]:
        """What is in hand and what waits, in words."""
        planned = (f"{self._next.kind}: {self._next.why}",) if self._next else ()
        return (*((self.standing.in_hand,) if self.standing.in_hand else ()), *planned)

    def wake(self) -> None:
        """Look into the queue, now."""
        self._woken.set()

    def act(self, action: Action) -> None:
        """What the newest plan says; it takes the place of an older one that still waits."""
        self.planned = True
        self._next = None if action.kind is ActionKind.NONE else action
        if self._next is not None:
            self._woken.set()

    def saw(self, found: FoundWorker, *, quarantined: bool) -> None:
        """A look from outside has shown this, and nothing was taken in hand since."""
        state, pid = process_state(found), found.identity.pid if found.identity else None
        if not self.planned and pid is not None:
            log.info("%s runs already, as pid %d", self.worker.id, pid)
        standing = self.standing if state is self.standing.seen else self.standing.see(state)
        if quarantined != standing.quarantined and not standing.in_hand:  # else what is in hand reads it at its end
            standing = standing.give_up() if quarantined else standing.release()
        self._sees(pid)
        self._stand(standing, pid=pid)

    def look_at_pause(self) -> None:
        """Its pause flag was changed by hand: put it back, or follow it."""
        self._pause_differs = True
        self._woken.set()

    def configured(self, worker: WorkerSettings) -> None:
        """These settings count from now on. About one that waits or rests a changed restart policy decides anew, and
        with another command, environment or folder it is tried at once."""
        before, self.worker = self.worker, worker
        launched_otherwise = any(getattr(worker, name) != getattr(before, name) for name in LAUNCH)
        if (worker.restart != before.restart or launched_otherwise) and self.decision is not None:
            self._tending.may_start = launched_otherwise
            self._due = None
            self._stand(self.standing.see(self.standing.seen, anew=True))
            self._reconsider = True

    def heard_of_end(self, ended: WorkerEnded) -> None:
        """A process of it has ended. Whether that was asked for, and what follows, a look and the plan will tell."""
        self._tending.hear(ended)

    async def run(self, stopping: asyncio.Event) -> None:
        """Do what is queued and planned until asked to stop, which is heard between two things, or until removed."""
        try:
            with worker_context(self.worker.id):
                while not (stopping.is_set() or self.gone):
                    self._woken.clear()
                    idle = await self._careful(self._one_thing(stopping))
                    if idle is None:
                        await wait_until(None, stopping, PAUSE_AFTER_TROUBLE_SECONDS)
                    elif idle:
                        await wait_until(self._woken, stopping, self._nap())
        except asyncio.CancelledError:
            if self.standing.in_hand:
                words = "%s of %s is still under way and is left"
                log.error(words, self.standing.in_hand, self.worker.id)  # noqa: TRY400 (nothing else to say)
            raise

    async def _careful(self, work: Awaitable[bool]) -> bool | None:
        """The edge of the actor: it goes on whatever happens, and says what is wrong; None where something was."""
        try:
            answer = await work
        except Exception as error:
            log.exception("the actor of %s could not work", self.worker.id)
            self.problem = describe(error)
            if self.standing.in_hand:
                self._stand(self.standing.done(self.standing.seen))
            return None
        self.problem = ""
        return answer

    def _nap(self) -> float | None:
        """How long it may sleep at most while nobody wakes it."""
        naps = [SETTLE_SECONDS] if self._unsettled else []
        if self._due is not None and self.decision is not None:
            naps.append(max(0.0, self._due - asyncio.get_running_loop().time()))
        return min(naps, default=None)

    async def _one_thing(self, stopping: asyncio.Event) -> bool:
        """Do what comes next, commands first; True where there was nothing to do."""
        ledger, host = self._parts.ledger, self._parts.host
        job = await self._blocking(lambda: ledger.read(lambda connection: jobs.next_to_run(connection, self.worker.id)))
        if job is not None:
            await self._carry_out(job, RetryLimit(stopping.is_set))
            return False
        if self._next is not None and await self._act_out(self._next, stopping.is_set):
            return False
        if self._is_due():
            self._tending.may_start = True
            self._stand(self.standing.see(self.standing.seen, anew=True))
            self._hooks.plan_again(self.worker.id)
        self._unsettled = not (await self._blocking(host.pauses.settle, self.worker.id)).on_drive
        if self._pause_differs:
            self._pause_differs = False
            await self._blocking(host.pauses.read, self.worker.id)
            self._hooks.plan_again(self.worker.id)
        return True

    def _is_due(self) -> bool:
        waits = self.decision is not None and self.decision.what is Next.WAIT
        return waits and self._due is not None and asyncio.get_running_loop().time() >= self._due

    async def _carry_out(self, job: Job, patience: RetryLimit) -> None:
        """One command, by its handler."""
        self._busy = job
        moving = WorkerState.STOPPING if self.changes_code else _MOVES.get(job.handler)
        self._begin(job.handler, moving)
        loop = asyncio.get_running_loop()

        def heard(job: Job) -> None:
            loop.call_soon_threadsafe(self._hooks.progressed, job)

        payload: dict[str, Any] = {"task_id": job.task_id, "handler": job.handler}
        self._hooks.publish(EventType.COMMAND_STARTED, self.worker.id, payload)
        try:
            outcome = await self._blocking(
                execute, job, self._parts.host, self._parts.ledger, self._trouble, patience, heard
            )
            if outcome is not None and turns.is_sequential(job):
                look = partial(jobs.workers_with_work, task_id=job.task_id)
                self._hooks.next_turn(await self._blocking(self._parts.ledger.read, look))
        finally:
            self._busy = None
            self._done(await self._blocking(partial(self._tending.after_command, moved=moving is not None)))
        if outcome is not None:
            if outcome.success:
                self._tending.error = None
            payload["success"] = outcome.success
            self._hooks.publish(EventType.COMMAND_DONE, self.worker.id, payload)
        self._hooks.finished(job)
        self._hooks.plan_again(self.worker.id)

    async def _act_out(self, action: Action, told: Callable[[], bool]) -> bool:
        """Do what is planned; False where others are restarted just now: commands are not kept waiting for a turn."""
        if self._hooks.resting():  # since the plan was made
            self._next = None
            return False
        in_turn = action.why is Why.CHANGED
        if in_turn and not self._turn.take(self._plan_again):
            self._next = None  # once it is free, what became of the one before counts
            return False
        self.acting, self.has_turn = True, in_turn
        try:
            await self._do(action, told)
        except OperationCancelled:
            if self.standing.in_hand:
                self._stand(self.standing.done(self.standing.seen))
        finally:
            self.acting = self.has_turn = False
            self._next = None  # a plan from before it was done
            self._hooks.settled(self.worker.id)
            if in_turn:
                self._turn.give_back()
        return True

    async def _do(self, action: Action, told: Callable[[], bool]) -> None:
        """One planned action. What it finds different from the plan, the next plan will see."""
        if action.kind is ActionKind.START:
            await self._start(told)
            return
        self._begin(str(action.kind), WorkerState.STOPPING)
        if action.kind is ActionKind.RESTART:
            self._done(await self._blocking(self._tending.restart, self.worker, action.why, told))
            return
        removes = action.kind is ActionKind.REMOVE
        log.info("%s is stopped: %s", self.worker.id, action.why)
        tended = await self._blocking(self._tending.remove if removes else self._tending.stop, self.worker, told)
        self._done(tended)
        self.gone = removes and tended.state is WorkerState.STOPPED and not tended.plan_again  # else it was put back

    async def _start(self, told: Callable[[], bool]) -> None:
        if self._reconsider:
            self._reconsider = False
            await self._blocking(self._tending.reconsider)
        decision = await self._blocking(self._tending.decide, self.worker, told)
        if decision is not None and decision.what is not Next.START:
            await self._rest(decision)
            return
        self._begin("start", WorkerState.STARTING)
        self._done(await self._blocking(self._tending.start, self.worker, told))

    async def _rest(self, decision: RestartDecision) -> None:
        """It is not started now: it waits, it rests, or it is given up."""
        if decision.what is Next.QUARANTINE:
            await self._blocking(self._tending.give_up, decision)
            self._stand(self.standing.give_up(), reason=decision.words)
            self._hooks.plan_again(self.worker.id)  # whoever follows its condition hears of it with the next look
            return
        if self.standing.seen is not WorkerState.STOPPED:  # it has come up meanwhile, by somebody else's hand
            return
        waits = decision.what is Next.WAIT
        self._due = asyncio.get_running_loop().time() + decision.pause_seconds if waits else None
        if (decision.words, decision.due_at) != self._said:  # each round plans anew what can't be begun yet
            level = logging.INFO if decision.reason is RestartReason.ENDED_WELL else logging.WARNING
            log.log(level, "%s: %s", self.worker.id, decision.words)
            self._said = (decision.words, decision.due_at)
        self._stand(self.standing.wait(decision), reason=decision.words)

    def _plan_again(self) -> None:
        self._hooks.plan_again(self.worker.id)

    def _begin(self, what: str, moving: WorkerState | None) -> None:
        """From here on what was planned before says nothing any more: the end of this asks for a new plan."""
        self.begun += 1
        self._next = None
        self._due = None if moving else self._due
        self._stand(self.standing.begin(what, moving))

    def _done(self, tended: OperationResult) -> None:
        """It is over. What it has changed is looked at anew, so that the picture shows all of it."""
        self.begun += 1
        changed = tended.state is not self.standing.seen
        self._sees(tended.pid)
        self._stand(self.standing.done(tended.state, quarantined=tended.quarantined), pid=tended.pid)
        if tended.plan_again or changed:
            self._hooks.plan_again(self.worker.id)

    def _stand(self, standing: Lifecycle, **payload: object) -> None:
        """The new standing, told to whoever wants to know."""
        before, self.standing = self.standing, standing
        if before != standing:
            self._hooks.changed(self.worker.id)
        if before.state is standing.state:
            return
        moved = {"from": before.state, "to": standing.state, **payload}
        self._hooks.publish(EventType.WORKER_STATE_CHANGED, self.worker.id, moved)

    def _sees(self, pid: int | None) -> None:
        """Which process it is now, by a look: a restart puts another in the place of the one before."""
        before, self.pid = self.pid, pid
        if before not in (None, pid):
            self._hooks.publish(EventType.WORKER_STOPPED, self.worker.id, {"pid": before})
        if pid not in (None, before):
            self._hooks.publish(EventType.WORKER_STARTED, self.worker.id, {"pid": pid})

    def _trouble(self, words: str) -> None:
        """Called from the handler's thread; one assignment is all it does."""
        self.problem = words
