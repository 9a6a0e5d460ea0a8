"""Rejected flags: an audit row, a result and a reason for each of the first, one row and a report for the rest."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any

from sqlalchemy import Connection

from supervisor_core.commands.command import Issuer
from supervisor_core.commands.flags import FlagClaims
from supervisor_core.commands.labels import audit_label
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import storable
from supervisor_core.common.times import to_text
from supervisor_core.host.inbox import REJECTED, ClaimedFlag
from supervisor_core.intake.inbox import triage as sightings
from supervisor_core.intake.inbox.rules import DOOR
from supervisor_core.jobs import queries as command_ids
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import is_reserved, new_task_id
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import Message, record
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

EACH = 20
"""Rejections of one sweep with an audit row each."""

EXAMPLES = 5
UNKNOWN = Issuer("file:unknown", "unknown")
TARGET = 64

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Rejection:
    """A claimed flag with the reason for its rejection."""

    flag: ClaimedFlag
    reason: str
    claims: FlagClaims
    owner: Issuer

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", storable(self.reason))


class FlagRejections:
    """Records the rejected flags of a sweep and moves them aside."""

    def __init__(self, host: HostContext, ledger: Ledger, now: Callable[[], datetime]) -> None:
        self._host = host
        self._ledger = ledger
        self._now = now
        self._told = 0

    def begin(self) -> None:
        """Start a sweep: its first rejections have an audit row each."""
        self._told = 0

    def reject(self, rejections: Sequence[Rejection]) -> None:
        """Record rejections, then move the files to `rejected`."""
        if not rejections:
            return
        own = max(EACH - self._told, 0)
        self._told += min(own, len(rejections))
        self._first(rejections[:own])
        if rejections[own:]:
            self._rest(rejections[own:])
        self._host.drive.call(self._host.inbox.bound_rejected)

    def _first(self, rejections: Sequence[Rejection]) -> None:
        """Record each of these with an audit row, a result and a reason."""
        now = self._now()
        written = [self._ledger.submit(partial(self._refuse, rejection=each, now=now)) for each in rejections]
        for rejection, future in zip(rejections, written, strict=True):
            future.result()
            name, reason = rejection.flag.name, rejection.reason
            about = LogEvent.FLAG_REJECTED.extra(worker_id=rejection.claims.worker_id, flag=name, reason=reason)
            log.warning("flag %s rejected: %s", name, reason, extra=about)
            self._host.drive.call(self._host.inbox.reject, rejection.flag, rejection.reason)
        names = [each.flag.path.name for each in rejections]
        self._ledger.write(lambda connection: sightings.forget_all(connection, names))

    def _refuse(self, connection: Connection, rejection: Rejection, now: datetime) -> None:
        """Record a rejection in the audit trail and as a result, once."""
        flag, claims, owner = rejection.flag, rejection.claims, rejection.owner
        sightings.forget(connection, flag.name)
        if not sightings.mark(connection, flag.path.name, sightings.REJECTED, now):
            return
        task_id = _id_of(connection, flag, claims)
        document = {
            "timestamp": to_text(now),
            "supervisor_id": self._ledger.supervisor_id,
            "worker_id": claims.worker_id,
            "task_id": task_id,
            "handler": claims.handler,
            "label": claims.label,
            "state": "rejected",
            "success": False,
            "error": rejection.reason,
            "details": {"flag": flag.name},
        }
        about = {"flag": flag.name, "handler": claims.handler, "label": claims.label}
        entry = AuditEntry(
            actor=owner.id,
            action="REFUSED",
            target_id=claims.worker_id,
            outcome="failure",
            label=audit_label(owner.name, owner.id, claims.label),
            task_id=task_id,
            details={**about, "error": rejection.reason, "door": DOOR},
        )
        message = Message(jobs.RESULT_FILE, f"{task_id}/{claims.worker_id}", {"document": document})
        record(connection, self._ledger.supervisor_id, entry, (message,), now)

    def _rest(self, rejections: Sequence[Rejection]) -> None:
        """Record all of these in one audit row. A report has their names and reasons."""
        now = self._now()
        task_id = new_task_id(datetime.now(UTC))
        name = f"report_{task_id}.json"
        flags = [{"name": each.flag.name, "reason": each.reason} for each in rejections]
        about: dict[str, Any] = {"timestamp": to_text(now), "supervisor_id": self._ledger.supervisor_id}
        self._host.drive.call(self._host.inbox.report, name, {**about, "count": len(flags), "flags": flags})
        workers = sorted({each.claims.worker_id for each in rejections})
        owners = {each.owner for each in rejections}
        owner = owners.pop() if len(owners) == 1 else UNKNOWN
        reasons = Counter(each.reason for each in rejections).most_common(EXAMPLES)
        words = f"{len(flags)} more flags were rejected in one sweep; {REJECTED}/{name} names them."
        entry = AuditEntry(
            actor=owner.id,
            action="REFUSED",
            target_type="worker" if len(workers) == 1 else "workers",
            target_id=",".join(workers)[:TARGET],
            outcome="failure",
            label=audit_label(owner.name, owner.id, None),
            task_id=task_id,
            details={
                "count": len(flags),
                "examples": [each.flag.name for each in rejections[:EXAMPLES]],
                "reasons": [{"reason": reason, "count": times} for reason, times in reasons],
                "report": f"{REJECTED}/{name}",
                "error": words,
                "door": DOOR,
            },
        )
        log.warning("%s", words, extra=LogEvent.FLAGS_REJECTED.extra(count=len(flags), report=f"{REJECTED}/{name}"))

        def work(connection: Connection) -> None:
            sightings.forget_all(connection, [each.flag.name for each in rejections])
            record(connection, self._ledger.supervisor_id, entry, (), now)

        self._ledger.write(work)
        self._host.drive.call(self._host.inbox.put_aside, [each.flag for each in rejections])


def _id_of(connection: Connection, flag: ClaimedFlag, claims: FlagClaims) -> str:
    """The command id of a rejection's result: its own, unless another command has it."""
    for task_id in filter(None, (claims.task_id, flag.token)):
        taken = is_reserved(task_id) or jobs.submitted_jobs(connection, task_id)
        if not taken and not command_ids.id_holder(connection, task_id, DOOR):
            return task_id
    return new_task_id(datetime.now(UTC))
