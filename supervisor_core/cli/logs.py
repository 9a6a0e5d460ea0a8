"""`supervisor logs`: events of the structured log, searched, printed, and followed with `-f`.

It needs no daemon, and imports nothing slow. With a target, `worker_output` shows what the workers wrote.
"""

from __future__ import annotations

import json
import select
import sys
import time
from argparse import ArgumentTypeError

from supervisor_core.cli.arguments import Parser, Subparsers, add_command, number_from
from supervisor_core.cli.host import parse_since_option, read_config
from supervisor_core.cli.output import AMBER, DIM, RED, paint, wants_color
from supervisor_core.config.raw import state_dir_of
from supervisor_core.host.logging.events import EventFiles

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence
    from typing import Any


DEFAULT_LINES = 50
LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
"""From harmless to worst."""

COLORS = {"DEBUG": DIM, "WARNING": AMBER, "ERROR": RED, "CRITICAL": f"1;{RED}"}
LINE_START = b'{"timestamp"'
"""How each line begins. Inside of one it can't stand, because JSON escapes its quotes."""

FOLLOW_SECONDS = 0.25
"""How often new lines are looked for: one look costs less than a tenth of a millisecond."""

OUT_OF_ORDER_SECONDS = 60
"""Lines are not strictly in the order of their times: several threads write, and a clock may be set back."""


def add_parser(subparsers: Subparsers) -> None:
    description = "Show a worker's output, or without a target the daemon's events."
    parser = add_command(subparsers, "logs", run, description, "logs OrionMX -f")
    parser.add_argument("target", nargs="?", metavar="TARGET", help="show the output of this worker, team:NAME or all")
    parser.add_argument("count", nargs="?", type=number_from(0), metavar="N", help="the same as -n N")
    add_event_options(parser)


def add_event_options(parser: Parser) -> None:
    count = f"show the newest N lines (default: {DEFAULT_LINES})"
    parser.add_argument("-n", "--lines", type=number_from(0), metavar="N", help=count)
    parser.add_argument("-f", "--follow", action="store_true", help="keep printing new lines until Ctrl-C")
    parser.add_argument("--worker", metavar="ID", help="only events about this worker and its commands")
    parser.add_argument(
        "--level", type=_level, metavar="LEVEL", help="this level and worse: debug, info, warning, error"
    )
    parser.add_argument("--since", metavar="WHEN", help="from this time on: 2d, 12h or 2026-01-31")
    name = "only events with this name or pattern, such as worker.exited or 'worker.*'; repeat for several"
    parser.add_argument("--event", action="append", type=_event, default=[], metavar="NAME", help=name)
    parser.add_argument("--json", action="store_true", help="print one JSON object per event")


def _level(text: str) -> str:
    if text.upper() not in LEVELS:
        raise ArgumentTypeError(f"must be one of {', '.join(LEVELS).lower()}, not {text!a}")
    return text.upper()


def _event(text: str) -> str:
    """The name of a log event, or a pattern that matches some."""
    from supervisor_core.common.log_events import NO_EVENT, LogEvent, unknown_pattern
    from supervisor_core.common.text import nearest

    if unknown_pattern(text):
        suggestion = nearest(text, [NO_EVENT, *(event.event for event in LogEvent)])
        hint = f". Did you mean {suggestion}?" if suggestion else "; docs/reference/events.md lists them"
        raise ArgumentTypeError(f"there's no log event {text!a}{hint}")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Show the newest events that match, or with a target what the worker wrote; follow them with `-f`."""
    if arguments.target:
        from supervisor_core.cli import worker_output

        return worker_output.run(arguments)
    return show_events(arguments)


def show_events(arguments: argparse.Namespace) -> int:
    raw, worker_id, since, oldest = read_config(arguments.config), arguments.worker, "", ""
    workers = raw.data.get("workers")
    known = list(map(str, workers)) if isinstance(workers, dict) else []
    if worker_id and worker_id not in known:
        from supervisor_core.commands.targets import find_name
        from supervisor_core.common.text import nearest

        worker_id = find_name(worker_id, known) or worker_id  # in another case
        if worker_id not in known:  # its events may still be in the log, or it's a typo
            suggestion = nearest(worker_id, known)
            hint = f" Did you mean {suggestion}?" if suggestion else ""
            print(f"supervisor: there's no worker {worker_id!a} in the configuration.{hint}", file=sys.stderr)
    if text := parse_since_option(arguments.since):
        from datetime import UTC, datetime, timedelta

        from supervisor_core.common.times import since_moment

        moment = since_moment(text, datetime.now(UTC))
        early = max(moment, datetime.min.replace(tzinfo=UTC) + timedelta(days=1))
        early -= timedelta(seconds=OUT_OF_ORDER_SECONDS)
        # As the lines have it: such texts sort as the moments do.
        since, oldest = (f"{each.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z" for each in (moment, early))
    search = LogSearch(worker_id, arguments.level, since, oldest, arguments.event)
    files, layout, reported = EventFiles(state_dir_of(raw)), LogLayout(colored=wants_color()), 0
    count = DEFAULT_LINES if arguments.lines is None else arguments.lines
    events = search.newest(files.newest_first(unfinished=not arguments.follow), count)
    has_events = bool(events)
    while True:
        for line in [event.text for event in events] if arguments.json else layout.lines(events):
            print(line)
        sys.stdout.flush()
        if damaged := search.damaged - reported:
            reported = search.damaged
            lines = "1 damaged line" if damaged == 1 else f"{damaged} damaged lines"
            print(f"supervisor: skipped {lines}, as a power cut leaves them.", file=sys.stderr)
        if not arguments.follow:
            break
        if not still_read():  # Ctrl-C exits with 130, as everywhere
            return 0
        new = files.new_lines()
        events = search.matching(new) if new else []
    if not files.begun:
        print(f"supervisor: there's no log at {files.path} yet. The daemon or a pass creates it.", file=sys.stderr)
    elif not has_events and count:
        print("supervisor: no matching events.", file=sys.stderr)
    return 0


def still_read() -> bool:
    """Wait a while; False as soon as the reader of the output is gone, as with `logs -f | grep -m1 died`."""
    if sys.platform == "win32":
        time.sleep(FOLLOW_SECONDS)
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors and hang-ups are always reported
    return not poll.poll(FOLLOW_SECONDS * 1000)


class LogLine:
    """One event, and its text as it stands in the file."""

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
    """The filters: one worker, a lowest level, a time (as the text in lines), and patterns of event names.

    A line of a task belongs to the task's worker, also where it doesn't name it.
    """

    def __init__(
        self,
        worker_id: str | None = None,
        level: str | None = None,
        since: str = "",
        oldest: str = "",
        events: Sequence[str] = (),
    ) -> None:
        """`oldest`: reading backwards ends at a line from before this time."""
        self.damaged = 0
        """The number of lines that couldn't be read as an event."""
        self._worker_id = worker_id
        self._too_low = LEVELS[: LEVELS.index(level)] if level else ()  # an unknown level is shown
        self._since = since
        self._oldest = oldest
        self._events = events
        self._tasks: set[str] = set()

    def newest(self, lines: Iterable[bytes], count: int) -> list[LogLine]:
        """So many that match, the oldest first, out of lines that come newest first. Reads no further than it must."""
        kept: list[LogLine] = []
        certain = 0
        uncertain: dict[str, int] = {}  # by task: lines kept before it was known which worker's task it is
        for raw in lines:
            if certain >= count:
                break
            line = self._parse(raw)
            if line is None:
                continue
            if line.time < self._oldest:
                break
            matches_worker = self._is_of_worker(line)
            if matches_worker and line.task_id:
                certain += uncertain.pop(line.task_id, 0)
            if matches_worker is False or not self._matches(line):
                continue
            kept.append(line)
            if matches_worker:
                certain += 1
            elif line.task_id:
                uncertain[line.task_id] = uncertain.get(line.task_id, 0) + 1
        return [line for line in kept if self._is_of_worker(line)][:count][::-1]

    def matching(self, lines: Iterable[bytes]) -> list[LogLine]:
        """Those that match out of lines in the order of time."""
        parsed = [line for line in map(self._parse, lines) if line is not None]
        return [line for line in parsed if self._is_of_worker(line) and self._matches(line)]

    def _is_of_worker(self, line: LogLine) -> bool | None:
        """None where it depends on the worker of its task, which isn't known yet."""
        if self._worker_id is None:
            return True
        if line.worker_id is not None:
            if line.worker_id == self._worker_id and line.task_id:
                self._tasks.add(line.task_id)
            return line.worker_id == self._worker_id
        if line.task_id is None:
            return False
        return True if line.task_id in self._tasks else None

    def _matches(self, line: LogLine) -> bool:
        if line.level in self._too_low or line.time < self._since:
            return False
        if not self._events:
            return True
        from fnmatch import fnmatchcase

        return any(fnmatchcase(line.event, pattern) for pattern in self._events)

    def _parse(self, raw: bytes) -> LogLine | None:
        line = _parse(raw)
        if line is None:
            self.damaged += 1
            # A line that was half written when the power failed is followed by the next start's first line.
            start = raw.rfind(LINE_START)
            line = _parse(raw[start:]) if start > 0 else None
        return line


def _parse(raw: bytes) -> LogLine | None:
    try:
        text = raw.decode()
        fields = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(fields, dict):
        return None
    required = all(isinstance(fields.get(name), str) for name in ("timestamp", "level", "message"))
    optional = all(isinstance(fields.get(name), str | None) for name in ("worker_id", "task_id"))
    return LogLine(text, fields) if required and optional else None


class LogLayout:
    """Time, level, worker, task, message: columns as wide as the widest cell so far."""

    def __init__(self, *, colored: bool) -> None:
        self._colored = colored
        self._widths = [len("WARNING"), 1, 1]

    def lines(self, events: Iterable[LogLine]) -> list[str]:
        """A line each, with control characters escaped, which could move the cursor."""
        rows = [
            [
                text if text.isprintable() else "".join(map(_escape, text))
                for text in (event.level, event.worker_id or "-", event.task_id or "-", event.time, event.message)
            ]
            for event in events
        ]
        for row in rows:
            self._widths = [max(width, len(cell)) for width, cell in zip(self._widths, row, strict=False)]
        lines = []
        for *cells, moment, message in rows:
            level, *others = (cell.ljust(width) for cell, width in zip(cells, self._widths, strict=True))
            color = COLORS.get(cells[0], "") if self._colored else ""
            lines.append("  ".join([moment.replace("T", " "), paint(level, color), *others, message]))
        return lines


def _escape(char: str) -> str:
    return char if char.isprintable() else char.encode("unicode_escape").decode()
