"""The daemon: the services of one host, from their start to the last write of `runtime.json`."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from supervisor_core.alerts.decisions import EvidenceCollector
from supervisor_core.alerts.host_conditions import HostConditions
from supervisor_core.alerts.monitor import AlertMonitor
from supervisor_core.alerts.outside.notify import check_notify_urls
from supervisor_core.alerts.weekly import WeeklyChore
from supervisor_core.code.watch.service import BakingChore
from supervisor_core.commands.command import Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.events import EventBus
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, ServiceRegistry, ServiceReport, ServiceState, with_trouble
from supervisor_core.common.service_names import CHAT, FORWARDER, HEARTBEAT, METRICS
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.config.problems import HOST, HUB
from supervisor_core.config.slack_credentials import slack_credentials
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon import systemd
from supervisor_core.daemon.chat import Chat, installed_chat
from supervisor_core.daemon.configuration.history import ConfigHistory
from supervisor_core.daemon.configuration.service import ConfigService, ConfigVersion
from supervisor_core.daemon.control.commands import ShellCommands
from supervisor_core.daemon.control.lifecycle import REEXEC
from supervisor_core.daemon.control.server import ControlServer, handle_stop_signals, stop_answer
from supervisor_core.daemon.handlers import STOP_LIMIT_SECONDS, stop_seconds
from supervisor_core.daemon.hosts import LocalHosts
from supervisor_core.daemon.reconciler import Program, Reconciler
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.life import LifeRecorder
from supervisor_core.daemon.services.monitoring import record_pause_flag_change
from supervisor_core.daemon.services.queue_processor import QueueProcessor
from supervisor_core.daemon.services.retention import RetentionChore
from supervisor_core.daemon.status import RuntimeFileWriter, status_document
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.rights import Rights, host_rights
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.rolling.service import RollingChore
from supervisor_core.intake.scheduler import ApprovalsChore, Scheduler
from supervisor_core.intake.schedules.runner import AnswerCommand, SchedulesChore, no_chat
from supervisor_core.jobs.model import Job
from supervisor_core.plugins.loading import load_plugins
from supervisor_core.workers.adapter import ProcessWorkerAdapter
from supervisor_core.workers.conditions import TargetReading
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.heartbeats.service import HeartbeatService, HeartbeatWatch
from supervisor_core.workers.output.service import WorkerOutputs
from supervisor_core.workers.status import WorkerStatus
from supervisor_core.workers.worker import stop_watcher_gracefully

if TYPE_CHECKING:
    from supervisor_core.alerts.incoming import IncomingAlerts
    from supervisor_core.daemon.services.forwarder import Forwarder
    from supervisor_core.fleet.host import HostServices
    from supervisor_core.fleet.hub.services import HubServices

log = logging.getLogger(__name__)

STOP_MARGIN_SECONDS = 5.0
"""The time that a stop may take beyond the last command, to write the outcome and close everything."""

FAILED, INTERRUPTED = 1, 130


class Application(Program):
    """Runs until asked to stop, by a signal or on the control socket. Workers outlive it."""

    def __init__(self, context: DaemonContext) -> None:
        self.context = context
        config, ledger = context.host.config, context.ledger
        self.stopping = asyncio.Event()
        self.blocking = Blocking()
        self.bus = EventBus()
        self._interrupted = self._stops_workers = self._restarts = False
        context.host.pauses.hand_made = lambda change: record_pause_flag_change(context.host.config, ledger, change)
        self.agent = SupervisorAgent(
            config.supervisor.id,
            ledger,
            self.bus,
            heartbeat_seconds=config.supervisor.heartbeat_seconds,
            elsewhere=self.blocking,
        )
        self.configuration = ConfigService(config, self.blocking)
        self._adapter = ProcessWorkerAdapter(context)
        self.reconciler = Reconciler(self.configuration, self._adapter, program=self)
        self._history = self.configuration.history = ConfigHistory(context, self.reconciler)
        self.configuration.subscribe(self._apply_configuration)

        self.local = LocalHosts(context, self.reconciler, self.agent, self.blocking)
        self.hub: HubServices | None = None
        self._fleet_host: HostServices | None = None
        if config.fleet.role == HUB:
            from supervisor_core.fleet.hub.services import HubServices

            self.hub = HubServices(self)
        elif config.fleet.role == HOST:
            from supervisor_core.fleet.host import HostServices

            self._fleet_host = HostServices(self)
        self.hosts: Hosts = self.hub.fleet if self.hub else self.local

        rights, answer_command = host_rights(lambda: self.hosts.config), no_chat
        credentials = slack_credentials(config.environ, folder=config.path.parent)
        chat_disabled = "" if config.slack.enabled else "slack.enabled is false"
        if credentials.bot_token is None or credentials.app_token is None:
            chat_disabled = chat_disabled or "SLACK_BOT_TOKEN and SLACK_APP_TOKEN are not set"
        connection = None if chat_disabled else installed_chat().connect(config, ledger, credentials, rights)
        if connection is not None:
            rights, answer_command = connection.check_right, connection.answer
        approvals = Approvals(ledger, lambda: self.hosts.config, self.hosts.preview, rights)
        self.chat: Chat | None = connection.service(approvals, self.hosts) if connection is not None else None
        self._shell = ShellCommands(self.hosts, approvals, ledger, self.configuration, self.blocking, self.stopping)

        self.queue = QueueProcessor(context, self.blocking, self.hosts.wake)
        self.heartbeats = None
        if config.supervisor.heartbeat_seconds > 0:
            self.heartbeats = HeartbeatService(context, self.blocking, self.local.recent_statuses)
        self.forwarder: Forwarder | None = None
        if not config.shared_database_disabled:
            from supervisor_core.daemon.services.forwarder import Forwarder

            self.forwarder = Forwarder(context, self.blocking)
        self.scheduler = build_scheduler(
            context, self.hosts, approvals, self.blocking, self.agent, self.reconciler, rights, answer_command
        )
        self.conditions = HostConditions(
            context,
            self.blocking,
            self.scheduler.observe,
            self.forwarder.trouble if self.forwarder else None,
            self._silent_supervisors,
        )
        self.incoming: IncomingAlerts | None = None
        if config.alerts.incoming.token:
            from supervisor_core.alerts.incoming import IncomingAlerts

            self.incoming = IncomingAlerts(
                ledger,
                self.blocking,
                config.alerts.incoming,
                self.scheduler.observe,
                lambda worker_id: worker_id in self.hosts.config.workers,
            )
        web: Service | None = None
        if config.metrics.bind:
            from supervisor_core.web.service import WebService

            web = WebService(self)
        self._life = LifeRecorder(self.agent, context, self.problem)
        self._outputs = WorkerOutputs(context)

        # The order of this list is the order of the start, one registry after the other, and of `status`.
        listed = (self.queue, self.reconciler, self.heartbeats, self.forwarder, self.scheduler, self.chat, web)
        disabled = (
            (HEARTBEAT, None if self.heartbeats else "supervisor.heartbeat_seconds is 0"),
            (FORWARDER, config.shared_database_disabled),
            (CHAT, chat_disabled),
            (METRICS, None if web else "metrics.bind is empty"),
        )
        self._listed = ServiceRegistry(
            [service for service in listed if service is not None],
            [(name, reason) for name, reason in disabled if reason],
        )
        self._runtime_file = RuntimeFileWriter(context, self.reconciler, self._listed.reports, Blocking(1))
        self._background = ServiceRegistry(
            [
                self.reconciler.observer,
                self.configuration,
                self._life,
                self._runtime_file,
                HeartbeatWatch(context, self.blocking, self.reconciler.healthy, self.reconciler.plan_again),
                self.conditions,
                self._outputs,
            ]
        )
        fleet = self.hub or self._fleet_host
        self._fleet = ServiceRegistry(fleet.services if fleet else ())
        self._outbound = ServiceRegistry(self._build_senders(config))
        self._follow_configuration()

        answers = {
            "status": self._status,
            "wake": self._wake,
            "send": self._shell.submit,
            "wait": self._shell.wait,
            "stop": self._stop,
            **({} if sys.platform == "win32" else {"reexec": self._reexec}),
            "config": self.configuration.answer,
            "monitoring": self._set_monitoring,
            "fleet": self._fleet_links,
            "relay": self._relay,
        }
        self._control = ControlServer(config.state_dir, answers)

    async def run(self) -> int:
        """Supervise this host; returns the exit code, or `REEXEC`."""
        pid = os.getpid()
        handle_stop_signals(self._stop_by_signal)
        try:
            await self._start()
        except BaseException:
            await self._runtime_file.write(running=False)  # else it would seem to have crashed
            raise
        supervisor_id = self.agent.supervisor_id
        log.info("supervisor %s started (pid %d)", supervisor_id, pid, extra=LogEvent.DAEMON_STARTED.extra(pid=pid))
        for problem in load_plugins().problems:
            log.error("plug-in %s", problem)
        systemd.ready()
        if not gc.isenabled():  # paused for the start: what is there now stays, and needn't be looked through again
            gc.freeze()
            gc.enable()
        ended = asyncio.Event()
        watchdog = asyncio.create_task(
            systemd.run_watchdog(ended, lambda: "" if self.stopping.is_set() else self.problem())
        )
        await self.stopping.wait()
        code = await self._end()
        ended.set()
        await watchdog
        return code

    async def _start(self) -> None:
        await self._runtime_file.write()
        await self._control.start()  # first, so that `status` is answered while the workers start
        await self._history.start()
        await self._life.spawn()
        await self._background.start(self.stopping)
        await self._listed.start(self.stopping)
        self.conditions.wake()  # by now the reconciler has reported what was interrupted
        await self._life.follow()
        await self._fleet.start(self.stopping)
        await self._outbound.start(self.stopping)
        await self._runtime_file.write()

    async def _end(self) -> int:
        name = self.agent.supervisor_id
        if self._restarts:
            systemd.reloading()
        else:
            systemd.stopping()
        workers = "stop, too" if self._stops_workers else "keep running"
        log.info("supervisor %s is %s; its workers %s", name, "restarting" if self._restarts else "stopping", workers)
        self._shell.notify()
        try:
            await self.agent.stop()  # before the forwarder's last round, which tells the others
        except Exception:  # the edge: whatever it is, the rest must end
            log.exception("the stop of supervisor %s couldn't be recorded", name)
        laggards = await self._listed.stop(STOP_LIMIT_SECONDS + STOP_MARGIN_SECONDS)
        for registry in (self._fleet, self._background, self._outbound):
            laggards += await registry.stop(STOP_MARGIN_SECONDS)
        await self._history.shut_down()
        if self._stops_workers:
            workers_to_stop = [worker for worker in self.reconciler.settings() if not worker.quarantined]
            await asyncio.gather(*(self.blocking(self._stop_worker, worker) for worker in workers_to_stop))
        await self._outputs.finish()
        self._adapter.close()
        await self._control.stop()
        self.bus.close()
        await self._runtime_file.write(running=False)
        log.info("supervisor %s stopped", name, extra=LogEvent.DAEMON_STOPPED.extra(pid=os.getpid()))
        if self._restarts:  # what hangs in a thread ends with the old program
            systemd.alive()
            return REEXEC
        if laggards:
            return FAILED
        return INTERRUPTED if self._interrupted else 0

    def _build_senders(self, config: SupervisorConfig) -> list[Service]:
        """The services that notify other systems."""
        senders: list[Service] = [self.incoming] if self.incoming else []
        if config.alerts.outside:
            from supervisor_core.alerts.outside.sender import AlertSender

            senders += [AlertSender(self.context, self.blocking, receiver) for receiver in config.alerts.outside]
        if config.alerts.deadman_url:
            from supervisor_core.alerts.outside.deadman import DeadMan, why_silent

            senders.append(DeadMan(self.context, lambda: why_silent(self.problem(), self.reports())))
        return senders

    def reports(self) -> list[ServiceReport]:
        """The services that `status` lists."""
        return self._listed.reports()

    def problem(self) -> str:
        """The reason why workers aren't supervised; empty while they are. An unreachable Slack doesn't count."""
        vital = (self.queue.name, self.reconciler.name)
        reports = (report for report in self.reports() if report.late or report.state is ServiceState.ERROR)
        return "; ".join(f"{report.name}: {report.trouble}" for report in reports if report.name in vital)

    def _background_problems(self) -> list[str]:
        """The failures of services that `status` doesn't list."""
        reports = [report for report in self._background.reports() if report.late or report.state is ServiceState.ERROR]
        reports += [report for report in self._outbound.reports() if report.trouble]
        # Of the fleet, the link's: it explains the rest.
        reports += [report for report in self._fleet.reports() if report.trouble][:1]
        return [f"{report.name}: {report.trouble}" for report in reports]

    def _apply_configuration(self, _version: ConfigVersion) -> None:
        """Follow a version that the reconciler already has."""
        self.queue.configured()
        self._follow_configuration()

    def _follow_configuration(self) -> None:
        if self.hub is not None:
            self.hub.fleet.follow_hosts()
        self.scheduler.wake()
        if self.chat is not None:
            self.chat.configured(self.hosts.config)

    # The reconciler calls these on the event loop.

    def monitoring_paused(self) -> bool:
        return self.agent.monitoring_paused

    def is_stopping(self) -> bool:
        return self.stopping.is_set()

    def wake_workers(self, worker_ids: Collection[str] | None = None) -> None:
        self.hosts.wake(worker_ids)

    def statuses_changed(self, statuses: Sequence[WorkerStatus]) -> None:
        presence = self._fleet_host.presence if self._fleet_host else None
        for service in (self.conditions, self.heartbeats, self.scheduler, presence):
            if service is not None:
                service.see(statuses)

    def job_progressed(self, job: Job) -> None:  # noqa: ARG002 (whoever waits for one looks)
        self._shell.notify()

    def job_finished(self, job: Job) -> None:  # noqa: ARG002
        self.queue.deliver()
        self._shell.notify()

    def _silent_supervisors(self) -> Mapping[str, str | None]:
        """The supervisors of the fleet, as `HostFacts.silent` has them."""
        if self.hub is None:
            return {}
        known = {name: "" if host.heard_at or host.is_new else None for name, host in self.hub.hosts.hosts.items()}
        return {**known, **self.hub.hosts.missing()}

    # The hub calls these on the event loop, about other hosts.

    def on_silence_changed(self) -> None:
        """A host has fallen silent, or is back."""
        self.conditions.wake()
        if self.hub is not None:
            self.hub.dispatcher.wake()  # the cards of its commands say so

    def on_rows_copied(self) -> None:
        """Commands may have ended on other hosts: start those that follow, and answer the clients that wait."""
        self.hosts.wake()
        self._shell.notify()

    def on_hosts_changed(self) -> None:
        self._follow_configuration()

    def publish_readings(self, readings: Iterable[TargetReading]) -> None:
        self.scheduler.observe(readings)

    # Stopping, and the answers on the control socket.

    @property
    def _stop_bound(self) -> float:
        """The longest that a stop may take, with the end of workers that end too."""
        workers = max(map(stop_seconds, self.context.host.config.workers.values()), default=0.0)
        return STOP_LIMIT_SECONDS + STOP_MARGIN_SECONDS + (workers if self._stops_workers else 0)

    def _stop_worker(self, worker: WorkerSettings) -> None:
        try:
            report = stop_watcher_gracefully(self.context.host.processes, worker, "supervisor stop --workers")
        except (SupervisorError, OSError) as error:  # nobody can tell whether it runs: the others end
            log.error("%s couldn't be stopped: %s", worker.id, error)  # noqa: TRY400
            return
        self._runtime_file.ended_workers[worker.id] = report

    def _stop_by_signal(self, name: str) -> None:
        log.info("received %s, stopping", name)
        self._restarts = False
        self._interrupted = self._interrupted or name == "SIGINT"
        self.stopping.set()

    async def _stop(self, request: Mapping[str, Any]) -> dict[str, Any]:
        workers = await self.local.statuses()
        self._stops_workers = self._stops_workers or request.get("workers") is True
        self._restarts = False
        self.stopping.set()
        return stop_answer(workers, self._stop_bound)

    async def _reexec(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Stop, and run the program anew in this process; `refused` if it couldn't start with its configuration."""
        path = self.context.host.config.path
        if request.get("config") != str(path):
            return {}
        try:
            await self.blocking(check_notify_urls, await self.blocking(load_supervisor_config, str(path)))
        except SupervisorError as error:
            return {"refused": str(error)}
        workers = await self.local.statuses()
        if self.stopping.is_set() and not self._restarts:  # somebody wants it to stay stopped
            return {}
        self._restarts = True
        self.stopping.set()
        return {**stop_answer(workers, self._stop_bound), "started_at": to_text(self._runtime_file.started_at)}

    async def _status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        ledger = self.context.ledger
        workers = await self.hosts.detailed_statuses()
        return status_document(
            ledger,
            self.agent,
            self.configuration,
            self._life,
            self.reconciler,
            with_trouble(self.reports(), ledger.trouble),
            workers,
            self._background_problems(),
            self._runtime_file.started_at,
        )

    async def _wake(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        """Another program has written something: look now."""
        self.hosts.wake()
        self.queue.wake()
        self.scheduler.wake()
        return {"ok": True}

    async def _set_monitoring(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Such as `{"do": "monitoring", "rest": true, "user": "anna"}`."""
        user = str(request.get("user") or "?")
        issuer = Issuer(f"cli:{user}", user)
        return {"ok": True, "message": await self.hosts.set_monitoring(issuer, paused=request.get("rest") is True)}

    async def _fleet_links(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        return {"hosts": self.hub.hosts.links() if self.hub else {}}

    async def _relay(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Ask the hosts of these workers for the shell."""
        if self.hub is None:
            return {"answers": []}
        question, workers = str(request.get("question", "")), list(map(str, request.get("workers", ())))
        return {"answers": await self.hub.fleet.relay(question, workers, int(request.get("count", 0)))}


def build_scheduler(
    context: DaemonContext,
    hosts: Hosts,
    approvals: Approvals,
    blocking: Blocking,
    agent: SupervisorAgent,
    reconciler: Reconciler,
    rights: Rights,
    answer_command: AnswerCommand,
) -> Scheduler:
    """The service that looks after what comes due: alerts, approvals, workers whose code was changed, schedules."""
    from supervisor_core.intake.ticker import Ticker

    ledger = context.ledger

    def config() -> SupervisorConfig:
        return hosts.config

    evidence = EvidenceCollector(lambda: context.host, hosts.last_lines)
    alerting = AlertMonitor(ledger, config, lambda: agent.monitoring_paused, evidence)
    return Scheduler(
        ledger,
        blocking,
        (
            alerting,
            ApprovalsChore(approvals),
            RollingChore(ledger),
            BakingChore(ledger, config, hosts.watched),
            SchedulesChore(ledger, config, approvals, rights, answer_command, hosts.facts),
            WeeklyChore(ledger, config),
            RetentionChore(lambda: context.host, ledger),
        ),
        Ticker(config().alerts.check_seconds),
        hosts.wake,
        restless={alerting: alerting.is_restless},
        look_again=reconciler.look_again,
        seeing=alerting.see,
        observing=alerting.observe_all,
    )
