"""Lines of the structured log: understood, searched, and shown as a line each for people.

On the path of `supervisor logs`: nothing slow is imported here.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""From harmless to worst."""

_COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}  # SGR codes: dim, yellow, red, bold red
_BEGINNING = b'{"timestamp"'
"""How each line begins. Inside of one it can't stand, because JSON escapes its quotes."""


class LogLine:
    """One event: what is searched and shown of it, and its text as it stands in the file."""

    __slots__ = ("level", "message", "task_id", "text", "time", "worker_id")

    def __init__(self, text: str, fields: dict[str, Any]) -> None:
        self.text = text
        self.time = str(fields["timestamp"])
        self.level = str(fields["level"])
        self.message = str(fields["message"])
        self.worker_id: str | None = fields.get("worker_id")
        self.task_id: str | None = fields.get("task_id")


class Search:
    """What is looked for: one worker, a level and what is worse, from a moment on (as the text that stands in lines).

    A line of a task belongs to the task's worker, also where it does not say so itself.
    """

    def __init__(
        self, worker_id: str | None = None, level: str | None = None, since: str = "", older_than_all: str = ""
    ) -> None:
        self.broken = 0
        """How many lines could not be read as an event."""
        self._worker_id = worker_id
        self._too_low = LEVELS[: LEVELS.index(level)] if level else ()  # a level that we don't know is shown
        self._since = since
        self._older_than_all = older_than_all
        self._tasks: set[str] = set()

    def newest(self, lines: Iterable[bytes], most: int) -> list[LogLine]:
        """So many that fit, the oldest first, out of lines that come newest first. Reads no further than it must."""
        kept: list[LogLine] = []
        sure = 0
        doubtful: dict[str, int] = {}  # by task: how many were kept of it before it was known whose it is
        for raw in lines:
            if sure >= most:
                break
            line = self._understood(raw)
            if line is None:
                continue
            if line.time < self._older_than_all:
                break
            mine = self._is_mine(line)
            if mine and line.task_id:
                sure += doubtful.pop(line.task_id, 0)
            if mine is False or not self._fits(line):
                continue
            kept.append(line)
            if mine:
                sure += 1
            elif line.task_id:
                doubtful[line.task_id] = doubtful.get(line.task_id, 0) + 1
        return [line for line in kept if self._is_mine(line)][:most][::-1]

    def fitting(self, lines: Iterable[bytes]) -> list[LogLine]:
        """Those that fit out of lines in the order of time."""
        understood = [line for line in map(self._understood, lines) if line is not None]
        return [line for line in understood if self._is_mine(line) and self._fits(line)]

    def _is_mine(self, line: LogLine) -> bool | None:
        """Whether it is the worker's; None where that depends on whose its task turns out to be."""
        if self._worker_id is None:
            return True
        if line.worker_id is not None:
            if line.worker_id == self._worker_id and line.task_id:
                self._tasks.add(line.task_id)
            return line.worker_id == self._worker_id
        if line.task_id is None:
            return False
        return True if line.task_id in self._tasks else None

    def _fits(self, line: LogLine) -> bool:
        return line.level not in self._too_low and line.time >= self._since

    def _understood(self, raw: bytes) -> LogLine | None:
        line = _parsed(raw)
        if line is None:
            self.broken += 1
            # What was half written when the power failed has the next start's first line right behind it.
            begins = raw.rfind(_BEGINNING)
            line = _parsed(raw[begins:]) if begins > 0 else None
        return line


class Layout:
    """Time, level, worker, task, message: columns as wide as what has come so far."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured
        self._widths = [len("WARNING"), 1, 1]

    def lines(self, found: Iterable[LogLine]) -> list[str]:
        """A line each. What would move the cursor or colour the terminal is shown, not obeyed."""
        rows = [
            (
                line.time.replace("T", " "),
                [line.level, line.worker_id or "-", line.task_id or "-"],
                line.message,
            )
            for line in found
        ]
        clean = [(_escaped(time), [_escaped(cell) for cell in cells], _escaped(text)) for time, cells, text in rows]
        for _, cells, _ in clean:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, cells, strict=True)]
        return [self._line(time, cells, text) for time, cells, text in clean]

    def _line(self, time: str, cells: list[str], text: str) -> str:
        level, *others = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
        colour = _COLOURS.get(cells[0]) if self._coloured else None
        return "  ".join([time, f"\x1b[{colour}m{level}\x1b[0m" if colour else level, *others, text])


def _parsed(raw: bytes) -> LogLine | None:
    try:
        text = raw.decode()
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    required = (fields.get("timestamp"), fields.get("level"), fields.get("message"))
    optional = (fields.get("worker_id"), fields.get("task_id"))
    if not all(isinstance(each, str) for each in required):
        return None
    return LogLine(text, fields) if all(each is None or isinstance(each, str) for each in optional) else None


def _escaped(text: str) -> str:
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
