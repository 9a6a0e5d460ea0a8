"""`supervisor logs WORKER`: the newest lines that a worker wrote, followed with `-f`. It needs no daemon."""

from __future__ import annotations

import argparse
import sys

from supervisor_core.cli.answers import logs
from supervisor_core.cli.host import load_fleet_config
from supervisor_core.cli.logs import still_read
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.words import quote
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.files import masking_of
from supervisor_core.host.drive import Drive
from supervisor_core.host.logging.excerpts import last_lines
from supervisor_core.host.open_folder import FileEnd
from supervisor_core.processes.output.files import read_source, source_before, source_of
from supervisor_core.workers.context import open_drive

READ_BYTES = 1024 * 1024
ANCHOR_BYTES = 4096
"""Of what was shown last, by which the place is found again in a file that was rotated or cut."""


def run(options: argparse.Namespace) -> int:
    """Show the newest lines of the target, and follow one worker with `-f`."""
    if options.worker or options.level or options.since or options.event:
        chosen = "--worker, --level, --since and --event"
        raise UsageError(f"{chosen} search the supervisor's events, not a worker's output.")
    config = load_fleet_config(options.config)
    lines = options.count if options.count is not None else options.lines
    command = parse(f"logs {quote(options.target)[1:-1]} {max(lines, 1)}", grammar_context(config))
    if not options.follow:
        return logs(command, config, as_json=options.json)
    if any(map(is_address, command.workers)):
        raise UsageError("-f follows a worker of this host.", remedy="Run it on the worker's host.")
    if len(command.workers) != 1 or options.json:
        raise UsageError("-f follows the output of one worker, as text.")
    output = OutputFollower(open_drive(config), config, config.worker(command.workers[0]))
    _show(output.newest(lines))
    while still_read():
        _show(output.new_lines())
    return 0


def _show(lines: list[str]) -> None:
    for line in lines:
        print(line)
    sys.stdout.flush()


class OutputFollower:
    """A worker's output as it grows, across rotations and cuts of its file."""

    def __init__(self, drive: Drive, config: SupervisorConfig, worker: WorkerSettings) -> None:
        self._drive, self._config, self._worker = drive, config, worker
        self._masking = masking_of(config)
        self._seen: tuple[object, ...] = ()
        self._end = FileEnd(b"", 0, cut=False)
        """The last look, up to the end of its last whole line."""

    def newest(self, count: int) -> list[str]:
        """The newest lines; `new_lines` goes on behind them."""
        self._end = _whole(self._read())
        return last_lines(self._end, count, self._masking).lines if count else []

    def new_lines(self) -> list[str]:
        """The whole lines that are new since the last call."""
        if self._seen and self._facts() == self._seen:
            return []
        before, self._end = self._end, _whole(self._read())
        new = _new_bytes(before, self._end)
        return last_lines(FileEnd(new, len(new), cut=False), len(new), self._masking).lines if new else []

    def _read(self) -> FileEnd:
        self._seen = self._facts()
        source = source_of(self._config, self._worker)
        try:
            end = read_source(self._drive, source, READ_BYTES)
        except FileNotFoundError:
            return FileEnd(b"", 0, cut=False)
        except (SupervisorError, OSError):
            return self._end  # the drive is away for the moment
        if end.data.startswith(self._end.data[:ANCHOR_BYTES]) or not self._worker.log_file:
            return end
        try:  # the end of the worker's own log before it was begun anew
            earlier = read_source(self._drive, source_before(self._config, self._worker), READ_BYTES).data
        except (SupervisorError, OSError):
            return end
        return end._replace(data=earlier + end.data)

    def _facts(self) -> tuple[object, ...]:
        """What changes with the file; nothing for one on the drive, which a look could hang on."""
        source = source_of(self._config, self._worker)
        try:
            found = None if source.on_drive else source.path.stat()
        except OSError:
            found = None
        return () if found is None else (found.st_ino, found.st_size, found.st_mtime_ns)


def _whole(end: FileEnd) -> FileEnd:
    """The same without the line that is still being written."""
    whole = end.data[: end.data.rfind(b"\n") + 1]
    return FileEnd(whole, end.size - (len(end.data) - len(whole)), end.cut)


def _new_bytes(before: FileEnd, now: FileEnd) -> bytes:
    """The bytes behind those of the look before: by the sizes, else where its last bytes are found again."""
    anchor, end = before.data[-ANCHOR_BYTES:], len(now.data) - (now.size - before.size)
    if len(anchor) <= end <= len(now.data) and now.data[:end].endswith(anchor):
        return now.data[end:]
    place = now.data.rfind(anchor)
    return now.data[place + len(anchor) :] if place >= 0 else now.data
