"""The tables, defined once for SQLite and PostgreSQL, by subject."""

from supervisor_core.storage.tables.alert_tables import alerts, conditions, flips, foreign_alerts, suppressions
from supervisor_core.storage.tables.audit_tables import audit_log
from supervisor_core.storage.tables.command_tables import approvals, bakes, jobs, rolling_changes, schedules, votes
from supervisor_core.storage.tables.definition import (
    REASON,
    STATUS_SUMMARY,
    TEAM_NAME,
    WORKER_ID,
    metadata,
)
from supervisor_core.storage.tables.host_tables import (
    fleet_hosts,
    fleet_invites,
    supervisors,
    team_members,
    teams,
    workers,
)
from supervisor_core.storage.tables.message_tables import envelopes, forwarding, outbox

__all__ = [
    "REASON",
    "STATUS_SUMMARY",
    "TEAM_NAME",
    "WORKER_ID",
    "alerts",
    "approvals",
    "audit_log",
    "bakes",
    "conditions",
    "envelopes",
    "fleet_hosts",
    "fleet_invites",
    "flips",
    "foreign_alerts",
    "forwarding",
    "jobs",
    "metadata",
    "outbox",
    "rolling_changes",
    "schedules",
    "supervisors",
    "suppressions",
    "team_members",
    "teams",
    "votes",
    "workers",
]
