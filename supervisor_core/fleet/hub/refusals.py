"""The alerts about messages that hosts refused, and about reports of hosts that the hub refused. They follow the audit
trails, so no crash loses one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from supervisor_core.alerts import flips
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking
from supervisor_core.fleet.rows import HUB_ID, REFUSED, refused_because
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import audit_log
from supervisor_core.workers.conditions.rules import LINK, Condition, Reading, Target, TargetReading

LOOK = timedelta(minutes=1)
"""The interval of looks when no refusal was copied: an alert ends some time after the last one."""

RECENT = timedelta(hours=1)
"""So long a host has an alert after its last refusal."""

MOST_ROWS = 1000

log = logging.getLogger(__name__)


class RefusalWatch:
    """Looks after a refusal was copied, at the start, and now and then."""

    def __init__(self, ledger: Ledger, blocking: Blocking, observe: Callable[[Iterable[TargetReading]], None]) -> None:
        self._ledger = ledger
        self._blocking = blocking
        self._observe = observe
        self._due = True
        """True if refusals were copied since the last look, or may have been before the start."""
        self._looked_at: datetime | None = None

    def wake(self) -> None:
        """Look at the next opportunity: rows of a host were copied, or refused."""
        self._due = True

    async def look(self, now: datetime, hosts: Collection[str]) -> None:
        """Have the alerts of these hosts' links follow the trails, if there's something new."""
        if not self._due and self._looked_at is not None and now - self._looked_at < LOOK:
            return
        hub_id = self._ledger.supervisor_id
        try:
            found = await self._blocking(self._ledger.read, lambda look: refusal_readings(look, hub_id, now))
        except SupervisorError as error:
            log.warning("the refused messages can't be read: %s", error)
            return
        self._due, self._looked_at = False, now
        self._observe([each for each in found if each.target.id in hosts])


def refusal_readings(connection: Connection, hub_id: str, now: datetime) -> list[TargetReading]:
    """The links of the hosts that have refused messages lately, and of those for which that's over."""
    columns = ("supervisor_id", "target_id", "created_at", "details_json")
    query = select(*(audit_log.c[name] for name in columns))
    lately = (audit_log.c.actor == HUB_ID, audit_log.c.action == REFUSED, audit_log.c.created_at > now - RECENT)
    found: dict[Target, Reading] = {}
    rows = connection.execute(query.where(*lately).order_by(audit_log.c.created_at.desc()).limit(MOST_ROWS))
    for chain, about, at, details in rows:
        by_hub = chain == hub_id
        target = Target(LINK, str(about if by_hub else chain))
        newest = found.get(target)
        check = "Check that host" if by_hub else "Check who can publish to the NATS server"
        words = newest.reason if newest else f"{refused_because(details)}. {check}"
        found[target] = Reading(Condition.REFUSED, words, min(at, now))
    for target, known in flips.current_host_conditions(connection, hub_id).items():
        if target.kind == LINK and known.condition is Condition.REFUSED and target not in found:
            found[target] = Reading(Condition.WELL, "no message was refused for an hour", now)
    return [TargetReading(target, reading) for target, reading in found.items()]
