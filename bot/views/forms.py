"""Forms: the command picker, and a form for each command with an input for each parameter. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from bot.views import form_fields as inputs
from bot.views.answers.help import TITLES
from bot.views.blocks import Json, modal, plain_text, section
from bot.views.blocks import context as small_print
from bot.views.form_fields import (
    COMMITS,
    OPTION_TEXT,
    commit_menu,
    input_place,
    label,
    number_in,
    parameter,
    target,
)
from bot.views.text import escape, fit
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Risk, TargetRule
from supervisor_core.commands.parameters import Parameter
from supervisor_core.commands.targets import GrammarContext

_LIVE = frozenset({"rollback", "update", "update-deps"})


def is_live(definition: CommandDefinition) -> bool:
    """True for a command whose form shows a preview: a choice in it updates the form."""
    return definition.name in _LIVE or definition.extension is not None


def is_updated(definition: CommandDefinition) -> bool:
    """True for a command whose form changes with a choice: also one that has more fields, those of batches, once
    several workers are chosen."""
    return is_live(definition) or definition.name in ("restart", "undo")


SHORTCUT, SHORTCUT_ON_MESSAGE = "supervisor_command", "supervisor_command_here"
"""The `callback_id` of the shortcuts, as the manifest has them."""

PICKER_TITLE = "Run a command"
PICKER, FORM, NOTHING = "form:picker", "form:command", "form:nothing"
"""The `callback_id` of the views."""

OPEN, PICK = "form:open", "form:pick"
"""The `action_id` of the button that opens the picker, and of the menu in it."""

TITLE = 24  # characters of a title and of a submit button

SUBMIT: Mapping[str, str] = {
    "overview": "Show workers",
    "help": "Show help",
    "status": "Show status",
    "why": "Explain",
    "logs": "Show logs",
    "history": "Show history",
    "audit": "Show audit trail",
    "approvals": "Show approvals",
    "alerts": "Show alerts",
    "teams": "Show teams",
    "diagnostics": "Write report",
    "verify-db": "Verify database",
    "pause": "Pause",
    "resume": "Resume",
    "restart": "Restart",
    "mute": "Mute",
    "unmute": "Unmute",
    "monitoring pause": "Pause monitoring",
    "monitoring resume": "Resume monitoring",
    "schedule add": "Add schedule",
    "schedule list": "Show schedules",
    "schedule remove": "Remove schedule",
    "rolling status": "Show progress",
    "rolling pause": "Pause the change",
    "rolling continue": "Continue the change",
    "rolling abort": "Abort the change",
    "rolling undo": "Roll the change back",
    "update": "Update",
    "update-deps": "Update with packages",
    "rollback": "Roll back",
    "undo": "Undo",
}
"""The title and the submit button of each form."""


@dataclass(frozen=True, slots=True)
class FormContext:
    """The command of a form, and the place that it was opened from. Nobody can change it there."""

    command: str = ""
    channel: str = ""
    """Empty where the form must ask."""
    thread: str | None = None


def form_context(view: Mapping[str, Any]) -> FormContext:
    """The context of this view; empty for a view of an earlier version."""
    try:
        return FormContext(**json.loads(view.get("private_metadata") or "{}"))
    except (TypeError, ValueError):
        return FormContext()


def command_picker(definitions: Sequence[CommandDefinition], channel: str = "", thread: str | None = None) -> Json:
    """A menu of these commands; what is chosen there turns this view into that command's form."""
    groups = []
    for risk, title in TITLES.items():
        options = [_command_option(each) for each in definitions if each.risk is risk]
        if options:
            groups.append({"label": plain_text(title), "options": options})
    if not groups:
        return _modal(NOTHING, PICKER_TITLE, FormContext(), [section(f":no_entry: {NO_RIGHT}")])
    menu: Json = {
        "type": "static_select",
        "action_id": PICK,
        "placeholder": plain_text("Choose a command"),
        "option_groups": groups,
    }
    blocks = [{**section("*Choose a command*"), "block_id": "pick", "accessory": menu}]
    if channel:
        blocks.append(small_print(_place(channel, thread)))
    return _modal(PICKER, PICKER_TITLE, FormContext("", channel, thread), blocks)


NO_RIGHT = (
    "You don't have access to any command yet. An administrator of the supervisor can add you to `slack.access` in "
    "the configuration."
)


@dataclass(frozen=True, slots=True)
class LivePreview:
    """The preview in a form."""

    blocks: Sequence[Json] = ()
    commits: Json | None = None
    """The menu of commits; None for numbers alone."""


def command_form(
    definition: CommandDefinition,
    context: GrammarContext,
    channel: str = "",
    thread: str | None = None,
    *,
    approval: bool = False,
    filled: Command | None = None,
    chosen: str = "",
    preview: LivePreview | None = None,
) -> Json:
    """The form of one command, with what is known already. `approval`: it needs an approval; `chosen`: the
    preselected channel; `preview`: for a form that shows its command's effect."""
    blocks: list[Json] = [section(escape(definition.summary))]
    if definition.target is not TargetRule.NONE and context.workers:
        blocks.append(target(definition, context, filled))
    shown = preview or LivePreview()
    live = is_live(definition) and bool(context.workers)
    fields = [*blocks[1:], *_parameters(definition, filled, shown, live=live)]
    follows = is_updated(definition) and bool(context.workers)
    asking = [inputs.asking(each) if live or (follows and each in blocks) else each for each in fields]
    blocks = [blocks[0], *asking]
    if live:
        blocks += shown.blocks or [small_print(_preview_hint(definition))]
    if definition.takes_label:
        blocks.append(label(filled))
    where = input_place(informs=definition.handler is None, chosen=chosen)
    blocks.append(small_print(_place(channel, thread)) if channel else where)
    if definition.risk is not Risk.READS:
        blocks.append(small_print(_AGREED if approval else _AT_ONCE))
    words = submit_text(definition)
    return _modal(FORM, words, FormContext(definition.name, channel, thread), blocks, submit=words)


def _preview_hint(definition: CommandDefinition) -> str:
    """The line in place of the preview while a field that it needs is empty."""
    if any(each.required for each in definition.parameters):
        return "Choose a worker and fill in the required fields to see a preview."
    return "Choose a worker to see a preview."


def loading(title: str) -> Json:
    """The view while a form's contents are looked up."""
    return _modal(NOTHING, title, FormContext(), [section(":hourglass_flowing_sand: Loading…")])


def not_loaded(title: str, why: str) -> Json:
    """The view in place of a form that isn't shown after all."""
    return modal(NOTHING, title, [section(why)], "", close="Close")


def _parameters(
    definition: CommandDefinition, filled: Command | None, shown: LivePreview, *, live: bool
) -> Iterator[Json]:
    """The fields of the parameters. Options for several workers appear once several are chosen, or if one was given."""
    several = filled is not None and len(filled.workers) > 1
    for each in definition.written:
        if live and each.name == COMMITS:
            yield shown.commits or commit_menu(each, (), number_in(each, filled))
        elif several or each not in definition.spread_options or _is_given(each, filled):
            yield parameter(each, filled)


def _is_given(one: Parameter, filled: Command | None) -> bool:
    """True for a parameter of the command that fills the form in."""
    value = filled.params.get(one.name) if filled else None
    return value is not None and value is not False


_AGREED = ":lock: Needs approval: nothing runs until an approver agrees."
_AT_ONCE = ":zap: Runs immediately."


def submit_text(definition: CommandDefinition) -> str:
    """The text of a form's submit button."""
    return SUBMIT.get(definition.name) or fit(definition.name.replace("-", " ").capitalize(), TITLE, "…")


def _command_option(definition: CommandDefinition) -> Json:
    return {
        "text": plain_text(submit_text(definition)),
        "description": plain_text(fit(definition.summary, OPTION_TEXT, "…")),
        "value": definition.name,
    }


def _place(channel: str, thread: str | None) -> str:
    where = "this direct message" if channel.startswith("D") else f"<#{channel}>"
    return f"The result is posted in {where}{', in the thread' if thread else ''}."


def _modal(callback: str, title: str, known: FormContext, blocks: list[Json], submit: str = "") -> Json:
    return modal(callback, title, blocks, json.dumps(asdict(known)), submit)
