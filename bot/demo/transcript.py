"""The transcript of a tour: what each person typed and saw, laid out for a terminal."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import TextIO

from slack_playground.people.markup import with_emoji

WIDTH = 80
NAME = 12  # columns of the names on the left
ATTACHED = "| "  # before each line of an attachment in the playground's transcript
BAR = "│ "  # stands for the color bar of an attachment

FACTS = " · "
AFTER_EMOJI = "   "  # an emoji is two columns wide, and a space follows
LISTED = re.compile(r" +\S+ {2,}")  # a word with its explanation
BOLD, DIM, GREEN, RED, CYAN = "1", "2", "32", "31", "36"


class Transcript:
    """Writes line by line, in color on a terminal unless NO_COLOR is set."""

    def __init__(self, out: TextIO | None = None) -> None:
        self._out = out or sys.stdout
        self._color = self._out.isatty() and not os.environ.get("NO_COLOR")

    def scene(self, number: int, title: str) -> None:
        """Start a scene."""
        rule = "─" * max(WIDTH - len(title) - len(str(number)) - 8, 4)
        self._write("", self._in(DIM, f"── {number} ── ") + self._in(BOLD, title) + self._in(DIM, f" {rule}"), "")

    def types(self, name: str, text: str) -> None:
        """Show what a person types."""
        self._write(self._in(CYAN, name.ljust(NAME)) + self._in(BOLD, text))

    def presses(self, name: str, button: str, *, confirms: bool) -> None:
        """Show which button a person presses."""
        after = self._in(DIM, "  and confirms") if confirms else ""
        self._write(self._in(CYAN, name.ljust(NAME)) + self._in(BOLD, f"[ {button} ]") + after)

    def runs(self, text: str) -> None:
        """Show a command in a shell."""
        self._write(self._in(CYAN, "shell".ljust(NAME)) + self._in(BOLD, f"$ {text}"))

    def shows(self, name: str, lines: Iterable[str], note: str = "") -> None:
        """Show lines of Slack or of a shell."""
        shown = [part for line in lines for part in _wrapped(with_emoji(line))] or [""]
        for number, line in enumerate(shown):
            left = name.ljust(NAME) if number == 0 else " " * NAME
            self._write(self._in(DIM, left) + line)
        if note:
            self._write(" " * NAME + self._in(DIM, note))

    def table(self, rows: Sequence[Sequence[str]], note: str) -> None:
        """Show rows below a header."""
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for number, row in enumerate(rows):
            line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            self._write(" " * NAME + (self._in(DIM, line) if number == 0 else line))
        self._write(" " * NAME + self._in(DIM, note))

    def holds(self, text: str) -> None:
        """Show a check that passed."""
        self._write(" " * NAME + self._in(GREEN, "✓ ") + self._in(DIM, text))

    def fails(self, text: str) -> None:
        """Show a check that failed."""
        self._write(
            "", *(self._in(RED, f"✗ {line}" if number == 0 else line) for number, line in enumerate(text.split("\n")))
        )

    def ends(self, text: str) -> None:
        """Write the last line."""
        self._write("", self._in(BOLD, text))

    def _in(self, style: str, text: str) -> str:
        return f"\033[{style}m{text}\033[0m" if self._color and text.strip() else text

    def _write(self, *lines: str) -> None:
        for line in lines:
            self._out.write(f"{line.rstrip()}\n")
        self._out.flush()


def _wrapped(line: str) -> list[str]:
    """A line in parts that fit beside the names; facts between dots stay whole."""
    if line.startswith(ATTACHED):
        return [BAR + part for part in _folded(line.removeprefix(ATTACHED), WIDTH - NAME - len(BAR))]
    return _folded(line, WIDTH - NAME)


def _folded(line: str, room: int) -> list[str]:
    if len(line) <= room:
        return [line]
    if FACTS in line:
        return _filled(line.split(FACTS), room)
    listed = LISTED.match(line)
    indent = " " * listed.end() if listed else AFTER_EMOJI if not line[0].isascii() else "  "
    return textwrap.wrap(line, room, subsequent_indent=indent, break_on_hyphens=False) or [""]


def _filled(facts: list[str], room: int) -> list[str]:
    lines = [facts[0]]
    for fact in facts[1:]:
        if len(lines[-1]) + len(FACTS) + len(fact) <= room:
            lines[-1] += FACTS + fact
        else:
            lines.append(fact)
    return [part for line in lines for part in textwrap.wrap(line, room, drop_whitespace=False)]
