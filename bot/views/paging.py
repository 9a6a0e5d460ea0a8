"""A list that is longer than a message: one page of it, with the buttons to the pages beside it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bot.views.buttons import page_button
from supervisor_core.domain.command import Command

T = TypeVar("T")

BACK, NEXT = "back", "next"


@dataclass(frozen=True, slots=True)
class Part(Generic[T]):
    """A page, and where it is."""

    items: Sequence[T]
    number: int
    """From 0."""
    pages: int
    first: int
    """The place of its first item, from 1."""


def part_of(items: Sequence[T], size: int, number: int) -> Part[T]:
    """This page, or the last one where there are fewer by now."""
    pages = max(-(-len(items) // size), 1)
    number = min(max(number, 0), pages - 1)
    return Part(items[number * size : (number + 1) * size], number, pages, number * size + 1)


def turning(part: Part[T], command: Command, nonce: str) -> list[dict[str, Any]]:
    """The block of buttons; none where there is one page alone."""
    buttons = []
    if part.number > 0:
        buttons.append(page_button(command, nonce, f"{BACK}:{part.number - 1}", "Previous page"))
    if part.number + 1 < part.pages:
        buttons.append(page_button(command, nonce, f"{NEXT}:{part.number + 1}", "Next page"))
    return [{"type": "actions", "block_id": "pages", "elements": buttons}] if buttons else []


def sections_of(lines: Sequence[str], most: int) -> list[str]:
    """Lines together, as many in one text as fit."""
    texts: list[str] = []
    for line in lines:
        if texts and len(texts[-1]) + 1 + len(line) <= most:
            texts[-1] += f"\n{line}"
        else:
            texts.append(line)
    return texts


def page_in(word: str) -> int:
    """The number of the page that a button says, from 0."""
    number = word.partition(":")[2]
    return int(number) if number.isdecimal() and len(number) < 6 else 0
