"""The reconciler compares the desired state of each worker with its actual one, and has its actor close the gap.

A round observes the workers, plans (purely), and hands each actor its action. Rounds run at a fixed interval, for each
version of the configuration, and immediately for a worker whose process ended. The reconciler keeps the snapshot of
all workers and publishes events; those are hints, and nothing here depends on their arrival.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.code.recovery import report_interrupted
from supervisor_core.common.errors import describe
from supervisor_core.common.events import Event, EventBus, EventType, Subscription
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.service_names import DISPATCHER
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.daemon.environment import OwnHost
from supervisor_core.daemon.reconciliation.actor import WorkerActor
from supervisor_core.daemon.reconciliation.managed_worker import ManagedWorker, ManagedWorkers
from supervisor_core.daemon.reconciliation.observer import WorkerObserver, log_health_changes
from supervisor_core.daemon.reconciliation.unconfigured_workers import refuse_orphaned_jobs, unconfigured_workers
from supervisor_core.jobs.model import Job
from supervisor_core.workers.adapter import ProcessWorkerAdapter, WorkerAdapter, WorkerEnded
from supervisor_core.workers.adapter_fake import FakeWorkerAdapter
from supervisor_core.workers.conditions.rules import changes_at
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.planning import Action, ActionKind, Why
from supervisor_core.workers.status import Snapshot, WorkerStatus

log = logging.getLogger(__name__)

STAYS_STOPPED = frozenset({Why.PAUSED, Why.NOT_ENABLED, Why.NOT_CONFIGURED, Why.ENDED})
"""Valid reasons for a worker not to run."""


class Reconciler(Service):
    """Brings the workers of a configuration into their desired state, in a daemon or in any other program.

    Without a `context`, `start` makes this program the owner of the state folder until `stop`; without an `adapter`,
    the workers are processes of this host.

    On the event loop, `finished` is called after each command, `next_turn` with the workers, also of other hosts, that
    a command goes on with, `progressed` after each step of a handler, and `publish` with each new status. `resting`
    says whether monitoring is paused.
    """

    name = DISPATCHER

    def __init__(
        self,
        config_service: ConfigService,
        adapter: WorkerAdapter | None = None,
        logger: logging.Logger = log,
        *,
        context: DaemonContext | None = None,
        blocking: Blocking | None = None,
        finished: Callable[[Job], None] = lambda _: None,
        next_turn: Callable[[Collection[str]], None] | None = None,
        progressed: Callable[[Job], None] = lambda _: None,
        resting: Callable[[], bool] = lambda: False,
        should_stop: Callable[[], object] = lambda: False,
        publish: Callable[[Sequence[WorkerStatus]], None] = lambda _: None,
        bus: EventBus | None = None,
    ) -> None:
        super().__init__()
        self._own: OwnHost | None = None
        if context is None:
            self._own = own = OwnHost(config_service.current.config, adapter)
            context, adapter = own.context, own.adapter
            if isinstance(adapter, FakeWorkerAdapter) and adapter.config is None:
                adapter.config = lambda: own.context.host.config
        self._parts = context
        self._log = logger
        self._adapter = adapter or ProcessWorkerAdapter.of(context)
        self.blocking = blocking or Blocking()
        self._should_stop = should_stop
        self._bus_is_ours = bus is None
        self.bus = bus or EventBus()
        self.observer = WorkerObserver(context, self.plan_again)
        self.finished = finished
        self.next_turn = next_turn or self.wake
        self.progressed = progressed
        self.resting = resting
        self.restarting = ""
        """The worker that is being restarted for a version of the configuration: one at a time."""
        self.waiting_to_restart: set[str] = set()
        self._version = config_service.current.number
        self._actions: dict[str, str] = {}
        """The kinds of the actions that are under way."""
        self._snapshot = Snapshot(0, datetime.now(UTC))
        self._publish_statuses = publish
        self._looks_due: dict[str, datetime] = {}
        """When the condition of a worker may change without an event."""
        self._due: set[str] = set()
        self._all_due = True
        self._poked, self._looked = asyncio.Event(), asyncio.Event()
        self._restarted: set[str] = set()
        """The workers that the newest version of the configuration has restarted."""
        self._failed: list[str] = []
        """Those of them that don't run, so that the others keep their older settings."""
        self._recovered, self._trouble = False, ""
        self._announced = False
        """True once the workers that were there from the start have had their event."""
        self.managed = ManagedWorkers()
        for worker in context.host.config.workers.values():
            self._add(worker)
        config_service.subscribe(self.configured)

    async def start(self) -> None:
        """Run in the background until `stop`. From now on the snapshot has all workers."""
        try:
            if self._own is not None:
                await self.blocking(self._own.acquire)
                await self.observer.start()
            await super().start()
            await self.reach(self._looked)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Finish running activities, end the subscriptions, and stop. The workers keep running."""
        try:
            await super().stop()
        finally:
            if self._own is not None:
                await self.observer.stop()
                await self.blocking(self._own.release)
        for subscription in self.bus.subscriptions if self._bus_is_ours else ():
            subscription.close()

    def subscribe(self, types: Iterable[EventType | str] | None = None, *, name: str = "") -> Subscription:
        """All events from now on, or those of some types."""
        return self.bus.subscribe(types=types, name=name)

    def current_snapshot(self) -> Snapshot:
        """The newest picture; from any thread, without a lock or a wait."""
        return self._snapshot

    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        """Have the actors of these workers look into their queues; of all where none are named."""
        for worker_id, managed in self.managed.items():
            if worker_ids is None or worker_id in worker_ids:
                managed.actor.wake()
        if any(each not in self.managed for each in worker_ids or ()):
            self.plan_again()  # a whole round also refuses the jobs of unknown workers

    def plan_again(self, worker_id: str | None = None) -> None:
        """A round for this worker, now; for all where none is named."""
        if worker_id is None:
            self._all_due = True
        else:
            self._due.add(worker_id)
        self._poked.set()

    def configured(self, version: ConfigVersion) -> None:
        """This configuration counts from now on. Each whole round follows it."""
        self._parts.host = replace(self._parts.host, config=version.config)
        self._version = version.number
        self._restarted, self._failed = set(), []
        self.plan_again()

    def actor(self, worker_id: str) -> WorkerActor | None:
        managed = self.managed.get(worker_id)
        return managed.actor if managed else None

    def config_results(self, roles: Mapping[str, str], begun_at: datetime) -> dict[str, str | None]:
        """The result of the newest configuration for these workers, which it gives these roles; None while pending."""
        halted = bool(self._failed)
        return {
            worker_id: self.managed[worker_id].config_result(self._version, role, begun_at, halted=halted)
            if worker_id in self.managed
            else role
            for worker_id, role in roles.items()
        }

    def look_again(self) -> None:
        """Observe unhealthy workers again now: the drive doesn't always report their recovery."""
        for worker_id, fine in self.managed.healthy().items():
            if not fine:
                self.plan_again(worker_id)

    def problem(self) -> str:
        return "; ".join([*([self._trouble] if self._trouble else []), *self.managed.problems()])

    async def initialise(self) -> None:
        """Report what a crash interrupted; once in a daemon, for later what is under way is our own."""
        self._looked.clear()
        if self._recovered and self._own is None:
            return
        host, ledger = self._parts.host, self._parts.ledger
        for worker in await self.blocking(unconfigured_workers, host.config):
            self._add(worker)
        report = partial(report_interrupted, plans=True)
        ended = await self.blocking(report, host, ledger, list(self.managed), self._should_stop)
        self._recovered = True
        for job in ended:
            self.publish(EventType.COMMAND_INTERRUPTED, job.worker_id, {"task_id": job.task_id})
            self.finished(job)

    async def run(self, stopping: asyncio.Event) -> None:
        """Plan, and let the actors work, until asked to stop; each actor finishes what it has in hand."""
        loop = asyncio.get_running_loop()

        def heard(ended: WorkerEnded) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody plans any more
                loop.call_soon_threadsafe(self._ended, ended)

        subscription = self._adapter.subscribe(heard)
        self._all_due = True
        try:
            await self._rounds(stopping)
            self.pulse.rest()  # what the actors have in hand takes its time
            await asyncio.gather(*self.managed.tasks())
        finally:
            await self.managed.cancel()
            self._adapter.unsubscribe(subscription)

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
                if self._own is not None:  # no service of a daemon looks into the queue
                    self.wake()
            for worker_id in self.managed.run_actors(stopping, self._poked.set):
                self._let_go(worker_id)
            due = list(self.managed) if self._all_due else [each for each in self._due if each in self.managed]
            whole, self._all_due = self._all_due, False
            self._due.clear()
            if due or whole:
                await self._careful_round(due, whole=whole)
                self._looked.set()
            await self._rest(stopping, next_at - loop.time())

    async def _rest(self, stopping: asyncio.Event, seconds: float) -> None:
        """Wait for a poke, the next round, or a worker to observe."""
        now = datetime.now(UTC)
        due = [worker_id for worker_id, moment in self._looks_due.items() if moment <= now]
        for worker_id in due:
            del self._looks_due[worker_id]
        self._due.update(due)
        first = min(self._looks_due.values(), default=None)
        wait = 0.0 if self._due else min(seconds, (first - now).total_seconds() if first else seconds)
        self.pulse.beat(within=max(wait, 0.0))
        await wait_until(self._poked, stopping, wait)

    def _let_go(self, worker_id: str) -> None:
        self._show([worker_id])
        del self.managed[worker_id]
        self._looks_due.pop(worker_id, None)
        self.observer.forget(worker_id)
        self.publish(EventType.WORKER_REMOVED, worker_id, {})
        about = LogEvent.WORKER_REMOVED.extra(worker_id=worker_id)
        self._log.info("%s is removed: no longer in the configuration", worker_id, extra=about)
        worker = self._parts.host.config.workers.get(worker_id)
        if worker is not None:  # it was put back while it ended
            self._add(worker)
        self._update_snapshot(())
        self.plan_again()  # a whole round also refuses what still waits for it

    def _follow(self) -> None:
        """Have an actor, with its newest settings, for each worker that is configured."""
        if not self._announced:
            self._announced = True
            for worker_id in self.managed:
                self.publish(EventType.WORKER_ADDED, worker_id, {"version": self._version})
        for worker_id, worker in self._parts.host.config.workers.items():
            actor = self.actor(worker_id)
            if actor is None:
                self._add(worker)
                self.publish(EventType.WORKER_ADDED, worker_id, {"version": self._version})
            elif actor.worker != worker:
                self._adapter.add(worker)
                actor.reconfigure(worker)
                self.publish(EventType.WORKER_UPDATED, worker_id, {"version": self._version})

    async def _careful_round(self, due: list[str], *, whole: bool) -> None:
        """Run a round; report a failure and retry in the next round."""
        try:
            await self._round(due)
            if whole:
                refused = await self.blocking(refuse_orphaned_jobs, self._parts, frozenset(self.managed))
                for job in refused:
                    self.finished(job)
                if refused:
                    self.wake()  # it may be somebody's turn now
        except Exception as error:  # noqa: BLE001 (the edge: it's logged, and the next round comes)
            self._log.exception("a round of the reconciler failed")
            self._trouble = f"the last round failed: {describe(error)}"
            self._publish_outcome(EventType.RECONCILE_FAILED, {}, self._trouble)
        else:
            self._trouble = ""

    async def _round(self, due: list[str]) -> None:
        shown = {each: managed for each in due if (managed := self.managed[each]).shows_something()}
        if due and not shown:
            return  # each of them asks for a new round at the end of what it does
        observed = await self._observe(shown)
        if observed is None:
            return
        config, now = self._parts.host.config, datetime.now(UTC)
        planned = self.managed.plan(config, observed, now, resting=self.resting())
        actions = self._hold_back(planned)
        for worker_id, action in planned.items():
            self.managed[worker_id].note_plan(action, self._version)
        for worker_id, action in actions.items():
            if action.why is Why.HUNG:
                hangs = observed[worker_id].hangs
                about = LogEvent.WORKER_HUNG.extra(worker_id=worker_id, reason=hangs)
                self._log.warning("%s hangs: %s", worker_id, hangs, extra=about)
            self.managed[worker_id].act(action, self._version, now)
        self._update_snapshot(observed)
        self._show(observed)
        for worker_id, action in actions.items():
            self._actions.pop(worker_id, None)
            if action.kind is not ActionKind.NONE:
                self._actions[worker_id] = str(action.kind)
        if not self._actions:
            self._publish_outcome(EventType.RECONCILE_COMPLETED, {}, "")

    def _hold_back(self, planned: Mapping[str, Action]) -> dict[str, Action]:
        """The planned actions, without restarts for a configuration with which a worker already fails."""
        changed = {worker_id for worker_id, action in planned.items() if action.why is Why.CHANGED}
        self._restarted -= {worker_id for worker_id, action in planned.items() if action.why in STAYS_STOPPED}
        failed = sorted(
            worker_id
            for worker_id in self._restarted - changed
            if (managed := self.managed.get(worker_id)) and not (worker_id == self.restarting or managed.runs)
        )
        if changed and failed:
            if failed != self._failed:
                words = "%s fails with configuration version %d, so these keep their older settings: %s"
                self._log.error(words, ", ".join(failed), self._version, ", ".join(sorted(changed)))
            self._failed = failed
            return {worker_id: action for worker_id, action in planned.items() if worker_id not in changed}
        if self._failed and not failed:
            self._failed = []
            self.plan_again()  # the workers that were held back may not be among these
        if len(changed - self._restarted) > 1:
            words = "configuration version %d restarts %d workers, one at a time: %s"
            self._log.warning(words, self._version, len(changed), ", ".join(sorted(changed)))
        self._restarted |= changed
        return dict(planned)

    async def _observe(self, managed: Mapping[str, ManagedWorker]) -> dict[str, WorkerStatus] | None:
        """The fresh statuses of these workers; None where the configuration has changed meanwhile.

        What was taken in hand since, or moves the worker, makes its status say nothing: its end asks for a new round.
        """
        begun, version = {worker_id: each.actor.begun for worker_id, each in managed.items()}, self._version
        statuses, ended = await self.blocking(self._look, [each.actor.worker for each in managed.values()])
        for worker_id in ended:
            self.plan_again(worker_id)
        if version != self._version:
            return None  # a round for all is on its way
        fresh: dict[str, WorkerStatus] = {}
        for status in statuses:
            worker_id, actor = status.worker_id, managed[status.worker_id].actor
            if actor.unsettled:
                managed[worker_id].skipped = True
            elif actor.begun != begun[worker_id]:
                self.plan_again(worker_id)  # it was over before the observation was: nobody asks any more
            else:
                fresh[worker_id] = status
        log_health_changes({each: managed[each].status for each in fresh}, fresh)
        for worker_id, status in fresh.items():
            managed[worker_id].observe(status)
        self.observer.follow(fresh.values())
        return fresh

    def _look(self, workers: Sequence[WorkerSettings]) -> tuple[list[WorkerStatus], list[str]]:
        """Observe the workers in a thread; the second result names those that exited right after."""
        statuses = self.observer.look(workers)
        return statuses, self.managed.watch_new(statuses, self._adapter)

    def _add(self, worker: WorkerSettings) -> None:
        self._adapter.add(worker)
        actor = WorkerActor(worker, self._parts, self._adapter, self)
        self.managed[worker.id] = ManagedWorker(actor)
        self.blocking.widen(len(self.managed))

    def _show(self, worker_ids: Iterable[str]) -> None:
        """Publish the newest statuses of these workers."""
        statuses = [seen for each in worker_ids if (seen := self.managed[each].current_status()) is not None]
        for seen in statuses:
            moment = changes_at(seen.observation, seen.at, seen.proven_after_seconds)
            if moment is None:
                self._looks_due.pop(seen.worker_id, None)
            else:
                self._looks_due[seen.worker_id] = moment
        self._publish_statuses(statuses)

    def _ended(self, ended: WorkerEnded) -> None:
        """A process has ended: a hint. What is true, an observation will tell, and what follows, the plan."""
        if ended.worker_id in self.managed:
            self.managed[ended.worker_id].note_end(ended)
            self.plan_again(ended.worker_id)

    def _publish_outcome(self, kind: EventType, actions: dict[str, str], error: str) -> None:
        payload = {"version": self._version, "actions": actions, **({"error": error} if error else {})}
        self.publish(kind, self._parts.host.config.supervisor.id, payload)

    def action_ended(self, worker_id: str, error: str) -> None:
        """A planned action has ended, so an observation counts again; with the error where it failed."""
        managed, kind = self.managed[worker_id], self._actions.pop(worker_id, "")
        if kind:
            outcome = EventType.RECONCILE_FAILED if error else EventType.RECONCILE_COMPLETED
            self._publish_outcome(outcome, {worker_id: kind}, f"{worker_id}: {error}" if error else "")
        if managed.skipped:
            managed.skipped = False
            self.plan_again(worker_id)

    def actor_changed(self, worker_id: str) -> None:
        managed = self.managed[worker_id]
        if worker_id in self._failed and managed.runs:
            self.plan_again()
        status, actor = managed.status, managed.actor
        if status is None:
            return
        self._update_snapshot([worker_id])
        stopped = status.found.identity is None and actor.lifecycle.seen is WorkerState.STOPPED
        if stopped and (actor.decision is not None or actor.operations.error):  # nothing is observed anew
            self._show([worker_id])

    def _update_snapshot(self, worker_ids: Iterable[str]) -> None:
        workers = {each: was for each, was in self._snapshot.workers.items() if each in self.managed}
        for worker_id in worker_ids:
            snapshot = self.managed[worker_id].snapshot(self._parts.host.config)
            if snapshot is not None:
                workers[worker_id] = snapshot
        self._snapshot = self._snapshot.changed(workers, datetime.now(UTC))

    def publish(self, kind: EventType, subject: str, payload: Mapping[str, Any]) -> None:
        self.bus.publish(Event(kind, subject, datetime.now(UTC), payload))
