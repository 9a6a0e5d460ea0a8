"""The services of a daemon, each built on first use with what it needs."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from supervisor_core.alerts.host_conditions import HostConditions
from supervisor_core.alerts.incoming import IncomingAlerts
from supervisor_core.alerts.outside.deadman import DeadMan, why_silent
from supervisor_core.alerts.outside.deadman import why_not as deadman_off
from supervisor_core.alerts.outside.sender import AlertSender
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.conditions import Facts
from supervisor_core.common.events import EventBus
from supervisor_core.common.service import Blocking, Service, ServiceRegistry, ServiceState
from supervisor_core.common.service_names import CHAT, DISPATCHER, FORWARDER, HEARTBEAT, METRICS, QUEUE_PROCESSOR
from supervisor_core.common.service_names import SCHEDULER as SCHEDULER_NAME
from supervisor_core.config.problems import HOST, HUB
from supervisor_core.daemon.configuration.history import ConfigHistory
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.daemon.control.commands import CommandReceiver, CommandWaiter
from supervisor_core.daemon.reconciliation.reconciler import Reconciler
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.forwarder import Forwarder
from supervisor_core.daemon.services.life import LifeRecorder
from supervisor_core.daemon.services.monitoring import MonitoringSwitch, record_pause_flag_change
from supervisor_core.daemon.services.queue_processor import QueueProcessor
from supervisor_core.daemon.status import LiveView, RuntimeFileWriter
from supervisor_core.daemon.wiring import Chat, ChatContext, ChatFactory, CodeReader, Reach, build_code_reader
from supervisor_core.intake.scheduler import MakeScheduler, Scheduler
from supervisor_core.jobs.model import Job
from supervisor_core.workers.adapter import ProcessWorkerAdapter
from supervisor_core.workers.conditions.rules import TargetReading
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.heartbeats.service import HeartbeatService
from supervisor_core.workers.heartbeats.watch import HeartbeatWatch
from supervisor_core.workers.output.service import WorkerOutputs
from supervisor_core.workers.status import WorkerStatus

if TYPE_CHECKING:
    from supervisor_core.fleet.host import HostServices
    from supervisor_core.fleet.hub.services import HubServices
    from supervisor_core.web.facts import DaemonFigures

NOT_BUILT = "not available yet"


class DaemonServices:
    """The services of one daemon and the calls between them. Those that the configuration disables are None."""

    def __init__(
        self,
        context: DaemonContext,
        reach: Reach,
        chat: ChatFactory | None,
        no_chat: str,
        scheduler: MakeScheduler | None,
    ) -> None:
        self.context = context
        self.reach = reach
        self.stopping = asyncio.Event()
        self.blocking = Blocking()
        self.ordered = Blocking(1)
        """One thread, for writes that must keep their order."""
        self.bus = EventBus()
        self._chat_factory, self._no_chat, self._scheduler_factory = chat, no_chat, scheduler
        context.host.pauses.hand_made = partial(
            record_pause_flag_change, lambda: context.host.config, lambda: context.ledger
        )
        self.configuration.history = self.config_history
        self.configuration.subscribe(self._apply_configuration)
        if self.hub is not None:
            reach.code_now = CodeReader(self.hub.fleet.preview, self.hub.fleet.commits, self.hub.fleet.find)
            self.follow_fleet()

    @cached_property
    def listed(self) -> ServiceRegistry:
        """The services that `status` lists, in its order, with the reason for each that is disabled."""
        table: tuple[tuple[str, Service | None, str], ...] = (
            (QUEUE_PROCESSOR, self.queue, ""),
            (DISPATCHER, self.reconciler, ""),
            (HEARTBEAT, self.heartbeats, "supervisor.heartbeat_seconds is 0"),
            (FORWARDER, self.forwarder, self.context.host.config.shared_database_disabled),
            (SCHEDULER_NAME, self.scheduler, NOT_BUILT),
            (CHAT, self.chat, self._no_chat),
            (METRICS, self.web, "metrics.bind is empty"),
        )
        disabled = [(name, reason) for name, service, reason in table if service is None]
        return ServiceRegistry([service for _, service, _ in table if service is not None], disabled)

    @cached_property
    def background(self) -> ServiceRegistry:
        """The services that `status` shows as part of the supervisor."""
        beats = HeartbeatWatch(self.context, self.blocking, self.reconciler.managed.healthy, self.reconciler.plan_again)
        first = self.reconciler.observer, self.configuration, self.life
        return ServiceRegistry((*first, self.runtime_file, beats, self.conditions, self.outputs))

    @cached_property
    def outbound(self) -> ServiceRegistry:
        """The services that tell other systems, once all else is up."""
        config = self.context.host.config
        senders = [AlertSender(self.context, self.blocking, each) for each in config.alerts.outside]
        deadman = [] if deadman_off(config) else [DeadMan(self.context, self._silence_reason)]
        incoming = [self.incoming] if self.incoming else []
        return ServiceRegistry([*incoming, *senders, *deadman])

    @cached_property
    def fleet_services(self) -> ServiceRegistry:
        """The services between this host and the others."""
        role = self.hub or self.fleet_host
        return ServiceRegistry(role.services if role else ())

    @cached_property
    def hub(self) -> HubServices | None:
        if self.context.host.config.fleet.role != HUB:
            return None
        from supervisor_core.fleet.hub.services import HubServices

        return HubServices(self, build_code_reader(self.context))

    @cached_property
    def fleet_host(self) -> HostServices | None:
        if self.context.host.config.fleet.role != HOST:
            return None
        from supervisor_core.fleet.host import HostServices

        return HostServices(self, build_code_reader(self.context))

    @cached_property
    def agent(self) -> SupervisorAgent:
        supervisor = self.context.host.config.supervisor
        return SupervisorAgent(
            supervisor.id,
            self.context.ledger,
            self.bus,
            heartbeat_seconds=supervisor.heartbeat_seconds,
            elsewhere=self.blocking,
        )

    @cached_property
    def adapter(self) -> ProcessWorkerAdapter:
        return ProcessWorkerAdapter.of(self.context)

    @cached_property
    def waiter(self) -> CommandWaiter:
        return CommandWaiter(self.context.ledger, self.blocking, self.stopping)

    @cached_property
    def receiver(self) -> CommandReceiver:
        configuration = self.configuration
        return CommandReceiver(
            self.reach, self.blocking, self.wake_workers, lambda: configuration.file_text, self._facts
        )

    @cached_property
    def queue(self) -> QueueProcessor:
        return QueueProcessor(self.context, self.blocking, self.wake_workers)

    @cached_property
    def reconciler(self) -> Reconciler:
        return Reconciler(
            self.configuration,
            self.adapter,
            context=self.context,
            blocking=self.blocking,
            finished=self._finish_job,
            next_turn=self.wake_workers,
            progressed=lambda _: self.waiter.notify(),
            resting=lambda: self.agent.rests,
            should_stop=self.stopping.is_set,
            publish=self._publish_statuses,
            bus=self.bus,
        )

    @cached_property
    def configuration(self) -> ConfigService:
        return ConfigService(self.context.host.config, self.blocking)

    @cached_property
    def config_history(self) -> ConfigHistory:
        return ConfigHistory(self.context, self.reconciler)

    @cached_property
    def monitoring(self) -> MonitoringSwitch:
        return MonitoringSwitch(self.agent, self.reconciler.plan_again)

    @cached_property
    def view(self) -> LiveView:
        return LiveView(self.context, self.reconciler, self.blocking)

    @cached_property
    def runtime_file(self) -> RuntimeFileWriter:
        return RuntimeFileWriter(self.context, self.reconciler, self.listed.reports, self.ordered)

    @cached_property
    def heartbeats(self) -> HeartbeatService | None:
        if self.context.host.config.supervisor.heartbeat_seconds <= 0:
            return None
        return HeartbeatService(self.context, self.blocking, self.view.recent_statuses)

    @cached_property
    def forwarder(self) -> Forwarder | None:
        disabled = self.context.host.config.shared_database_disabled
        return None if disabled else Forwarder(self.context, self.blocking)

    @cached_property
    def scheduler(self) -> Scheduler | None:
        if self._scheduler_factory is None:
            return None
        return self._scheduler_factory(
            self.blocking,
            self.hub.fleet.watched if self.hub else self.view.watched,
            self.wake_workers,
            is_paused=lambda: self.agent.rests,
            look_again=self.reconciler.look_again,
            facts=self._facts,
            lines_elsewhere=self.hub.fleet.last_lines if self.hub else None,
        )

    @cached_property
    def chat(self) -> Chat | None:
        if self._chat_factory is None:
            return None
        view, fleet = self.view, self.hub.fleet if self.hub else None
        return self._chat_factory(
            ChatContext(
                fleet.look if fleet else view.documents,
                self.wake_workers,
                self.monitoring,
                fleet.versions if fleet else view.versions,
                fleet.written if fleet else view.newest_output,
                fleet.explain if fleet else view.explanations,
                self.reach.code,
            )
        )

    @cached_property
    def web(self) -> Service | None:
        """The metrics and the status page; None if they are turned off."""
        config = self.context.host.config
        if not config.metrics.bind:
            return None
        from supervisor_core.web.facts import WebDoors
        from supervisor_core.web.service import WebService

        take = self.incoming.take if self.incoming else None
        doors = WebDoors(self.look_in_detail, lambda: self.listed.reports(), self.problem, self._figures, take)  # noqa: PLW0108 (itself in the list)
        return WebService.of(config, self.context.ledger, self.blocking, doors, self.bus)

    def _figures(self) -> DaemonFigures:
        from supervisor_core.web.facts import DaemonFigures

        waiting = self.forwarder.waiting_rows if self.forwarder else 0
        return DaemonFigures(waiting, self.chat.figures() if self.chat else {})

    @cached_property
    def incoming(self) -> IncomingAlerts | None:
        settings = self.context.host.config.alerts.incoming
        doors = self.publish_readings, lambda worker_id: worker_id in self.reach.context.host.config.workers
        return IncomingAlerts(self.context.ledger, self.blocking, settings, *doors) if settings.token else None

    @cached_property
    def life(self) -> LifeRecorder:
        return LifeRecorder(self.agent, self.blocking, lambda: self.context.host.config, self.problem)

    @cached_property
    def conditions(self) -> HostConditions:
        return HostConditions(
            self.context,
            self.blocking,
            self.publish_readings,
            self.forwarder.trouble if self.forwarder else None,
            self._silent_supervisors,
        )

    @cached_property
    def outputs(self) -> WorkerOutputs:
        return WorkerOutputs(self.context)

    def problem(self) -> str:
        """The reason why workers aren't supervised; empty while they are. An unreachable Slack doesn't count."""
        vital = (self.queue.name, self.reconciler.name)
        broken = (each for each in self.listed.reports() if each.late or each.state is ServiceState.ERROR)
        return "; ".join(f"{each.name}: {each.trouble}" for each in broken if each.name in vital)

    def _silence_reason(self) -> str:
        return why_silent(self.problem(), self.listed.reports())

    def background_problems(self) -> list[str]:
        """The failures of services that `status` doesn't list."""
        broken = [each for each in self.background.reports() if each.late or each.state is ServiceState.ERROR]
        broken += [each for each in self.outbound.reports() if each.trouble]
        # Of the fleet, the link's: it explains the rest.
        broken += [each for each in self.fleet_services.reports() if each.trouble][:1]
        return [f"{each.name}: {each.trouble}" for each in broken]

    async def look_in_detail(self) -> list[dict[str, Any]]:
        """All workers as `status` shows them."""
        return await (self.hub.fleet.detailed() if self.hub else self.view.detailed_documents())

    def wake_workers(self, worker_ids: Collection[str] | None = None) -> None:
        """Commands were filed for these workers, or for any: look into the queue."""
        elsewhere = {each for each in worker_ids or () if is_address(each)}
        if worker_ids is None or elsewhere != set(worker_ids):
            self.reconciler.wake(worker_ids if worker_ids is None else set(worker_ids) - elsewhere)
        if self.hub is not None and (worker_ids is None or elsewhere):
            self.hub.dispatcher.wake()

    def wake(self) -> None:
        """Another program has written something: look now."""
        self.wake_workers()
        self.queue.wake()
        if self.scheduler is not None:
            self.scheduler.wake()

    def _apply_configuration(self, _version: ConfigVersion) -> None:
        """Follow a version that the reconciler already has."""
        self.queue.configured()
        self.follow_fleet()

    def follow_fleet(self) -> None:
        """Have everybody know the workers of this configuration, and on a hub those of all hosts."""
        if self.hub is not None:
            from supervisor_core.fleet.hub.fleet import fleet_configuration

            own = self.context.host
            self.reach.context.host = replace(own, config=fleet_configuration(own.config, self.hub.hosts.announced()))
        if self.scheduler is not None:
            self.scheduler.wake()
        if self.chat is not None:
            self.chat.configured(self.reach.context.host.config)

    def _silent_supervisors(self) -> Mapping[str, str | None] | None:
        """The supervisors of the fleet, as `HostFacts.silent` has them."""
        if self.hub is None:
            return {}
        heard = {name: "" if host.heard_at or host.is_new else None for name, host in self.hub.hosts.hosts.items()}
        return {**heard, **self.hub.hosts.missing()}

    def _finish_job(self, _job: Job) -> None:
        self.queue.deliver()
        self.waiter.notify()

    def _facts(self) -> Facts:
        """The facts that the conditions of a target are checked against. It blocks."""
        return self.hub.fleet.facts() if self.hub else self.view.facts()

    def on_silence_changed(self) -> None:
        """A host has fallen silent, or is back."""
        self.conditions.wake()
        if self.hub is not None:
            self.hub.dispatcher.wake()  # the cards of its commands say so

    def on_rows_copied(self) -> None:
        """Commands may have ended on other hosts: start those that follow, and answer the clients that wait."""
        self.wake_workers()
        self.waiter.notify()

    def _publish_statuses(self, statuses: Sequence[WorkerStatus]) -> None:
        presence = self.fleet_host.presence if self.fleet_host else None
        for service in (self.conditions, self.heartbeats, self.scheduler, presence):
            if service is not None:
                service.see(statuses)

    def publish_readings(self, readings: Iterable[TargetReading]) -> None:
        if self.scheduler is not None:
            self.scheduler.observe(readings)
