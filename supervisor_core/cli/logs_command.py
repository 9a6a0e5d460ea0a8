"""`supervisor logs`: what the supervisor did, the newest of it, and with `-f` as it happens. No daemon is needed."""

from __future__ import annotations

import argparse
import os
import select
import sys
import time

from supervisor_core.adapters.event_files import EventFiles
from supervisor_core.cli.log_lines import LEVELS, Layout, LogLine, Search
from supervisor_core.config.raw import read_raw, state_dir_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from supervisor_core.config.raw import RawConfig

COUNT = 50
MOST = 1_000_000
FOLLOW_SECONDS = 0.25
"""How often new lines are looked for: one look costs less than a tenth of a millisecond."""

OUT_OF_ORDER_SECONDS = 60
"""Lines are not strictly in the order of their times: several threads write, and a clock may be set back."""


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    parser.add_argument(
        "-n", "--lines", type=count, default=COUNT, metavar="N", help=f"so many of the newest that fit ({COUNT})"
    )
    parser.add_argument("-f", "--follow", action="store_true", help="then go on as new ones come, until Ctrl-C")
    parser.add_argument("--worker", metavar="ID", help="only about this worker and its tasks")
    parser.add_argument("--level", type=level, metavar="LEVEL", help="this and worse: debug, info, warning, error …")
    parser.add_argument("--since", metavar="WHEN", help="from then on: 2d, 12h, or 2026-01-31")
    parser.add_argument("--json", action="store_true", help="for programs: an object a line, as it stands in the file")


def run(options: argparse.Namespace) -> int:
    """Show the newest lines that fit, and follow if asked to."""
    raw = read_raw(options.config)
    search = Search(options.worker, options.level, *_since(options.since))
    files = EventFiles(state_dir_of(raw))
    printer = _Printer(search, as_json=options.json)
    if options.worker:
        _say_if_unknown(options.worker, raw)
    found = search.newest(files.newest_first(unfinished=not options.follow), options.lines)
    printer.show(found)
    if not files.begun:
        print(f"supervisor: there is no log yet at {files.path}; the daemon or a pass begins it.", file=sys.stderr)
    elif not found and options.lines and not options.follow:
        print("supervisor: nothing in the log fits.", file=sys.stderr)
    return _follow(files, search, printer) if options.follow else 0


class _Printer:
    """Where lines go, and how they look there."""

    def __init__(self, search: Search, *, as_json: bool) -> None:
        self._search = search
        self._layout = None if as_json else Layout(coloured=_wants_colour())
        self._told = 0

    def show(self, found: list[LogLine]) -> None:
        for text in self._layout.lines(found) if self._layout else [line.text for line in found]:
            print(text)
        sys.stdout.flush()
        broken = self._search.broken - self._told
        if broken:
            self._told = self._search.broken
            lines = "1 line is" if broken == 1 else f"{broken} lines are"
            print(f"supervisor: {lines} damaged, as after a power cut, and left out.", file=sys.stderr)


def _follow(files: EventFiles, search: Search, printer: _Printer) -> int:
    """Until whoever reads us goes away; Ctrl-C is the edge's, and ends with 130 as everywhere."""
    while _still_read():
        new = files.grown()
        if new:
            printer.show(search.fitting(new))
    return 0


def _still_read() -> bool:
    """Wait a while. False as soon as the other end of our output is closed: `logs -f | grep -m1 died` ends then."""
    if sys.platform == "win32":
        time.sleep(FOLLOW_SECONDS)
        return True
    poll = select.poll()
    poll.register(sys.stdout.fileno(), 0)  # errors and hang-ups are told without being asked for
    return not poll.poll(FOLLOW_SECONDS * 1000)


def _say_if_unknown(worker_id: str, raw: RawConfig) -> None:
    """A worker that was taken out of the configuration is still in the log; one that never was is a slip."""
    workers = raw.data.get("workers")
    known = [str(each) for each in workers] if isinstance(workers, dict) else []
    if worker_id not in known:
        from supervisor_core.domain.nearest import nearest

        near = nearest(worker_id, known)
        hint = f" Did you mean {near}?" if near else ""
        print(f"supervisor: the configuration has no worker {worker_id!a}.{hint}", file=sys.stderr)


def _since(text: str | None) -> tuple[str, str]:
    """The moment as it stands in a line, and the one where reading backwards may end."""
    if text is None:
        return "", ""
    from datetime import UTC, datetime, timedelta

    from supervisor_core.domain.durations import EXPECTED, parse_since, since_moment
    from supervisor_core.domain.errors import UsageError

    since = parse_since(text)
    if since is None:
        raise UsageError(f"--since {text!a} is no time: it is {EXPECTED}, or a date such as 2026-01-31.")
    moment = since_moment(since, datetime.now(UTC))
    early = max(moment, datetime.min.replace(tzinfo=UTC) + timedelta(days=1)) - timedelta(seconds=OUT_OF_ORDER_SECONDS)
    return _stamp(moment), _stamp(early)


def _stamp(moment: datetime) -> str:
    """As the lines have it: such texts sort as the moments do."""
    return f"{moment.replace(tzinfo=None).isoformat(timespec='milliseconds')}Z"


def _wants_colour() -> bool:
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb" or sys.platform == "win32"
    return sys.stdout.isatty() and not plain


def count(text: str) -> int:
    """A number of lines; its name is what argparse calls it in an error."""
    number = int(text)
    if not 0 <= number <= MOST:
        raise argparse.ArgumentTypeError(f"must be a number from 0 to {MOST}")
    return number


def level(text: str) -> str:
    """A level, however it is written."""
    if text.upper() not in LEVELS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(LEVELS).lower()}, not {text!a}")
    return text.upper()
