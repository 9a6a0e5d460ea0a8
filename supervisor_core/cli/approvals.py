"""`supervisor approvals` lists what is waiting; `approve`, `deny` and `cancel` decide, as `cli:name`.

A person who can run this on the host controls the host, and may approve here with or without Slack; only not their own
requests.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.arguments import JSON, Subparsers, add_command
from supervisor_core.cli.host import approvals_of, load_config, shell_issuer, wake
from supervisor_core.cli.output import AMBER, print_json, print_table
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import UsageError, in_shell
from supervisor_core.common.text import printable
from supervisor_core.common.times import clock_time, format_span
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import Approval, ApprovalState, Choice, Vote, count_of, to_go_on
from supervisor_core.intake.approvals.service import Approvals

DAEMON_SECONDS = 60.0
"""The time limit for the daemon to queue what was approved; it checks the code again, which may contact a remote."""

POLL_SECONDS = 0.1


def add_parser(subparsers: Subparsers) -> None:
    description = "List what is waiting for an approval, or decide."
    parser = add_command(subparsers, "approvals", run, description, "approvals approve ap_7f3k")
    action = "decide about one; by default: list what is waiting"
    parser.add_argument("action", nargs="?", choices=["approve", "deny", "cancel"], help=action)
    parser.add_argument("approval", nargs="?", metavar="ID", help="the approval's id, or the command's id")
    reason = "why; shown to the requester and kept in the audit trail"
    parser.add_argument("reason", nargs="*", metavar="REASON", help=reason)
    parser.add_argument("--json", action="store_true", help=JSON)


def run(arguments: argparse.Namespace) -> int:
    """List the approvals, or decide one."""
    action = arguments.action
    if action and not arguments.approval:
        raise UsageError(
            f"Name the approval: `supervisor approvals {action} ID`. `supervisor approvals` lists the ids."
        )
    config = load_config(arguments.config)
    if action is None:
        return show(config, as_json=arguments.json)
    with opened_ledger(config) as ledger:
        return _decide(config, approvals_of(config, ledger), arguments)


def show_command(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    return show(config, str(command.params.get("approval") or ""), as_json=as_json)


def show(config: SupervisorConfig, approval_id: str = "", *, as_json: bool) -> int:
    """List what is waiting for an approval, or show one, whatever its state."""
    with opened_ledger(config) as ledger:
        approvals = approvals_of(config, ledger)
        approvals.expire_due()
        approvals.settle()  # without a daemon, nobody else does
        entries = [approvals.find(approval_id)] if approval_id else approvals.waiting()
    if as_json:
        print_json([approval_document(approval, votes) for approval, votes in entries], indented=True)
        return 0
    if not entries:
        print("Nothing is waiting for approval.")
        return 0
    rows, now = [], datetime.now(UTC)
    for approval, votes in entries:
        is_pending = approval.state is ApprovalState.PENDING
        rows.append(
            [
                str(approval.state),
                count_of(approval, votes),
                f"in {format_span((approval.expires_at - now).total_seconds())}" if is_pending else "-",
                approval.requester.name or approval.requester.id,
                approval.again,
                approval.approval_id,
                approval.reason or effect(approval.previews),
            ]
        )
    head = ("STATE", "VOTES", "EXPIRES", "REQUESTED BY", "COMMAND", "APPROVAL", "EFFECT")
    print_table(head, rows, [AMBER] * len(rows))
    return 0


def _decide(config: SupervisorConfig, approvals: Approvals, arguments: argparse.Namespace) -> int:
    issuer, reason, action = shell_issuer(), " ".join(arguments.reason), arguments.action
    note = ""
    if action == "cancel":
        result = approvals.cancel(arguments.approval, issuer, reason, door="cli")
        approval, votes = result.approval, result.votes
    else:
        approval, votes = approvals.find(arguments.approval)
        if action == "deny" or approval.state is not ApprovalState.APPROVED:
            result = approvals.vote(arguments.approval, issuer, Choice(action), reason, door="cli")
            approval, votes = result.approval, result.votes
        if action == "approve" and approval.state is ApprovalState.APPROVED:  # also if nobody has carried it out yet
            note = _carry_out(config, approvals, approval)
            approval, votes = approvals.find(approval.approval_id)
    if action == "approve":
        refused = (ApprovalState.STALE, ApprovalState.EXPIRED, ApprovalState.CANCELLED, ApprovalState.DENIED)
        ok = approval.state not in refused and (approval.was_filed or approval.state is not ApprovalState.FAILED)
    else:
        ok = approval.state is (ApprovalState.DENIED if action == "deny" else ApprovalState.CANCELLED)
    message = " ".join(filter(None, [describe_approval(approval, votes), note]))
    if arguments.json:
        print_json({**approval_document(approval, votes), "success": ok, "message": message})
    else:
        print(message, file=sys.stdout if ok else sys.stderr)
    return 0 if ok else 1


def _carry_out(config: SupervisorConfig, approvals: Approvals, approval: Approval) -> str:
    """Have the daemon queue it, which can ask the chat for rights, or queue it here. Returns a note for the person."""
    try:
        services = ask(str(config.state_dir), {"do": "status"})["services"]
    except (NotRunningError, UnresponsiveError):
        services = []
    if not any(service["name"] == "scheduler" and service["state"] == "running" for service in services):
        is_queued = approvals.execute(approval.approval_id).state is ApprovalState.EXECUTING
        return (
            "" if wake(config) or not is_queued else "No daemon is running. The next pass (`supervisor once`) runs it."
        )
    wake(config)
    deadline = time.monotonic() + DAEMON_SECONDS
    while time.monotonic() < deadline and approvals.find(approval.approval_id)[0].state is ApprovalState.APPROVED:
        time.sleep(POLL_SECONDS)
    return ""


def describe_approval(approval: Approval, votes: Sequence[Vote]) -> str:
    """The state of an approval in a sentence, safe to print on a terminal."""
    command, reason = approval.again, approval.reason
    match approval.state:
        case ApprovalState.PENDING:
            until = clock_time(approval.expires_at, datetime.now(UTC))
            count = f"{count_of(approval, votes)} approvals"
            text = f"Pending: {command} has {count} and expires at {until} ({approval.approval_id})."
        case ApprovalState.APPROVED:
            text = f"Approved: {command} is about to run. {reason}".rstrip()
        case ApprovalState.FAILED if not approval.was_filed:
            text = f"Failed: {command}. {reason}"
        case ApprovalState.EXECUTING | ApprovalState.DONE | ApprovalState.FAILED:
            outcomes = {ApprovalState.EXECUTING: "is running", ApprovalState.DONE: "has run"}
            outcome = outcomes.get(approval.state, "has failed")
            text = f"Approved: {command} {outcome} ({approval.task_id}). `supervisor audit` shows the outcome."
        case ApprovalState.DENIED:
            by = next((vote.voter.name or vote.voter.id for vote in votes if vote.choice is Choice.DENY), "")
            text = f"Denied by {by}: {command}.{f' Reason: {reason}.' if reason else ''}"
        case _:
            state = "Outdated" if approval.state is ApprovalState.STALE else approval.state.capitalize()
            text = f"{state}: {command}{f'. {reason}' if reason else '.'} {in_shell(to_go_on(approval))}".rstrip()
    return printable(text)


def approval_document(approval: Approval, votes: Sequence[Vote]) -> dict[str, Any]:
    command = approval.command
    return {
        "approval_id": approval.approval_id,
        "task_id": approval.task_id,
        "state": approval.state,
        "command": command.name,
        "text": approval.again,
        "workers": command.workers,
        "label": command.label,
        "note": command.note or None,
        "requester": {"id": approval.requester.id, "name": approval.requester.name},
        "door": approval.door,
        "votes": [vote.as_told() for vote in votes],
        "votes_needed": approval.terms.votes_needed,
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "effect": effect(approval.previews),
        "previews": approval.previews,
        "reason": approval.reason or None,
    }
