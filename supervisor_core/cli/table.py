"""Tables on a terminal: as wide as their content, kept inside the terminal's edge, with a word where nothing is.

The steps of a command on a terminal: each is printed once, as soon as it is known.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from supervisor_core.common.times import from_text

TYPE_CHECKING = False

GAP = "  "
NARROWEST = 30  # characters: a last column with less is hard to read beside the others, and goes below them
INDENT = 4  # of what stands below its row
MAX_WIDTH = 100
MOST_LINES = 4  # of one cell; whoever wants all of a long one asks for --plain or --json


BOLD, DIM, RED, GREEN, AMBER = "1", "2", "31", "32", "33"
"""Colors, as the terminal's SGR codes."""


def terminal_width() -> int | None:
    """The columns to use on a terminal, at most 100; None when the output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    return min(os.get_terminal_size().columns or MAX_WIDTH, MAX_WIDTH)


def wants_colour() -> bool:
    """True on a terminal that shows colors, unless `NO_COLOR` is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or sys.platform == "win32"
    return sys.stdout.isatty() and not plain


def paint(text: str, colour: str) -> str:
    """The text in a color."""
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None) -> str:
    """The rows under their heads; with `width`, the last column is cut so that no line is longer."""
    clean = [[printable(cell) for cell in row] for row in rows]
    widths = _widths(head, clean)
    lines = [
        GAP.join(cell.ljust(size) for cell, size in zip(row, widths, strict=True)).rstrip() for row in (head, *clean)
    ]
    if width:
        lines = [_cut(line, width) for line in lines]
    return "\n".join(lines)


def folded_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, colours: Sequence[str] = ()
) -> str:
    """The same, but with `width` the last column is folded between words: beside the others, or below them where
    it would be too narrow or too long. Of one that is longer still, the middle is left out. `colours` are those of
    the first cell of each row; the head is dim then."""
    clean = [[printable(cell) for cell in row] for row in rows]
    if not any(row[-1] for row in clean):
        head = (*head[:-1], "")
    if width is None:
        lines = [[line] for line in table(head, clean).split("\n")]
    else:
        widths = _widths(head, clean)[:-1]
        lines = [_folded_row(row, widths, width) for row in (head, *clean)]
    for row, own, colour in zip(clean, lines[1:], colours, strict=bool(colours)):
        own[0] = paint(row[0], colour) + own[0][len(row[0]) :]
    if colours:
        lines[0] = [paint(line, DIM) for line in lines[0]]
    return "\n".join(line for own in lines for line in own)


def folded(text: str, width: int, indent: int = 0) -> list[str]:
    """A text in lines that are no longer, the later ones indented; a word that is longer is cut in pieces."""
    room = max(width, indent + 1)
    lines, line = [], ""
    for word in text.split():
        if line.strip() and len(line) + 1 + len(word) > room:
            lines.append(line)
            line = " " * indent
        line += f" {word}" if line.strip() else word
        while len(line) > room:
            lines.append(line[:room])
            line = " " * indent + line[room:]
    return [*lines, line] if line.strip() or not lines else lines


def _folded_row(row: Sequence[str], widths: Sequence[int], width: int) -> list[str]:
    others = GAP.join(cell.ljust(size) for cell, size in zip(row[:-1], widths, strict=True)) + GAP
    room = width - len(others)
    lines = folded(row[-1], room) if room >= NARROWEST or len(row[-1]) <= room else []
    if 0 < len(lines) <= MOST_LINES:
        first, *more = lines
        return [f"{others}{first}".rstrip(), *(" " * len(others) + line for line in more)]
    below = _most(folded(row[-1], width - INDENT))
    return [_cut(others.rstrip(), width), *(" " * INDENT + line for line in below)]


def _most(lines: list[str]) -> list[str]:
    """The cause of an error mostly stands at its end."""
    if len(lines) <= MOST_LINES:
        return lines
    return [*lines[: MOST_LINES - 2], f"{lines[MOST_LINES - 2][:-1]}…", lines[-1]]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def _widths(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(head, *rows, strict=True)]


def printable(cell: str) -> str:
    """What would move the cursor or colour the terminal is shown, not obeyed."""
    return cell if cell.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cell)


class StepPrinter:
    """Prints what the handlers of one command said they were doing, with the seconds since it was sent."""

    def __init__(self, since: datetime, *, several: bool) -> None:
        self._since = since
        self._several = several
        self._printed: Counter[str] = Counter()

    @property
    def seen(self) -> int:
        """How many were printed."""
        return self._printed.total()

    def show(self, known: Sequence[Mapping[str, str]]) -> None:
        """Print those that are new. Each worker's are in their order, whichever worker's was written first."""
        met: Counter[str] = Counter()
        for step in known:
            worker = step["worker_id"]
            met[worker] += 1
            if met[worker] > self._printed[worker]:
                self._printed[worker] += 1
                print(self._line(step), flush=True)

    def _line(self, step: Mapping[str, str]) -> str:
        seconds = max((from_text(step["at"]) - self._since).total_seconds(), 0.0)
        who = f"{step['worker_id']}: " if self._several else ""
        return f"{seconds:6.1f} s  {who}{step['words']}"
