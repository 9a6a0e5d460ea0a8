"""A command that this program queues itself: no daemon runs, it waits for approval, or it has a preview or answer."""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from supervisor_core.cli.approvals import document, in_words
from supervisor_core.cli.host import approvals_of, load_config, load_fleet_config, shell_issuer, wake
from supervisor_core.cli.send import follow, is_rolling, nothing_to_do, outcome, queued
from supervisor_core.code.change_plan import preview_text
from supervisor_core.code.planning import preview
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import Tier
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.text import printable
from supervisor_core.common.times import clock_time, format_span
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.observed_state import effect
from supervisor_core.intake.approvals.rules import Approval, ApprovalState
from supervisor_core.intake.approvals.service import Approvals, NothingToDo
from supervisor_core.intake.rolling.service import UNDO, RollingChanges
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL
from supervisor_core.jobs.results import progress_document, result_document
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import open_doors


def run(text: str, task_id: str, options: argparse.Namespace) -> int:
    """Parse the command, queue it under this id, wake the daemon, and wait if requested."""
    config = load_fleet_config(options.config)
    command = parse(text, grammar_context(config))
    if command.name == UNDO:  # of a rolling change: the workers that it has changed
        with opened_ledger(config) as ledger:
            command = RollingChanges(ledger).undo_command(str(command.params["task_id"]))
    if CATALOG[command.name].handler is not None and any(map(is_address, command.workers)):
        raise RefusedError(
            "Only the hub's daemon can send a command to another host.",
            remedy="Start it, and send the command without --preview and --if-state. In Slack, it has a preview.",
        )
    if options.preview:
        if options.if_state is not None:
            raise UsageError("Use --preview or --if-state, not both.")
        return show(config, command, as_json=options.json)
    if CATALOG[command.name].handler is None:
        from supervisor_core.cli.answers import inform

        return inform(command, config, as_json=options.json)
    if options.if_state is not None:  # an empty one is a mistake, and never no condition
        check_has_one(command, "--if-state")
        params = check_params(CATALOG[command.name], {**command.params, "state": options.if_state})
        command = replace(command, params=params)
    with opened_ledger(config) as ledger:
        return _send(config, ledger, command, task_id, options)


def look(config: str | None, task_id: str) -> tuple[list[dict[str, str]], list[dict[str, Any]] | None]:
    """The steps of a command so far, and its results once it has ended."""
    with opened_ledger(load_config(config)) as ledger:
        found = ledger.read(lambda connection: jobs.of_task(connection, task_id))
    ended = found and all(job.state in FINAL for job in found)
    return progress_document(found), [result_document(job) for job in found] if ended else None


def _send(config: SupervisorConfig, ledger: Ledger, command: Command, task_id: str, options: argparse.Namespace) -> int:
    """Submit the command, and wait as long as requested."""
    sent_at, approvals = datetime.now(UTC), approvals_of(config, ledger)
    try:
        submitted = Gateway(config, ledger, approvals).submit(command, shell_issuer(), "cli", task_id)
    except NothingToDo as nothing:
        return nothing_to_do(command, str(nothing), options)
    issued, awake, left = submitted.command, wake(config), options.timeout
    valid = "" if awake else _validity(config, sent_at)
    if submitted.approval is not None:
        if not options.wait:
            return report_waiting(submitted.approval, as_json=options.json)
        refused, left = wait_for_approval(approvals, submitted.approval, options.timeout, quiet=options.json)
        if refused:
            return outcome(issued, refused, None, [], options)
    if not options.wait:
        return queued(issued, options, valid=valid, rolling=is_rolling(options.text))
    if not awake and not options.json:
        print(f"No daemon is running. {valid} Waiting … (Ctrl-C leaves it queued.)", flush=True)
    return follow(str(config.state_dir), issued, options, left, sent_at, awake=awake)


def _validity(config: SupervisorConfig, sent_at: datetime) -> str:
    """The sentences that say what runs a waiting command, and until when."""
    minutes = config.supervisor.command_expires_minutes
    until = clock_time(sent_at + timedelta(minutes=minutes), sent_at)
    limit = f" It's valid for {format_span(minutes * 60)}, until {until}." if minutes else ""
    return f"The command waits for the next pass (`supervisor once`) or `supervisor daemon start`.{limit}"


LOOK_SECONDS = 0.2
"""How often the ledger is checked: a vote may come from another shell, which no daemon reports."""

UNDECIDED = (ApprovalState.PENDING, ApprovalState.APPROVED)


def report_waiting(approval: Approval, *, as_json: bool) -> int:
    if as_json:
        told = {"task_id": approval.task_id, "queued": False, "workers": list(approval.command.workers)}
        print(json.dumps({**told, "approval": document(approval, ())}))
    else:
        print(_waits(approval))
    return 0


def wait_for_approval(
    approvals: Approvals, approval: Approval, seconds: float | None, *, quiet: bool
) -> tuple[str, float | None]:
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
    if ok and any(not each.does_nothing for each in seen):
        print(f"\nTo run exactly this, and refuse if anything has changed: --if-state {state}")
    return 0 if ok else 1
