"""`supervisor send` of a command that somebody must approve first: says so, and waits for it."""

from __future__ import annotations

import json
import time

from supervisor_core.cli.approvals_command import document, in_words
from supervisor_core.desk.approvals import Approvals
from supervisor_core.domain.approvals import Approval, ApprovalState
from supervisor_core.domain.observed import effect
from supervisor_core.domain.texts import shown

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
        print(shown(f"Approved by {who}."), flush=True)
    return "", None if deadline is None else max(deadline - time.monotonic(), LOOK_SECONDS)


def _waits(approval: Approval) -> str:
    needed = approval.terms.votes_needed
    return (
        f"waits for approval: {approval.again}, as {approval.task_id}.\n"
        f"What it would do: {effect(approval.previews)}.\n"
        f"{needed} {'person' if needed == 1 else 'people'} must agree until {approval.expires_at:%Y-%m-%d %H:%M} UTC: "
        f"`supervisor approvals approve {approval.approval_id}`, somebody else than you."
    )
