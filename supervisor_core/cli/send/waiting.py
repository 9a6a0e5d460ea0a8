"""Commands that need an approval: reported and waited for. Previews of code changes, for `--preview`."""

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
from supervisor_core.common.times import clock_time
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.workers.context import open_doors

LOOK_SECONDS = 0.2
"""How often the ledger is checked: a vote may come from another shell, which no daemon reports."""

UNDECIDED = (ApprovalState.PENDING, ApprovalState.APPROVED)


def asked(approval: Approval, *, as_json: bool) -> int:
    """Report that the command is waiting for approval."""
    if as_json:
        told = {"task_id": approval.task_id, "queued": False, "workers": list(approval.command.workers)}
        print(json.dumps({**told, "approval": document(approval, ())}))
    else:
        print(_waits(approval))
    return 0


def wait(approvals: Approvals, approval: Approval, seconds: float | None, *, quiet: bool) -> tuple[str, float | None]:
    """Wait until the command is filed. Returns the reason if it never will be, and the time that is left.

    Without a limit, it waits until the approval expires.
    """
    if not quiet:
        print(f"{_waits(approval)}\nWaiting …", flush=True)
    deadline = None if seconds is None else time.monotonic() + seconds
    while approval.state in UNDECIDED:
        if deadline is not None and time.monotonic() >= deadline:
            return f"No decision after {seconds:g} s. {_waits(approval)} Don't send it again.", None
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
        f"Waiting for approval: {approval.again} ({approval.task_id}).\n"
        f"Effect: {effect(approval.previews)}.\n"
        f"Needs {needed} approval{'s' if needed > 1 else ''} by {clock_time(approval.expires_at, datetime.now(UTC))} "
        f"from someone else: `supervisor approvals approve {approval.approval_id}`."
    )


def check_has_one(command: Command, option: str) -> None:
    """`UsageError` for a command that has no preview."""
    with_one = [definition.name for definition in CATALOG.values() if definition.tier is Tier.CODE]
    if command.name not in with_one:
        names = f"{', '.join(with_one[:-1])} and {with_one[-1]}"
        raise UsageError(f"{command.name} has no preview, so {option} doesn't apply. {names} have one.")


def show(config: SupervisorConfig, command: Command, *, as_json: bool) -> int:
    """Print the preview; exit code 1 if the command would be refused or fail."""
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
        print(f"\nTo run exactly this, and refuse if anything has changed: --if-state {state}")
    return 0 if ok else 1
