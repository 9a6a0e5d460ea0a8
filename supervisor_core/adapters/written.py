"""What a worker wrote, by itself or to us: the end of it, wherever it lies."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from supervisor_core.adapters.drive import Drive
from supervisor_core.adapters.report_tail import READ_BYTES, End, read_end
from supervisor_core.adapters.worker import worker_log
from supervisor_core.config import SupervisorConfig, Worker


def written_to(config: SupervisorConfig, worker: Worker) -> Path:
    """The file that this worker writes itself, else the one that its output goes to."""
    return worker.log_file or worker_log(config, worker)


def read_written(
    drive: Drive, config: SupervisorConfig, worker: Worker, most: int = READ_BYTES, *, before: bool = False
) -> tuple[Path, End]:
    """Where it is, and its last bytes. `FileNotFoundError` where nothing was written yet. With `before`, the file that
    it was before it was begun anew."""
    path = written_to(config, worker)
    if before:
        path = path.with_name(f"{path.name}.1")
    if path.is_relative_to(drive.root):
        drive.check()
        return path, drive.call(partial(read_end, path, most))
    return path, read_end(path, most)
