"""Pause: the worker finishes what it has in hand, ends, and is not started again before somebody resumes it."""

from __future__ import annotations

from typing import Any

from supervisor_core.adapters.pauses import Pause
from supervisor_core.adapters.worker import Search, end_watcher, is_stopped, look_for_watcher
from supervisor_core.config import Worker
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.stopping import ordered_by, stop_details, stuck


def pause_watcher(host: Host, job: Job) -> Outcome:
    """Write the pause flag, then stop the worker and look that nothing of it is left.

    The flag comes first: whatever happens after it, nothing starts the worker again by itself. Copies that somebody
    started by hand are stopped as well, if they surely are the worker; any other process that claims to be it makes
    this a failure. Where no heartbeat could be read, that is said.
    """
    worker = host.config.worker(job.worker_id)
    earlier = host.pauses.read(worker.id)
    before = look_for_watcher(host.processes, host.drive, host.config, worker, Search.IF_STOPPED)
    if earlier and is_stopped(before.found) and not before.problem:
        return Outcome.done(already_paused=True, message=f"{worker.id} is already {earlier}", **earlier.facts())
    pause = earlier or Pause(job.issuer.id, to_text(host.now()), job.audit_label, job.task_id)
    written = host.pauses.set(worker.id, pause)
    details: dict[str, Any] = {}
    if not written.on_drive:
        details["drive"] = f"The pause holds; its flag is written when the drive is back. {written.problem}"
    if before.found.identity:
        host.progress(f"stopping {worker.id}, pid {before.found.identity.pid}")
    return _stop(host, worker, ordered_by(job), details)


def _stop(host: Host, worker: Worker, why: str, details: dict[str, Any]) -> Outcome:
    """Stop the worker and every copy of it."""
    ended = end_watcher(host.processes, host.drive, host.config, worker, why)
    message = f"{worker.id} is paused"
    details = {"message": message, **stop_details(ended.report), **details}
    if ended.copies:
        named = " and ".join(f"pid {pid}" for pid in ended.copies)
        details |= {"message": f"{message}; {named}, started by hand beside it, was stopped as well"}
        details["others"] = list(ended.copies)
    if not ended.report.stopped:
        return stuck(ended.report, details)
    if ended.left:
        pids = [each.pid for each in ended.left]
        words = f"{worker.id} is paused, but may still run. {ended.words(worker)}"
        return Outcome.failed(words, **{**details, "message": f"{message}, but may run", "may_run": pids})
    if ended.problem:
        unseen = f"whether another was started by hand in some other way could not be seen. {ended.problem}"
        details |= {"message": f"{details['message']}; {unseen}", "looked_for_others": False}
    return Outcome.done(**details)
