"""Rows on their way in and out: Slack deliveries, messages, and a hub's copies."""

from __future__ import annotations

from sqlalchemy import Index, Integer, String, UniqueConstraint

from supervisor_core.storage.engine import LongText, RowId, UtcDateTime
from supervisor_core.storage.tables.definition import STATE, SUPERVISOR_ID, key, optional, required, table

outbox = table(
    "outbox_t",
    "Messages and files that are stored before they are sent. Unique by kind and subject.",
    key("outbox_id", RowId, "The row's number.", counted=True),
    required(
        "kind",
        String(32),
        "`result_file`, `webhook` (for a receiver of alerts), `deadman`, or a kind of [message in "
        "Slack](../explanation/slack.md#outgoing).",
    ),
    required("subject", String(255), "What it is about, such as a command id."),
    required("state", String(STATE), "`dropped` can't or needn't be sent any more; `last_error` says why."),
    required("version", Integer, "Rises with each change of the content."),
    required("payload_json", LongText, "The content, or what it is made from."),
    optional("address_json", LongText, "The place of the sent message, for edits."),
    required("attempts", Integer, "The number of failed attempts."),
    required("created_at", UtcDateTime, "When the row was written."),
    required("due_at", UtcDateTime, "When the next attempt is due."),
    optional("sent_at", UtcDateTime, "When it was sent last."),
    optional("last_error", LongText, "Why the last attempt failed, or why the row was dropped."),
    UniqueConstraint("kind", "subject"),
    Index(None, "state", "due_at", "outbox_id"),
)

envelopes = table(
    "envelopes_t",
    "Deliveries from Slack, stored before they are acknowledged.",
    key("key", String(255), "Slack's own id of the request. A repeated delivery has the same key."),
    required("kind", String(32), "The type of the delivery, such as `slash_commands`."),
    required("payload_json", LongText, "The delivery as Slack sent it."),
    required("state", String(STATE), "The progress of the request."),
    required("received_at", UtcDateTime, "When it arrived."),
    optional("handled_at", UtcDateTime, "When it was handled."),
    optional("error", LongText, "Why it failed."),
    Index(None, "state", "received_at"),
)

forwarding = table(
    "forwarding_t",
    "The id of this ledger; on a hub also how much of each host's ledger it has.",
    key("ledger_id", String(32), "The id of the ledger."),
    key("supervisor_id", String(SUPERVISOR_ID), "The supervisor whose rows these are."),
    required("jobs_changed", RowId, "Every change of `jobs_t` up to this number is copied."),
)
