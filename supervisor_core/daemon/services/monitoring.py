"""Records pause flags that were changed by hand on the drive: an audit row, and a notice.

Runs `monitoring pause` and `monitoring resume`, with an audit row.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Connection

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

DOOR = "drive"


def record_pause_flag_change(
    config: Callable[[], SupervisorConfig], ledger: Callable[[], Ledger], change: PauseFlagChange
) -> None:
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


def _refusal(change: PauseFlagChange) -> str:
    if change.flag is None:
        return "its pause flag was deleted without a command. It was restored, and the worker stays paused"
    if change.restored is None:
        return "a pause flag appeared without a command. It was removed, and the worker isn't paused"
    return "its pause flag was altered without a command. It was restored"


PAUSE, RESUME = "monitoring pause", "monitoring resume"

SetMonitoring = Callable[[bool, Issuer], Awaitable[str]]
"""Pause (True) or resume monitoring for a person; return the result in words."""


class MonitoringSwitch:
    """Pauses and resumes monitoring, for the control socket and the chat."""

    def __init__(self, agent: SupervisorAgent, plan_again: Callable[[], None]) -> None:
        self._agent = agent
        self._plan_again = plan_again

    async def __call__(self, rest: bool, issuer: Issuer) -> str:
        """Pause or resume monitoring and describe the result; `IllegalSupervisorMove` where the agent can't."""
        who = issuer.name or issuer.id
        already = self._agent.status is (SupervisorStatus.PAUSED if rest else SupervisorStatus.ACTIVE)
        if already:
            return f"Monitoring is already {'paused' if rest else 'active'}."
        entry = AuditEntry(
            actor=issuer.id,
            action=CATALOG[PAUSE if rest else RESUME].audit_action,
            target_id=str(self._agent.supervisor_id),
            target_type="supervisor",
            label=audit_label(issuer.name, issuer.id, None),
            details={"command": PAUSE if rest else RESUME},
        )
        if rest:
            await self._agent.pause(f"paused by {who}", asked=entry)
            self._plan_again()  # what waits of an older plan is not begun any more
            return (
                "Monitoring is paused, also across restarts: no worker is started, stopped or restarted automatically. "
                "Workers keep running, and commands still work."
            )
        await self._agent.resume(asked=entry)
        self._plan_again()
        return "Monitoring is active again. Changes since the pause are handled now."

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """At the control door: `{"do": "monitoring", "rest": true, "user": "anna"}`."""
        user = str(request.get("user") or "?")
        issuer = Issuer(f"cli:{user}", user)
        return {"ok": True, "message": await self(request.get("rest") is True, issuer)}
