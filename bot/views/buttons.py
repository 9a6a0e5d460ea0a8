"""Buttons that give commands, with the question that each asks first; and buttons between the pages of a list. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from bot.views.blocks import Json, actions, button, plain_text
from bot.views.text import fit, shorten
from supervisor_core.commands.catalog import CATALOG, OVERVIEW
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import Risk
from supervisor_core.commands.grammar import render

ACTION = "command:"
"""Before the name of a command in the `action_id` of a button that gives it; its value is `NONCE ARGUMENTS`."""

PART = ":"
"""After that name, before what tells several buttons of one command in one row apart."""

WITHDRAW = "withdraw"
"""The `action_id` of the button that cancels a command that waits for its host; its value is the command id."""

PAGE = "page:"
"""Before the name of a command whose answer goes on: the value of the button is `NONCE WHERE ARGUMENTS`."""

ON_ALERT = "alert."
"""Starts the nonce of a button on an alert: the command's card goes to the alert's thread."""

"""Before the name of a command whose answer is shown to everybody in the channel: `NONCE WHICH ARGUMENTS`."""

DO = "home:do"
"""The `action_id` of a button or a menu that opens the form of a command; its value is `COMMAND:ARGUMENTS`. A button
adds the name of its command."""

EFFECTS: Mapping[str, str] = {
    "pause": "Stops it. It stays paused until it's resumed.",
    "resume": "Starts it again.",
    "restart": "Stops it, then starts it again.",
    "update": "Pulls its newest code and restarts it, unless it's paused.",
    "update-deps": "Pulls its newest code, installs its packages and restarts it, unless it's paused.",
    "rollback": "Reverts its newest commits and restarts it, unless it's paused.",
    "undo": "Restores its previous code and restarts it, unless it's paused.",
    "mute": "Alerts about it are recorded but not posted.",
    "unmute": "Alerts about it are posted again.",
    "monitoring pause": "The supervisor starts, stops and restarts no worker on its own until monitoring is resumed.",
    "rolling pause": "Workers at work finish. No further one starts until it's continued.",
    "rolling continue": "Starts the remaining workers, batch by batch. Failures so far are accepted.",
    "rolling abort": "Workers at work finish. The remaining ones aren't started.",
    "rolling undo": "Restores the previous code of the workers that it has changed and restarts them.",
    "schedule remove": "Its command won't run any more. A run in progress continues.",
    "monitoring resume": "The supervisor watches and restarts its workers again.",
}
"""The effect of each command, for the confirmation of its button."""

MOST = 2000
"""Characters of a button's value."""

NAMED = 3


def command_button(
    command: Command,
    nonce: str,
    text: str = "",
    *,
    about: str = "",
    effect: str = "",
    style: str = "",
    asks: bool = False,
    part: str = "",
) -> Json:
    """A button that gives this command, each nonce once. A command that changes something is confirmed first: the
    question `about` (by default the button's text and workers) with this effect (by default its own). `asks`: it needs
    an approval. `part`: tells it apart from others of its command in one row."""
    definition = CATALOG.on_record(command.name)
    text = text or command.name.replace("-", " ").capitalize()
    about = about or f"{text} {shorten(command.workers, NAMED) or command.target}".rstrip()
    action = f"{ACTION}{command.name}{PART if part else ''}{part}"
    made = button(action, text, _value(command, nonce), label=about, style=style)
    if definition.risk is not Risk.READS and command.name != OVERVIEW:
        words = effect or EFFECTS.get(command.name, definition.summary)
        words += " This needs an approval first." if asks else ""
        made["confirm"] = confirm(f"{about}?", words, text)
    return made


def command_name(action_id: str) -> str:
    return action_id.removeprefix(ACTION).partition(PART)[0]


def page_button(command: Command, nonce: str, where: str, text: str) -> Json:
    """A button to another page of this command's answer; the word `where` says which. It gives no right: the command is
    checked again for whoever presses it."""
    return button(f"{PAGE}{where.partition(':')[0]}:{command.name}", text, _value(command, nonce, where))


def _value(command: Command, *words: str) -> str:
    return " ".join([*words, render(command).removeprefix(command.name).lstrip()])[:MOST]


def confirm(title: str, text: str, yes: str) -> Json:
    return {
        "title": plain_text(fit(title, 100)),
        "text": plain_text(fit(text, 300)),
        "confirm": plain_text(fit(yes, 30)),
        "deny": plain_text("Not now"),
    }


T = TypeVar("T")

BACK, NEXT = "back", "next"


@dataclass(frozen=True, slots=True)
class ListPage(Generic[T]):
    items: Sequence[T]
    number: int
    """From 0."""
    pages: int
    first: int
    """The place of its first item, from 1."""


def list_page(items: Sequence[T], size: int, number: int) -> ListPage[T]:
    pages = max(-(-len(items) // size), 1)
    number = min(max(number, 0), pages - 1)
    return ListPage(items[number * size : (number + 1) * size], number, pages, number * size + 1)


def page_buttons(part: ListPage[T], command: Command, nonce: str) -> list[Json]:
    buttons = []
    if part.number > 0:
        buttons.append(page_button(command, nonce, f"{BACK}:{part.number - 1}", "Previous page"))
    if part.number + 1 < part.pages:
        buttons.append(page_button(command, nonce, f"{NEXT}:{part.number + 1}", "Next page"))
    return [actions("pages", buttons)] if buttons else []


def page_number(word: str) -> int:
    """The number of the page that a button says, from 0."""
    number = word.partition(":")[2]
    return int(number) if number.isdecimal() and len(number) < 6 else 0
