"""Hosts: heartbeats of workers, supervisors, teams, and in the hub's ledger the fleet."""

from __future__ import annotations

from sqlalchemy import Boolean, Double, Index, Integer, String, UniqueConstraint

from supervisor_core.storage.engine import LongText, UtcDateTime
from supervisor_core.storage.tables.definition import (
    PERSON_ID,
    REASON,
    STATE,
    STATUS_SUMMARY,
    SUPERVISOR_ID,
    TEAM_NAME,
    WORKER_ID,
    WORKER_ROW,
    key,
    optional,
    required,
    supervisor_id,
    table,
)

PUBLIC_KEY = 64
HOSTNAME = 255
INVITE_ID = 32

workers = table(
    "workers_t",
    "The newest heartbeat of each worker, and of the supervisor about each worker.",
    key("worker_id", String(WORKER_ROW), "The worker; `supervisor_ID` in the supervisor's row about worker ID."),
    optional("last_heartbeat_at", UtcDateTime, "The time of the heartbeat."),
    optional("pid", Integer, "The process id."),
    optional("hostname", String(255), "The host."),
    optional("status", String(64), "The worker's own status; `ok` or `error` in the supervisor's row."),
    optional("poll_seconds", Double, "How often the worker says that it looks for work."),
    optional("status_summary", String(STATUS_SUMMARY), "The supervisor's view of the worker, in words."),
    Index(None, "last_heartbeat_at"),
)

supervisors = table(
    "supervisors_t",
    "Each supervisor and its status. One that misses three heartbeats is shown as unresponsive.",
    key("supervisor_id", String(SUPERVISOR_ID), "`supervisor.id` of the configuration."),
    required("life", String(32), "The id of this run of the daemon. Writes of an older run are refused."),
    required("status", String(STATE), "The status. A killed supervisor leaves `ACTIVE` or `PAUSED` behind."),
    required("paused", Boolean, "True while monitoring is paused. It stays paused over a restart."),
    required("heartbeat_seconds", Double, "How often it records a heartbeat; 0 for never."),
    required("hostname", String(255), "The host."),
    required("pid", Integer, "The process id of the daemon."),
    required("version", String(64), "The version of the supervisor."),
    required("started_at", UtcDateTime, "When this run began."),
    required("changed_at", UtcDateTime, "When the status last changed."),
    optional("last_heartbeat_at", UtcDateTime, "The newest heartbeat of this run."),
    optional("reason", String(REASON), "Why it is paused or has failed."),
)

teams = table(
    "teams_t",
    "The teams of each supervisor.",
    key("team_id", String(36), "A random id."),
    supervisor_id(),
    required("name", String(TEAM_NAME), "The name, unique for each supervisor."),
    optional("description", LongText, "A description, for teams that a program created."),
    optional("objective", LongText, "Purpose of the team."),
    required("config_json", LongText, "Further properties of the team."),
    required("configured", Boolean, "True if the team comes from the configuration."),
    required("created_at", UtcDateTime, "When the row was created."),
    required("updated_at", UtcDateTime, "When the row last changed."),
    optional("ended_at", UtcDateTime, "When the team was removed. A team that returns keeps its history."),
    UniqueConstraint("supervisor_id", "name"),
)

team_members = table(
    "team_members_t",
    "The members of teams, past ones included. A worker that returns gets a new row.",
    key("member_id", String(36), "A random id."),
    required("team_id", String(36), "The team."),
    supervisor_id(),
    required("agent_id", String(WORKER_ID), "The worker."),
    # NULL once the worker has left: a unique column allows any number of NULLs, so a worker is in one team at a time.
    optional("active_agent_id", String(WORKER_ID), "The worker, while it is a member. Unique for each supervisor."),
    required("role", String(STATE), "The role in the team."),
    required("joined_at", UtcDateTime, "When the worker joined."),
    optional("left_at", UtcDateTime, "When the worker left."),
    UniqueConstraint("supervisor_id", "active_agent_id"),
    Index(None, "team_id"),
)

fleet_hosts = table(
    "fleet_hosts_t",
    "The hosts of the fleet, in the hub's ledger.",
    key("host_id", String(SUPERVISOR_ID), "`supervisor.id` of the host."),
    required("public_key", String(PUBLIC_KEY), "The public key of the host."),
    required("state", String(STATE), "The state. A revoked host can't connect."),
    required("joined_at", UtcDateTime, "When the host joined with this key."),
    optional("revoked_at", UtcDateTime, "When the host was revoked."),
    optional("last_seen_at", UtcDateTime, "When the host last said that it is there."),
    required("version", String(STATE * 4), "The version of its supervisor."),
    required("workers_json", LongText, "The workers that the host announced."),
)

fleet_invites = table(
    "fleet_invites_t",
    "The invites to join the fleet, in the hub's ledger. Each is for one host and works once.",
    key("invite_id", String(INVITE_ID), "A random id."),
    required("host_id", String(SUPERVISOR_ID), "The host that may join."),
    required("public_key", String(PUBLIC_KEY), "The public key of the token."),
    required("created_by", String(PERSON_ID), "The person who invited the host."),
    required("created_at", UtcDateTime, "When the host was invited."),
    required("expires_at", UtcDateTime, "When the token stops working."),
    optional("used_at", UtcDateTime, "When the host joined."),
    Index(None, "expires_at"),
)
"""Without the secret key, which only the token has."""
