"""Result files: the outcome of each job, written to the outbox folder of the drive from waiting rows."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.common import crashpoints
from supervisor_core.common.times import to_text
from supervisor_core.host import drive_files
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage import outbox
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

log = logging.getLogger(__name__)

AT_ONCE = 100
"""The most result files that one call writes. Call again until it writes fewer."""


def deliver(host: HostContext, ledger: Ledger) -> int:
    """Write the due result files. Returns their number. Failed ones are retried later."""
    written = 0
    now = datetime.now(UTC)
    for message in ledger.read(lambda connection: outbox.due_messages(connection, jobs.RESULT_FILE, now, AT_ONCE)):
        document, suffix = _document(ledger, message.payload)
        crashpoints.reach("result.file:before")
        try:
            folder = host.config.folder("outbox")
            host.drive.make_folder(folder)
            host.drive.call(_write, host.drive.root, folder, document, suffix, host.config.nas.file_mode)
        except (DriveUnavailable, OSError, ValueError) as error:  # ValueError: one that is no JSON holds up no other
            level = logging.WARNING if message.attempts == 0 else logging.DEBUG  # once; the queue says that it goes on
            log.log(level, "a result file is waiting for the drive: %s", error)
            ledger.write(partial(outbox.postpone, message=message, error=str(error), now=now))
            if isinstance(error, DriveUnavailable):
                break  # the others would wait for the same drive
            continue
        crashpoints.reach("result.file:after")
        ledger.step(outbox.mark_sent(message, datetime.now(UTC)))
        written += 1
    return written


def result_document(job: Job) -> dict[str, Any]:
    """The content of a result file."""
    if job.outcome is None or job.finished_at is None:
        raise ValueError(f"{job.task_id} has no outcome yet")
    return {
        "timestamp": to_text(job.finished_at),
        "supervisor_id": job.supervisor_id,
        "worker_id": job.worker_id,
        "task_id": job.task_id,
        "handler": job.handler,
        "label": job.label,
        "state": str(job.state),
        "success": job.outcome.success,
        "error": job.outcome.error,
        "details": dict(job.outcome.details),
        "progress": [step.as_json() for step in job.progress],
    }


def progress_document(of: Sequence[Job]) -> list[dict[str, str]]:
    """The steps of one command's jobs with their workers, in the order of time."""
    steps = [{"worker_id": job.worker_id, **step.as_json()} for job in of for step in job.progress]
    return sorted(steps, key=lambda step: step["at"])


def _document(ledger: Ledger, payload: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """The content of the file, and the end of its name.

    A rejected flag's result is in its row; a job's is in the job. For a command for several workers, the first file has
    the usual name, and the others contain their worker's id.
    """
    if "document" in payload:
        return dict(payload["document"]), ""
    task_id, worker_id = payload["task_id"], payload["worker_id"]
    job = ledger.read(lambda connection: jobs.find(connection, task_id, worker_id))
    if job is None:
        raise ValueError(f"{task_id} has no job for {worker_id}")
    first = ledger.read(lambda connection: jobs.first_worker(connection, task_id))
    return result_document(job), "" if worker_id == first else f"_{worker_id}"


def _write(root: Path, folder: Path, document: Mapping[str, Any], suffix: str, mode: int) -> None:
    name = f"supervisor_result_{document['handler']}_{document['task_id']}{suffix}.json"
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    # A lone surrogate, as the name of a file may have, becomes the escape that JSON has for it.
    data = f"{text}\n".encode("utf-8", "backslashreplace")
    drive_files.write(root, folder / name, data, mode, only_writer=True)
