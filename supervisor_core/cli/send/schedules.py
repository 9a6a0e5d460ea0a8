"""`supervisor schedule …` edits the schedules, which the daemon runs; `supervisor monitoring …` asks the daemon."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

from supervisor_core.cli.host import caller_fields, shell_issuer, wake
from supervisor_core.cli.table import folded_table, terminal_width
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import CommandText, UsageError, in_shell
from supervisor_core.common.text import printable
from supervisor_core.common.time_zones import host_zone, zone_of
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.schedules.service import Schedules, ScheduleStatus
from supervisor_core.jobs.model import new_task_id

NO_DAEMON = "No daemon is running, so schedules don't run. `supervisor daemon start` starts one."


def scheduling(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Add, list or remove a schedule."""
    now = datetime.now(UTC)
    with opened_ledger(config) as ledger:
        schedules = Schedules(ledger)
        if command.name.endswith("list"):
            _list(schedules.list(), as_json=as_json)
            return 0
        task_id = new_task_id(now)
        if command.name.endswith("remove"):
            gone = schedules.remove(str(command.params["name"]), shell_issuer(), task_id, now)
            said = f"Removed: {gone.name}. Commands that it has started keep running."
            details: dict[str, Any] = {"name": gone.name}
        else:
            inner = _checked(config, str(command.params["command"]))
            made = schedules.add(
                command.params, inner.target, shell_issuer(), host_zone(), task_id, None, now, config.announcement()
            )
            said, details = _added(made), _document(made)
        awake = wake(config)
    if as_json:
        print(json.dumps({"task_id": task_id, "success": True, "error": None, "details": {**details, "daemon": awake}}))
        return 0
    print(said)
    if not awake and command.name.endswith("add"):
        print(NO_DAEMON)
    return 0


def _checked(config: SupervisorConfig, text: str) -> Command:
    """The parsed command of a schedule. One that only shows something needs a channel."""
    inner = parse(text, grammar_context(config).later)
    if CATALOG[inner.name].handler is None and config.announcement() is None:
        raise UsageError(
            f"{inner.name} only shows something, and a schedule from the shell has no channel for it.",
            remedy="Set slack.alert_channel, or add the schedule in the Slack channel that should see the answers.",
        )
    return inner


def _added(made: ScheduleStatus) -> str:
    next_run = _clock(made.schedule.next_at, zone_of(made.schedule.zone))
    return f"Added: {made.schedule.name} runs `{made.schedule.command}` {made.words}.\nNext: {next_run}"


def _list(found: Sequence[ScheduleStatus], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_document(each) for each in found]))
        return
    if not found:
        print('No schedules. To add one: supervisor schedule add nightly "0 3 * * *" restart WORKER')
        return
    zone = zone_of(host_zone())
    head = ("NAME", "WHEN", "NEXT", "COMMAND", "OWNER", "LAST")
    width = terminal_width()
    print(folded_table(head, [_row(each, zone) for each in found], width))


def _row(standing: ScheduleStatus, zone: ZoneInfo) -> tuple[str, ...]:
    schedule = standing.schedule
    last = f"{_clock(schedule.last.at, zone)} {standing.outcome}" if schedule.last else "-"
    if schedule.waiting_since is not None:
        last = f"waiting since {_clock(schedule.waiting_since, zone)}: {schedule.waiting_for}"
    cells = (schedule.name, standing.words, _clock(schedule.next_at, zone), schedule.command, schedule.owner.id, last)
    return tuple(printable(cell) for cell in cells)


def _document(standing: ScheduleStatus) -> dict[str, Any]:
    schedule, last = standing.schedule, standing.schedule.last
    return {
        "name": schedule.name,
        "cron": schedule.cron,
        "zone": schedule.zone,
        "words": standing.words,
        "command": schedule.command,
        "owner": schedule.owner.id,
        "next_at": to_text(schedule.next_at),
        "waiting_since": to_text(schedule.waiting_since) if schedule.waiting_since else None,
        "waiting_for": schedule.waiting_for or None,
        "last_at": to_text(last.at) if last else None,
        "last_state": last.state if last else None,
        "last_outcome": standing.outcome or None,
        "last_task_id": schedule.last_task_id or None,
    }


def _clock(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone):%Y-%m-%d %H:%M %Z}"


RESUME = "monitoring resume"

ANSWER_SECONDS = 10.0
"""The daemon records the change before it answers, and a disk may be slow."""


def monitoring(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Pause or resume monitoring, and print the result."""
    request = {"do": "monitoring", "rest": command.name.endswith("pause"), **caller_fields()}
    try:
        answer = ask(str(config.state_dir), request, timeout=ANSWER_SECONDS)
        done, said = bool(answer.get("ok")), str(answer.get("message") or answer.get("error"))
        said += f" To resume: {in_shell((CommandText(RESUME),))}" if done and request["rest"] else ""
    except NotRunningError:
        done, said = False, "No daemon is running, so nothing is monitored. `supervisor daemon start` starts one."
    except UnresponsiveError as error:
        done, said = False, f"{error} `supervisor status` shows whether monitoring changed."
    if as_json:
        print(json.dumps({"success": done, "error": None if done else said, "details": {"message": said}}))
    else:
        print(said, file=sys.stdout if done else sys.stderr)
    return 0 if done else 1
