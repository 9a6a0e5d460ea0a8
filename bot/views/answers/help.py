"""The answer to `help`, and the answer to a mistake. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from bot.views.blocks import (
    LONGEST,
    Color,
    Content,
    Json,
    actions,
    card,
    code_message,
    context,
    option,
    plain_text,
    section,
)
from bot.views.buttons import EFFECTS, command_button, confirm
from bot.views.text import escape, fit, in_code, phrase_markup
from supervisor_core.commands.catalog import CATALOG, FAMILIES, find
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Risk
from supervisor_core.commands.grammar import render
from supervisor_core.commands.grammar_errors import verb_of
from supervisor_core.commands.manual import EXAMPLE, help_text

TITLES: Mapping[Risk, str] = {
    Risk.READS: "View",
    Risk.CHANGES: "Actions",
    Risk.DANGEROUS: "Code changes",
}


def help_message(
    topic: str, definitions: Sequence[CommandDefinition], worker: str = EXAMPLE, workers: int = 2
) -> Content:
    """Help on a topic or on these commands. `worker`: one of this host, for the examples; `workers`: their number."""
    definition = find(topic)
    if definition is not None:
        return code_message(help_text(definition, worker, workers))
    if topic in FAMILIES:
        return code_message("\n\n".join(help_text(each, worker, workers) for each in FAMILIES[topic]))
    blocks: list[Json] = []
    for risk, title in TITLES.items():
        lines = [_line(each) for each in definitions if each.risk is risk]
        if lines:
            blocks.append(section("\n".join([f"*{title}*", *lines])))
    blocks.append(context("`/supervisor help COMMAND` for details · mentions and direct messages work the same way"))
    return card(":information_source: *Commands you can use*", Color.QUIET, blocks)


def _line(definition: CommandDefinition) -> str:
    return f"• `/supervisor {escape(definition.usage)}`: {escape(definition.summary)}".replace(" `: ", "`: ")


CHOOSE = "choose"
"""The `action_id` of a menu of targets; its block's id says what the choice completes."""

BUTTON = 70  # characters
SAID = 1500


@dataclass(frozen=True, slots=True)
class TargetMenu:
    """A menu of targets."""

    block_id: str
    command: Command
    """The command to give for the chosen target."""
    targets: Sequence[str]
    asks: bool = False
    more: bool = False
    """There are targets that the menu has no room for."""


def mistake(
    message: str,
    nonce: str,
    suggestion: str = "",
    command: Command | None = None,
    choice: TargetMenu | None = None,
    *,
    asks: bool = False,
) -> Content:
    """The message. `suggestion`: the text that was probably meant; `command`: the same, for a button; `asks`: it needs
    an approval."""
    lines = [f":warning: {phrase_markup((fit(message, SAID),))}"]
    if suggestion:
        lines.append(f"Did you mean `/supervisor {in_code(suggestion, SAID // 2)}`?")
    if choice is not None and choice.more:
        lines.append(f"The menu hasn't room for all: type `/supervisor {choice.command.name} WORKER`.")
    blocks: list[dict[str, Any]] = [section("\n".join(lines))]
    if command is not None:
        about = fit(render(command), BUTTON)
        blocks.append(actions("meant", [command_button(command, nonce, about, about=about, asks=asks)]))
    if choice is not None:
        blocks.append(actions(choice.block_id, [_menu(choice)]))
    return {"text": fit("\n".join(lines), LONGEST), "blocks": blocks}


def retry_message(text: str, command: Command, nonce: str, *, asks: bool) -> Content:
    """A failure with a button to retry."""
    about = fit(render(command), BUTTON)
    button = command_button(command, nonce, "Try again", about=about, asks=asks)
    blocks = [section(text), actions("again", [button])]
    return {"text": fit(text, LONGEST), "blocks": blocks}


def _menu(choice: TargetMenu) -> dict[str, Any]:
    definition = CATALOG[choice.command.name]
    options = [option(each, each) for each in choice.targets]
    menu: dict[str, Any] = {
        "type": "static_select",
        "action_id": CHOOSE,
        "placeholder": plain_text(f"{definition.name}: which worker?"),
        "options": options,
    }
    if definition.risk is not Risk.READS:
        name, verb = definition.name.capitalize(), verb_of(definition.name)
        words = EFFECTS.get(definition.name, definition.summary)
        words += " Needs approval first." if choice.asks else ""
        menu["confirm"] = confirm(f"{verb.removesuffix(' of')}?", words, name)  # a choice may be a team or all
    return menu
