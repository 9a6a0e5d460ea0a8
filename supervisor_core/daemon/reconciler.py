"""The reconciler compares the desired state of each worker with its actual one, and has it close the gap.

A round observes the workers, plans (purely), and hands each its action. Rounds run at a fixed interval, for each
version of the configuration, and immediately for a worker whose process ended. The reconciler keeps the snapshot of
all workers and publishes events; those are hints, and nothing here depends on their arrival.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack
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
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.daemon.environment import opened_ledger, prepare_state_dir
from supervisor_core.daemon.observer import WorkerObserver
from supervisor_core.daemon.orphans import refuse_orphaned_jobs, unconfigured_workers
from supervisor_core.daemon.ownership import daemon_ownership
from supervisor_core.daemon.worker import Worker
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import Presence
from supervisor_core.workers.adapter import ProcessWorkerAdapter, WorkerAdapter, WorkerEnded
from supervisor_core.workers.adapter_fake import FakeWorkerAdapter
from supervisor_core.workers.conditions import changes_at
from supervisor_core.workers.context import DaemonContext, open_doors
from supervisor_core.workers.health import WorkerState
from supervisor_core.workers.observation import process_state
from supervisor_core.workers.planning import Action, ActionKind, Why, plan
from supervisor_core.workers.status import Snapshot, WorkerSnapshot, WorkerStatus

log = logging.getLogger(__name__)

STAYS_STOPPED = frozenset({Why.PAUSED, Why.NOT_ENABLED, Why.NOT_CONFIGURED, Why.ENDED})
"""Valid reasons for a worker not to run."""


class Program:
    """The program around a reconciler. It's called on the event loop; a daemon has more to do than this."""

    context: DaemonContext
    blocking: Blocking
    bus: EventBus

    def monitoring_paused(self) -> bool:
        """True while monitoring is paused."""
        return False

    def is_stopping(self) -> bool:
        return False

    def job_progressed(self, job: Job) -> None:
        """A handler has reported a step."""

    def job_finished(self, job: Job) -> None:
        """A job has ended, or is somebody else's."""

    def wake_workers(self, worker_ids: Collection[str] | None = None) -> None:
        """A command goes on with these workers, also of other hosts."""

    def statuses_changed(self, statuses: Sequence[WorkerStatus]) -> None:
        """These are the newest statuses."""


class OwnProgram(Program):
    """A program that supervises workers without a daemon, and owns the state folder as a daemon does.

    The workers are those of the adapter, or processes of this host.
    """

    def __init__(self, config: SupervisorConfig, adapter: WorkerAdapter | None) -> None:
        host = open_doors(config)
        self.context = DaemonContext(replace(host, processes=adapter.processes) if adapter else host)
        self.blocking = Blocking()
        self.bus = EventBus()
        self.adapter = adapter or ProcessWorkerAdapter(self.context)
        if isinstance(adapter, FakeWorkerAdapter) and adapter.config is None:
            adapter.config = lambda: self.context.host.config
        self.reconciler: Reconciler
        self._closes_adapter = adapter is None
        self._held = ExitStack()

    def wake_workers(self, worker_ids: Collection[str] | None = None) -> None:
        self.reconciler.wake(worker_ids)

    def acquire(self) -> None:
        """Own the state folder and open the ledger; `AlreadyRunningError` or `BusyError` where it's in use."""
        if self.context.opened is None:
            config = self.context.host.config
            prepare_state_dir(config)
            with ExitStack() as held:
                held.enter_context(daemon_ownership(config.state_dir))
                self.context.opened = held.enter_context(opened_ledger(config))
                self._held = held.pop_all()

    def release(self) -> None:
        """Close the ledger and leave the state folder to others. An adapter of ours isn't opened again."""
        if self.context.opened is not None:
            if self._closes_adapter:
                self.adapter.close()
            self.context.opened = None
            self._held.close()


class Reconciler(Service):
    """Brings the workers of a configuration into their desired state, in a daemon or in any other program.

    Without a `program`, `start` makes this one the owner of the state folder until `stop`; without an `adapter`, the
    workers are processes of this host.
    """

    name = DISPATCHER

    def __init__(
        self,
        config_service: ConfigService,
        adapter: WorkerAdapter | None = None,
        logger: logging.Logger = log,
        *,
        program: Program | None = None,
    ) -> None:
        super().__init__()
        self._own: OwnProgram | None = None
        if program is None:
            self._own = program = OwnProgram(config_service.current.config, adapter)
            self._own.reconciler, adapter = self, self._own.adapter
        self.program = program
        self.context = program.context
        self.blocking = program.blocking
        self.bus = program.bus
        self.adapter = adapter or ProcessWorkerAdapter(program.context)
        self.observer = WorkerObserver(program.context, self.plan_again)
        self.workers: dict[str, Worker] = {}
        """All workers by id, including removed ones that are still running."""
        self._log = logger
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._version = config_service.current.number
        self._snapshot = Snapshot(0, datetime.now(UTC))
        self._actions: dict[str, str] = {}
        """The kinds of the actions that are under way."""
        self._observe_at: dict[str, datetime] = {}
        """When the condition of a worker may change without an event."""
        self._due: set[str] = set()
        self._all_due = True
        self._woken, self._observed = asyncio.Event(), asyncio.Event()
        self._turn = ""
        """The worker that is being restarted for a version of the configuration: one at a time."""
        self._queue_for_turn: set[str] = set()
        self._restarted: set[str] = set()
        """The workers that the newest version of the configuration has restarted."""
        self._failed: list[str] = []
        """Those of them that don't run, so that the others keep their older settings."""
        self._recovered, self._trouble = False, ""
        self._announced = False
        """True once the workers that were there from the start have had their event."""
        for settings in self.context.host.config.workers.values():
            self._add(settings)
        config_service.subscribe(self.configured)

    async def start(self) -> None:
        """Run in the background until `stop`. From now on the snapshot has all workers."""
        try:
            if self._own is not None:
                await self.blocking(self._own.acquire)
                await self.observer.start()
            await super().start()
            await self.reach(self._observed)
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
                for subscription in self.bus.subscriptions:
                    subscription.close()

    def subscribe(self, types: Iterable[EventType | str] | None = None, *, name: str = "") -> Subscription:
        """All events from now on, or those of some types."""
        return self.bus.subscribe(types=types, name=name)

    def current_snapshot(self) -> Snapshot:
        """The newest snapshot; from any thread, without a lock or a wait."""
        return self._snapshot

    def wake(self, worker_ids: Collection[str] | None = None) -> None:
        """Have these workers look into their queues; all where none are named."""
        for worker_id, worker in self.workers.items():
            if worker_ids is None or worker_id in worker_ids:
                worker.wake()
        if any(worker_id not in self.workers for worker_id in worker_ids or ()):
            self.plan_again()  # a whole round also refuses the jobs of unknown workers

    def plan_again(self, worker_id: str | None = None) -> None:
        """A round for this worker, now; for all where none is named."""
        if worker_id is None:
            self._all_due = True
        else:
            self._due.add(worker_id)
        self._woken.set()

    def configured(self, version: ConfigVersion) -> None:
        """This configuration counts from now on. Each whole round follows it."""
        self.context.host = replace(self.context.host, config=version.config)
        self._version = version.number
        self._restarted, self._failed = set(), []
        self.plan_again()

    def look_again(self) -> None:
        """Observe unhealthy workers again now: the drive doesn't always report their recovery."""
        for worker_id, fine in self.healthy().items():
            if not fine:
                self.plan_again(worker_id)

    def healthy(self) -> dict[str, bool]:
        """The health of each worker that was seen running and isn't paused."""
        statuses = [worker.observed for worker in self.workers.values() if worker.observed is not None]
        return {seen.worker_id: seen.verdict.fine for seen in statuses if seen.found.identity and not seen.paused}

    def settings(self) -> list[WorkerSettings]:
        return [worker.settings for worker in list(self.workers.values())]

    def changing_code(self) -> list[WorkerSettings]:
        """The workers whose code is being changed right now."""
        return [worker.settings for worker in list(self.workers.values()) if worker.changes_code]

    def observed_since(self, moment: datetime) -> list[WorkerStatus] | None:
        """The status of each worker, if all were observed since then."""
        statuses = [worker.observed for worker in self.workers.values() if worker.observed is not None]
        recent = len(statuses) == len(self.workers) and all(status.at >= moment for status in statuses)
        return statuses if recent else None

    def config_results(self, roles: Mapping[str, str], begun_at: datetime) -> dict[str, str | None]:
        """The result of the newest configuration for these workers, which it gives these roles; None while pending."""
        halted = bool(self._failed)
        return {
            worker_id: self.workers[worker_id].config_result(self._version, role, begun_at, halted=halted)
            if worker_id in self.workers
            else role
            for worker_id, role in roles.items()
        }

    def problem(self) -> str:
        problems = [f"{worker.id}: {worker.problem}" for worker in self.workers.values() if worker.problem]
        return "; ".join([*([self._trouble] if self._trouble else []), *problems])

    async def initialise(self) -> None:
        """Report what a crash interrupted; once in a daemon, for later what is under way is our own."""
        self._observed.clear()
        if self._recovered and self._own is None:
            return
        host, ledger = self.context.host, self.context.ledger
        for settings in await self.blocking(unconfigured_workers, host.config):
            self._add(settings)
        report = partial(report_interrupted, plans=True)
        ended = await self.blocking(report, host, ledger, list(self.workers), self.program.is_stopping)
        self._recovered = True
        for job in ended:
            self.publish(EventType.COMMAND_INTERRUPTED, job.worker_id, {"task_id": job.task_id})
            self.program.job_finished(job)

    async def run(self, stopping: asyncio.Event) -> None:
        """Plan, and let the workers work, until asked to stop; each finishes what it has in hand."""
        loop = asyncio.get_running_loop()

        def on_exit(ended: WorkerEnded) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody plans any more
                loop.call_soon_threadsafe(self._note_end, ended)

        subscription = self.adapter.subscribe(on_exit)
        self._all_due = True
        try:
            every = self.context.host.config.supervisor.reconcile_seconds
            next_at = loop.time() + every
            while not stopping.is_set():
                self.pulse.beat()
                self._woken.clear()
                if loop.time() >= next_at:
                    self._all_due, next_at = True, loop.time() + every
                if self._all_due:
                    self._follow_configuration()
                    if self._own is not None:  # no service of a daemon looks into the queue
                        self.wake()
                self._run_workers(stopping)
                whole, due = self._all_due, [worker_id for worker_id in self._due if worker_id in self.workers]
                due = list(self.workers) if whole else due
                self._all_due = False
                self._due.clear()
                if due or whole:
                    await self._round(due, whole=whole)
                    self._observed.set()
                await self._wait(stopping, next_at - loop.time())
            self.pulse.rest()  # what the workers have in hand takes its time
            await asyncio.gather(*self._tasks.values())
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)
            self._tasks.clear()
            self.adapter.unsubscribe(subscription)

    async def _wait(self, stopping: asyncio.Event, seconds: float) -> None:
        """Wait for the next round, or for a worker to observe."""
        now = datetime.now(UTC)
        for worker_id, moment in list(self._observe_at.items()):
            if moment <= now:
                del self._observe_at[worker_id]
                self._due.add(worker_id)
        first = min(self._observe_at.values(), default=None)
        wait = 0.0 if self._due else min(seconds, (first - now).total_seconds() if first else seconds)
        self.pulse.beat(within=max(wait, 0.0))
        await wait_until(self._woken, stopping, wait)

    def _add(self, settings: WorkerSettings) -> None:
        self.adapter.add(settings)
        self.workers[settings.id] = Worker(settings, self)
        self.blocking.widen(len(self.workers))

    def _follow_configuration(self) -> None:
        """Have a `Worker`, with its newest settings, for each that is configured."""
        if not self._announced:
            self._announced = True
            for worker_id in self.workers:
                self.publish(EventType.WORKER_ADDED, worker_id, {"version": self._version})
        for worker_id, settings in self.context.host.config.workers.items():
            worker = self.workers.get(worker_id)
            if worker is None:
                self._add(settings)
                self.publish(EventType.WORKER_ADDED, worker_id, {"version": self._version})
            elif worker.settings != settings:
                self.adapter.add(settings)
                worker.reconfigure(settings)
                self.publish(EventType.WORKER_UPDATED, worker_id, {"version": self._version})

    def _run_workers(self, stopping: asyncio.Event) -> None:
        """Run the workers that are new or broke, and let go of those that were removed."""
        for worker_id, worker in list(self.workers.items()):
            task = self._tasks.get(worker_id)
            if task is not None and task.done():
                del self._tasks[worker_id]
                if not task.cancelled() and (error := task.exception()) is not None:
                    log.error("the worker %s failed and is restarted", worker_id, exc_info=error)
                task = None
            if task is None and worker.removed:
                self._forget(worker)
            elif task is None:
                self._tasks[worker_id] = task = asyncio.create_task(worker.run(stopping), name=worker_id)
                task.add_done_callback(lambda _: self._woken.set())

    def _forget(self, worker: Worker) -> None:
        self._show([worker])
        del self.workers[worker.id]
        self._observe_at.pop(worker.id, None)
        self.observer.prober.forget(worker.id)
        self.publish(EventType.WORKER_REMOVED, worker.id, {})
        about = LogEvent.WORKER_REMOVED.extra(worker_id=worker.id)
        self._log.info("%s is removed: no longer in the configuration", worker.id, extra=about)
        if settings := self.context.host.config.workers.get(worker.id):
            self._add(settings)
        self._update_snapshot(())
        self.plan_again()  # a whole round also refuses what still waits for it

    async def _round(self, due: list[str], *, whole: bool) -> None:
        """Run a round; report a failure and retry in the next round."""
        try:
            await self._observe_and_plan(due)
            if whole:
                refused = await self.blocking(refuse_orphaned_jobs, self.context, frozenset(self.workers))
                for job in refused:
                    self.program.job_finished(job)
                if refused:
                    self.wake()  # it may be somebody's turn now
        except Exception as error:  # noqa: BLE001 (the edge: it's logged, and the next round comes)
            self._log.exception("a round of the reconciler failed")
            self._trouble = f"the last round failed: {describe(error)}"
            self._publish_outcome(EventType.RECONCILE_FAILED, {}, self._trouble)
        else:
            self._trouble = ""

    async def _observe_and_plan(self, due: list[str]) -> None:
        """Observe these workers, plan, and hand each its action.

        1. Leave out those that are being started or stopped: the end of that asks for a new round.
        2. Observe the others in a thread. Drop what was overtaken by an activity or by a new configuration.
        3. Plan, and hold back restarts for a configuration with which a worker already fails.
        4. Hand over the actions, and publish snapshot and statuses.
        """
        for worker_id in due:
            self.workers[worker_id].missed_observation |= self.workers[worker_id].unsettled
        workers = [worker for each in due if not ((worker := self.workers[each]).removed or worker.unsettled)]
        if due and not workers:
            return

        activities, version = [worker.activities for worker in workers], self._version
        statuses, ended = await self.blocking(self._observe, workers)
        for worker in ended:
            self.plan_again(worker.id)
        if version != self._version:
            return  # a round for all is on its way
        observed: list[Worker] = []
        for worker, status, before in zip(workers, statuses, activities, strict=True):
            if worker.unsettled:
                worker.missed_observation = True
            elif worker.activities != before:
                self.plan_again(worker.id)  # it was over before the observation was: nobody asks any more
            else:
                worker.observe(status)
                self.observer.prober.worker(worker.id, status.worker, status.found.identity)
                observed.append(worker)

        config, now = self.context.host.config, datetime.now(UTC)
        desired = {worker.id: worker.desired(config) for worker in observed if worker.id in config.workers}
        actual = {worker.id: seen for worker in observed if (seen := worker.status) is not None}
        actions = plan(desired, actual, now, monitoring_paused=self.program.monitoring_paused())
        held_back = self._held_back(actions)
        for worker in observed:
            action = actions[worker.id]
            worker.plan(action, self._version, now, held_back=worker.id in held_back)
            if worker.id in held_back:
                continue
            if action.why is Why.HUNG:
                about = LogEvent.WORKER_HUNG.extra(worker_id=worker.id, reason=actual[worker.id].hangs)
                self._log.warning("%s hangs: %s", worker.id, actual[worker.id].hangs, extra=about)
            self._actions.pop(worker.id, None)
            if action.kind is not ActionKind.NONE:
                self._actions[worker.id] = str(action.kind)

        self._update_snapshot(observed)
        self._show(observed)
        if not self._actions:
            self._publish_outcome(EventType.RECONCILE_COMPLETED, {}, "")

    def _observe(self, workers: Sequence[Worker]) -> tuple[list[WorkerStatus], list[Worker]]:
        """Observe the workers in a thread; the second result are those that exited right after.

        Of a process that wasn't known yet, such as after a restart of the daemon, the exit is noticed from now on, and
        the run that it follows is read.
        """
        statuses, ended = self.observer.look([worker.settings for worker in workers]), []
        for worker, status in zip(workers, statuses, strict=True):
            identity = status.found.identity
            if identity is None or (worker.observed is not None and worker.observed.found.identity == identity):
                continue
            with contextlib.suppress(OSError):  # the worker reports that
                worker.recall()
            if self.adapter.state(worker.id).presence is Presence.STOPPED:
                ended.append(worker)
        return statuses, ended

    def _held_back(self, actions: Mapping[str, Action]) -> set[str]:
        """The workers to restart for a configuration with which another one already fails."""
        changed = {worker_id for worker_id, action in actions.items() if action.why is Why.CHANGED}
        self._restarted -= {worker_id for worker_id, action in actions.items() if action.why in STAYS_STOPPED}
        failed = sorted(
            worker_id
            for worker_id in self._restarted - changed
            if (worker := self.workers.get(worker_id))
            and worker_id != self._turn
            and worker.state is not WorkerState.RUNNING
        )
        if changed and failed:
            if failed != self._failed:
                words = "%s fails with configuration version %d, so these keep their older settings: %s"
                self._log.error(words, ", ".join(failed), self._version, ", ".join(sorted(changed)))
            self._failed = failed
            return changed
        if self._failed and not failed:
            self._failed = []
            self.plan_again()  # the workers that were held back may not be among these
        if len(changed - self._restarted) > 1:
            words = "configuration version %d restarts %d workers, one at a time: %s"
            self._log.warning(words, self._version, len(changed), ", ".join(sorted(changed)))
        self._restarted |= changed
        return set()

    def _show(self, workers: Iterable[Worker]) -> None:
        """Publish the newest statuses of these workers, with the state that the plan moves them to."""
        statuses = []
        for worker in workers:
            status = worker.status
            if status is None:
                continue
            moment = changes_at(status)
            if moment is None:
                self._observe_at.pop(worker.id, None)
            else:
                self._observe_at[worker.id] = moment
            statuses.append(status.under_way(worker.next_state) if worker.next_state else status)
        self.program.statuses_changed(statuses)

    def _update_snapshot(self, changed: Iterable[Worker]) -> None:
        workers: dict[str, WorkerSnapshot] = {
            worker_id: before for worker_id, before in self._snapshot.workers.items() if worker_id in self.workers
        }
        for worker in changed:
            if (snapshot := worker.snapshot(self.context.host.config)) is not None:
                workers[worker.id] = snapshot
        self._snapshot = self._snapshot.changed(workers, datetime.now(UTC))

    def _note_end(self, ended: WorkerEnded) -> None:
        """A process has ended: a hint. What is true, an observation will tell, and what follows, the plan."""
        if worker := self.workers.get(ended.worker_id):
            worker.note_end(ended)
            self.plan_again(worker.id)

    # What the workers tell

    def worker_changed(self, worker: Worker) -> None:
        if worker.id in self._failed and worker.state is WorkerState.RUNNING:
            self.plan_again()
        if worker.observed is None:
            return
        self._update_snapshot([worker])
        stopped = process_state(worker.found) is WorkerState.STOPPED
        if stopped and (worker.decision is not None or worker.start_error):  # nothing is observed anew
            self._show([worker])

    def take_turn(self, worker_id: str) -> bool:
        """Begin a restart for a version of the configuration; False where another worker's is under way."""
        if self._turn:
            self._queue_for_turn.add(worker_id)
            return False
        self._turn = worker_id
        return True

    def end_turn(self) -> None:
        self._turn = ""
        while self._queue_for_turn:
            self.plan_again(self._queue_for_turn.pop())

    def action_ended(self, worker: Worker, error: str) -> None:
        """A planned action has ended, so an observation counts again; with the error where it failed."""
        if kind := self._actions.pop(worker.id, ""):
            outcome = EventType.RECONCILE_FAILED if error else EventType.RECONCILE_COMPLETED
            self._publish_outcome(outcome, {worker.id: kind}, f"{worker.id}: {error}" if error else "")
        if worker.missed_observation:
            worker.missed_observation = False
            self.plan_again(worker.id)

    def publish(self, kind: EventType, subject: str, payload: Mapping[str, Any]) -> None:
        self.bus.publish(Event(kind, subject, datetime.now(UTC), payload))

    def _publish_outcome(self, kind: EventType, actions: dict[str, str], error: str) -> None:
        payload = {"version": self._version, "actions": actions, **({"error": error} if error else {})}
        self.publish(kind, self.context.host.config.supervisor.id, payload)
