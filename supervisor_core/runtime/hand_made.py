"""The record of pause flags that were changed on the drive by hand: an audit row, and a notice of what was refused."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection

from supervisor_core.adapters.pauses import HandMade
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.labels import audit_label
from supervisor_core.ledger.steps import record
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.tidings import pause_flag_restored

UNKNOWN = "file:unknown"
"""The actor: whoever can write to the drive. A file says nothing of who removed it."""

DOOR = "drive"


def note_hand_made(config: Callable[[], SupervisorConfig], ledger: Callable[[], Ledger], change: HandMade) -> None:
    """Write it down; comes back once that is on disk."""
    now, settings, kept = datetime.now(UTC), config(), ledger()
    if change.refused:
        action, outcome, error = "REFUSED", "failure", _refusal(change)
    else:
        action, outcome, error = ("PAUSE" if change.flag is not None else "RESUME"), "success", None
    entry = AuditEntry(
        actor=UNKNOWN,
        action=action,
        target_id=change.worker_id,
        outcome=outcome,
        label=audit_label("unknown", UNKNOWN, None),
        task_id=None,
        details={
            "door": DOOR,
            "flag": change.path.name,
            "found": change.flag.facts() if change.flag is not None else None,
            "error": error,
        },
    )
    channel = settings.slack.alert_channel or settings.slack.fallback_channel
    messages = []
    if error is not None and settings.slack.enabled and channel:
        messages.append(pause_flag_restored({"channel": channel}, change.worker_id, error, now))

    def work(connection: Connection) -> None:
        record(connection, kept.supervisor_id, entry, messages, now)

    kept.write(work)


def _refusal(change: HandMade) -> str:
    if change.flag is None:
        return "its pause flag was deleted without a command. It was restored, and the worker stays paused"
    if change.restored is None:
        return "a pause flag appeared without a command. It was removed, and the worker isn't paused"
    return "its pause flag was altered without a command. It was restored"
