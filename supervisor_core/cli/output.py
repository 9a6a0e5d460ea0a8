"""Output on a terminal: colors, tables at most 100 columns wide, JSON, and the steps of a command."""

from __future__ import annotations

import json
import os
import sys

from supervisor_core.common.times import format_span, from_text, to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from datetime import datetime
    from typing import Any

GAP = "  "
MIN_LAST_COLUMN = 30  # characters: a narrower last column is hard to read beside the others, and goes below them
INDENT = 4  # of what stands below its row
MAX_WIDTH = 100
MAX_LINES = 4  # of one cell; --plain and --json have all of a long one

BOLD, DIM, RED, GREEN, AMBER = "1", "2", "31", "32", "33"
"""Colors, as the terminal's SGR codes."""


def terminal_width() -> int | None:
    """The columns to use on a terminal, at most 100; None when the output goes elsewhere."""
    if not sys.stdout.isatty():
        return None
    return min(os.get_terminal_size().columns or MAX_WIDTH, MAX_WIDTH)


def wants_color() -> bool:
    """True on a terminal that shows colors, unless `NO_COLOR` is set."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or sys.platform == "win32"
    return sys.stdout.isatty() and not plain


def paint(text: str, color: str) -> str:
    return f"\x1b[{color}m{text}\x1b[0m" if color else text


def print_json(document: object, *, indented: bool = False) -> None:
    """Print values as JSON: a dataclass by its fields, a time as text, a duration in seconds."""
    print(json.dumps(document, indent=2 if indented else None, default=_encode))


def fields_of(value: Any, *omitted: str) -> dict[str, Any]:  # noqa: ANN401 (any dataclass)
    return {name: getattr(value, name) for name in value.__dataclass_fields__ if name not in omitted}


def _encode(value: Any) -> object:  # noqa: ANN401 (any value of a document)
    if hasattr(value, "__dataclass_fields__"):
        return fields_of(value)
    if hasattr(value, "total_seconds"):
        return value.total_seconds()
    return to_text(value) if hasattr(value, "isoformat") else dict(value)


def print_table(head: Sequence[str], rows: Sequence[Sequence[str]], colors: Sequence[str] = ()) -> None:
    print(format_table(head, rows, terminal_width(), colors if wants_color() else ()))


def format_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None, colors: Sequence[str] = ()
) -> str:
    """The rows under their heads. With `width` the last column is folded between words: beside the others, or below
    them where it would be too narrow or too long. Of one that is longer still, the middle is left out. `colors` are
    those of the first cell of each row; the head is dim then."""
    cells = [[visible(cell) for cell in row] for row in rows]
    if not any(row[-1] for row in cells):
        head = (*head[:-1], "")
    widths = [max(map(len, column)) for column in zip(head, *cells, strict=True)][:-1]
    blocks = [_format_row(row, widths, width) for row in (head, *cells)]
    if colors:
        blocks[0] = [paint(line, DIM) for line in blocks[0]]
        for row, block, color in zip(cells, blocks[1:], colors, strict=True):
            block[0] = paint(row[0], color) + block[0][len(row[0]) :]
    return "\n".join(line for block in blocks for line in block)


def _format_row(row: Sequence[str], widths: Sequence[int], width: int | None) -> list[str]:
    columns = GAP.join(cell.ljust(size) for cell, size in zip(row[:-1], widths, strict=True)) + GAP
    if width is None:
        return [f"{columns}{row[-1]}".rstrip()]
    room = width - len(columns)
    lines = wrap(row[-1], room) if room >= MIN_LAST_COLUMN or len(row[-1]) <= room else []
    if 0 < len(lines) <= MAX_LINES:
        return [f"{columns}{lines[0]}".rstrip(), *(" " * len(columns) + line for line in lines[1:])]
    below = wrap(row[-1], width - INDENT)
    if len(below) > MAX_LINES:  # the cause of an error is mostly at its end
        below = [*below[: MAX_LINES - 2], f"{below[MAX_LINES - 2][:-1]}…", below[-1]]
    return [shorten(columns.rstrip(), width), *(" " * INDENT + line for line in below)]


def shorten(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def wrap(text: str, width: int, indent: int = 0) -> list[str]:
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
    return "\n".join(
        part for line in text.split("\n") for part in (wrap(line, width, 2) if len(line) > width else [line])
    )


def visible(cell: str) -> str:
    """The text without control characters, which could move the cursor or change colors."""
    return cell if cell.isprintable() else "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in cell)


class Steps:
    """Shows the steps of a command: on a terminal as a checklist that is drawn again, elsewhere each as a line."""

    def __init__(self, since: datetime, *, with_names: bool) -> None:
        """`since`: when the command was sent. `with_names`: each step names its worker."""
        self.is_checklist = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"
        self._since = since
        self._with_names = with_names
        self._steps: Sequence[Mapping[str, str]] = ()
        self._printed: dict[str, int] = {}
        """How many lines were printed of each worker's steps."""
        self._drawn = 0
        """Lines of the checklist on the screen."""

    def show(self, steps: Sequence[Mapping[str, str]], now: datetime) -> None:
        """Show these steps, unless more of them are known already."""
        if len(steps) >= len(self._steps):
            self._steps = steps
        if self.is_checklist:
            self.draw(now)
            return
        count: dict[str, int] = {}  # each worker's steps are in their order, whichever worker's was written first
        for step in steps:
            worker = step["worker_id"]
            count[worker] = count.get(worker, 0) + 1
            if count[worker] > self._printed.get(worker, 0):
                self._printed[worker] = count[worker]
                seconds = max((from_text(step["at"]) - self._since).total_seconds(), 0.0)
                print(f"{seconds:6.1f} s  {f'{worker}: ' if self._with_names else ''}{step['words']}", flush=True)

    def finish(self, failed: Collection[str], now: datetime) -> None:
        """Show that the last step of each worker has ended, or `failed`."""
        if self.is_checklist:
            self.draw(now, failed)

    def draw(self, now: datetime, failed: Collection[str] | None = None) -> None:
        """Draw the checklist over the last one. Without `failed`, the last step of each worker is under way."""
        lines = [self._entry(index, now, failed) for index in range(len(self._steps))]
        if failed is None:
            lines = lines[-(os.get_terminal_size().lines - 1) :]  # what has left the screen can't be drawn again
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        sys.stdout.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)

    def _entry(self, index: int, now: datetime, failed: Collection[str] | None) -> str:
        from supervisor_core.common.text import capitalize

        step, worker = self._steps[index], self._steps[index]["worker_id"]
        following = next((later["at"] for later in self._steps[index + 1 :] if later["worker_id"] == worker), None)
        mark, color = "✓", GREEN
        if following is None and failed is None:
            mark, color = "•", AMBER
        elif following is None and failed is not None and worker in failed:
            mark, color = "✗", RED
        seconds = ((from_text(following) if following else now) - from_text(step["at"])).total_seconds()
        elapsed = f"  {format_span(seconds)}" if seconds >= 1 else ""
        name = f"{worker}: " if self._with_names and worker not in step["words"] else ""
        room = (terminal_width() or MAX_WIDTH) - len(f"{mark} {name}{elapsed}") - 1
        text = shorten(visible(name + capitalize(step["words"], worker)), room)
        return f"{paint(mark, color)} {text}{paint(elapsed, DIM)}" if wants_color() else f"{mark} {text}{elapsed}"
