"""Pauses of monitoring, and pause flags that were changed by hand on the drive: audit rows and notices."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from supervisor_core.alerts.messages import pause_flag_restored
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.labels import audit_label
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.services.agent import SupervisorAgent
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.supervisors import SupervisorStatus
from supervisor_core.workers.pauses import PauseFlagChange

UNKNOWN = "file:unknown"
"""The actor of such a change: anybody who can write to the drive. A file doesn't tell who removed it."""

PAUSE, RESUME = "monitoring pause", "monitoring resume"


def record_pause_flag_change(config: SupervisorConfig, ledger: Ledger, change: PauseFlagChange) -> None:
    """Write it down; comes back once that is on disk."""
    now, error = datetime.now(UTC), None
    action = "PAUSE" if change.flag is not None else "RESUME"
    if change.refused:
        action, error = "REFUSED", "its pause flag was altered without a command. It was restored"
        if change.flag is None:
            error = "its pause flag was deleted without a command. It was restored, and the worker stays paused"
        elif change.restored is None:
            error = "a pause flag appeared without a command. It was removed, and the worker isn't paused"
    entry = AuditEntry(
        actor=UNKNOWN,
        action=action,
        target_id=change.worker_id,
        outcome="failure" if error else "success",
        label=audit_label("unknown", UNKNOWN, None),
        task_id=None,
        details={
            "door": "drive",
            "flag": change.path.name,
            "found": change.flag.facts() if change.flag is not None else None,
            "error": error,
        },
    )
    channel = config.slack.alert_channel or config.slack.fallback_channel
    messages = []
    if error is not None and config.slack.enabled and channel:
        messages.append(pause_flag_restored({"channel": channel}, change.worker_id, error, now))
    ledger.write(lambda connection: record(connection, ledger.supervisor_id, entry, messages, now))


async def set_monitoring(
    agent: SupervisorAgent, plan_again: Callable[[], None], issuer: Issuer, *, paused: bool
) -> str:
    """Pause or resume monitoring and describe the result; `IllegalSupervisorMove` where the agent can't."""
    if agent.status is (SupervisorStatus.PAUSED if paused else SupervisorStatus.ACTIVE):
        return f"Monitoring is already {'paused' if paused else 'active'}."
    command = PAUSE if paused else RESUME
    entry = AuditEntry(
        actor=issuer.id,
        action=CATALOG[command].audit_action,
        target_id=str(agent.supervisor_id),
        target_type="supervisor",
        label=audit_label(issuer.name, issuer.id, None),
        details={"command": command},
    )
    if not paused:
        await agent.resume(audit=entry)
        plan_again()
        return "Monitoring is active again. Changes since the pause are handled now."
    await agent.pause(f"paused by {issuer.name or issuer.id}", audit=entry)
    plan_again()  # what waits of an older plan isn't begun any more
    return (
        "Monitoring is paused, also across restarts: no worker is started, stopped or restarted automatically. "
        "Workers keep running, and commands still work."
    )
