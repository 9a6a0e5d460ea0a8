"""The audit trail."""

from __future__ import annotations

from sqlalchemy import Index, String

from supervisor_core.storage.engine import LongText, RowId, StoredMoment
from supervisor_core.storage.tables.definition import (
    AUDIT_LABEL,
    COMMAND_ID,
    PERSON_ID,
    STATE,
    SUPERVISOR_ID,
    key,
    optional,
    required,
    table,
)

audit_log = table(
    "audit_log_t",
    "The audit trail: append-only, one hash chain for each host.",
    key("supervisor_id", String(SUPERVISOR_ID), "The host whose chain this is."),
    key("audit_id", RowId, "The row's number in that chain, from 1."),
    required("outcome", String(STATE), "`success`, `failure` or `interrupted`."),
    required("actor", String(PERSON_ID), "`slack:T…/U…`, `cli:name`, `file:owner`, `schedule:name` or `supervisor`."),
    required("action", String(64), "The action; see [events](events.md#audit-actions)."),
    required(
        "target_type",
        String(64),
        "The kind of target: `worker`, `workers`, `alert`, `schedule`, `configuration` or `supervisor`.",
    ),
    required("target_id", String(64), "The id of the target; for several workers, the target as it was typed."),
    optional("label", String(AUDIT_LABEL), "The requester's name and the label: `anna - hotfix`."),
    required("created_at", StoredMoment, "The time of the row."),
    required("details_json", LongText, "Parameters, source, error, duration and result."),
    optional("task_id", String(COMMAND_ID), "The command id; the same in all rows of one command."),
    required("previous_hash", String(64), "The hash of the row before; 64 zeros in the first row."),
    required("hash", String(64), "The [hash](../explanation/data.md#the-audit-chain) of this row."),
    optional("command", String(64), "The command that the row is about, also one that wasn't executed. Not hashed."),
    Index(None, "created_at"),
    Index(None, "target_id", "created_at"),
    Index(None, "action", "created_at"),
    Index(None, "actor", "created_at"),
    Index(None, "command", "created_at"),
    Index(None, "task_id"),
)
