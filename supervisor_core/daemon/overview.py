"""How the daemon, its services and its workers are, as one document: what `status` shows, from a live look.

How watched workers are at the moment: a live look, as `status` takes and judges it, at these alone.

The service that keeps `runtime.json` up to date: of a daemon that dies without a word it tells how all was last.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.alerts.suppression import rows as suppressions
from supervisor_core.alerts.suppression.rows import EVERYTHING, Suppression
from supervisor_core.code.checkout_lock import share_checkout
from supervisor_core.code.watch.rules import Watched
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.common.service import Service, ServiceReport, ServiceState, wait_until
from supervisor_core.common.times import to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.daemon.reconciliation.actor import WorkerActor
from supervisor_core.daemon.reconciliation.reconciler import Reconciler
from supervisor_core.daemon.services.agent import LifeRecorder, SupervisorAgent
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.workers.context import DaemonContext
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.restarts import limits as starts
from supervisor_core.workers.restarts.history import read_history
from supervisor_core.workers.restarts.policy import Next, RestartReason, automatic_starts
from supervisor_core.workers.status import WorkerStatus


def status_document(
    ledger: Ledger,
    agent: SupervisorAgent,
    configuration: ConfigService,
    living: LifeRecorder,
    reconciler: Reconciler,
    services: Iterable[ServiceReport],
    workers: list[dict[str, Any]],
    behind: Iterable[str],
    started_at: datetime,
) -> dict[str, Any]:
    """The whole, and whether all of it is well."""
    reports = list(services)
    well = all(report.state in (ServiceState.RUNNING, ServiceState.DISABLED) for report in reports)
    well = well and not any(report.health == "degraded" for report in reports)
    ill = str(ledger.trouble or "")
    told = (agent.problem(), living.problem()) if not ill else ()  # else it's the same, told by those who can't write
    problems = [each for each in (ill, configuration.problem(), *told, *behind) if each]
    well = well and agent.status not in (SupervisorStatus.FAILED, SupervisorStatus.TERMINATED)
    return {
        "healthy": well and not problems and all(worker["fine"] for worker in workers),
        "supervisor": {
            "id": agent.supervisor_id,
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
            "ledger": {"problem": ill},
            "snapshot": reconciler.current_snapshot().version,
            "lost_events": reconciler.bus.lost,
            "unresponsive": list(living.silent),
        },
        "services": [report.as_json() for report in reports],
        "workers": workers,
    }


def worker_documents(
    parts: DaemonContext, reconciler: Reconciler, looked: Iterable[WorkerStatus]
) -> list[dict[str, Any]]:
    """Each worker as it was just seen, with what its actor does and waits for."""
    changing, now, documents = reconciler.managed.changing_code(), datetime.now(UTC), []
    muted = _muted(parts.ledger, now)
    for seen in looked:
        document = seen.as_json()
        hush = muted.get(seen.worker.id) or muted.get(EVERYTHING.id)
        if hush is not None:
            document |= {"muted_until": to_text(hush.ends_at), "muted_for": str(hush.kind)}
        actor = reconciler.actor(seen.worker.id)
        noted = starts.read_starts(parts.host.config.state_dir, seen.worker.id)
        if seen.worker.id not in parts.host.config.workers and document["pid"] is not None:
            words = "it runs, and is not in the configuration any more"
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
                "reason": f"{moving}, this is under way",
            }
        elif document["pid"] is None:
            document |= _waiting(actor)
        elif actor.start_error:
            words = f"it runs with older settings, for with the new ones it would not start: {actor.start_error}"
            document |= {"fine": False, "reason": words}
        if actor.problem:
            document |= {"fine": False, "reason": actor.problem}
        document["last_error"] = actor.start_error
        documents.append(document)
    return documents


def statuses_in_motion(
    parts: DaemonContext, reconciler: Reconciler, looked: Iterable[WorkerStatus]
) -> list[WorkerStatus]:
    """The same workers, with what is being done about them: one that is just being started isn't missing."""
    changing, told = reconciler.managed.changing_code(), []
    for seen in looked:
        actor = reconciler.actor(seen.worker.id)
        moving = _moving(parts, actor, seen, changing) if actor is not None else None
        told.append(seen if moving is None else seen.under_way(moving))
    return told


def _moving(
    parts: DaemonContext, actor: WorkerActor, seen: WorkerStatus, changing: Iterable[WorkerSettings]
) -> WorkerState | None:
    """What is being done about a worker, by its actor or by a change of its code; None where nothing is."""
    moving = actor.moving if actor.planned or _will_be_started(seen) else None
    if moving is None and any(share_checkout(parts.host, seen.worker, other) for other in changing):
        return WorkerState.STOPPING
    return moving


def _muted(ledger: Ledger, now: datetime) -> dict[str, Suppression]:
    """Who is muted; nobody is known to be while the ledger can't be read. How workers are doesn't depend on it."""
    try:
        return ledger.read(lambda connection: suppressions.muted_until(connection, now))
    except LedgerUnavailable:
        return {}


def _will_be_started(seen: WorkerStatus) -> bool:
    """What the first plan will do: a daemon that comes up takes over who runs, and leaves at rest who rests."""
    rests = not seen.worker.enabled or seen.worker.quarantined or seen.quarantine is not None or seen.pause is not None
    return seen.observation.state is WorkerState.STOPPED and not rests


def _waiting(actor: WorkerActor) -> dict[str, Any]:
    """Why one that ended by itself does not run at the moment."""
    decision = actor.decision
    if decision is None or actor.lifecycle.quarantined:
        return {}
    if decision.what is Next.WAIT:
        due = to_text(decision.due_at) if decision.due_at else None
        return {"state": str(WorkerState.BACKING_OFF), "fine": False, "reason": decision.words, "due_at": due}
    well = decision.reason is RestartReason.ENDED_WELL
    return {"fine": well, "reason": decision.words, **({"health": str(Health.UNKNOWN)} if well else {})}


def watched_workers(parts: DaemonContext, reconciler: Reconciler, worker_ids: Collection[str]) -> dict[str, Watched]:
    """Those of them that are configured. In a thread: it blocks as a look does."""
    config = parts.host.config
    looked = reconciler.observer.look([config.workers[each] for each in sorted(worker_ids) if each in config.workers])
    shown = {document["id"]: document for document in worker_documents(parts, reconciler, looked)}
    return {seen.worker.id: _watched(seen, shown[seen.worker.id], config.state_dir) for seen in looked}


def _watched(seen: WorkerStatus, document: Mapping[str, Any], state_dir: Path) -> Watched:
    """What is so of one that runs, the judgement of its health says; of any other, its actor knows more."""
    state = WorkerState(document["state"])
    runs = state is WorkerState.RUNNING
    # One from the future was noted by a clock that was wrong.
    again = [moment for moment in starts.read_starts(state_dir, seen.worker.id) if moment <= seen.at]
    return Watched(
        state,
        seen.verdict.health,
        seen.verdict.fine if runs else bool(document["fine"]),
        _at_rest(seen) or (seen.verdict.reason if runs else str(document["reason"])),
        started_at=seen.observation.started_at,
        paused=seen.pause is not None,
        wanted=seen.worker.enabled and not seen.worker.quarantined,
        given_up=seen.quarantine is not None,
        started_again_at=max(again, default=None),
        lives=tuple(read_history(state_dir, seen.worker.id)[0]),
    )


def _at_rest(seen: WorkerStatus) -> str:
    """Why a person wants it at rest; empty where nobody does."""
    if seen.pause is not None:
        return str(seen.pause)
    if not seen.worker.enabled:
        return "not enabled in the configuration any more"
    return "quarantined in the configuration" if seen.worker.quarantined else ""


WRITE_INTERVAL_SECONDS = 5.0
"""At most so often; what changes faster is told by `status`."""


class RuntimeFileWriter(Service):
    """Has it written whenever what it says has changed, and then not again for a while."""

    name = "noting"

    def __init__(self, note: Callable[[], Awaitable[None]], mark: Callable[[], object]) -> None:
        super().__init__()
        self._note = note
        self._mark = mark

    async def run(self, stopping: asyncio.Event) -> None:
        """Look whether something has changed, again and again; until asked to stop, after which others write it."""
        noted: object = None
        while not stopping.is_set():
            self.pulse.beat(within=WRITE_INTERVAL_SECONDS)
            now = self._mark()
            if now != noted:
                await self._note()
                noted = now
            await wait_until(None, stopping, WRITE_INTERVAL_SECONDS)
