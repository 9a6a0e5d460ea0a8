"""`supervisor send` of a command that somebody must approve first: says so, and waits for it.

`supervisor send 'rollback 3' --preview`: what a command on code would do, with nothing of it done.
"""

from __future__ import annotations

import json
import time
from dataclasses import replace
from datetime import UTC, datetime

from supervisor_core.cli.approvals import document, in_words
from supervisor_core.code.preview import preview, preview_text
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import printable
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.workers.context import open_doors

LOOK_SECONDS = 0.2
"""How often the ledger is looked at: a vote may come from another shell, of which no daemon tells us."""

UNDECIDED = (ApprovalState.PENDING, ApprovalState.APPROVED)


def asked(approval: Approval, *, as_json: bool) -> int:
    """What is said of a command that is not waited for."""
    if as_json:
        told = {"task_id": approval.task_id, "queued": False, "workers": list(approval.command.workers)}
        print(json.dumps({**told, "approval": document(approval, ())}))
    else:
        print(_waits(approval))
    return 0


def wait(approvals: Approvals, approval: Approval, seconds: float | None, *, quiet: bool) -> tuple[str, float | None]:
    """Come back once it is on its way, or with why it never will be; and what is left of the time that was given.

    Where none was given, as long as people have to decide.
    """
    if not quiet:
        print(f"{_waits(approval)}\nWaiting …", flush=True)
    deadline = None if seconds is None else time.monotonic() + seconds
    while approval.state in UNDECIDED:
        if deadline is not None and time.monotonic() >= deadline:
            return f"No decision after {seconds:g} s. {_waits(approval)} Do not send it again.", None
        time.sleep(LOOK_SECONDS)
        approvals.expire_due()  # where no daemon runs, nobody else does
        approval, votes = approvals.find(approval.approval_id)
    if not approval.was_filed:
        return in_words(approval, votes), None
    if not quiet:
        who = " and ".join(vote.voter.name or vote.voter.id for vote in votes)
        print(printable(f"Approved by {who}."), flush=True)
    return "", None if deadline is None else max(deadline - time.monotonic(), LOOK_SECONDS)


def _waits(approval: Approval) -> str:
    needed = approval.terms.votes_needed
    return (
        f"waits for approval: {approval.again}, as {approval.task_id}.\n"
        f"What it would do: {effect(approval.previews)}.\n"
        f"{needed} {'person' if needed == 1 else 'people'} must agree until {approval.expires_at:%Y-%m-%d %H:%M} UTC: "
        f"`supervisor approvals approve {approval.approval_id}`, somebody else than you."
    )


def check_has_one(command: Command, option: str) -> None:
    """`UsageError` for a command that has no preview."""
    with_one = [definition.name for definition in CATALOG.values() if definition.tier is Tier.CODE]
    if command.name not in with_one:
        names = f"{', '.join(with_one[:-1])} and {with_one[-1]}"
        raise UsageError(f"{command.name} has no preview, which {option} is about; {names} have one.")


def show(config: SupervisorConfig, command: Command, *, as_json: bool) -> int:
    """Print it; 1 where something speaks against the command."""
    check_has_one(command, "--preview")
    with opened_ledger(config) as ledger:
        seen = preview(replace(open_doors(config), ledger=ledger), command)
    ok = all(each.ok for each in seen)
    state = ",".join(each.state for each in seen if each.state)
    if as_json:
        document = {
            "command": command.name,
            "workers": list(command.workers),
            "ok": ok,
            "state": state or None,
            "previews": [each.as_json() for each in seen],
        }
        print(json.dumps(document))
        return 0 if ok else 1
    now = datetime.now(UTC)
    print("\n\n".join("\n".join(preview_text(each, now)) for each in seen))
    if ok and any(each.plan and not each.plan.does_nothing for each in seen):
        print(f"\nTo do exactly this, and nothing if it is not so any more: --if-state {state}")
    return 0 if ok else 1
