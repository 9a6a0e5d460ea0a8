"""The daemon: its services together, its control door, its life from the lock to the last word in `runtime.json`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.alerts.host_conditions import HostConditions
from supervisor_core.alerts.outside.deadman import DeadMan, why_silent
from supervisor_core.alerts.outside.deadman import why_not as deadman_off
from supervisor_core.alerts.outside.webhook import Webhook
from supervisor_core.alerts.outside.webhook import why_not as webhook_off
from supervisor_core.code.git.head import versions
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.events import Event, EventBus, EventType
from supervisor_core.common.service import Blocking, Service, ServiceRegistry, ServiceState, with_trouble
from supervisor_core.common.service_names import CHAT, FORWARDER, HEARTBEAT, LATER
from supervisor_core.common.times import to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon import ownership as runtime_file
from supervisor_core.daemon import systemd as notify
from supervisor_core.daemon.configuration.record import ConfigRecord
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.daemon.control.server import Answer, CommandWaiter, ControlServer, stop_answer
from supervisor_core.daemon.handlers import longest_seconds, stop_seconds
from supervisor_core.daemon.overview import (
    RuntimeFileWriter,
    status_document,
    statuses_in_motion,
    watched_workers,
    worker_documents,
)
from supervisor_core.daemon.reconciliation.observer import SharedObservation
from supervisor_core.daemon.reconciliation.reconciler import Reconciler
from supervisor_core.daemon.replication.rounds import disabled_reason
from supervisor_core.daemon.services.agent import LifeRecorder, SupervisorAgent
from supervisor_core.daemon.services.forwarder import Forwarder
from supervisor_core.daemon.services.monitoring import MonitoringSwitch, record_pause_flag_change
from supervisor_core.daemon.services.queue_processor import QueueProcessor
from supervisor_core.daemon.wiring import ChatContext, ChatFactory
from supervisor_core.diagnosis.why.gathering import Explainer
from supervisor_core.diagnosis.why.model import Explanation
from supervisor_core.diagnosis.worker_logs import NewestLines, Written
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.intake.scheduler import MakeScheduler, SchedulerDoors
from supervisor_core.jobs.model import Job
from supervisor_core.processes.stopping import StopReport
from supervisor_core.workers.adapter import ProcessWorkerAdapter
from supervisor_core.workers.conditions.rules import TargetReading
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.heartbeats.service import HeartbeatService
from supervisor_core.workers.heartbeats.watch import HeartbeatWatch
from supervisor_core.workers.output.service import WorkerOutputs
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import stop_watcher_gracefully

log = logging.getLogger(__name__)

STOP_MARGIN_SECONDS = 5.0
"""What a stop may take beyond the longest time that a handler may take: its outcome is written, all is let go of."""

NOT_BUILT = "not built yet"
STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
"""A terminal that closes asks like anybody else; nobody ends this daemon without a word in its log."""

FAILED, INTERRUPTED = 1, 130


class Daemon:
    """Runs until it is asked to stop, by a signal or at the control door. Workers outlive it."""

    def __init__(
        self,
        parts: DaemonContext,
        chat: ChatFactory | None = None,
        no_chat: str = NOT_BUILT,
        scheduler: MakeScheduler | None = None,
    ) -> None:
        self._parts = parts
        config = parts.host.config
        parts.host.pauses.hand_made = partial(record_pause_flag_change, lambda: parts.host.config, lambda: parts.ledger)
        self._stopping = asyncio.Event()
        self._interrupted = False
        self._with_workers = False
        self._started_at = datetime.now(UTC)
        self._blocking = Blocking()
        self._writing = Blocking(1)
        """One thread: what is written of us is written in its order, the last word last."""
        self._ended: dict[str, StopReport] = {}
        self._bus = EventBus()
        self._agent = SupervisorAgent(
            parts.ledger,
            config.supervisor.id,
            bus=self._publish,
            heartbeat_seconds=config.supervisor.heartbeat_seconds,
            elsewhere=self._blocking,
        )
        self._shared_look = SharedObservation(self._look)
        self._waiting = CommandWaiter(parts.ledger, self._blocking, self._stopping)
        self._adapter = ProcessWorkerAdapter(parts.host.processes, parts.host.drive, lambda: parts.host.config)
        self._queue = QueueProcessor(parts, self._blocking, self._wake_actors)
        self._reconciler = Reconciler(
            parts,
            self._adapter,
            self._blocking,
            finished=self._job_finished,
            progressed=lambda _: self._waiting.tell(),
            resting=lambda: self._agent.rests,
            told=self._stopping.is_set,
            publish=self._publish_statuses,
            bus=self._bus,
        )
        self._configuration = ConfigService(config, self._blocking)
        self._configuration.subscribe(self._configured)
        self._config_record = ConfigRecord(parts, self._reconciler.progress, self._writing)
        self._configuration.refused = self._config_record.refused
        self._reconciler.moved = self._config_record.follow
        self._monitoring = MonitoringSwitch(self._agent, self._reconciler.plan_again)
        heard = partial(self._bus.subscribe, name=CHAT)
        self._read_lines = NewestLines()
        self._explainer = Explainer(parts.ledger)
        doors_of_chat = ChatContext(
            self._workers, self._reconciler.wake, self._monitoring, self._versions, heard, self._written, self._explain
        )
        self._chat = chat(doors_of_chat) if chat else None
        look = partial(watched_workers, parts, self._reconciler)
        doors = SchedulerDoors(
            self._blocking,
            self._reconciler.wake,
            look,
            resting=lambda: self._agent.rests,
            look_again=self._reconciler.look_again,
        )
        self._scheduler = scheduler(doors) if scheduler else None
        self._registry = self._services(no_chat)
        noting = RuntimeFileWriter(partial(self._note, running=True), self._mark)
        self._living = LifeRecorder(
            self._agent, parts.ledger, self._blocking, lambda: parts.host.config, self._why_not_well
        )
        self._conditions = HostConditions(
            parts,
            self._blocking,
            self._observed,
            self._forwarder.trouble if self._forwarder else None,
            lambda: self._living.silent_by_id,
        )
        beats = HeartbeatWatch(parts, self._blocking, self._reconciler.managed.healthy, self._reconciler.plan_again)
        self._outputs = WorkerOutputs(parts)
        behind = (
            self._reconciler.observer,
            self._configuration,
            self._living,
            noting,
            beats,
            self._conditions,
            self._outputs,
        )
        self._behind = ServiceRegistry(behind)
        """What works behind the services that `status` lists; it shows the configuration with the supervisor."""
        self._outside = ServiceRegistry(self._outward())
        """What tells those beyond this host and Slack, once all else is up."""
        answers: Mapping[str, Answer] = {
            "status": self._status,
            "wake": self._wake,
            "wait": self._waiting.answer,
            "stop": self._stop,
            "config": self._configuration.answer,
            "monitoring": self._monitoring.answer,
        }
        self._control = ControlServer(config.state_dir, answers)

    def _services(self, no_chat: str) -> ServiceRegistry:
        config = self._parts.host.config
        no_forwarder = disabled_reason(config)
        beats = config.supervisor.heartbeat_seconds > 0
        self._heartbeats = HeartbeatService(self._parts, self._blocking, self._look_as_it_moves) if beats else None
        self._forwarder = None if no_forwarder else Forwarder(self._parts, self._blocking)
        enabled: tuple[Service | None, ...] = (
            self._queue,
            self._reconciler,
            self._heartbeats,
            self._forwarder,
            self._scheduler,
            self._chat,
        )
        services = [service for service in enabled if service is not None]
        reasons = {CHAT: no_chat, FORWARDER: no_forwarder, HEARTBEAT: "supervisor.heartbeat_seconds is 0"}
        running = {service.name for service in services}
        return ServiceRegistry(
            services, [(name, reasons.get(name, NOT_BUILT)) for name in LATER if name not in running]
        )

    def _outward(self) -> list[Service]:
        config = self._parts.host.config
        webhook = [] if webhook_off(config) else [Webhook(self._parts, self._blocking)]
        deadman = [] if deadman_off(config) else [DeadMan(self._parts, self._why_silent)]
        return [*webhook, *deadman]

    async def run(self) -> int:
        """Be the supervisor of this host; returns the exit code."""
        loop = asyncio.get_running_loop()
        for name in STOP_SIGNALS:
            with contextlib.suppress(NotImplementedError, AttributeError):  # Windows: Ctrl-C is a KeyboardInterrupt
                if name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                    continue  # whoever started us with `nohup` wants us to outlive the terminal
                loop.add_signal_handler(getattr(signal, name), self._told_to_stop, name)
        try:
            await self._come_up()
        except BaseException:
            await self._note(running=False)  # else it would be said to have died without a word
            raise
        log.info("supervisor %s is up, pid %d", self._agent.supervisor_id, os.getpid())
        notify.ready()
        watchdog = asyncio.create_task(notify.Watchdog().run(self._stopping, self._why_not_well))
        await self._stopping.wait()
        await watchdog
        return await self._end()

    async def _come_up(self) -> None:
        await self._note(running=True)
        await self._control.start()  # first: who asks while the workers come up is told that they do
        await self._config_record.resume()
        await self._living.spawn()
        await self._behind.start(self._stopping)
        await self._registry.start(self._stopping)
        self._conditions.wake()  # who recovered the workers knows by now what was cut off
        await self._living.follow()
        await self._outside.start(self._stopping)
        await self._note(running=True)

    def _why_not_well(self) -> str:
        """Why what looks after the workers does not do so; empty while it does. A Slack that is away is no reason."""
        vital = (self._queue.name, self._reconciler.name)
        broken = (each for each in self._registry.reports() if each.late or each.state is ServiceState.ERROR)
        return "; ".join(f"{each.name}: {each.trouble}" for each in broken if each.name in vital)

    def _why_silent(self) -> str:
        return why_silent(self._why_not_well(), self._registry.reports())

    async def _end(self) -> int:
        notify.stopping()
        workers = "end" if self._with_workers else "go on"
        log.info("supervisor %s is stopping; its workers %s", self._agent.supervisor_id, workers)
        self._waiting.tell()
        config = self._parts.host.config
        try:
            await self._agent.stop()  # before the forwarder's last round, which tells the others
        except Exception:  # the edge: whatever it is, the rest must end
            log.exception("that supervisor %s stops could not be written down", self._agent.supervisor_id)
        laggards = await self._registry.stop(longest_seconds(config) + STOP_MARGIN_SECONDS)
        laggards += await self._behind.stop(STOP_MARGIN_SECONDS)
        laggards += await self._outside.stop(STOP_MARGIN_SECONDS)
        await self._config_record.shut_down()
        if self._with_workers:
            workers_too = (self._blocking(self._end_worker, each) for each in self._reconciler.managed.workers())
            await asyncio.gather(*workers_too)
        await self._outputs.finish()
        self._adapter.close()
        await self._control.stop()
        self._bus.close()
        await self._note(running=False)
        log.info("supervisor %s has stopped", self._agent.supervisor_id)
        if laggards:
            return FAILED
        return INTERRUPTED if self._interrupted else 0

    @property
    def _stop_bound(self) -> float:
        """How long a stop may take: the command in hand is finished, whichever it is, and workers may end, too."""
        config = self._parts.host.config
        ending = max((stop_seconds(each) for each in config.workers.values()), default=0.0)
        return longest_seconds(config) + STOP_MARGIN_SECONDS + (ending if self._with_workers else 0)

    def _end_worker(self, worker: WorkerSettings) -> None:
        try:
            report = stop_watcher_gracefully(self._parts.host.processes, worker, "supervisor stop --workers")
        except (SupervisorError, OSError) as error:  # nobody can tell whether it runs: the others end
            log.error("%s could not be ended: %s", worker.id, error)  # noqa: TRY400
            return
        self._ended[worker.id] = report
        level = logging.INFO if report.stopped else logging.ERROR
        log.log(level, "%s %s", worker.id, "is ended" if report.stopped else f"is stuck: {report.survivors}")

    def _told_to_stop(self, name: str) -> None:
        log.info("told to stop by %s", name)
        self._interrupted = self._interrupted or name == "SIGINT"
        self._stopping.set()

    async def _note(self, *, running: bool) -> None:
        me, config = identify(os.getpid()), self._parts.host.config
        document = {
            "running": running,
            "supervisor_id": config.supervisor.id,
            "pid": os.getpid(),
            "start": me.start if me else None,
            "boot_id": me.boot_id if me else None,
            "hostname": socket.gethostname(),
            "started_at": to_text(self._started_at),
            "stopped_at": None if running else to_text(datetime.now(UTC)),
            "services": [report.as_json() for report in self._registry.reports()],
            "workers": runtime_file.with_ended_workers(
                self._reconciler.current_snapshot().as_json()["workers"], self._ended
            ),
        }
        try:
            await self._writing(runtime_file.write, config.state_dir, document)
        except OSError as error:  # what is lost is what it says of itself; whether it lives, the lock says
            log.error("%s could not be written: %s", runtime_file.RUNTIME_FILE, error)  # noqa: TRY400

    def _mark(self) -> object:
        """What is different once there is something new to note."""
        services = [(each.name, each.state, each.health, each.last_error) for each in self._registry.reports()]
        return self._reconciler.current_snapshot().version, services

    def _configured(self, version: ConfigVersion) -> None:
        """Everybody works with this version from now on."""
        self._parts.host = replace(self._parts.host, config=version.config)
        self._queue.configured()
        self._config_record.applied(version)
        self._reconciler.configured(version)
        if self._chat is not None:
            self._chat.configured(version.config)

    def _publish(self, kind: str, subject: str, payload: Mapping[str, Any]) -> None:
        self._bus.publish(Event(EventType(kind), subject, datetime.now(UTC), payload))

    def _wake_actors(self, worker_ids: Collection[str]) -> None:
        self._reconciler.wake(worker_ids)

    def _job_finished(self, _job: Job) -> None:
        self._queue.wake()
        self._waiting.tell()

    def _publish_statuses(self, statuses: Sequence[WorkerStatus]) -> None:
        self._conditions.see(statuses)
        if self._heartbeats is not None:
            self._heartbeats.see(statuses)
        if self._scheduler is not None:
            self._scheduler.see(statuses)

    def _observed(self, seen: Iterable[TargetReading]) -> None:
        if self._scheduler is not None:
            self._scheduler.observe(seen)

    async def _wake(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        self._reconciler.wake()
        self._queue.wake()
        if self._scheduler is not None:
            self._scheduler.wake()
        return {"ok": True}

    async def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        workers = await self._workers()
        self._with_workers = self._with_workers or request.get("workers") is True
        self._stopping.set()
        return stop_answer(workers, self._stop_bound)

    async def _status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        workers = await self._workers()
        services = with_trouble(self._registry.reports(), self._parts.ledger.trouble)
        broken = [each for each in self._behind.reports() if each.late or each.state is ServiceState.ERROR]
        broken += [each for each in self._outside.reports() if each.trouble]
        behind = [f"{each.name}: {each.trouble}" for each in broken]
        told = (self._parts.ledger, self._agent, self._configuration, self._living, self._reconciler)
        return status_document(*told, services, workers, behind, self._started_at)

    async def _workers(self) -> list[dict[str, Any]]:
        looked = await self._shared_look()
        return await self._blocking(worker_documents, self._parts, self._reconciler, looked)

    async def _versions(self) -> dict[str, str]:
        return await self._blocking(versions, self._parts.host, self._reconciler.managed.workers())

    async def _written(self, workers: Sequence[str], count: int) -> list[Written]:
        host = self._parts.host
        return await self._blocking(self._read_lines, host.drive, host.config, workers, count)

    async def _explain(self, wanted: Collection[str]) -> list[Explanation]:
        looked = await self._shared_look()
        documents = await self._blocking(worker_documents, self._parts, self._reconciler, looked)
        return await self._blocking(self._explainer, self._parts.host, looked, documents, wanted)

    async def _look_as_it_moves(self) -> list[WorkerStatus]:
        return statuses_in_motion(self._parts, self._reconciler, await self._shared_look())

    async def _look(self) -> list[WorkerStatus]:
        return await self._blocking(self._reconciler.observer.look, self._reconciler.managed.workers())
