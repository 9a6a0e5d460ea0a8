"""`supervisor schedule`, `rolling` and `monitoring`: commands about what runs later, or doesn't run."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.host import caller_fields, shell_issuer, wake
from supervisor_core.cli.output import print_json, print_table
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import CommandText, UsageError, in_shell
from supervisor_core.common.time_zones import host_zone, zone_of
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.rolling.rules import RollingMove
from supervisor_core.intake.rolling.service import PREFIX, RollingChanges
from supervisor_core.intake.schedules.service import Schedules, ScheduleStatus
from supervisor_core.jobs.model import new_task_id

MONITORING_SECONDS = 10.0
"""The daemon records the change before it answers, and a disk may be slow."""


def change_schedules(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Add, list or remove a schedule."""
    now, action = datetime.now(UTC), command.name.removeprefix("schedule ")
    task_id = new_task_id(now)
    with opened_ledger(config) as ledger:
        schedules = Schedules(ledger)
        if action == "list":
            return _list(schedules.list(), as_json=as_json)
        if action == "remove":
            removed = schedules.remove(str(command.params["name"]), shell_issuer(), task_id, now)
            message = f"Removed: {removed.name}. Commands that it has started keep running."
            details: dict[str, Any] = {"name": removed.name}
        else:
            scheduled = parse(str(command.params["command"]), grammar_context(config).later)
            channel = config.announcement()
            if CATALOG[scheduled.name].handler is None and channel is None:
                raise UsageError(
                    f"{scheduled.name} only shows something, and a schedule from the shell has no channel for it.",
                    remedy="Set slack.alert_channel, or add the schedule in the Slack channel that should see the "
                    "answers.",
                )
            added = schedules.add(
                command.params, scheduled.target, shell_issuer(), host_zone(), task_id, None, now, channel
            )
            schedule = added.schedule
            message = f"Added: {schedule.name} runs `{schedule.command}` {added.words}.\n"
            message += f"Next: {_format_time(schedule.next_at, schedule.zone)}"
            details = _schedule_document(added)
        is_running = wake(config)
    if as_json:
        details["daemon"] = is_running
        print_json({"task_id": task_id, "success": True, "error": None, "details": details})
        return 0
    print(message)
    if not is_running and action == "add":
        print("No daemon is running, so schedules don't run. `supervisor daemon start` starts one.")
    return 0


def _list(statuses: list[ScheduleStatus], *, as_json: bool) -> int:
    if as_json:
        print_json(list(map(_schedule_document, statuses)))
        return 0
    if not statuses:
        print('No schedules. To add one: supervisor schedule add nightly "0 3 * * *" restart WORKER')
        return 0
    rows, zone = [], host_zone()
    for status in statuses:
        schedule = status.schedule
        last = f"{_format_time(schedule.last.at, zone)} {status.outcome}" if schedule.last else "-"
        if schedule.waiting_since is not None:
            last = f"waiting since {_format_time(schedule.waiting_since, zone)}: {schedule.waiting_for}"
        next_run = _format_time(schedule.next_at, zone)
        rows.append((schedule.name, status.words, next_run, schedule.command, schedule.owner.id, last))
    print_table(("NAME", "WHEN", "NEXT", "COMMAND", "OWNER", "LAST"), rows)
    return 0


def _schedule_document(status: ScheduleStatus) -> dict[str, Any]:
    schedule, last = status.schedule, status.schedule.last
    return {
        **{name: getattr(schedule, name) for name in ("name", "cron", "zone", "command", "next_at", "waiting_since")},
        "words": status.words,
        "owner": schedule.owner.id,
        "waiting_for": schedule.waiting_for or None,
        "last_at": last.at if last else None,
        "last_state": last.state if last else None,
        "last_outcome": status.outcome or None,
        "last_task_id": schedule.last_task_id or None,
    }


def _format_time(at: datetime, zone: str) -> str:
    return f"{at.astimezone(zone_of(zone)):%Y-%m-%d %H:%M %Z}"


def change_rolling(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Pause, continue or abort a rolling change, or show its progress."""
    action, task_id = command.name.removeprefix(PREFIX), str(command.params["task_id"])
    with opened_ledger(config) as ledger:
        changes = RollingChanges(ledger)
        if action != "status":
            changes.move(task_id, RollingMove(action), shell_issuer(), "cli")
        status = changes.status(task_id)
    is_running = wake(config) if action != "status" else True
    if as_json:
        change = status.change
        details = {
            "target": change.target,
            "state": change.state,
            "batch": change.released,
            "batches": change.batches,
            "workers": status.parts(),
            "healthy_seconds": change.terms.healthy,
            "max_failures": change.terms.max_failures,
            "failures": change.failures,
            "accepted": change.accepted,
            "reason": change.reason or None,
            "decided_by": change.decided_by.id,
            "decided_at": change.decided_at,
        }
        print_json({"task_id": task_id, "success": True, "error": None, "details": details})
        return 0
    print("\n".join(status.lines()))
    if not is_running:
        print("No daemon is running, so it doesn't go on. `supervisor daemon start` starts one.")
    return 0


def change_monitoring(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Pause or resume monitoring, and print the result."""
    pauses = command.name.endswith("pause")
    try:
        request = {"do": "monitoring", "rest": pauses, **caller_fields()}
        answer = ask(str(config.state_dir), request, timeout=MONITORING_SECONDS)
        ok, message = bool(answer.get("ok")), str(answer.get("message") or answer.get("error"))
        if ok and pauses:
            message += f" To resume: {in_shell((CommandText('monitoring resume'),))}"
    except NotRunningError:
        ok, message = False, "No daemon is running, so nothing is monitored. `supervisor daemon start` starts one."
    except UnresponsiveError as error:
        ok, message = False, f"{error} `supervisor status` shows whether monitoring changed."
    if as_json:
        print_json({"success": ok, "error": None if ok else message, "details": {"message": message}})
    else:
        print(message, file=sys.stdout if ok else sys.stderr)
    return 0 if ok else 1
