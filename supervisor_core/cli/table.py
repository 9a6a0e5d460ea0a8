"""Tables on a terminal: as wide as their content, at most 100 columns, with colors where they're wanted."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

GAP = "  "
NARROWEST = 30  # characters: a last column with less is hard to read beside the others, and goes below them
INDENT = 4  # of what stands below its row
MAX_WIDTH = 100
MOST_LINES = 4  # of one cell; --plain and --json have all of a long one

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
    return f"\x1b[{colour}m{text}\x1b[0m" if colour else text


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], colours: Sequence[str] = ()) -> None:
    """Print the rows under their heads, in colors where they are wanted."""
    print(folded_table(head, rows, terminal_width(), colours if wants_colour() else ()))


def folded_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, colours: Sequence[str] = ()
) -> str:
    """The rows under their heads. With `width` the last column is folded between words: beside the others, or below
    them where it would be too narrow or too long. Of one that is longer still, the middle is left out. `colours` are
    those of the first cell of each row; the head is dim then."""
    clean = [[printable(cell) for cell in row] for row in rows]
    if not any(row[-1] for row in clean):
        head = (*head[:-1], "")
    widths = [max(map(len, column)) for column in zip(head, *clean, strict=True)][:-1]
    lines = [_folded_row(row, widths, width) for row in (head, *clean)]
    for row, own, colour in zip(clean, lines[1:], colours, strict=bool(colours)):
        own[0] = paint(row[0], colour) + own[0][len(row[0]) :]
    if colours:
        lines[0] = [paint(line, DIM) for line in lines[0]]
    return "\n".join(line for own in lines for line in own)


def folded(text: str, width: int, indent: int = 0) -> list[str]:
    """A text in lines of at most `width`, the later ones indented; a longer word is cut."""
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


def fit(text: str) -> str:
    """The text as it is, or on a terminal with longer lines folded between words."""
    width = terminal_width()
    if width is None:
        return text
    lines = text.split("\n")
    return "\n".join(part for line in lines for part in (folded(line, width, 2) if len(line) > width else [line]))


def _folded_row(row: Sequence[str], widths: Sequence[int], width: int | None) -> list[str]:
    others = GAP.join(cell.ljust(size) for cell, size in zip(row[:-1], widths, strict=True)) + GAP
    if width is None:
        return [f"{others}{row[-1]}".rstrip()]
    room = width - len(others)
    lines = folded(row[-1], room) if room >= NARROWEST or len(row[-1]) <= room else []
    if 0 < len(lines) <= MOST_LINES:
        first, *more = lines
        return [f"{others}{first}".rstrip(), *(" " * len(others) + line for line in more)]
    below = folded(row[-1], width - INDENT)
    if len(below) > MOST_LINES:  # the cause of an error is mostly at its end
        below = [*below[: MOST_LINES - 2], f"{below[MOST_LINES - 2][:-1]}…", below[-1]]
    return [_cut(others.rstrip(), width), *(" " * INDENT + line for line in below)]


def _cut(line: str, width: int) -> str:
    return line if len(line) <= width else line[: width - 1] + "…"


def printable(cell: str) -> str:
    """The text without control characters, which could move the cursor or change colors."""
    return cell if cell.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cell)
