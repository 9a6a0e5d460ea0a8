"""A command that this program queues itself: no daemon runs, it waits for approval, or it has a preview or answer."""

from __future__ import annotations

import argparse
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from supervisor_core.cli.host import approvals_of, is_awake, load_config, load_fleet_config, shell_issuer
from supervisor_core.cli.send.command import follow, is_rolling
from supervisor_core.cli.send.outcome import nothing_to_do, outcome, queued
from supervisor_core.cli.send.rolling import completed
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.times import clock_time, format_span
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.service import NothingToDo
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL
from supervisor_core.jobs.results import progress_document, result_document
from supervisor_core.storage.store import Ledger


def run(text: str, task_id: str, options: argparse.Namespace) -> int:
    """Parse the command, queue it under this id, wake the daemon, and wait if requested."""
    config = load_fleet_config(options.config)
    command = completed(parse(text, grammar_context(config)), config)
    if CATALOG[command.name].handler is not None and any(map(is_address, command.workers)):
        raise RefusedError(
            "Only the hub's daemon can send a command to another host.",
            remedy="Start it, and send the command without --preview and --if-state. In Slack, it has a preview.",
        )
    if options.preview:
        if options.if_state is not None:
            raise UsageError("Use --preview or --if-state, not both.")
        from supervisor_core.cli.send.waiting import show

        return show(config, command, as_json=options.json)
    if CATALOG[command.name].handler is None:
        return _inform(config, command, options)
    if options.if_state is not None:  # an empty one is a mistake, and never no condition
        command = _only_if(command, options.if_state)
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
    state_dir = str(config.state_dir)
    issued, awake, left = submitted.command, is_awake(state_dir), options.timeout
    if submitted.approval is not None:
        from supervisor_core.cli.send import waiting as approval_wait

        if not options.wait:
            return approval_wait.asked(submitted.approval, as_json=options.json)
        refused, left = approval_wait.wait(approvals, submitted.approval, options.timeout, quiet=options.json)
        if refused:
            return outcome(issued, refused, None, [], options)
    if not options.wait:
        return queued(
            issued, options, valid="" if awake else _validity(config, sent_at), rolling=is_rolling(options.text)
        )
    if not awake and not options.json:
        valid = _validity(config, sent_at)
        print(f"No daemon is running. {valid} Waiting … (Ctrl-C leaves it queued.)", flush=True)
    return follow(state_dir, issued, options, left, sent_at, awake=awake)


def _validity(config: SupervisorConfig, sent_at: datetime) -> str:
    """The sentences that say what runs a waiting command, and until when."""
    minutes = config.supervisor.command_expires_minutes
    until = clock_time(sent_at + timedelta(minutes=minutes), sent_at)
    limit = f" It's valid for {format_span(minutes * 60)}, until {until}." if minutes else ""
    return f"The command waits for the next pass (`supervisor once`) or `supervisor daemon start`.{limit}"


def _only_if(command: Command, state: str) -> Command:
    from supervisor_core.cli.send.waiting import check_has_one

    check_has_one(command, "--if-state")
    return replace(command, params=check_params(CATALOG[command.name], {**command.params, "state": state}))


def _inform(config: SupervisorConfig, command: Command, options: argparse.Namespace) -> int:
    """Answer a command that changes nothing about workers."""
    from supervisor_core.cli.send.answers import inform

    return inform(command, config, as_json=options.json)
