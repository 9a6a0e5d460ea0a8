"""The end of a log, and the few lines of it that matter: the last traceback's end, and errors.

Logs are written by anybody in any form. The search is for the words that most loggers and every Python traceback use;
a line without a time has that of the line before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from supervisor_core.common.text import one_line
from supervisor_core.common.times import from_text
from supervisor_core.host import drive_files
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.open_folder import FileEnd, OpenFolder

MAX_LINES, NEWEST = 8, 3
LONGEST = 300  # characters of one line

EARLIER = timedelta(minutes=15)
"""The time by which a line may be older than the problem. A line from last week doesn't explain today's."""

LAST_OUTPUT = "Last output:"
"""Ends the first line of an error that a worker's output follows."""

TRACEBACK = "Traceback (most recent call last):"
NO_SPACE = re.compile(r"no space left on device|\bENOSPC\b|disk quota exceeded|\[Errno 28\]", re.IGNORECASE)
NO_MEMORY = re.compile(r"\bMemoryError\b|cannot allocate memory|\bENOMEM\b|std::bad_alloc|out of memory", re.IGNORECASE)

_BAD = re.compile(r"\b(ERROR|CRITICAL|FATAL|PANIC|SEVERE)\b|\b(error|fatal|panic):")
_TIME = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2})(?:[.,]([0-9]{1,9}))?\s?(Z|[+-][0-9]{2}:?[0-9]{2})?"
)
_FRAME = re.compile(r"^\s+|^$")
_FILE = re.compile(r"""^\s*File "([^"]+)", line [0-9]+""")
_EXCEPTION = re.compile(r"^([A-Za-z_][\w.]*)(:|$)")
_NUMBERS = re.compile(r"[0-9]+")
_START = re.compile(r"--- ([0-9-]{10}T[0-9:.]+Z) starting [A-Za-z0-9.-]+ ---")


def start_line(worker_id: str, at: str) -> str:
    """The line that the supervisor writes into a worker's output at each start, before the process exists."""
    return f"--- {at} starting {worker_id} ---"


def start_time(line: str) -> datetime | None:
    """The time in a start line; None for any other line."""
    match = _START.fullmatch(line)
    try:
        return from_text(match[1]) if match else None
    except ValueError:  # written by somebody else
        return None


def lines_of_run(lines: Sequence[str], began: datetime, next_began: datetime | None = None) -> list[str]:
    """The lines that the process started then has written, by the start lines in captured output.

    `next_began` is the start after it, where there was one. Lines that may be another process's are left out.
    """
    starts = [(number, at) for number, line in enumerate(lines) if (at := start_time(line)) is not None]
    own = next((index for index, (_, at) in enumerate(starts) if at == began), None)
    if own is not None:
        end = starts[own + 1][0] if own + 1 < len(starts) else len(lines)
        return list(lines[starts[own][0] + 1 : end])
    if starts and starts[0][1] == next_began:  # its own start line was cut off
        return list(lines[: starts[0][0]])
    return list(lines) if not starts and next_began is None else []


def newest_run(lines: Sequence[str]) -> list[str]:
    """The lines of captured output behind the newest start line."""
    start = max((number + 1 for number, line in enumerate(lines) if start_time(line)), default=0)
    return list(lines[start:])


def lines_between(lines: Sequence[str], began: datetime, next_began: datetime | None = None) -> list[str]:
    """The lines whose time is known and within a run; a line without a time has that of the line before it."""
    selected, at = [], None
    for line in lines:
        at = _time_in(line) or at
        if at is not None and at >= began and (next_began is None or at < next_began):
            selected.append(line)
    return selected


def important_lines(lines: Sequence[str], since: datetime | None = None) -> tuple[str, ...]:
    """The errors and the last traceback's end, each kind once; nothing older than `since`."""
    newest: dict[str, tuple[int, str]] = {}
    last = _last_traceback(lines)
    for number, line in _recent(lines, since):
        if number == last or (_BAD.search(line) and not line[:1].isspace()):
            kind = _NUMBERS.sub("0", _TIME.sub("", line, count=1))  # lines that only differ by figures are one kind
            newest[kind] = number, line
    errors = sorted(newest.values())
    selected = errors[-MAX_LINES:]
    end = [error for error in errors if error[0] == last]
    if end and end[0] not in selected:  # it says more than the newest of many errors
        selected = [*end, *selected[1:]]
    return tuple(one_line(line.strip(), LONGEST) for _, line in selected)


def newest_lines(lines: Sequence[str], since: datetime | None = None) -> tuple[str, ...]:
    """The last lines that aren't blank; none that is older than `since`."""
    recent = [line for _, line in _recent(lines, since) if line.strip()]
    return tuple(one_line(line.strip(), LONGEST) for line in recent[-NEWEST:])


def last_error(lines: Sequence[str], since: datetime | None = None) -> str:
    """The end of the last traceback, such as `ValueError: no such archive`; empty if there is none."""
    end = _last_traceback(lines, since)
    return "" if end is None else one_line(lines[end].strip(), LONGEST)


def traceback_files(lines: Sequence[str], since: datetime | None = None) -> tuple[str, ...]:
    """The files in the last traceback, innermost last; none if it is older than `since`."""
    end = _last_traceback(lines, since)
    if end is None:
        return ()
    begin = max((number for number in range(end) if TRACEBACK in lines[number]), default=end)
    return tuple(match[1] for line in lines[begin:end] if (match := _FILE.match(line)))


def newest_match(lines: Sequence[str], pattern: re.Pattern[str], since: datetime | None = None) -> str:
    """The newest line that the pattern matches; empty if there is none."""
    recent = reversed(list(_recent(lines, since)))
    return next((one_line(line.strip(), LONGEST) for _, line in recent if pattern.search(line)), "")


def _recent(lines: Sequence[str], since: datetime | None) -> Iterator[tuple[int, str]]:
    """Lines with their number, without those that are known to be too old."""
    oldest = since - EARLIER if since else None
    at: datetime | None = None
    for number, line in enumerate(lines):
        at = _time_in(line) or at
        if oldest is None or at is None or at >= oldest:
            yield number, line


def _last_traceback(lines: Sequence[str], since: datetime | None = None) -> int | None:
    """The number of the line in which the newest traceback ends: the first below it that is not one of its frames."""
    start = max((number for number, line in enumerate(lines) if TRACEBACK in line), default=len(lines))
    for number in range(start + 1, len(lines)):
        margin = len(lines[start]) - len(lines[start].lstrip())
        line = lines[number][margin:] if lines[number][:margin].isspace() else lines[number]
        if not _FRAME.match(line):
            is_recent = since is None or any(number == recent for recent, _ in _recent(lines, since))
            return number if _EXCEPTION.match(line) and is_recent else None
    return None


def _time_in(line: str) -> datetime | None:
    """The time of a line that states it with a zone, near its beginning."""
    match = _TIME.search(line, 0, 80)
    if match is None or match[3] is None:
        return None
    zone = match[3] if match[3] == "Z" or ":" in match[3] else f"{match[3][:3]}:{match[3][3:]}"
    try:
        return datetime.fromisoformat(f"{match[1].replace(' ', 'T')}{zone}").astimezone(UTC)
    except (ValueError, OverflowError):
        return None


READ_BYTES = 256 * 1024
"""The bytes read from the end: room for fifty long lines. A longer line is shown from somewhere in its middle."""

LONGEST_LINE = 2000  # characters


class Tail(NamedTuple):
    lines: list[str]
    size_bytes: int


def read_end(path: Path, max_bytes: int = READ_BYTES, *, root: Path | None = None) -> FileEnd:
    """The last bytes of a regular file, up to a limit. A file on the drive needs the drive's root.

    The call may hang as long as the disk does, but never waits for a pipe or follows a link.
    """
    if root is not None:
        return drive_files.read_end(root, path, max_bytes)
    with OpenFolder.at(path.parent, shared=False) as folder:
        return folder.read_end(path.name, max_bytes)


def last_lines(end: FileEnd, count: int, masking: Masking) -> Tail:
    """The last lines, masked, each on one line. Secrets are masked before anything is cut off."""
    text = masking.text(end.data.decode(errors="replace"))
    if end.cut:  # start at the first whole line; in a single line, where no second half of a secret can be
        _, _, after = text.partition("\n")
        text = after or text[masking.longest :]
    lines = text.removesuffix("\n").split("\n")[-count:] if text else []
    return Tail([one_line(line.rstrip("\r"), LONGEST_LINE) for line in lines], end.size)
