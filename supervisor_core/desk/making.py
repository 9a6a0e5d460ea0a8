"""The desk of a daemon, put together from what the daemon has."""

from __future__ import annotations

from dataclasses import replace

from supervisor_core.desk.approvals import Approvals
from supervisor_core.desk.baking import BakingChore
from supervisor_core.desk.observing import observer
from supervisor_core.desk.rights import Rights
from supervisor_core.desk.scheduler import ApprovalsChore, Scheduler
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.scheduling import SchedulerDoors


def approvals_of(parts: Parts, rights: Rights | None = None) -> Approvals:
    """The approvals of this host, by the configuration that is in force at the time. Without `rights` of a chat, what
    the host knows by itself."""
    observe = observer(lambda: replace(parts.host, ledger=parts.ledger))
    return Approvals(parts.ledger, lambda: parts.host.config, observe, rights)


def scheduler_of(parts: Parts, approvals: Approvals, doors: SchedulerDoors) -> Scheduler:
    """The service that looks after what comes due: approvals, and workers whose code was changed."""
    baking = BakingChore(parts.ledger, lambda: parts.host.config, doors.look)
    return Scheduler(parts.ledger, doors.blocking, (ApprovalsChore(approvals), baking), doors.filed)
