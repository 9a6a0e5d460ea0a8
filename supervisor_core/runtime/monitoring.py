"""`monitoring pause` and `resume`: somebody has the supervisor rest, or work again, and the audit trail knows who."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from supervisor_core.domain.agent import SupervisorStatus
from supervisor_core.domain.audit import AuditEntry
from supervisor_core.domain.catalog import CATALOG
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.labels import audit_label
from supervisor_core.runtime.agent import SupervisorAgent

PAUSE, RESUME = "monitoring pause", "monitoring resume"

Monitoring = Callable[[bool, Issuer], Awaitable[str]]
"""Rest (True) or work again, asked for by somebody; what came of it, in words."""


class MonitoringDoor:
    """Rest and work again, for whoever may ask: the control door, and the chat."""

    def __init__(self, agent: SupervisorAgent, plan_again: Callable[[], None]) -> None:
        self._agent = agent
        self._plan_again = plan_again

    async def __call__(self, rest: bool, issuer: Issuer) -> str:
        """Do it; the words say what came of it. `IllegalMove` where it can't be done from where the agent stands."""
        who = issuer.name or issuer.id
        already = self._agent.status is (SupervisorStatus.PAUSED if rest else SupervisorStatus.ACTIVE)
        if already:
            return f"Monitoring is {'paused' if rest else 'at work'} already; nothing was changed."
        entry = AuditEntry(
            actor=issuer.id,
            action=CATALOG[PAUSE if rest else RESUME].audit_action,
            target_id=self._agent.supervisor_id,
            target_type="supervisor",
            label=audit_label(issuer.name, issuer.id, None),
            details={"command": PAUSE if rest else RESUME},
        )
        if rest:
            await self._agent.pause(f"paused by {who}", asked=entry)
            self._plan_again()  # what waits of an older plan is not begun any more
            return (
                "Monitoring is paused, also across restarts: no worker is started, stopped or restarted by itself. "
                "Workers and commands go on."
            )
        await self._agent.resume(asked=entry)
        self._plan_again()
        return "Monitoring is at work again; what changed meanwhile is being dealt with now."

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """At the control door: `{"do": "monitoring", "rest": true, "issuer": {"id", "name"}}`."""
        said = request.get("issuer")
        issuer = Issuer(str(said["id"]), str(said.get("name") or "")) if isinstance(said, dict) else Issuer("cli:?", "")
        return {"ok": True, "message": await self(request.get("rest") is True, issuer)}
