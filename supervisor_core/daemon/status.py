"""The live status of the daemon, its services and its workers, and `runtime.json`, which keeps the last one."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
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
    well = all(report.state in (ServiceState.RUNNING, ServiceState.DISABLED) for report in reports)
    well = well and not any(report.health == "degraded" for report in reports)
    ledger_problem = str(ledger.trouble or "")
    unwritten = (agent.problem(), life.problem()) if not ledger_problem else ()  # else both repeat it
    problems = [each for each in (ledger_problem, configuration.problem(), *unwritten, *background_problems) if each]
    well = well and agent.status not in (SupervisorStatus.FAILED, SupervisorStatus.TERMINATED)
    return {
        "healthy": well and not problems and all(worker["fine"] for worker in workers),
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
    parts: DaemonContext, reconciler: Reconciler, looked: Iterable[WorkerStatus]
) -> list[dict[str, Any]]:
    """Each worker as it was just seen, with what its actor does and waits for."""
    changing, now, documents = reconciler.changing_code(), datetime.now(UTC), []
    muted = _muted(parts.ledger, now)
    for seen in looked:
        document = seen.as_json()
        document["heartbeat_file"] = heartbeat_file(parts.host.config, seen.worker)
        hush = muted.get(seen.worker.id) or muted.get(EVERYTHING.id)
        if hush is not None:
            document |= {"muted_until": to_text(hush.ends_at), "muted_for": str(hush.kind)}
        actor = reconciler.workers.get(seen.worker.id)
        noted = starts.read_starts(parts.host.config.state_dir, seen.worker.id)
        if seen.worker.id not in parts.host.config.workers and document["pid"] is not None:
            words = "running, but no longer in the configuration"
            document |= {"fine": False, "reason": words}
        document["restarts_last_hour"] = automatic_starts(noted, now)
        if actor is None:
            documents.append(document)
            continue
        moving = _moving(parts, actor, seen, changing)
        if moving is not None:
            again = moving is WorkerState.STARTING and document["restarts_last_hour"] > 0  # after an end by itself
            document |= {
                "state": str(moving),
                "health": str(Health.UNKNOWN),
                "fine": not (actor.problem or again),
                "reason": str(moving),
            }
        elif document["pid"] is None:
            document |= _waiting(actor)
        elif actor.start_error:
            words = f"running with older settings, because it can't start with the new ones: {actor.start_error}"
            document |= {"fine": False, "reason": words}
        if actor.problem:
            document |= {"fine": False, "reason": actor.problem}
        document["start_error"] = actor.start_error or None
        document["last_error"] = actor.start_error or _crash(actor)
        documents.append(document)
    return documents


def statuses_in_motion(
    parts: DaemonContext, reconciler: Reconciler, looked: Iterable[WorkerStatus]
) -> list[WorkerStatus]:
    """The same workers, with what is being done about them: one that is just being started isn't missing."""
    changing, told = reconciler.changing_code(), []
    for seen in looked:
        actor = reconciler.workers.get(seen.worker.id)
        moving = _moving(parts, actor, seen, changing) if actor is not None else None
        told.append(seen if moving is None else seen.under_way(moving))
    return told


def _moving(
    parts: DaemonContext, actor: Worker, seen: WorkerStatus, changing: Iterable[WorkerSettings]
) -> WorkerState | None:
    """The operation in progress on a worker, by its actor or a code change; None without one."""
    moving = actor.next_state if actor.planned or _will_be_started(seen) else None
    if moving is None and any(share_checkout(parts.host, seen.worker, other) for other in changing):
        return WorkerState.STOPPING
    return moving


def _muted(ledger: Ledger, now: datetime) -> dict[str, Suppression]:
    """Read the muted workers; none if the ledger can't be read, because the status of workers doesn't depend on it."""
    try:
        return ledger.read(lambda connection: suppressions.muted_until(connection, now))
    except LedgerUnavailable:
        return {}


def _will_be_started(seen: WorkerStatus) -> bool:
    """True if the first plan of a starting daemon will start the worker."""
    rests = not seen.worker.enabled or seen.worker.quarantined or seen.quarantine is not None or seen.pause is not None
    return seen.state is WorkerState.STOPPED and not rests


def _crash(actor: Worker) -> str | None:
    """The crash from which the worker hasn't come back; None if it runs, was stopped, or ended well."""
    decision = actor.decision
    if decision is None or decision.reason is RestartReason.ENDED_WELL:
        return None
    return actor.exit_text or decision.lasting_words


def _waiting(actor: Worker) -> dict[str, Any]:
    """Say why a worker that exited isn't running right now."""
    decision = actor.decision
    if decision is None or actor.quarantine is not None:
        return {}
    if decision.what is Next.WAIT:
        due = to_text(decision.due_at) if decision.due_at else None
        return {"state": str(WorkerState.BACKING_OFF), "fine": False, "reason": decision.words, "due_at": due}
    well = decision.reason is RestartReason.ENDED_WELL
    return {"fine": well, "reason": decision.words, **({"health": str(Health.UNKNOWN)} if well else {})}


def watched_workers(
    parts: DaemonContext, reconciler: Reconciler, worker_ids: Collection[str]
) -> dict[str, WatchedWorker]:
    """Those of them that are configured. In a thread: it blocks as a look does."""
    config = parts.host.config
    looked = reconciler.observer.look([config.workers[each] for each in sorted(worker_ids) if each in config.workers])
    shown = {document["id"]: document for document in worker_documents(parts, reconciler, looked)}
    return {seen.worker.id: _watched(seen, shown[seen.worker.id], config.state_dir) for seen in looked}


def _watched(seen: WorkerStatus, document: Mapping[str, Any], state_dir: Path) -> WatchedWorker:
    """The status for the watch after a code change: the health of a running worker, else the view of its actor."""
    state = WorkerState(document["state"])
    runs = state is WorkerState.RUNNING
    # One from the future was noted by a clock that was wrong.
    again = [moment for moment in starts.read_starts(state_dir, seen.worker.id) if moment <= seen.at]
    return WatchedWorker(
        state,
        seen.verdict.health,
        seen.verdict.fine if runs else bool(document["fine"]),
        _at_rest(seen) or (seen.verdict.reason if runs else str(document["reason"])),
        started_at=seen.started_at,
        paused=seen.pause is not None,
        wanted=seen.worker.enabled and not seen.worker.quarantined,
        given_up=seen.quarantine is not None,
        started_again_at=max(again, default=None),
        lives=tuple(read_history(state_dir, seen.worker.id)[0]),
    )


def _at_rest(seen: WorkerStatus) -> str:
    """The reason why the worker should not run; empty if it should."""
    if seen.pause is not None:
        return str(seen.pause)
    if not seen.worker.enabled:
        return "disabled in the configuration"
    return "quarantined in the configuration" if seen.worker.quarantined else ""


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
            version = self._version()
            if version != written:
                await self.write()
                written = version
            await wait_until(None, stopping, seconds)

    async def write(self, *, running: bool = True) -> None:
        """Write the file now. An error is logged: the lock, not this file, says whether the daemon lives."""
        me, config = identify(os.getpid()), self._context.host.config
        snapshots = self._reconciler.current_snapshot().workers
        workers = {worker_id: snapshot.as_json() for worker_id, snapshot in snapshots.items()}
        document = {
            "running": running,
            "supervisor_id": config.supervisor.id,
            "pid": os.getpid(),
            "start": me.start if me else None,
            "boot_id": me.boot_id if me else None,
            "hostname": socket.gethostname(),
            "started_at": to_text(self.started_at),
            "stopped_at": None if running else to_text(datetime.now(UTC)),
            "services": [report.as_json() for report in self._reports()],
            "workers": _with_ended_workers(workers, self.ended_workers),
        }
        try:
            await self._blocking(ownership.write, config.state_dir, document)
        except OSError as error:
            log.error("%s couldn't be written: %s", ownership.RUNTIME_FILE, error)  # noqa: TRY400

    def _version(self) -> object:
        """Differs once there is something new to write."""
        services = [(each.name, each.state, each.health, each.last_error) for each in self._reports()]
        return self._reconciler.current_snapshot().version, services


def _with_ended_workers(workers: Mapping[str, Any], ended: Mapping[str, StopReport]) -> dict[str, Any]:
    """The last snapshots of the workers, changed for those that were stopped with the daemon since."""
    documents = dict(workers)
    for worker_id, report in ended.items():
        if worker_id in documents:
            actual: dict[str, Any] = {"state": str(WorkerState.STUCK), "pending": []}
            actual["pid"] = next((survivor.pid for survivor in report.survivors), None)
            if report.stopped:
                state, reason = str(WorkerState.STOPPED), "stopped with the daemon"
                actual |= {"state": state, "pid": None, "started_at": None, "health": "unknown", "reason": reason}
            documents[worker_id] = {**documents[worker_id], "actual": {**documents[worker_id]["actual"], **actual}}
    return documents
