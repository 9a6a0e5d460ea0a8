"""Pause: the worker finishes what it has in hand, ends, and is not started again before somebody resumes it."""

from __future__ import annotations

from typing import Any

from supervisor_core.adapters.pauses import Pause
from supervisor_core.adapters.processes_stop import Ending, StopReport
from supervisor_core.adapters.worker import (
    Sighting,
    adopt_watcher,
    is_stopped,
    look_for_watcher,
    stop_watcher_gracefully,
)
from supervisor_core.config import Worker
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.stopping import stop_details, stuck

MOST_COPIES = 3
"""So many of one worker are stopped in one go; who starts them faster than that has to be found by a person."""


def pause_watcher(host: Host, job: Job) -> Outcome:
    """Write the pause flag, then stop the worker and look that nothing of it is left.

    The flag comes first: whatever happens after it, nothing starts the worker again by itself. A copy that somebody
    started by hand beside it is stopped as well; where nobody could look for one, that is said.
    """
    worker = host.config.worker(job.worker_id)
    before = look_for_watcher(host.processes, host.drive, host.config, worker)
    earlier = host.pauses.read(worker.id)
    if earlier and is_stopped(before.found) and not before.problem:
        return Outcome.done(already_paused=True, message=f"{worker.id} is already {earlier}", **earlier._asdict())
    pause = earlier or Pause(job.issuer.id, to_text(host.now()), job.audit_label, job.task_id)
    written = host.pauses.set(worker.id, pause)
    details: dict[str, Any] = {}
    if not written.on_drive:
        details["drive"] = f"The pause holds; its flag is written when the drive is back. {written.problem}"
    return _stop_all(host, worker, before, details)


def _stop_all(host: Host, worker: Worker, before: Sighting, details: dict[str, Any]) -> Outcome:
    """Stop the worker, and then whichever copy of it there still is."""
    report, now = _stop(host, worker, before)
    message = f"{worker.id} is paused"
    details = {"message": message, **stop_details(report), **details}
    others: list[int] = []
    while report.stopped and now.found.identity is not None and len(others) < MOST_COPIES - 1:
        others.append(now.found.identity.pid)
        report, now = _stop(host, worker, now)
        details["killed"] = [*details["killed"], *map(str, report.killed)]
    if others:
        named = " and ".join(f"pid {pid}" for pid in others)
        details |= {"message": f"{message}; {named}, started by hand beside it, was stopped as well", "others": others}
    if not report.stopped:
        return stuck(report, details)
    if not is_stopped(now.found):
        pid = now.found.identity.pid if now.found.identity else None
        return Outcome.failed(_still_there(worker, pid), **{**details, "message": f"{message}, but runs", "pid": pid})
    if now.problem:
        return _not_seen(worker, now, details)
    return Outcome.done(**details)


def _stop(host: Host, worker: Worker, before: Sighting) -> tuple[StopReport, Sighting]:
    """Stop what is on record, and look for another: by its beat now, and by that from before.

    Two copies write the same file in turn, and either beat may be the one of the copy that has just been stopped.
    """
    report = stop_watcher_gracefully(host.processes, worker)
    now = look_for_watcher(host.processes, host.drive, host.config, worker)
    if report.stopped and is_stopped(now.found):
        now = now._replace(found=adopt_watcher(host.processes, host.config, worker, before.beat))
    return report, now


def _still_there(worker: Worker, pid: int | None) -> str:
    named = f"pid {pid}" if pid else "something of it"
    return (
        f"{worker.id} is paused, but {named} runs, although {MOST_COPIES} copies of it were stopped. "
        f"Look for who starts them, end that, then: pause {worker.id}."
    )


def _not_seen(worker: Worker, now: Sighting, details: dict[str, Any]) -> Outcome:
    """Nothing of it is on record any more, and nobody could read whether one was started by hand."""
    unseen = f"whether another was started by hand could not be seen. {now.problem}"
    if details["ending"] != Ending.NOTHING:
        return Outcome.done(**{**details, "message": f"{details['message']}; {unseen}", "looked_for_others": False})
    message = f"{worker.id} is paused, and none of ours runs"
    words = f"{message}, but {unseen} When it can be read, pause it again."
    return Outcome.failed(words, **{**details, "message": message, "looked_for_others": False})
