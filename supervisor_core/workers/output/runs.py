"""The run of a worker whose output explains a problem, and the lines that this one process has written.

Captured output has a start line for each run. Of a log that the worker writes itself, its record has the size at its
start.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from supervisor_core.common.times import from_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.logging.excerpts import last_lines, lines_between, lines_of_run
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.open_folder import FileEnd
from supervisor_core.processes.output.files import size_of, source_of
from supervisor_core.processes.records import WorkerRecord
from supervisor_core.workers.restarts.policy import WorkerRun

STAT_SECONDS = 1.0
"""A start doesn't wait longer for the drive."""


class RunSpan(NamedTuple):
    began_at: datetime
    next_began_at: datetime | None = None
    """The start of the run after it; None for the newest one."""
    own_log_before: int | None = None
    """The size of the worker's own log at its start; None if unknown."""


def run_in_question(
    record: WorkerRecord | None, ended: Sequence[WorkerRun], *, running: bool, about_end: bool
) -> RunSpan | None:
    """The newest run of a worker; of a running one, the run before it if the problem is `about_end`, the end of a
    process. None if unknown."""
    newest = None
    if record is not None and record.started_at:
        newest = RunSpan(from_text(record.started_at), None, record.own_log_before)
    before = ended[-1].started_at if ended else None
    if running and about_end and newest is not None and before is not None and before < newest.began_at:
        return RunSpan(before, newest.began_at)
    if newest is None and not running and before is not None:
        return RunSpan(before)
    return newest


def read_lines_of_run(
    worker: WorkerSettings, end: FileEnd, run: RunSpan | None, count: int, masking: Masking
) -> list[str]:
    """The last lines, at most so many, that this run has written into the end of a worker's log."""
    if run is None:
        return []
    if not worker.log_file:
        return lines_of_run(last_lines(end, count, masking).lines, run.began_at, run.next_began_at)
    if run.own_log_before is None:
        return lines_between(last_lines(end, count, masking).lines, run.began_at, run.next_began_at)
    earlier = run.own_log_before - (end.size - len(end.data))
    if earlier > 0 and run.own_log_before <= end.size:  # else it was begun anew meanwhile
        end = FileEnd(end.data[earlier:], end.size, cut=False)
    return last_lines(end, count, masking).lines


def own_log_size(drive: Drive, config: SupervisorConfig, worker: WorkerSettings) -> int | None:
    """The size of the log that this worker writes itself; None if it has none, or if that can't be told."""
    if not worker.log_file:
        return None
    source = source_of(config, worker)
    try:
        return drive.call(size_of, source.path, timeout=STAT_SECONDS) if source.on_drive else size_of(source.path)
    except (DriveUnavailable, OSError):
        return None
