"""The desk of a daemon, put together from what the daemon has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from supervisor_core.desk.approvals import Approvals
from supervisor_core.desk.baking import BakingChore, Look
from supervisor_core.desk.observing import observer
from supervisor_core.desk.rights import Rights
from supervisor_core.desk.scheduler import ApprovalsChore, Chore, Scheduler
from supervisor_core.runtime.blocking import Blocking
from supervisor_core.runtime.parts import Parts


def approvals_of(parts: Parts, rights: Rights | None = None) -> Approvals:
    """The approvals of this host, by the configuration that is in force at the time. Without `rights` of a chat, what
    the host knows by itself."""
    observe = observer(lambda: replace(parts.host, ledger=parts.ledger))
    return Approvals(parts.ledger, lambda: parts.host.config, observe, rights)


def scheduler_of(
    parts: Parts,
    approvals: Approvals,
    blocking: Blocking,
    filed: Callable[[], None] = lambda: None,
    look: Look | None = None,
) -> Scheduler:
    """The service that looks after what comes due; `filed` is called on the event loop when commands were filed.

    With `look`, which says how workers are right now, it also watches them after a change of their code.
    """
    chores: list[Chore] = [ApprovalsChore(approvals)]
    if look is not None:
        chores.append(BakingChore(parts.ledger, lambda: parts.host.config, look))
    return Scheduler(parts.ledger, blocking, chores, filed)
