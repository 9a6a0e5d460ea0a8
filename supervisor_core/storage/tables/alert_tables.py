"""Alerting: the condition of each target, its changes, alerts, and what keeps alerts quiet."""

from __future__ import annotations

from sqlalchemy import Index, Integer, String

from supervisor_core.storage.engine import LongText, RowId, UtcDateTime
from supervisor_core.storage.tables.definition import (
    COMMAND_ID,
    CONDITION,
    PERSON_ID,
    PERSON_NAME,
    STATE,
    SUPERVISOR_ID,
    TARGET_ID,
    TARGET_TYPE,
    key,
    optional,
    required,
    supervisor_id,
    table,
)

conditions = table(
    "conditions_t",
    "The present condition of each worker and of each part of the host.",
    key("supervisor_id", String(SUPERVISOR_ID), "The supervisor (host) that the row belongs to."),
    key("target_type", String(TARGET_TYPE), "`worker`, or a part of the host such as `drive`."),
    key("target_id", String(TARGET_ID), "The worker id; for a part of the host, the supervisor's id."),
    required("condition", String(CONDITION), "The condition, such as `stale`."),
    required("reason", LongText, "Why, in words."),
    required("since", UtcDateTime, "Since when."),
    # A writer that knows another one has lost the race.
    required("flip_id", RowId, "The condition change that led here."),
)

foreign_alerts = table(
    "foreign_alerts_t",
    "Alerts that Alertmanager sent, with what it said last.",
    key("supervisor_id", String(SUPERVISOR_ID), "The supervisor that received it."),
    key("fingerprint", String(TARGET_ID), "Alertmanager's fingerprint of its labels."),
    required("name", String(128), "Its name, the label `alertname`."),
    required("summary", LongText, "The annotation `summary` or `description`, as one line."),
    required("severity", String(16), "The severity, by the label `severity`."),
    optional("worker_id", String(TARGET_ID), "The worker that it names, if there was such a worker."),
    required("firing", Integer, "1 while it's firing."),
    required("begun_at", UtcDateTime, "Since when."),
    required("heard_at", UtcDateTime, "When it was sent last."),
    optional("ended_at", UtcDateTime, "When it ended."),
)

flips = table(
    "flips_t",
    "Every condition change, written in the transaction that changes `conditions_t`.",
    key("supervisor_id", String(SUPERVISOR_ID), "The supervisor (host) that the row belongs to."),
    key("flip_id", RowId, "The number of the change, from 1."),
    required("target_type", String(TARGET_TYPE), "As in `conditions_t`."),
    required("target_id", String(TARGET_ID), "As in `conditions_t`."),
    required("old", String(CONDITION), "The condition before; `unknown` before the first look."),
    required("new", String(CONDITION), "The condition after."),
    required("reason", LongText, "Why, in words; at most 500 characters."),
    required("at", UtcDateTime, "When it happened, such as the end of the process."),
    required("seen_at", UtcDateTime, "When the supervisor noticed."),
    Index(None, "target_type", "target_id", "flip_id"),
    Index(None, "at"),
)

alerts = table(
    "alerts_t",
    "Alerts. Each target has at most one that isn't closed.",
    key("alert_id", String(32), "Eight letters."),
    supervisor_id(),
    required(
        "target_type",
        String(TARGET_TYPE),
        "`worker`, `drive`, `disk`, `database`, `clock`, `command`, `supervisor`, `link`, `alertmanager`, or `storm` "
        "for a digest.",
    ),
    required("target_id", String(TARGET_ID), "The id of the target; a digest is its own target."),
    required("condition", String(CONDITION), "The condition of the target; the last one if it has recovered."),
    required("severity", String(16), "The severity."),
    required("state", String(STATE), "`pending` may still recover before anybody is notified."),
    required("reason", LongText, "Why, in words."),
    required("opened_at", UtcDateTime, "Since when the problem lasts."),
    required("opened_flip", RowId, "The condition change that opened it."),
    required("occurrences", Integer, "How often the problem returned within this alert."),
    optional("held_until", UtcDateTime, "Nobody is notified before this time."),
    optional("held_why", String(32), "`grace` (just started) or `waiting_for_restart`."),
    optional("cleared_at", UtcDateTime, "Since when the problem is gone; the alert closes soon after."),
    optional("closed_at", UtcDateTime, "When the alert was closed."),
    optional("closed_flip", RowId, "The condition change that closed it."),
    optional("acknowledged_by", String(PERSON_ID), "The id of the person who acknowledged it."),
    optional("acknowledged_name", String(PERSON_NAME), "The name of that person."),
    optional("acknowledged_at", UtcDateTime, "When it was acknowledged."),
    optional("told", String(CONDITION), "The condition that people were last notified of."),
    required("told_occurrence", Integer, "The occurrence that they were last notified of."),
    optional("told_at", UtcDateTime, "When they were last notified."),
    required("reminders", Integer, "The number of reminders since then."),
    required("decided", String(32), "The last decision, as a [reason](../explanation/alerts.md#reasons)."),
    optional("due_at", UtcDateTime, "When the next decision is due without a new observation."),
    optional("evidence_json", LongText, "The last lines of the worker's log at the beginning, without secrets."),
    optional("parent_id", String(32), "The alert that includes this one, such as a digest."),
    optional("quieted", String(32), "The suppression since the last notification."),
    optional("calling_since", UtcDateTime, "When people were first notified; escalation counts from here."),
    required("escalated", Integer, "The number of escalation steps taken."),
    Index(None, "state", "due_at"),
    Index(None, "target_type", "target_id", "state"),
    Index(None, "opened_at"),
    Index(None, "parent_id"),
)

suppressions = table(
    "suppressions_t",
    "Mutes, snoozes, maintenance and quiet hours.",
    # The same request made twice is one row.
    key("task_id", String(COMMAND_ID), "The command id, or the window of the configuration."),
    key("target_type", String(TARGET_TYPE), "The target that is kept quiet: a worker, the host, or one alert."),
    key("target_id", String(TARGET_ID), "Its id."),
    supervisor_id(),
    required("kind", String(STATE), "The kind of suppression."),
    required("since", UtcDateTime, "When it begins."),
    required("until", UtcDateTime, "When it ends."),
    optional("ended_at", UtcDateTime, "The time at which somebody ended it early, or its window ended."),
    required("by_id", String(PERSON_ID), "The id of the person."),
    required("by_name", String(PERSON_NAME), "The name of the person."),
    required("reason", LongText, "The reason that the person gave."),
    Index(None, "until"),
    Index(None, "target_type", "target_id", "until"),
)
