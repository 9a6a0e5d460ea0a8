"""A command that this program queues or answers itself: no daemon runs, or it needs more than the daemon's queue.

That is an approval, a preview, and every answer to a command that changes no worker.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib import import_module

from supervisor_core.cli import status
from supervisor_core.cli.approvals import approval_document, describe_approval
from supervisor_core.cli.host import approvals_of, load_config, load_fleet_config, shell_issuer, wake
from supervisor_core.cli.output import print_json
from supervisor_core.cli.send import Progress, Results, follow, report_outcome, report_queued
from supervisor_core.code.change_plan import preview_text
from supervisor_core.code.planning import preview
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.catalog import CATALOG, FAMILIES, check_params, find
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import Tier
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.manual import help_overview, help_text
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.text import printable
from supervisor_core.common.times import clock_time, format_span
from supervisor_core.config.load import SupervisorConfig, example_worker, grammar_context
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.intake.approvals.service import Approvals, NothingToDo
from supervisor_core.intake.rolling.service import UNDO, RollingChanges
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL
from supervisor_core.jobs.results import progress_document, result_document
from supervisor_core.workers.context import open_doors

POLL_SECONDS = 0.2
"""How often the ledger is checked: a vote may come from another shell, which no daemon reports."""

UNDECIDED = (ApprovalState.PENDING, ApprovalState.APPROVED)

ANSWERS = {
    "alerts": ("alerts", "show_command"),
    "approvals": ("approvals", "show_command"),
    "audit": ("audit", "show_command"),
    "history": ("why", "show_history"),
    "logs": ("worker_output", "show_newest"),
    "monitoring": ("schedules", "change_monitoring"),
    "mute": ("alerts", "mute_or_unmute"),
    "rolling": ("schedules", "change_rolling"),
    "schedule": ("schedules", "change_schedules"),
    "teams": ("teams", "show"),
    "unmute": ("alerts", "mute_or_unmute"),
    "why": ("why", "explain"),
}
"""The module and function that answers a command, by its first word."""


def run(text: str, task_id: str, arguments: argparse.Namespace) -> int:
    """Parse the command, queue it under this id, wake the daemon, and wait if requested."""
    config = load_fleet_config(arguments.config)
    command = parse(text, grammar_context(config))
    if command.name == UNDO:  # of a rolling change: the workers that it has changed
        with opened_ledger(config) as ledger:
            command = RollingChanges(ledger).undo_command(str(command.params["task_id"]))
    definition = CATALOG[command.name]
    if definition.handler is not None and any(map(is_address, command.workers)):
        raise RefusedError(
            "Only the hub's daemon can send a command to another host.",
            remedy="Start it, and send the command without --preview and --if-state. In Slack, it has a preview.",
        )
    option = "--preview" if arguments.preview else "--if-state"
    if (arguments.preview or arguments.if_state is not None) and definition.tier is not Tier.CODE:
        *names, last = [definition.name for definition in CATALOG.values() if definition.tier is Tier.CODE]
        names_in_words = f"{', '.join(names)} and {last}"
        raise UsageError(f"{command.name} has no preview, so {option} doesn't apply. {names_in_words} have one.")
    if arguments.preview:
        if arguments.if_state is not None:
            raise UsageError("Use --preview or --if-state, not both.")
        return show_preview(config, command, as_json=arguments.json)
    if definition.handler is None:
        return answer(command, config, as_json=arguments.json)
    if arguments.if_state is not None:  # an empty one is a mistake, and never no condition
        command = replace(command, params=check_params(definition, {**command.params, "state": arguments.if_state}))
    return _submit(config, command, task_id, arguments)


def answer(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Answer a command that needs no worker's host: print what it asks for, or change what the ledger alone holds."""
    if command.name in ("help", "overview"):
        topic = str(command.params.get("topic") or "")
        definitions = [definition] if (definition := find(topic)) else FAMILIES.get(topic, ())
        texts = [help_text(definition, example_worker(config), len(config.workers)) for definition in definitions]
        print("\n\n".join(texts) or help_overview(CATALOG.values()))
        return 0
    if command.name == "status":
        return status.show(str(config.path), command.target or None, "json" if as_json else "")
    module, function = ANSWERS[command.name.split(" ")[0]]
    code: int = getattr(import_module(f"supervisor_core.cli.{module}"), function)(command, config, as_json=as_json)
    return code


def show_preview(config: SupervisorConfig, command: Command, *, as_json: bool) -> int:
    """Print the preview; exit code 1 if the command would be refused or fail."""
    with opened_ledger(config) as ledger:
        previews = preview(replace(open_doors(config), ledger=ledger), command)
    ok = all(plan.ok for plan in previews)
    state = ",".join(plan.state for plan in previews if plan.state)
    if as_json:
        facts = {"command": command.name, "workers": list(command.workers), "ok": ok, "state": state or None}
        print_json({**facts, "previews": [plan.as_json() for plan in previews]})
        return 0 if ok else 1
    now = datetime.now(UTC)
    print("\n\n".join("\n".join(preview_text(plan, now)) for plan in previews))
    if ok and any(not plan.does_nothing for plan in previews):
        print(f"\nTo run exactly this, and refuse if anything has changed: --if-state {state}")
    return 0 if ok else 1


def _submit(config: SupervisorConfig, command: Command, task_id: str, arguments: argparse.Namespace) -> int:
    """Submit the command, and wait as long as requested."""
    sent_at, limit, as_json = datetime.now(UTC), arguments.timeout, arguments.json
    with opened_ledger(config) as ledger:
        approvals = approvals_of(config, ledger)
        try:
            submitted = Gateway(config, ledger, approvals).submit(command, shell_issuer(), "cli", task_id)
        except NothingToDo as reason:
            if not as_json:
                print(reason)
            elif arguments.wait:
                details = {"message": str(reason)}
                print_json({"task_id": None, "success": True, "error": None, "details": details, "progress": []})
            else:
                queued = {"task_id": None, "queued": False, "workers": list(command.workers)}
                print_json({**queued, "message": str(reason)})
            return 0
        command, approval, is_running, without_daemon = submitted.command, submitted.approval, wake(config), ""
        if not is_running:
            without_daemon = "The command waits for the next pass (`supervisor once`) or `supervisor daemon start`."
            if minutes := config.supervisor.command_expires_minutes:
                until = clock_time(sent_at + timedelta(minutes=minutes), sent_at)
                without_daemon += f" It's valid for {format_span(minutes * 60)}, until {until}."
        if approval is not None and not arguments.wait:
            if as_json:
                workers, document = list(approval.command.workers), approval_document(approval, ())
                print_json({"task_id": approval.task_id, "queued": False, "workers": workers, "approval": document})
            else:
                print(_describe_request(approval))
            return 0
        if approval is not None:
            error, limit = _wait_for_approval(approvals, approval, limit, as_json=as_json)
            if error:
                return report_outcome(command, error, None, [], as_json=as_json)
        if not arguments.wait:
            return report_queued(command, arguments, without_daemon)
        if not is_running and not as_json:
            print(f"No daemon is running. {without_daemon} Waiting … (Ctrl-C leaves it queued.)", flush=True)
        return follow(str(config.state_dir), command, arguments, limit, sent_at, is_running=is_running)


def _wait_for_approval(
    approvals: Approvals, approval: Approval, limit: float | None, *, as_json: bool
) -> tuple[str, float | None]:
    """Wait until the command is queued. Returns the reason if it never will be, and the seconds that are left.

    Without a limit, it waits until the approval expires.
    """
    if not as_json:
        print(f"{_describe_request(approval)}\nWaiting …", flush=True)
    deadline = None if limit is None else time.monotonic() + limit
    while approval.state in UNDECIDED:
        if deadline is not None and time.monotonic() >= deadline:
            return f"No decision after {limit:g} s. {_describe_request(approval)} Don't send it again.", None
        time.sleep(POLL_SECONDS)
        approvals.expire_due()  # where no daemon runs, nobody else does
        approval, votes = approvals.find(approval.approval_id)
    if not approval.was_filed:
        return describe_approval(approval, votes), None
    if not as_json:
        names = " and ".join(vote.voter.name or vote.voter.id for vote in votes)
        print(printable(f"Approved by {names}."), flush=True)
    return "", None if deadline is None else max(deadline - time.monotonic(), POLL_SECONDS)


def _describe_request(approval: Approval) -> str:
    needed = approval.terms.votes_needed
    voter = "" if approval.terms.self_approval else " from someone else"
    return (
        f"Waiting for approval: {approval.again} ({approval.task_id}).\n"
        f"Effect: {effect(approval.previews)}.\n"
        f"Needs {needed} approval{'s' if needed > 1 else ''} by {clock_time(approval.expires_at, datetime.now(UTC))}"
        f"{voter}: `supervisor approvals approve {approval.approval_id}`."
    )


def read_outcome(config: str | None, task_id: str) -> tuple[Progress, Results | None]:
    """The steps of a command so far, and its results once it has ended."""
    with opened_ledger(load_config(config)) as ledger:
        task_jobs = ledger.read(lambda connection: jobs.of_task(connection, task_id))
    has_ended = task_jobs and all(job.state in FINAL for job in task_jobs)
    return progress_document(task_jobs), [result_document(job) for job in task_jobs] if has_ended else None
