"""The alerts about messages that hosts refused, and about reports of hosts that the hub refused.

They follow the audit trails, so no crash loses one.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import Connection, select

from supervisor_core.alerts import flips
from supervisor_core.fleet.rows import HUB_ID, REFUSED, refused_because
from supervisor_core.storage.tables import audit_log
from supervisor_core.workers.conditions.rules import LINK, Condition, Reading, Target, TargetReading

RECENT = timedelta(hours=1)
"""So long a host has an alert after its last refusal."""

MOST_ROWS = 1000


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
