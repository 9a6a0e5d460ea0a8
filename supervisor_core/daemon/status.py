"""The live status of the daemon, its services and its workers, and `runtime.json`, which keeps the last one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import EVERYTHING, Suppression
from supervisor_core.code.checkout_lock import share_checkout
from supervisor_core.code.watch.rules import WatchedWorker
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.service import Blocking, Service, ServiceReport, ServiceState, wait_until
from supervisor_core.common.times import to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon import ownership
from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.daemon.reconciler import Reconciler
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.daemon.services.life import LifeRecorder
from supervisor_core.daemon.worker import Worker
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.processes.stopping import StopReport
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.heartbeats.files import heartbeat_file
from supervisor_core.workers.restarts import history as starts
from supervisor_core.workers.restarts.history import read_history
from supervisor_core.workers.restarts.policy import Next, RestartReason, automatic_starts
from supervisor_core.workers.status import WorkerStatus

log = logging.getLogger(__name__)


def status_document(
    ledger: Ledger,
    agent: SupervisorAgent,
    configuration: ConfigService,
    life: LifeRecorder,
    reconciler: Reconciler,
    services: Iterable[ServiceReport],
    workers: list[dict[str, Any]],
    background_problems: Iterable[str],
    started_at: datetime,
) -> dict[str, Any]:
    """Return the whole status, and whether everything is healthy."""
    reports = list(services)
    is_healthy = all(report.state in (ServiceState.RUNNING, ServiceState.DISABLED) for report in reports)
    is_healthy = is_healthy and not any(report.health == "degraded" for report in reports)
    ledger_problem = str(ledger.trouble or "")
    unwritten = (agent.problem(), life.problem()) if not ledger_problem else ()  # else both repeat it
    problems = list(filter(None, (ledger_problem, configuration.problem(), *unwritten, *background_problems)))
    is_healthy = is_healthy and agent.status not in (SupervisorStatus.FAILED, SupervisorStatus.TERMINATED)
    return {
        "healthy": is_healthy and not problems and all(worker["fine"] for worker in workers),
        "supervisor": {
            "id": str(agent.supervisor_id),
            "state": "running",
            "status": str(agent.status),
            "reason": agent.reason,
            "problem": "; ".join(problems),
            "pid": os.getpid(),
            "started_at": to_text(started_at),
            "configuration": {
                "version": configuration.current.number,
                "problem": configuration.problem(),
                "needs_restart": list(configuration.needs_restart),
            },
            "ledger": {"problem": ledger_problem},
            "snapshot": reconciler.current_snapshot().version,
            "lost_events": reconciler.bus.lost,
        },
        "services": [report.as_json() for report in reports],
        "workers": workers,
    }


def worker_documents(
    context: DaemonContext, reconciler: Reconciler, statuses: Iterable[WorkerStatus]
) -> list[dict[str, Any]]:
    """Each worker as it was just seen, with the operation in progress and what it waits for."""
    config, now, documents = context.host.config, datetime.now(UTC), []
    changing = reconciler.changing_code()
    suppressed: Mapping[str, Suppression] = {}
    with contextlib.suppress(LedgerUnavailable):  # the status of workers doesn't depend on it
        suppressed = context.ledger.read(lambda connection: suppressions.muted_until(connection, now))
    for status in statuses:
        worker_id = status.worker.id
        document = status.as_json()
        documents.append(document)
        document["heartbeat_file"] = heartbeat_file(config, status.worker)
        suppression = suppressed.get(worker_id) or suppressed.get(EVERYTHING.id)
        if suppression is not None:
            document |= {"muted_until": to_text(suppression.ends_at), "muted_for": str(suppression.kind)}
        if worker_id not in config.workers and document["pid"] is not None:
            document |= {"fine": False, "reason": "running, but no longer in the configuration"}
        restarts = automatic_starts(starts.read_starts(config.state_dir, worker_id), now)
        document["restarts_last_hour"] = restarts
        worker = reconciler.workers.get(worker_id)
        if worker is None:
            continue
        decision = worker.decision
        ended_well = decision is not None and decision.reason is RestartReason.ENDED_WELL
        state = _state_in_motion(context, worker, status, changing)
        if state is not None:
            crashed = state is WorkerState.STARTING and restarts > 0
            document |= {"state": str(state), "health": str(Health.UNKNOWN), "reason": str(state)}
            document["fine"] = not (worker.problem or crashed)
        elif document["pid"] is not None:
            if worker.start_error:
                reason = f"running with older settings, because it can't start with the new ones: {worker.start_error}"
                document |= {"fine": False, "reason": reason}
        elif decision is not None and worker.quarantine is None:
            document |= {"fine": ended_well, "reason": decision.words}
            if decision.what is Next.WAIT:
                due_at = to_text(decision.due_at) if decision.due_at else None
                document |= {"state": str(WorkerState.BACKING_OFF), "fine": False, "due_at": due_at}
            elif ended_well:
                document["health"] = str(Health.UNKNOWN)
        if worker.problem:
            document |= {"fine": False, "reason": worker.problem}
        document["start_error"] = worker.start_error or None
        # The crash from which it hasn't come back, unless it runs, was stopped, or ended well.
        crash = (worker.exit_text or decision.lasting_words) if decision is not None and not ended_well else None
        document["last_error"] = worker.start_error or crash
    return documents


def statuses_in_motion(
    context: DaemonContext, reconciler: Reconciler, statuses: Iterable[WorkerStatus]
) -> list[WorkerStatus]:
    """The same workers, with the operation in progress: one that is just being started isn't missing."""
    changing, current = reconciler.changing_code(), []
    for status in statuses:
        worker = reconciler.workers.get(status.worker.id)
        state = _state_in_motion(context, worker, status, changing) if worker is not None else None
        current.append(status if state is None else status.under_way(state))
    return current


def _state_in_motion(
    context: DaemonContext, worker: Worker, status: WorkerStatus, changing: Iterable[WorkerSettings]
) -> WorkerState | None:
    """The operation in progress on a worker, by itself or a code change; None without one."""
    settings = status.worker
    stays_stopped = not settings.enabled or settings.quarantined or status.quarantine is not None
    # The first plan of a starting daemon will start it.
    is_next = status.state is WorkerState.STOPPED and not stays_stopped and status.pause is None
    state = worker.next_state if worker.planned or is_next else None
    if state is None and any(share_checkout(context.host, settings, other) for other in changing):
        return WorkerState.STOPPING
    return state


def watched_workers(
    context: DaemonContext, reconciler: Reconciler, worker_ids: Collection[str]
) -> dict[str, WatchedWorker]:
    """Those of them that are configured, for the watch after a code change. In a thread: it blocks as a look does.

    The health of a running worker is the observed one, else that of its document.
    """
    config, watched = context.host.config, {}
    configured = [config.workers[worker_id] for worker_id in sorted(worker_ids) if worker_id in config.workers]
    statuses = reconciler.observer.look(configured)
    for status, document in zip(statuses, worker_documents(context, reconciler, statuses), strict=True):
        worker, state = status.worker, WorkerState(document["state"])
        is_running = state is WorkerState.RUNNING
        reason = status.verdict.reason if is_running else str(document["reason"])
        if status.pause is not None:
            reason = str(status.pause)
        elif not worker.enabled:
            reason = "disabled in the configuration"
        elif worker.quarantined:
            reason = "quarantined in the configuration"
        # One from the future was noted by a clock that was wrong.
        restarts = [moment for moment in starts.read_starts(config.state_dir, worker.id) if moment <= status.at]
        watched[worker.id] = WatchedWorker(
            state,
            status.verdict.health,
            status.verdict.fine if is_running else bool(document["fine"]),
            reason,
            started_at=status.started_at,
            paused=status.pause is not None,
            wanted=worker.enabled and not worker.quarantined,
            given_up=status.quarantine is not None,
            started_again_at=max(restarts, default=None),
            lives=tuple(read_history(config.state_dir, worker.id)[0]),
        )
    return watched


WRITE_INTERVAL_SECONDS = 5.0
"""The shortest time between two writes. `status` shows faster changes."""


class RuntimeFileWriter(Service):
    """Writes `runtime.json` whenever it has something new to say. After a daemon has died it tells how all was."""

    name = "runtime_file"

    def __init__(
        self,
        context: DaemonContext,
        reconciler: Reconciler,
        reports: Callable[[], list[ServiceReport]],
        blocking: Blocking,
    ) -> None:
        super().__init__()
        self.started_at = datetime.now(UTC)
        self.ended_workers: dict[str, StopReport] = {}
        """The workers that were ended with the daemon."""
        self._context = context
        self._reconciler = reconciler
        self._reports = reports
        self._blocking = blocking

    async def run(self, stopping: asyncio.Event) -> None:
        """Write until asked to stop; the daemon writes the last one itself."""
        written: object = None
        while not stopping.is_set():
            seconds = WRITE_INTERVAL_SECONDS
            self.pulse.beat(within=seconds)
            services = [(report.name, report.state, report.health, report.last_error) for report in self._reports()]
            news = self._reconciler.current_snapshot().version, services
            if news != written:
                await self.write()
                written = news
            await wait_until(None, stopping, seconds)

    async def write(self, *, running: bool = True) -> None:
        """Write the file now. An error is logged: the lock, not this file, says whether the daemon lives."""
        identity, config = identify(os.getpid()), self._context.host.config
        snapshots = self._reconciler.current_snapshot().workers
        workers = {worker_id: snapshot.as_json() for worker_id, snapshot in snapshots.items()}
        for worker_id, report in self.ended_workers.items():
            if worker_id not in workers:
                continue
            actual = workers[worker_id]["actual"]
            if report.stopped:
                actual |= {"state": str(WorkerState.STOPPED), "started_at": None, "reason": "stopped with the daemon"}
                actual |= {"pid": None, "health": "unknown", "pending": []}
            else:
                survivor = next((survivor.pid for survivor in report.survivors), None)
                actual |= {"state": str(WorkerState.STUCK), "pid": survivor, "pending": []}
        document = {
            "running": running,
            "supervisor_id": config.supervisor.id,
            "pid": os.getpid(),
            "start": identity.start if identity else None,
            "boot_id": identity.boot_id if identity else None,
            "hostname": socket.gethostname(),
            "started_at": to_text(self.started_at),
            "stopped_at": None if running else to_text(datetime.now(UTC)),
            "services": [report.as_json() for report in self._reports()],
            "workers": workers,
        }
        try:
            await self._blocking(ownership.write, config.state_dir, document)
        except OSError as error:
            log.error("%s couldn't be written: %s", ownership.RUNTIME_FILE, error)  # noqa: TRY400
