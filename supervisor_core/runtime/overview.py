"""How the daemon, its services and its workers are, as one document: what `status` shows, from a live look."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from supervisor_core.adapters import starts
from supervisor_core.config import Worker
from supervisor_core.domain.agent import SupervisorStatus
from supervisor_core.domain.errors import LedgerUnavailable
from supervisor_core.domain.health import Health, WorkerState
from supervisor_core.domain.restarts import Next, Reason, automatic_starts
from supervisor_core.domain.suppressions import EVERYTHING, Suppression
from supervisor_core.domain.times import to_text
from supervisor_core.ledger import suppressions
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.actor import WorkerActor
from supervisor_core.runtime.agent import SupervisorAgent
from supervisor_core.runtime.checkout_lock import share_checkout
from supervisor_core.runtime.config_service import ConfigService
from supervisor_core.runtime.living import Living
from supervisor_core.runtime.observing import Seen
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.reconciler import Reconciler
from supervisor_core.runtime.services import Report, ServiceState


def status_document(
    ledger: Ledger,
    agent: SupervisorAgent,
    configuration: ConfigService,
    living: Living,
    reconciler: Reconciler,
    services: Iterable[Report],
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


def worker_documents(parts: Parts, reconciler: Reconciler, looked: Iterable[Seen]) -> list[dict[str, Any]]:
    """Each worker as it was just seen, with what its actor does and waits for."""
    changing, now, documents = reconciler.changing_code(), datetime.now(UTC), []
    muted = _muted(parts.ledger, now)
    for seen in looked:
        document = seen.as_json()
        hush = muted.get(seen.worker.id) or muted.get(EVERYTHING.id)
        if hush is not None:
            document |= {"muted_until": to_text(hush.ends_at), "muted_for": str(hush.kind)}
        actor = reconciler.actor(seen.worker.id)
        noted = starts.noted(parts.host.config.state_dir, seen.worker.id)
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


def as_it_moves(parts: Parts, reconciler: Reconciler, looked: Iterable[Seen]) -> list[Seen]:
    """The same workers, with what is being done about them: one that is just being started isn't missing."""
    changing, told = reconciler.changing_code(), []
    for seen in looked:
        actor = reconciler.actor(seen.worker.id)
        moving = _moving(parts, actor, seen, changing) if actor is not None else None
        told.append(seen if moving is None else seen.under_way(moving))
    return told


def _moving(parts: Parts, actor: WorkerActor, seen: Seen, changing: Iterable[Worker]) -> WorkerState | None:
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


def _will_be_started(seen: Seen) -> bool:
    """What the first plan will do: a daemon that comes up takes over who runs, and leaves at rest who rests."""
    rests = not seen.worker.enabled or seen.worker.quarantined or seen.quarantine is not None or seen.pause is not None
    return seen.observation.state is WorkerState.STOPPED and not rests


def _waiting(actor: WorkerActor) -> dict[str, Any]:
    """Why one that ended by itself does not run at the moment."""
    decision = actor.decision
    if decision is None or actor.standing.quarantined:
        return {}
    if decision.what is Next.WAIT:
        due = to_text(decision.due_at) if decision.due_at else None
        return {"state": str(WorkerState.BACKING_OFF), "fine": False, "reason": decision.words, "due_at": due}
    well = decision.reason is Reason.ENDED_WELL
    return {"fine": well, "reason": decision.words, **({"health": str(Health.UNKNOWN)} if well else {})}
