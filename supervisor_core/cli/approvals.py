"""`supervisor approvals` lists what is waiting; `approve`, `deny` and `cancel` decide, as `cli:name`.

A person who can run this on the host controls the host, and may approve here with or without Slack; only not their own
requests.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.host import approvals_of, load_config, shell_issuer, wake
from supervisor_core.cli.table import AMBER, print_table
from supervisor_core.common.errors import UsageError, in_shell
from supervisor_core.common.text import printable
from supervisor_core.common.times import clock_time, format_span, to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice, Vote, count_of, to_go_on
from supervisor_core.intake.approvals.service import Approvals, VoteResult

DOOR = "cli"
DAEMON_SECONDS = 60.0
"""The time limit for the daemon to file what was approved; it checks the code again, which may contact a remote."""

LOOK_SECONDS = 0.1

NOT_CARRIED_OUT = (ApprovalState.STALE, ApprovalState.EXPIRED, ApprovalState.CANCELLED, ApprovalState.DENIED)


def run(options: argparse.Namespace) -> int:
    """List the approvals, or decide one."""
    if options.what and not options.approval:
        raise UsageError(
            f"Name the approval: `supervisor approvals {options.what} ID`. `supervisor approvals` lists the ids."
        )
    config = load_config(options.config)
    if options.what is None:
        return show(config, as_json=options.json)
    with opened_ledger(config) as ledger:
        return _decide(config, approvals_of(config, ledger), options)


def show(config: SupervisorConfig, only: str = "", *, as_json: bool) -> int:
    """List what is waiting for an approval, or show `only` one, whatever its state."""
    with opened_ledger(config) as ledger:
        approvals = approvals_of(config, ledger)
        approvals.expire_due()
        approvals.settle()  # without a daemon, nobody else does
        waiting = [approvals.find(only)] if only else approvals.waiting()
    if as_json:
        print(json.dumps([document(approval, votes) for approval, votes in waiting], indent=2))
        return 0
    if not waiting:
        print("Nothing is waiting for approval.")
        return 0
    rows, now = [], datetime.now(UTC)
    for approval, votes in waiting:
        pending = approval.state is ApprovalState.PENDING
        rows.append(
            [
                str(approval.state),
                count_of(approval, votes),
                f"in {format_span((approval.expires_at - now).total_seconds())}" if pending else "-",
                approval.requester.name or approval.requester.id,
                approval.again,
                approval.approval_id,
                approval.reason or effect(approval.previews),
            ]
        )
    head = ("STATE", "VOTES", "EXPIRES", "REQUESTED BY", "COMMAND", "APPROVAL", "EFFECT")
    print_table(head, rows, [AMBER] * len(rows))
    return 0


def _decide(config: SupervisorConfig, approvals: Approvals, options: argparse.Namespace) -> int:
    who, reason = shell_issuer(), " ".join(options.reason)
    if options.what == "cancel":
        decision = approvals.cancel(options.approval, who, reason, door=DOOR)
        return _tell(decision, options, done=(ApprovalState.CANCELLED,))
    decision = VoteResult(*approvals.find(options.approval))
    if options.what == "deny" or decision.approval.state is not ApprovalState.APPROVED:
        decision = approvals.vote(options.approval, who, Choice(options.what), reason, door=DOOR)
    if options.what == "deny":
        return _tell(decision, options, done=(ApprovalState.DENIED,))
    note = ""
    if decision.approval.state is ApprovalState.APPROVED:  # by this vote, or before, and nobody has carried it out
        note = _carry_out(config, approvals, decision.approval)
        decision = VoteResult(*approvals.find(decision.approval.approval_id))
    done = tuple(state for state in ApprovalState if state not in NOT_CARRIED_OUT)
    return _tell(decision, options, done=done, note=note)


def _carry_out(config: SupervisorConfig, approvals: Approvals, approval: Approval) -> str:
    """Have the daemon file it, which can ask the chat for rights, or file it here. Returns a note for the person."""
    try:
        services = ask(str(config.state_dir), {"do": "status"})["services"]
    except (NotRunningError, UnresponsiveError):
        services = []
    if not any(each["name"] == "scheduler" and each["state"] == "running" for each in services):
        carried = approvals.execute(approval.approval_id).state is ApprovalState.EXECUTING
        return "" if wake(config) or not carried else "No daemon is running. The next pass (`supervisor once`) runs it."
    wake(config)
    deadline = time.monotonic() + DAEMON_SECONDS
    while time.monotonic() < deadline and approvals.find(approval.approval_id)[0].state is ApprovalState.APPROVED:
        time.sleep(LOOK_SECONDS)
    return ""


def _tell(decision: VoteResult, options: argparse.Namespace, *, done: Sequence[ApprovalState], note: str = "") -> int:
    approval = decision.approval
    words = " ".join(filter(None, [in_words(approval, decision.votes), note]))
    succeeded = approval.state in done and (approval.was_filed or approval.state is not ApprovalState.FAILED)
    if options.json:
        print(json.dumps({**document(approval, decision.votes), "success": succeeded, "message": words}))
    else:
        print(words, file=sys.stdout if succeeded else sys.stderr)
    return 0 if succeeded else 1


def in_words(approval: Approval, votes: Sequence[Vote]) -> str:
    """The state of an approval, safe to print on a terminal."""
    return printable(_sentence(approval, votes))


def _sentence(approval: Approval, votes: Sequence[Vote]) -> str:
    reason = approval.reason
    match approval.state:
        case ApprovalState.PENDING:
            until = clock_time(approval.expires_at, datetime.now(UTC))
            given = f"{count_of(approval, votes)} approvals"
            return f"Pending: {approval.again} has {given} and expires at {until} ({approval.approval_id})."
        case ApprovalState.APPROVED:
            return f"Approved: {approval.again} is about to run. {reason}".rstrip()
        case ApprovalState.FAILED if not approval.was_filed:
            return f"Failed: {approval.again}. {reason}"
        case ApprovalState.EXECUTING | ApprovalState.DONE | ApprovalState.FAILED:
            words = {ApprovalState.EXECUTING: "is running", ApprovalState.DONE: "has run"}
            word = words.get(approval.state, "has failed")
            return f"Approved: {approval.again} {word} ({approval.task_id}). `supervisor audit` shows the outcome."
        case ApprovalState.DENIED:
            by = next((vote.voter.name or vote.voter.id for vote in votes if vote.choice is Choice.DENY), "")
            return f"Denied by {by}: {approval.again}.{f' Reason: {reason}.' if reason else ''}"
        case _:
            state = "Outdated" if approval.state is ApprovalState.STALE else approval.state.capitalize()
            said = f"{state}: {approval.again}{f'. {reason}' if reason else '.'}"
            return f"{said} {in_shell(to_go_on(approval))}".rstrip()


def document(approval: Approval, votes: Sequence[Vote]) -> dict[str, Any]:
    return {
        "approval_id": approval.approval_id,
        "task_id": approval.task_id,
        "state": str(approval.state),
        "command": approval.command.name,
        "text": approval.again,
        "workers": list(approval.command.workers),
        "label": approval.command.label,
        "note": approval.command.note or None,
        "requester": {"id": approval.requester.id, "name": approval.requester.name},
        "door": approval.door,
        "votes": [vote.as_told() for vote in votes],
        "votes_needed": approval.terms.votes_needed,
        "requested_at": to_text(approval.requested_at),
        "expires_at": to_text(approval.expires_at),
        "effect": effect(approval.previews),
        "previews": list(approval.previews),
        "reason": approval.reason or None,
    }
