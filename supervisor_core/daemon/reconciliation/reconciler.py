"""The reconciler: compares what is wanted with what is seen, again and again, and has the actors close the gap.

A round looks at the workers, plans (purely), and hands each actor its action. Rounds come at a fixed distance, with
each version of the configuration, and at once for a worker whose process has ended. It keeps the picture of all
workers, and publishes events; those are hints, and nothing here depends on one having arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.code.recovery import report_interrupted
from supervisor_core.common.errors import describe
from supervisor_core.common.events import Event, EventBus, EventType, Subscription
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import DISPATCHER
from supervisor_core.common.threads import CallbackLock
from supervisor_core.config.changes import WorkerProgress
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.configuration.service import ConfigVersion, Rollout
from supervisor_core.daemon.reconciliation.actor import Hooks, WorkerActor
from supervisor_core.daemon.reconciliation.observer import WorkerObserver, log_health_changes
from supervisor_core.daemon.reconciliation.status_publisher import Publish, StatusPublisher, actual_state, desired_state
from supervisor_core.daemon.reconciliation.unconfigured_workers import refuse_orphaned_jobs, unconfigured_workers
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import Presence
from supervisor_core.workers.adapter import WorkerAdapter, WorkerEnded
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.planning import Action, ActionKind, Why, plan
from supervisor_core.workers.status import Reconciliation, Snapshot, WorkerSnapshot, WorkerStatus

LEFT_ALONE = frozenset({Why.PAUSED, Why.QUARANTINED, Why.RESTING})
"""Why a worker is not restarted for a configuration."""

log = logging.getLogger(__name__)


class Reconciler(Service):
    """The service `orchestrator_dispatcher`. On the event loop, `finished` is called after each command, `progressed`
    after each step that a handler says it takes, and `publish` with each new status. `resting` says whether
    monitoring is paused."""

    name = DISPATCHER

    def __init__(
        self,
        parts: DaemonContext,
        adapter: WorkerAdapter,
        blocking: Blocking,
        *,
        finished: Callable[[Job], None] = lambda _: None,
        progressed: Callable[[Job], None] = lambda _: None,
        resting: Callable[[], bool] = lambda: False,
        told: Callable[[], object] = lambda: False,
        publish: Publish = lambda _: None,
        bus: EventBus | None = None,
        senses: WorkerObserver | None = None,
    ) -> None:
        super().__init__()
        self._parts = parts
        self._adapter = adapter
        self._blocking = blocking
        self._finished = finished
        self._resting = resting
        self._told = told
        self.bus = bus or EventBus()
        self._senses = senses or WorkerObserver(parts)
        self._senses.changed = self.plan_again
        self._hooks = Hooks(
            finished, self.wake, progressed, self.plan_again, self._settled, self._repaint, self._publish, resting
        )
        self._turn = CallbackLock()
        self.moved: Callable[[Collection[str]], None] = lambda _: None
        """Called after each round, and when an actor has done something, with those that run with older settings."""
        self._whys: dict[str, tuple[int, Why]] = {}
        """What the newest plan says of each worker, and for which version that was."""
        self._version = 1
        self._snapshot = Snapshot(0, datetime.now(UTC))
        self._reconciled: dict[str, Reconciliation] = {}
        self._seen: dict[str, WorkerStatus] = {}
        self._publisher = StatusPublisher(publish)
        self._due: set[str] = set()
        self._skipped: set[str] = set()
        """Of whom the last look said nothing, because something was just being done."""
        self._all_due = True
        self._poked = asyncio.Event()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._rollout = Rollout()
        self._stopping: asyncio.Event | None = None
        self._life: asyncio.Task[None] | None = None
        self._subscription: int | None = None
        self._recovered = False
        self._trouble = ""
        self._actors: dict[str, WorkerActor] = {}
        for worker in parts.host.config.workers.values():
            self._add(worker)

    # --- for whoever uses it alone

    async def start(self) -> None:
        """Run in the background until `stop`."""
        if self._life is None:
            self._stopping = asyncio.Event()
            await self.initialise()
            self._life = asyncio.create_task(self.run(self._stopping), name="reconciler")

    async def stop(self) -> None:
        """Finish what is in hand, and end. The workers go on."""
        life, self._life = self._life, None
        if life is not None and self._stopping is not None:
            self._stopping.set()
            self._poked.set()
            await life
            await self.shut_down()

    def subscribe(self, types: Iterable[EventType | str] | None = None, *, name: str = "") -> Subscription:
        """All events from now on, or those of some types."""
        return self.bus.subscribe(types=types, name=name)

    def current_snapshot(self) -> Snapshot:
        """The newest picture; from any thread, without a lock or a wait."""
        return self._snapshot

    # --- what others ask of it

    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        """Have the actors of these workers look into their queues; of all where none are named."""
        for worker_id, actor in self._actors.items():
            if worker_ids is None or worker_id in worker_ids:
                actor.wake()
        if any(each not in self._actors for each in worker_ids or ()):
            self.plan_again()  # a whole round deals with what is for nobody

    def plan_again(self, worker_id: str | None = None) -> None:
        """A round for this worker, now; for all where none is named."""
        if worker_id is None:
            self._all_due = True
        else:
            self._due.add(worker_id)
        self._poked.set()

    def configured(self, version: ConfigVersion) -> None:
        """This configuration counts from now on; `parts.host` has it already. Each whole round follows it."""
        self._version = version.number
        self.plan_again()

    def actor(self, worker_id: str) -> WorkerActor | None:
        """The actor of this worker."""
        return self._actors.get(worker_id)

    def workers(self) -> list[WorkerSettings]:
        """All whom it looks after, those included that were removed and are not gone yet."""
        return [actor.worker for actor in self._actors.values()]

    def changing_code(self) -> list[WorkerSettings]:
        """For whom the code is being changed right now."""
        return [actor.worker for actor in list(self._actors.values()) if actor.changes_code]

    def progress(self, worker_ids: Collection[str]) -> dict[str, WorkerProgress]:
        """How far these workers are with the newest configuration."""
        return {each: self._progress_of(each) for each in worker_ids}

    def _progress_of(self, worker_id: str) -> WorkerProgress:
        actor, (version, why) = self._actors.get(worker_id), self._whys.get(worker_id, (0, None))
        if actor is None or self._reconciled.get(worker_id, Reconciliation()).desired_version >= self._version:
            return WorkerProgress.DONE
        if actor.unsettled or actor.moving is not None or version < self._version:
            return WorkerProgress.PENDING
        if why in LEFT_ALONE:
            return WorkerProgress.LEFT
        down = actor.standing.seen is not WorkerState.RUNNING
        if down and (actor.start_error or actor.decision is not None or actor.standing.quarantined):
            return WorkerProgress.FAILED
        return WorkerProgress.HELD if why is Why.CHANGED and self._rollout.waits_for else WorkerProgress.PENDING

    def problem(self) -> str:
        """What keeps it or its actors from their work."""
        actors = [f"{name}: {actor.problem}" for name, actor in self._actors.items() if actor.problem]
        return "; ".join([*([self._trouble] if self._trouble else []), *actors])

    # --- the service

    async def initialise(self) -> None:
        """Report what a crash interrupted; once, for later what is under way is our own."""
        if self._recovered:
            return
        host, ledger = self._parts.host, self._parts.ledger
        for worker in await self._blocking(unconfigured_workers, host.config):
            self._add(worker)
        report = partial(report_interrupted, plans=True)
        ended = await self._blocking(report, host, ledger, list(self._actors), self._told)
        self._recovered = True
        for job in ended:
            self._publish(EventType.COMMAND_INTERRUPTED, job.worker_id, {"task_id": job.task_id})
            self._finished(job)

    async def run(self, stopping: asyncio.Event) -> None:
        """Plan, and let the actors work, until asked to stop; each actor finishes what it has in hand."""
        loop = asyncio.get_running_loop()

        def heard(ended: WorkerEnded) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody plans any more
                loop.call_soon_threadsafe(self._ended, ended)

        self._subscription = self._adapter.subscribe(heard)
        self._all_due = True
        try:
            await self._rounds(stopping)
            self.pulse.rest()  # what the actors have in hand takes its time
            await asyncio.gather(*self._tasks.values())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()

    async def shut_down(self) -> None:
        """Hear no more of exits."""
        if self._subscription is not None:
            self._adapter.unsubscribe(self._subscription)
            self._subscription = None

    async def _rounds(self, stopping: asyncio.Event) -> None:
        loop, every = asyncio.get_running_loop(), self._parts.host.config.supervisor.reconcile_seconds
        next_at = loop.time() + every
        while not stopping.is_set():
            self.pulse.beat()
            self._poked.clear()
            if loop.time() >= next_at:
                self._all_due, next_at = True, loop.time() + every
            if self._all_due:
                self._follow()
            self._tend_actors(stopping)
            due = list(self._actors) if self._all_due else [each for each in self._due if each in self._actors]
            whole, self._all_due = self._all_due, False
            self._due.clear()
            if due or whole:
                await self._careful_round(due, whole=whole)
            await self._rest(stopping, next_at - loop.time())

    async def _rest(self, stopping: asyncio.Event, seconds: float) -> None:
        """Until somebody pokes it, until it is time for the next round, or until somebody must be looked at."""
        schedule, now = self._publisher.schedule, datetime.now(UTC)
        self._due.update(schedule.due(now))
        wait = 0.0 if self._due else min(schedule.wait(now), seconds)
        self.pulse.beat(within=max(wait, 0.0))
        await wait_until(self._poked, stopping, wait)

    def _tend_actors(self, stopping: asyncio.Event) -> None:
        """Begin those that are new, and let go of those whose worker was removed."""
        for worker_id, actor in list(self._actors.items()):
            task = self._tasks.get(worker_id)
            if task is not None and task.done():
                del self._tasks[worker_id]  # one that broke is begun anew, alone
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.error("the actor of %s broke and is begun anew", worker_id, exc_info=error)
                if actor.gone:
                    self._let_go(worker_id)
            if worker_id in self._actors and worker_id not in self._tasks:
                task = asyncio.create_task(self._actors[worker_id].run(stopping), name=worker_id)
                task.add_done_callback(lambda _: self._poked.set())
                self._tasks[worker_id] = task

    def _let_go(self, worker_id: str) -> None:
        self._show([worker_id])
        for table in (self._actors, self._tasks, self._seen, self._reconciled, self._whys):
            table.pop(worker_id, None)
        self._publisher.forget(worker_id)
        self._senses.forget(worker_id)
        self._publish(EventType.WORKER_REMOVED, worker_id, {})
        log.info("%s is removed: it is not in the configuration any more", worker_id)
        worker = self._parts.host.config.workers.get(worker_id)
        if worker is not None:  # it was put back while it ended
            self._add(worker)
        self._swap({})
        self.plan_again()  # a whole round also refuses what still waits for it

    def _follow(self) -> None:
        """Have an actor, with its newest settings, for each worker that is configured."""
        for worker_id, worker in self._parts.host.config.workers.items():
            actor = self._actors.get(worker_id)
            if actor is None:
                self._add(worker)
                self._publish(EventType.WORKER_ADDED, worker_id, {"version": self._version})
            elif actor.worker != worker:
                self._adapter.add(worker)
                actor.configured(worker)
                self._publish(EventType.WORKER_UPDATED, worker_id, {"version": self._version})

    async def _careful_round(self, due: list[str], *, whole: bool) -> None:
        """The edge of a round: what fails is said, and the next round tries again."""
        try:
            await self._round(due)
            if whole:
                refused = await self._blocking(refuse_orphaned_jobs, self._parts, frozenset(self._actors))
                for job in refused:
                    self._finished(job)
                if refused:
                    self.wake()  # it may be somebody's turn now
        except Exception as error:
            log.exception("a round of the reconciler failed")
            self._trouble = f"its last round failed: {describe(error)}"
            self._publish(EventType.RECONCILE_FAILED, self._parts.host.config.supervisor.id, {"error": str(error)})
        else:
            self._trouble = ""

    async def _round(self, due: list[str]) -> None:
        actors = {each: self._actors[each] for each in due if not self._actors[each].gone}
        begun, version = {worker_id: actor.begun for worker_id, actor in actors.items()}, self._version
        looked, ended = await self._blocking(self._look, [actor.worker for actor in actors.values()])
        for worker_id in ended:
            self.plan_again(worker_id)
        if version != self._version:
            return  # what is wanted has changed since: a round for all is on its way, and tells of all that it changes
        # What was taken in hand since, or moves the worker, makes the look say nothing: its end asks for a new round.
        fresh = {
            seen.worker.id: seen
            for seen in looked
            if actors[seen.worker.id].begun == begun[seen.worker.id] and not actors[seen.worker.id].unsettled
        }
        for worker_id in actors.keys() - fresh.keys():
            if actors[worker_id].unsettled:
                self._skipped.add(worker_id)
            else:  # it was over before the look was: nobody asks any more
                self.plan_again(worker_id)
        config, now = self._parts.host.config, datetime.now(UTC)
        for worker_id, seen in fresh.items():
            actors[worker_id].saw(seen.found, quarantined=seen.quarantine is not None)
            if seen.pause_differs:
                actors[worker_id].look_at_pause()
        log_health_changes(self._seen, fresh)
        self._seen |= fresh
        self._senses.follow(fresh.values())
        desired = {
            each: desired_state(config, actors[each], seen) for each, seen in fresh.items() if each in config.workers
        }
        actual = {each: actual_state(actors[each], seen) for each, seen in fresh.items()}
        plan_made = plan(desired, actual, now, resting=self._resting())
        runs = {each for each, actor in self._actors.items() if actor.has_turn or _runs(actor)}
        waited_for = self._rollout.waits_for
        actions = self._rollout.held_back(self._version, plan_made, runs)
        if waited_for and not self._rollout.waits_for:
            self.plan_again()  # those who were held back may not be among these
        self._whys |= {worker_id: (self._version, action.why) for worker_id, action in plan_made.items()}
        for worker_id, action in actions.items():
            if action.why is Why.HUNG:
                log.warning("%s hangs: %s", worker_id, fresh[worker_id].hangs)
            actors[worker_id].act(action)
            done = self._reconciled.get(worker_id, Reconciliation())
            self._reconciled[worker_id] = done.next_round(self._version, now, applied=_brought_about(action))
        self._swap({each: self._painted(each) for each in fresh})
        self._show(fresh)
        to_do = {each: str(action.kind) for each, action in actions.items() if action.kind is not ActionKind.NONE}
        payload = {"version": self._version, "actions": to_do}
        self._publish(EventType.RECONCILE_COMPLETED, config.supervisor.id, payload)
        self._moved()

    def _look(self, workers: Sequence[WorkerSettings]) -> tuple[list[WorkerStatus], list[str]]:
        """Look at them, in a thread; the second answer is who has ended just after.

        Who runs and was not known to, as after a restart of the daemon, is looked at through the adapter as well: from
        then on its exit is heard at once.
        """
        looked, ended = self._senses.look(workers), []
        for seen in looked:
            identity, before = seen.found.identity, self._seen.get(seen.worker.id)
            if identity is None or (before is not None and before.found.identity == identity):
                continue
            if self._adapter.state(seen.worker.id).presence is Presence.STOPPED:
                ended.append(seen.worker.id)
        return looked, ended

    def _add(self, worker: WorkerSettings) -> None:
        self._adapter.add(worker)
        self._actors[worker.id] = WorkerActor(
            worker, self._parts, self._adapter, self._blocking, self._hooks, self._turn
        )
        self._blocking.widen(len(self._actors))

    def _show(self, worker_ids: Iterable[str]) -> None:
        looked = [(self._actors[each], self._seen[each]) for each in worker_ids if each in self._seen]
        self._publisher.publish(looked)

    def fine(self) -> dict[str, bool]:
        """Of each that was seen running, and is to work, whether it was well."""
        running = ((each, seen) for each, seen in self._seen.items() if seen.found.identity is not None)
        return {each: seen.verdict.fine for each, seen in running if seen.pause is None}

    def look_again(self) -> None:
        """Have those looked at again, now, who run and are unwell: the drive does not always tell of their recovery."""
        for worker_id, fine in self.fine().items():
            if not fine:
                self.plan_again(worker_id)

    def _ended(self, ended: WorkerEnded) -> None:
        """A process has ended: a hint. What is true, a look will tell, and what follows, the plan."""
        self._publisher.note_end(ended)
        code = "not known" if ended.exit_code is None else ended.exit_code
        about = {"worker_id": ended.worker_id}
        log.info(
            "a process of %s, pid %d, has ended, exit code %s", ended.worker_id, ended.identity.pid, code, extra=about
        )
        actor = self._actors.get(ended.worker_id)
        if actor is not None:
            actor.heard_of_end(ended)
            self.plan_again(ended.worker_id)

    def _moved(self) -> None:
        self.moved([each for each, (_, why) in self._whys.items() if why is Why.CHANGED and each in self._actors])

    def _settled(self, worker_id: str) -> None:
        self._moved()
        if worker_id in self._skipped:
            self._skipped.discard(worker_id)
            self.plan_again(worker_id)

    def _repaint(self, worker_id: str) -> None:
        if worker_id in self._rollout.waits_for and _runs(self._actors[worker_id]):
            self.plan_again()
        if worker_id not in self._seen:
            return
        self._swap({worker_id: self._painted(worker_id)})
        actor, seen = self._actors[worker_id], self._seen[worker_id]
        stopped = seen.found.identity is None and actor.standing.seen is WorkerState.STOPPED
        if stopped and (actor.decision is not None or actor.start_error):  # the same look, and what was made of it
            self._show([worker_id])
            self._moved()

    def _painted(self, worker_id: str) -> WorkerSnapshot:
        actor, status = self._actors[worker_id], self._seen[worker_id]
        desired = desired_state(self._parts.host.config, actor, status)
        reconciled = self._reconciled.get(worker_id, Reconciliation())
        return WorkerSnapshot(desired, actual_state(actor, status), reconciled)

    def _swap(self, newer: Mapping[str, WorkerSnapshot]) -> None:
        """The next picture, in one assignment."""
        kept = {each: was for each, was in self._snapshot.workers.items() if each in self._actors}
        self._snapshot = self._snapshot.changed({**kept, **newer}, datetime.now(UTC))

    def _publish(self, kind: EventType, subject: str, payload: Mapping[str, Any]) -> None:
        self.bus.publish(Event(kind, subject, datetime.now(UTC), payload))


def _runs(actor: WorkerActor) -> bool:
    return actor.standing.state is WorkerState.RUNNING


def _brought_about(action: Action) -> bool:
    """Whether all is as this version wants it; a worker that is left alone may run with an older one."""
    return action.kind is ActionKind.NONE and action.why in (Why.AS_WANTED, Why.NOT_ENABLED, Why.ENDED)
