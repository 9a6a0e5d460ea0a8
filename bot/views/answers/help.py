"""The answer to `help`, and the answer to a mistake. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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
        lines = [
            f"• `/supervisor {escape(each.usage)}`: {escape(each.summary)}".replace(" `: ", "`: ")
            for each in definitions
            if each.risk is risk
        ]
        if lines:
            blocks.append(section("\n".join([f"*{title}*", *lines])))
    blocks.append(context("`/supervisor help COMMAND` for details · mentions and direct messages work the same way"))
    return card(":information_source: *Commands you can use*", Color.QUIET, blocks)


CHOOSE = "choose"
"""The `action_id` of a menu of targets; its block's id says what the choice completes."""

BUTTON = 70  # characters
SAID = 1500


def mistake(
    message: str,
    nonce: str,
    suggestion: str = "",
    command: Command | None = None,
    menu: Json | None = None,
    *,
    asks: bool = False,
    hint: str = "",
) -> Content:
    """The message. `suggestion`: the text that was probably meant; `command`: the same, for a button; `asks`: it needs
    an approval; `hint`: a further line."""
    lines = [f":warning: {phrase_markup((fit(message, SAID),))}"]
    if suggestion:
        lines.append(f"Did you mean `/supervisor {in_code(suggestion, SAID // 2)}`?")
    lines += [hint] if hint else []
    blocks: list[dict[str, Any]] = [section("\n".join(lines))]
    if command is not None:
        about = fit(render(command), BUTTON)
        blocks.append(actions("meant", [command_button(command, nonce, about, about=about, asks=asks)]))
    if menu is not None:
        blocks.append(menu)
    return {"text": fit("\n".join(lines), LONGEST), "blocks": blocks}


def retry_message(text: str, command: Command, nonce: str, *, asks: bool) -> Content:
    about = fit(render(command), BUTTON)
    button = command_button(command, nonce, "Try again", about=about, asks=asks)
    blocks = [section(text), actions("again", [button])]
    return {"text": fit(text, LONGEST), "blocks": blocks}


def target_menu(block_id: str, command: Command, targets: Sequence[str], *, asks: bool) -> Json:
    """A menu of targets for this command. `block_id` says what the choice completes."""
    definition = CATALOG[command.name]
    menu: Json = {
        "type": "static_select",
        "action_id": CHOOSE,
        "placeholder": plain_text(f"{definition.name}: which worker?"),
        "options": [option(target, target) for target in targets],
    }
    if definition.risk is not Risk.READS:
        name, verb = definition.name.capitalize(), verb_of(definition.name)
        words = EFFECTS.get(definition.name, definition.summary)
        words += " Needs approval first." if asks else ""
        menu["confirm"] = confirm(f"{verb.removesuffix(' of')}?", words, name)  # a choice may be a team or all
    return actions(block_id, [menu])
