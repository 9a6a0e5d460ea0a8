"""`supervisor logs`: events of the structured log, searched, printed, and followed with `-f`.

It needs no daemon, and imports nothing slow.
"""

from __future__ import annotations

import argparse
import json
import select
import sys
import time

from supervisor_core.cli.options import LEVELS
from supervisor_core.cli.status import read_quickly
from supervisor_core.cli.table import paint, wants_colour
from supervisor_core.config.raw import state_dir_of
from supervisor_core.host.logging.events import EventFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from supervisor_core.config.raw import RawConfig

_COLOURS = {"DEBUG": "2", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}  # SGR codes: dim, yellow, red, bold red
_BEGINNING = b'{"timestamp"'
"""How each line begins. Inside of one it can't stand, because JSON escapes its quotes."""


class LogLine:
    """One event: what is searched and shown of it, and its text as it stands in the file."""

    __slots__ = ("event", "level", "message", "task_id", "text", "time", "worker_id")

    def __init__(self, text: str, fields: dict[str, Any]) -> None:
        self.text = text
        self.time = str(fields["timestamp"])
        self.level = str(fields["level"])
        self.message = str(fields["message"])
        self.event = str(fields.get("event"))
        self.worker_id: str | None = fields.get("worker_id")
        self.task_id: str | None = fields.get("task_id")


class LogSearch:
    """The filters: one worker, a lowest level, a moment (as the text in lines), and patterns of event names.

    A line of a task belongs to the task's worker, also where it does not say so itself.
    """

    def __init__(
        self,
        worker_id: str | None = None,
        level: str | None = None,
        since: str = "",
        older_than_all: str = "",
        events: Iterable[str] = (),
    ) -> None:
        self.broken = 0
        """How many lines could not be read as an event."""
        self._worker_id = worker_id
        self._too_low = LEVELS[: LEVELS.index(level)] if level else ()  # a level that we don't know is shown
        self._since = since
        self._older_than_all = older_than_all
        self._events = tuple(events)
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
        if line.level in self._too_low or line.time < self._since:
            return False
        if not self._events:
            return True
        from fnmatch import fnmatchcase

        return any(fnmatchcase(line.event, pattern) for pattern in self._events)

    def _understood(self, raw: bytes) -> LogLine | None:
        line = _parsed(raw)
        if line is None:
            self.broken += 1
            # What was half written when the power failed has the next start's first line right behind it.
            begins = raw.rfind(_BEGINNING)
            line = _parsed(raw[begins:]) if begins > 0 else None
        return line


class LogLayout:
    """Time, level, worker, task, message: columns as wide as what has come so far."""

    def __init__(self, *, coloured: bool) -> None:
        self._coloured = coloured
        self._widths = [len("WARNING"), 1, 1]

    def lines(self, found: Iterable[LogLine]) -> list[str]:
        """A line each. What would move the cursor or colour the terminal is shown, not obeyed."""
        rows = [
            [
                _escaped(cell)
                for cell in (
                    line.level,
                    line.worker_id or "-",
                    line.task_id or "-",
                    line.time.replace("T", " "),
                    line.message,
                )
            ]
            for line in found
        ]
        for row in rows:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=False)]
        lines = []
        for *cells, moment, text in rows:
            level, *others = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
            colour = _COLOURS.get(cells[0], "") if self._coloured else ""
            lines.append("  ".join([moment, paint(level, colour), *others, text]))
        return lines


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


FOLLOW_SECONDS = 0.25
"""How often new lines are looked for: one look costs less than a tenth of a millisecond."""

OUT_OF_ORDER_SECONDS = 60
"""Lines are not strictly in the order of their times: several threads write, and a clock may be set back."""


def run(options: argparse.Namespace) -> int:
    """Show the newest events that match, or with a target what the worker wrote; follow them with `-f`."""
    if options.target:
        from supervisor_core.cli import worker_output

        return worker_output.run(options)
    raw = read_quickly(options.config)
    worker_id = _configured(options.worker, raw) if options.worker else options.worker
    search = LogSearch(worker_id, options.level, *_since(options.since), options.event or ())
    files = EventFiles(state_dir_of(raw))
    printer = _Printer(search, as_json=options.json)
    found = search.newest(files.newest_first(unfinished=not options.follow), options.lines)
    printer.show(found)
    if not files.begun:
        print(f"supervisor: there's no log at {files.path} yet. The daemon or a pass creates it.", file=sys.stderr)
    elif not found and options.lines and not options.follow:
        print("supervisor: no matching events.", file=sys.stderr)
    while options.follow and still_read():  # Ctrl-C exits with 130, as everywhere
        if new := files.new_lines():
            printer.show(search.fitting(new))
    return 0


class _Printer:
    """Prints events, and counts damaged lines on stderr."""

    def __init__(self, search: LogSearch, *, as_json: bool) -> None:
        self._search = search
        self._layout = None if as_json else LogLayout(coloured=wants_colour())
        self._told = 0

    def show(self, found: list[LogLine]) -> None:
        for text in self._layout.lines(found) if self._layout else [line.text for line in found]:
            print(text)
        sys.stdout.flush()
        broken = self._search.broken - self._told
        if broken:
            self._told = self._search.broken
            lines = "1 damaged line" if broken == 1 else f"{broken} damaged lines"
            print(f"supervisor: skipped {lines}, as a power cut leaves them.", file=sys.stderr)


def still_read() -> bool:
    """Wait a while; False as soon as the reader of the output is gone, as with `logs -f | grep -m1 died`."""
    if sys.platform == "win32":
        time.sleep(FOLLOW_SECONDS)
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors and hang-ups are told without being asked for
    return not poll.poll(FOLLOW_SECONDS * 1000)


def _configured(worker_id: str, raw: RawConfig) -> str:
    """The configured worker with this id in any case. For another one, warn: its events may still be in the log, or
    it's a typo."""
    workers = raw.data.get("workers")
    known = [str(each) for each in workers] if isinstance(workers, dict) else []
    if worker_id not in known:
        from supervisor_core.commands.targets import find_name
        from supervisor_core.common.text import nearest

        if found := find_name(worker_id, known):
            return found
        near = nearest(worker_id, known)
        hint = f" Did you mean {near}?" if near else ""
        print(f"supervisor: there's no worker {worker_id!a} in the configuration.{hint}", file=sys.stderr)
    return worker_id


def _since(text: str | None) -> tuple[str, str]:
    """The moment as it stands in a line, and the one where reading backwards may end."""
    if text is None:
        return "", ""
    from datetime import UTC, datetime, timedelta

    from supervisor_core.common.errors import UsageError
    from supervisor_core.common.times import parse_since, since_moment

    since = parse_since(text)
    if since is None:
        raise UsageError(f"--since {text!a} isn't a time. Try 30s, 12h, 2d, yesterday or 2026-01-31.")
    moment = since_moment(since, datetime.now(UTC))
    early = max(moment, datetime.min.replace(tzinfo=UTC) + timedelta(days=1)) - timedelta(seconds=OUT_OF_ORDER_SECONDS)
    # As the lines have it: such texts sort as the moments do.
    stamps = [f"{each.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z" for each in (moment, early)]
    return stamps[0], stamps[1]
