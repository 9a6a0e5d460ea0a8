"""`supervisor logs WORKER`: the newest lines that workers wrote, followed with `-f`. It needs no daemon."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

from supervisor_core.cli.host import ask_hosts, load_fleet_config
from supervisor_core.cli.logs import DEFAULT_LINES, still_read
from supervisor_core.cli.output import print_json
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.words import quote
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.files import masking_of
from supervisor_core.diagnosis.worker_logs import NewestLines, WorkerLog
from supervisor_core.host.drive import Drive
from supervisor_core.host.logging.excerpts import last_lines
from supervisor_core.host.open_folder import FileEnd
from supervisor_core.processes.output.files import read_source, source_before, source_of
from supervisor_core.workers.context import open_drive

READ_BYTES = 1024 * 1024
ANCHOR_BYTES = 4096
"""The last bytes of the previous read, by which the position is found in a file that was rotated or cut."""


def run(arguments: argparse.Namespace) -> int:
    """Show the newest lines of the target, and follow one worker with `-f`."""
    if arguments.worker or arguments.level or arguments.since or arguments.event:
        options = "--worker, --level, --since and --event"
        raise UsageError(f"{options} search the supervisor's events, not a worker's output.")
    config = load_fleet_config(arguments.config)
    count = arguments.lines if arguments.count is None else arguments.count
    typed = "" if count is None else f" {max(count, 1)}"  # a suggestion repeats only what was typed
    command = parse(f"logs {quote(arguments.target)[1:-1]}{typed}", grammar_context(config))
    count = DEFAULT_LINES if count is None else count
    if not arguments.follow:
        command = replace(command, params={**command.params, "lines": max(count, 1)})
        return show_newest(command, config, as_json=arguments.json)
    if any(map(is_address, command.workers)):
        raise UsageError("-f follows a worker of this host.", remedy="Run it on the worker's host.")
    if len(command.workers) != 1 or arguments.json:
        raise UsageError("-f follows the output of one worker, as text.")
    output = OutputFollower(open_drive(config), config, config.worker(command.workers[0]))
    lines = output.newest(count)
    while True:
        for line in lines:
            print(line)
        sys.stdout.flush()
        if not still_read():
            return 0
        lines = output.new_lines()


def show_newest(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Print the newest lines of each worker; exit code 1 if some can't be read."""
    count, own = int(command.params["lines"]), [name for name in command.workers if not is_address(name)]
    logs = NewestLines()(open_drive(config), config, own, count) if own else []
    logs += _read_elsewhere(config, [name for name in command.workers if is_address(name)], count)
    if as_json:
        print_json(logs, indented=True)
    else:
        texts = []
        for log in logs:
            lines = [f"==> {log.worker_id}: {log.path} <=="] if len(logs) > 1 else []
            if log.problem:
                lines.append(f"The output of {log.worker_id} can't be read. {log.problem}")
            elif log.nothing:
                lines.append(f"{log.worker_id} hasn't written anything yet. Its output goes to {log.path}.")
            texts.append("\n".join([*lines, *log.lines]))
        print("\n\n".join(texts))
    return 1 if any(log.problem for log in logs) else 0


def _read_elsewhere(config: SupervisorConfig, workers: Sequence[str], count: int) -> list[WorkerLog]:
    if not workers:
        return []
    from supervisor_core.fleet.questions import load_answers, load_log

    logs: list[WorkerLog] = []
    for answer in ask_hosts(config, "logs", workers, count):
        host = answer["host"]
        if "error" in answer:
            logs += [WorkerLog(name, "", problem=answer["error"]) for name in workers if name.startswith(f"{host}/")]
        else:
            logs += load_answers(host, answer["answer"], load_log)
    return logs


class OutputFollower:
    """A worker's output as it grows, across rotations and cuts of its file."""

    def __init__(self, drive: Drive, config: SupervisorConfig, worker: WorkerSettings) -> None:
        self._drive, self._config, self._worker = drive, config, worker
        self._masking = masking_of(config)
        self._stat: tuple[int, ...] = ()
        self._end = FileEnd(b"", 0, cut=False)
        """The end of the file at the last read, up to its last whole line."""

    def newest(self, count: int) -> list[str]:
        """The newest lines; `new_lines` goes on behind them."""
        self._end = self._read()
        return last_lines(self._end, count, self._masking).lines if count else []

    def new_lines(self) -> list[str]:
        """The whole lines that are new since the last call."""
        if self._stat and self._read_stat() == self._stat:
            return []
        before, self._end = self._end, self._read()
        # Found by the sizes, else by the last bytes of the previous read.
        data, anchor = self._end.data, before.data[-ANCHOR_BYTES:]
        start = len(data) - (self._end.size - before.size)
        if not (len(anchor) <= start <= len(data) and data[:start].endswith(anchor)):
            position = data.rfind(anchor)
            start = position + len(anchor) if position >= 0 else 0
        new = data[start:]
        return last_lines(FileEnd(new, len(new), cut=False), len(new), self._masking).lines if new else []

    def _read(self) -> FileEnd:
        """The end of the file, without the line that is still being written."""
        self._stat = self._read_stat()
        try:
            end = read_source(self._drive, source_of(self._config, self._worker), READ_BYTES)
        except FileNotFoundError:
            return FileEnd(b"", 0, cut=False)
        except (SupervisorError, OSError):
            return self._end  # the drive is away for the moment
        if self._worker.log_file and not end.data.startswith(self._end.data[:ANCHOR_BYTES]):
            try:  # the end of the worker's own log before it was rotated
                earlier = read_source(self._drive, source_before(self._config, self._worker), READ_BYTES).data
                end = end._replace(data=earlier + end.data)
            except (SupervisorError, OSError):
                pass
        whole = end.data[: end.data.rfind(b"\n") + 1]
        return FileEnd(whole, end.size - (len(end.data) - len(whole)), end.cut)

    def _read_stat(self) -> tuple[int, ...]:
        """Values that change with the file; none for one on the drive, where reading them could hang."""
        source = source_of(self._config, self._worker)
        try:
            stat = None if source.on_drive else source.path.stat()
        except OSError:
            stat = None
        return () if stat is None else (stat.st_ino, stat.st_size, stat.st_mtime_ns)
