"""Pause: the worker finishes what it has in hand, ends, and is not started again before somebody resumes it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.pauses import Pause
from supervisor_core.adapters.processes_stop import StopReport
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
    started by hand beside it is stopped as well, if its heartbeat names it; one that only looks like it makes this a
    failure. Where no heartbeat could be read, that is said.
    """
    worker = host.config.worker(job.worker_id)
    before = look_for_watcher(host.processes, host.drive, host.config, worker)
    earlier = host.pauses.read(worker.id)
    if earlier and is_stopped(before.found) and not before.problem and not _strays(host, worker):
        return Outcome.done(already_paused=True, message=f"{worker.id} is already {earlier}", **earlier._asdict())
    pause = earlier or Pause(job.issuer.id, to_text(host.now()), job.audit_label, job.task_id)
    written = host.pauses.set(worker.id, pause)
    details: dict[str, Any] = {}
    if not written.on_drive:
        details["drive"] = f"The pause holds; its flag is written when the drive is back. {written.problem}"
    return _stop_all(host, worker, before, details)


def _stop_all(host: Host, worker: Worker, before: Sighting, details: dict[str, Any]) -> Outcome:
    """Stop the worker, and then whichever copy of it there still is."""
    if before.found.identity:
        host.progress(f"stopping {worker.id}, pid {before.found.identity.pid}")
    report, now = _stop(host, worker, before)
    message = f"{worker.id} is paused"
    details = {"message": message, **stop_details(report), **details}
    others: list[int] = []
    for _ in range(MOST_COPIES - 1):
        if not report.stopped or is_stopped(now.found):
            break
        others += [now.found.identity.pid] if now.found.identity else []
        report, now = _stop(host, worker, now)
        details["killed"] = [*details["killed"], *map(str, report.killed)]
    if others:
        named = " and ".join(f"pid {pid}" for pid in others)
        details |= {"message": f"{message}; {named}, started by hand beside it, was stopped as well", "others": others}
    if not report.stopped:
        return stuck(report, details)
    known = [member.pid for member in now.found.leftovers]
    known += [now.found.identity.pid] if now.found.identity else []
    if left := known or _strays(host, worker):
        words = _still_there(worker, left, known=bool(known))
        return Outcome.failed(words, **{**details, "message": f"{message}, but may run", "may_run": list(left)})
    if now.problem:
        unseen = f"whether another was started by hand in some other way could not be seen. {now.problem}"
        details |= {"message": f"{details['message']}; {unseen}", "looked_for_others": False}
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


def _strays(host: Host, worker: Worker) -> tuple[int, ...]:
    """Who looks like the worker, whatever the heartbeat says: as long as one is there, it is not surely gone."""
    try:
        cwd = Path(host.drive.call(os.path.realpath, worker.cwd))  # it may lie on the drive
    except (DriveUnavailable, OSError):
        cwd = worker.cwd
    return host.processes.alike(host.config.command_for(worker), cwd)


def _still_there(worker: Worker, pids: Sequence[int], *, known: bool) -> str:
    who = " and ".join(f"pid {pid}" for pid in pids)
    if known:
        why = f"{who} runs, although {MOST_COPIES} copies of it were stopped. Look for who starts them, and end that"
    else:
        why = f"{who} has its command, and no heartbeat says whose it is. End it by hand, or wait for its heartbeat"
    return f"{worker.id} is paused, but {why}; then: pause {worker.id}."
