"""The forms: a picker of commands, and for each command a form that follows from its definition. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bot.views import inputs
from bot.views.help import TITLES
from bot.views.inputs import Json, plain
from bot.views.text import escape, fit
from bot.views.told import context as small_print
from bot.views.told import section
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import CommandDefinition, Risk, TargetRule
from supervisor_core.domain.targets import GrammarContext

SHORTCUT, SHORTCUT_ON_MESSAGE = "supervisor_command", "supervisor_command_here"
"""The `callback_id` of the shortcuts, as the manifest has them."""

PICKER, FORM, NOTHING = "form:picker", "form:command", "form:nothing"
"""The `callback_id` of the views."""

OPEN, PICK = "form:open", "form:pick"
"""The `action_id` of the button that opens the picker, and of the menu in it."""

TITLE = 24  # characters of a title and of a submit button

SUBMIT: Mapping[str, str] = {
    "overview": "Show the workers",
    "help": "Show help",
    "status": "Show status",
    "why": "Explain",
    "logs": "Show logs",
    "history": "Draw history",
    "audit": "Show the audit trail",
    "approvals": "Show approvals",
    "alerts": "Show alerts",
    "teams": "Show teams",
    "diagnostics": "Write a report",
    "verify-db": "Verify the database",
    "pause": "Pause",
    "resume": "Resume",
    "restart": "Restart",
    "mute": "Mute",
    "unmute": "Unmute",
    "monitoring pause": "Pause monitoring",
    "monitoring resume": "Resume monitoring",
    "schedule add": "Add a schedule",
    "schedule list": "Show schedules",
    "schedule remove": "Remove a schedule",
    "update": "Update",
    "update-deps": "Update with packages",
    "rollback": "Roll back",
    "undo": "Undo",
}
"""What each form does when it is sent: its title, and its button."""


@dataclass(frozen=True, slots=True)
class About:
    """What a view knows of itself: the command, and the place that it was opened from. Nobody can change it there."""

    command: str = ""
    channel: str = ""
    """Empty where the form must ask."""
    thread: str | None = None


def about(view: Mapping[str, Any]) -> About:
    """What this view knows of itself; nothing, for one that an earlier version made in another way."""
    try:
        return About(**json.loads(view.get("private_metadata") or "{}"))
    except (TypeError, ValueError):
        return About()


def picker(definitions: Sequence[CommandDefinition], channel: str = "", thread: str | None = None) -> Json:
    """A menu of these commands; what is chosen there turns this view into that command's form."""
    groups = []
    for risk, title in TITLES.items():
        options = [_option(each) for each in definitions if each.risk is risk]
        if options:
            groups.append({"label": plain(title), "options": options})
    if not groups:
        return _modal(NOTHING, "Give a command", About(), [section(f":no_entry: {NO_RIGHT}")])
    menu: Json = {
        "type": "static_select",
        "action_id": PICK,
        "placeholder": plain("Choose a command"),
        "option_groups": groups,
    }
    blocks = [{**section("*What shall be done?*"), "block_id": "pick", "accessory": menu}]
    if channel:
        blocks.append(small_print(_place(channel, thread)))
    return _modal(PICKER, "Give a command", About("", channel, thread), blocks)


NO_RIGHT = (
    "There is nothing here that you may ask me for. Whoever runs the supervisor can add you, in its configuration "
    "under `slack.access`."
)


def form(
    definition: CommandDefinition,
    context: GrammarContext,
    channel: str = "",
    thread: str | None = None,
    *,
    approval: bool = False,
    filled: Command | None = None,
    chosen: str = "",
) -> Json:
    """The form of one command, with what is known already. `approval`: others must agree before it is done; `chosen`:
    the channel that it begins with, where it was opened from none."""
    blocks: list[Json] = [section(escape(" ".join(filter(None, (definition.summary, definition.notes)))))]
    if definition.target is not TargetRule.NONE and context.workers:
        blocks.append(inputs.target(definition.target, context, filled))
    blocks += [inputs.parameter(each, filled) for each in definition.written]
    if definition.takes_label:
        blocks.append(inputs.label(filled))
    where = inputs.where(informs=definition.handler is None, chosen=chosen)
    blocks.append(small_print(_place(channel, thread)) if channel else where)
    if definition.risk is not Risk.READS:
        blocks.append(small_print(_AGREED if approval else _AT_ONCE))
    words = submit(definition)
    return _modal(FORM, words, About(definition.name, channel, thread), blocks) | {"submit": plain(words)}


_AGREED = ":lock: Nothing is done yet: an approver must agree to it first, and is asked on the card."
_AT_ONCE = ":zap: It is carried out at once."


def submit(definition: CommandDefinition) -> str:
    """What the button of its form says."""
    return SUBMIT.get(definition.name) or fit(definition.name.replace("-", " ").capitalize(), TITLE, "…")


def _option(definition: CommandDefinition) -> Json:
    return {
        "text": plain(submit(definition)),
        "description": plain(fit(definition.summary, inputs.OPTION_TEXT, "…")),
        "value": definition.name,
    }


def _place(channel: str, thread: str | None) -> str:
    where = "this direct message" if channel.startswith("D") else f"<#{channel}>"
    return f"What comes of it is told in {where}{', in the thread' if thread else ''}."


def _modal(callback: str, title: str, known: About, blocks: list[Json]) -> Json:
    return {
        "type": "modal",
        "callback_id": callback,
        "title": plain(title),
        "close": plain("Cancel"),
        "private_metadata": json.dumps(asdict(known)),
        "blocks": blocks,
    }
