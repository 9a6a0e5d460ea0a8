"""Approvals as cards show them: in each state, with votes, with previews of every kind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.views.cards.approval import ApprovalDetails
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.intake.approvals.rules import FINAL, Approval, ApprovalState, Choice, Terms, Vote
from tests.unit.code.test_code_preview import PREVIEWS

NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
OPERATOR = Issuer("slack:T0TEAM/U0OPER", "operator")
ADA, BEN = Issuer("slack:T0TEAM/U0ADA", "ada"), Issuer("slack:T0TEAM/U0BEN", "ben")
ANNA = Issuer("cli:anna", "anna")
TASK = "task_20260205_143012_ab12cd34e"
LINK = "https://example.slack.com/archives/C0OPS/p1770301800000100"

ROLLBACK = Command("rollback", "OrionMX", ("OrionMX",), {"commits_back": 2}, "hotfix", OPERATOR, TASK)
UPDATE = Command("update", "OrionMX", ("OrionMX",), {}, None, OPERATOR, TASK)
UPDATE_DEPS = Command("update-deps", "OrionMX", ("OrionMX",), {}, "new parser", OPERATOR, TASK)
UNDO = Command("undo", "OrionMX", ("OrionMX",), {"task_id": "task_20260205_120000_0123456"}, None, OPERATOR, TASK)
RESTART = Command("restart", "all", ("North", "South", "West", "East"), {}, "memory leak", OPERATOR, TASK)

RESTARTS = (
    {
        "command": "restart",
        "checkout": None,
        "ok": True,
        "refused": None,
        "workers": [
            {"id": "North", "pid": 4711, "running": True, "paused": False, "rests": None, "busy": None},
            {"id": "South", "pid": None, "running": False, "paused": True, "rests": "paused by bob", "busy": None},
            {"id": "West", "pid": 4713, "running": True, "paused": False, "rests": None, "busy": "busy: update (t7)"},
            {"id": "East", "pid": None, "running": False, "paused": False, "rests": None, "busy": None},
        ],
    },
)


def seen(*names: str) -> tuple[Mapping[str, Any], ...]:
    """Previews as approvals keep them: documents."""
    return tuple(PREVIEWS[name].as_json() for name in names)


def approval(
    state: ApprovalState = ApprovalState.PENDING,
    command: Command = ROLLBACK,
    previews: Sequence[Mapping[str, Any]] = (),
    needed: int = 1,
    reason: str = "",
) -> Approval:
    """One that was asked for at 14:30:15."""
    return Approval(
        approval_id="k7m2p9qx",
        supervisor_id="Host",
        command=command,
        door="slack",
        card=None,
        previews=tuple(previews or seen("rollback")),
        fingerprint="f" * 64,
        terms=Terms(OPERATOR.id, needed),
        state=state,
        requested_at=NOW,
        expires_at=NOW + timedelta(minutes=15),
        finished_at=NOW + timedelta(minutes=4) if state in FINAL else None,
        reason=reason,
    )


def yes(who: Issuer = ADA, minutes: int = 1) -> Vote:
    """A vote for it."""
    return Vote(who, Choice.APPROVE, NOW + timedelta(minutes=minutes))


def no(who: Issuer = BEN, reason: str = "") -> Vote:
    """A vote against it."""
    return Vote(who, Choice.DENY, NOW + timedelta(minutes=2), reason)


def asking(found: Approval, *votes: Vote, elsewhere: str = "", link: str = "") -> ApprovalDetails:
    """It, with what people said."""
    return ApprovalDetails(found, votes, elsewhere, link)
