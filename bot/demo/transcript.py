"""The transcript of a tour: who typed what, and what they then saw, laid out for a terminal."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

WIDTH = 80
NAME = 12
"""Columns of the names at the left."""

EMOJI = {
    "white_check_mark": "✅",
    "x": "❌",
    "hourglass_flowing_sand": "⏳",
    "no_entry": "⛔",
    "warning": "⚠️",
    "double_vertical_bar": "⏸️",
    "arrow_forward": "▶️",
    "arrows_counterclockwise": "🔄",
    "raised_hand": "✋",
    "+1": "👍",
    "-1": "👎",
    "eyes": "👀",
    "seedling": "🌱",
    "leftwards_arrow_with_hook": "↩️",
    "large_green_circle": "🟢",
    "large_yellow_circle": "🟡",
    "red_circle": "🔴",
    "white_circle": "⚪",
    "rotating_light": "🚨",
}
FACTS = " · "
PICTURE = "   "  # an emoji is two columns wide, and a space follows
LISTED = re.compile(r" +\S+ {2,}")  # a word with its explanation
SHORT_NAME = re.compile(r":([a-z0-9_+-]+):")
BOLD, DIM, GREEN, RED, CYAN = "1", "2", "32", "31", "36"


def with_emoji(text: str) -> str:
    """Emoji instead of their short names, as Slack shows them."""
    return SHORT_NAME.sub(lambda match: EMOJI.get(match[1], match[0]), text)


class Transcript:
    """Writes line by line, at once. In colour on a terminal, unless NO_COLOR asks for none."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._colour = self._out.isatty() and not os.environ.get("NO_COLOR")

    def scene(self, number: int, title: str) -> None:
        """A new scene."""
        rule = "─" * max(WIDTH - len(title) - len(str(number)) - 8, 4)
        self._write("", self._in(DIM, f"── {number} ── ") + self._in(BOLD, title) + self._in(DIM, f" {rule}"), "")

    def types(self, name: str, text: str) -> None:
        """A person types."""
        self._write(self._in(CYAN, name.ljust(NAME)) + self._in(BOLD, text))

    def presses(self, name: str, button: str, asked: str) -> None:
        """A person presses a button, and answers what it asks."""
        self._write(self._in(CYAN, name.ljust(NAME)) + self._in(BOLD, f"[ {button} ]") + f"  {asked}")

    def runs(self, text: str) -> None:
        """Somebody runs a command in a shell."""
        self._write(self._in(CYAN, "shell".ljust(NAME)) + self._in(BOLD, f"$ {text}"))

    def shows(self, name: str, lines: Iterable[str], note: str = "") -> None:
        """Lines that appear on the screen."""
        shown = [part for line in lines for part in _wrapped(with_emoji(line))] or [""]
        for number, line in enumerate(shown):
            left = name.ljust(NAME) if number == 0 else " " * NAME
            self._write(self._in(DIM, left) + line)
        if note:
            self._write(" " * NAME + self._in(DIM, note))

    def table(self, rows: Sequence[Sequence[str]], note: str) -> None:
        """Rows under a head."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for number, row in enumerate(rows):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self._write(" " * NAME + (self._in(DIM, line) if number == 0 else line))
        self._write(" " * NAME + self._in(DIM, note))

    def holds(self, text: str) -> None:
        """Something that was checked, and is so."""
        self._write(" " * NAME + self._in(GREEN, "✓ ") + self._in(DIM, text))

    def fails(self, text: str) -> None:
        """Something that was expected, and is not so."""
        self._write(
            "", *(self._in(RED, f"✗ {line}" if number == 0 else line) for number, line in enumerate(text.split("\n")))
        )

    def ends(self, text: str) -> None:
        """The last line."""
        self._write("", self._in(BOLD, text))

    def _in(self, style: str, text: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self._colour and text.strip() else text

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._out.write(f"{line.rstrip()}\n")
        self._out.flush()


def _wrapped(line: str) -> list[str]:
    """A line cut into parts that fit beside the names, facts that dots separate between two facts."""
    room = WIDTH - NAME
    if len(line) <= room:
        return [line]
    if FACTS in line:
        return _filled(line.split(FACTS), room)
    listed = LISTED.match(line)
    indent = " " * listed.end() if listed else PICTURE if not line[0].isascii() else "  "
    return textwrap.wrap(line, room, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _filled(facts: list[str], room: int) -> list[str]:
    lines = [facts[0]]
    for fact in facts[1:]:
        if len(lines[-1]) + len(FACTS) + len(fact) <= room:
            lines[-1] += FACTS + fact
        else:
            lines.append(fact)
    return lines
