"""Result files: the outcome of each job, written to the outbox folder of the drive from waiting rows."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple

from sqlalchemy import Connection

from supervisor_core.common import crashpoints
from supervisor_core.common.times import to_text
from supervisor_core.host import drive_files
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.files import json_text
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage import outbox
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

WRITING_SECONDS = 2.0
"""The time for the files of one call to the drive, which has a deadline; the others are in the next one."""

WRITTEN = "result.file:written"
"""The crash point after each file of a batch."""

log = logging.getLogger(__name__)

AT_ONCE = 100
"""The most result files that one call writes. Call again until it writes fewer."""


def deliver(host: HostContext, ledger: Ledger) -> int:
    """Write the due result files. Returns their number. Failed ones are retried later."""
    now = datetime.now(UTC)
    due, broken = ledger.read(partial(_due, now=now))
    for message, error in broken:  # one that is no JSON holds up no other
        _postpone(ledger, message, error, now)
    written = 0
    while due:
        for _ in due:
            crashpoints.reach("result.file:before")
        try:
            folder = host.config.folder("outbox")
            host.drive.make_folder(folder)
            files = [(each.name, each.data) for each in due]
            root, mode = host.drive.root, host.config.nas.file_mode
            errors = host.drive.call(drive_files.write_all, root, folder, files, mode, WRITING_SECONDS, WRITTEN)
        except (DriveUnavailable, OSError) as error:
            away = isinstance(error, DriveUnavailable)  # then the others would wait for the same drive
            for each in due[:1] if away else due:
                _postpone(ledger, each.message, error, now)
            break
        tried, due = due[: len(errors)], due[len(errors) :]
        sent = [each.message for each, error in zip(tried, errors, strict=True) if error is None]
        for _ in sent:
            crashpoints.reach("result.file:after")
        ledger.step_all([outbox.mark_sent(message, datetime.now(UTC)) for message in sent])
        for each, failed in zip(tried, errors, strict=True):
            if failed is not None:
                _postpone(ledger, each.message, failed, now)
        written += len(sent)
    return written


def _postpone(ledger: Ledger, message: outbox.PendingMessage, error: BaseException, now: datetime) -> None:
    level = logging.WARNING if message.attempts == 0 else logging.DEBUG  # once; the queue says that it goes on
    log.log(level, "a result file is waiting for the drive: %s", error)
    ledger.write(partial(outbox.postpone, message=message, error=str(error), now=now))


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


class _DueFile(NamedTuple):
    message: outbox.PendingMessage
    name: str
    data: bytes


def _due(
    connection: Connection, now: datetime
) -> tuple[list[_DueFile], list[tuple[outbox.PendingMessage, ValueError]]]:
    """The due files, and the messages whose file can't be made."""
    due: list[_DueFile] = []
    broken: list[tuple[outbox.PendingMessage, ValueError]] = []
    messages = outbox.due_messages(connection, jobs.RESULT_FILE, now, AT_ONCE)
    if not messages:
        return due, broken
    payloads = [message.payload for message in messages if "document" not in message.payload]
    places = [(str(payload["task_id"]), str(payload["worker_id"])) for payload in payloads]
    found = jobs.find_all(connection, places)
    firsts = jobs.first_workers(connection, [task_id for task_id, _ in places])
    for message in messages:
        document, suffix = message.payload.get("document"), ""  # a rejected flag's result is in its row
        try:
            if document is None:
                task_id, worker_id = str(message.payload["task_id"]), str(message.payload["worker_id"])
                if (job := found.get((task_id, worker_id))) is None:
                    raise ValueError(f"{task_id} has no job for {worker_id}")
                document = result_document(job)
                # The file of the first worker has the usual name, and the others contain their worker's id.
                suffix = "" if worker_id == firsts[task_id] else f"_{worker_id}"
            text = json_text(document)
            name = f"supervisor_result_{document['handler']}_{document['task_id']}{suffix}.json"
        except ValueError as error:
            broken.append((message, error))
            continue
        # A lone surrogate, as the name of a file may have, becomes the escape that JSON has for it.
        due.append(_DueFile(message, name, text.encode("utf-8", "backslashreplace")))
    return due, broken
