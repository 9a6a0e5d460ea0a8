"""Schedules as people see them: added, removed, listed, refused. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bot.views.blocks import Color, Content, actions, card, context, fields, section, text_message
from bot.views.buttons import command_button
from bot.views.text import escape, fit, in_code, inert, mention, minute
from supervisor_core.code.change_plan import count
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.times import from_text
from supervisor_core.intake.schedules.rules import Schedule
from supervisor_core.intake.schedules.service import ScheduleStatus, when

SHOWN = 10
"""Schedules with a line of their own and a button; more of them are named."""

NAMED, NAMES = 40, 900  # names, and characters of all of them

COMMAND, WHY = 300, 400  # characters
SHORT = 150  # characters of a command, or of what came of it, in a list
WHO = 80


def schedule_card(standing: ScheduleStatus) -> Content:
    schedule = standing.schedule
    if schedule.removed_by is not None and schedule.removed_at is not None:
        return schedule_removed(schedule, schedule.removed_by, schedule.removed_at)
    facts = {
        "Command": _command(schedule),
        "Next": minute(standing.schedule.next_at),
        "Runs as": f"{mention(schedule.owner)}, with their current rights",
    }
    blocks = [*fields(facts), actions("schedule", [_remove(schedule.name, schedule.schedule_id)])]
    return card(f":calendar: *Schedule {escape(schedule.name)} added*: {_when(schedule)}", Color.QUIET, blocks)


def schedule_removed(schedule: Schedule, by: Issuer, at: datetime) -> Content:
    title = f":wastebasket: *Schedule {escape(schedule.name)} removed* by {mention(by)}"
    past = f"It ran {_command(schedule)}, {_when(schedule)}. Commands that it started go on."
    return card(title, Color.QUIET, [section(past), context(minute(at))])


def gone(schedule: Schedule) -> Content:
    """The same for the requester, where its card tells everybody."""
    return text_message(f":wastebasket: *Schedule {escape(schedule.name)} removed*")


def listed(found: Sequence[ScheduleStatus], nonce: str, *, removes: bool) -> Content:
    """All of them, the next to run first. `removes`: whether the reader may end them."""
    if not found:
        example = '`/supervisor schedule add nightly "daily 03:00" restart all`'
        return text_message(f":calendar: *No schedules yet.* Add one: {example}")
    title = f":calendar: *{count(len(found), 'schedule')}*"
    blocks = []
    for standing in found[:SHOWN]:
        block = section(_line(standing))
        if removes:
            block["accessory"] = _remove(standing.schedule.name, nonce)
        blocks.append(block)
    if len(found) > SHOWN:
        rest = [standing.schedule.name for standing in found[SHOWN:]]
        more = f" and {len(rest) - NAMED} more" if len(rest) > NAMED else ""
        names = escape(", ".join(rest[:NAMED]))
        blocks.append(context(f"… and {fit(names, 1500)}{more}: `supervisor schedule list` on the host shows them all"))
    return card(title, Color.QUIET, blocks)


def schedule_signature(schedule: Schedule) -> str:
    return f":calendar: schedule {escape(schedule.name)}: {_command(schedule)}, {_when(schedule)}"


def schedule_refused(note: Mapping[str, Any]) -> Content:
    """A schedule's command was refused: one message, from the first time on. Its owner is mentioned: it is for them."""
    count, name = int(note["count"]), escape(str(note["name"]))
    times = f", {count} times since {minute(from_text(note['since']))}" if count > 1 else ""
    owner = Issuer(str(note["owner"]["id"]), str(note["owner"]["name"]))
    facts = {
        "Command": f"`{in_code(str(note['command']), COMMAND)}`",
        "Last try": minute(from_text(note["at"])),
        "Next try": minute(from_text(note["next_at"])),
    }
    step = f"{mention(owner)}, it runs with your rights. To stop it: `/supervisor schedule remove {name}`"
    blocks = [section(inert(str(note["why"]), WHY)), *fields(facts), section(step)]
    return card(f":no_entry: *Schedule {name} was refused*{times}", Color.WARNING, blocks)


def _line(standing: ScheduleStatus) -> str:
    schedule = standing.schedule
    lines = [f"*{escape(schedule.name)}*: {_when(schedule)}", _command(schedule, SHORT)]
    facts = [
        f"next {minute(schedule.next_at)}",
        f"by {inert(schedule.owner.name or schedule.owner.id, WHO)}",
    ]  # nobody is mentioned in a list
    if schedule.waiting_since is not None:
        facts.append(f"waiting since {minute(schedule.waiting_since)}: {inert(schedule.waiting_for, SHORT)}")
    if schedule.last is not None:
        facts.append(f"last {minute(schedule.last.at)}: {inert(standing.outcome, SHORT)}")
    return "\n".join([*lines, " · ".join(facts)])


def _when(schedule: Schedule) -> str:
    """In words; an expression without them as it is, since its stars would be taken for style."""
    said, expression = when(schedule), escape(schedule.cron)
    return f"`{expression}` ({escape(schedule.zone)})" if said.startswith(schedule.cron) else escape(said)


def _command(schedule: Schedule, most: int = COMMAND) -> str:
    return f"`{in_code(schedule.command, most)}`"


def _remove(name: str, nonce: str) -> dict[str, Any]:
    button = command_button(Command("schedule remove", params={"name": name}), nonce, "Remove", style="danger")
    button["confirm"]["title"]["text"] = fit(f"Remove schedule {name}?", 100)
    button["accessibility_label"] = fit(f"Remove schedule {name}", 75)
    return button
