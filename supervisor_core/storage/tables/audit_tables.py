"""The audit trail: its rows, the end of its archived part, and an index by worker."""

from __future__ import annotations

from sqlalchemy import Index, String

from supervisor_core.storage.engine import LongText, RowId, StoredMoment, UtcDateTime
from supervisor_core.storage.tables.definition import (
    AUDIT_LABEL,
    COMMAND_ID,
    PERSON_ID,
    STATE,
    SUPERVISOR_ID,
    WORKER_ID,
    key,
    optional,
    required,
    table,
)

audit_log = table(
    "audit_log_t",
    "The audit trail: append-only, one hash chain for each host. Triggers refuse updates and deletes.",
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
    Index(None, "created_at"),
    Index(None, "target_id", "created_at"),
    Index(None, "action", "created_at"),
    Index(None, "actor", "created_at"),
    Index(None, "task_id"),
)

audit_anchors = table(
    "audit_anchors_t",
    "The end of the archived part of each audit chain. It counts only if a later row records the archiving.",
    key("supervisor_id", String(SUPERVISOR_ID), "The host whose chain this is."),
    required("audit_id", RowId, "The number of the last archived row. The chain continues after it."),
    required("hash", String(64), "The hash of that row."),
    required("archived_at", UtcDateTime, "The time of the archiving."),
)

audit_workers = table(
    "audit_workers_t",
    "An index of the audit trail: the workers that a row affected besides its target, and the command that it tells of "
    "without its execution.",
    key("supervisor_id", String(SUPERVISOR_ID), "The host of the audit row."),
    key("audit_id", RowId, "The number of the audit row."),
    key("worker_id", String(WORKER_ID), "The affected worker, or `command:` and the name of a command."),
    required(
        "role",
        String(STATE),
        "The effect on the worker. `code`: the code of a worker that wasn't running changed. `command`: a command.",
    ),
    # Lists one worker's rows in order.
    required("created_at", UtcDateTime, "The time of the audit row."),
    Index(None, "worker_id", "created_at"),
)
