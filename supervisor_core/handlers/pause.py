"""Pause: the worker finishes what it has in hand, ends, and is not started again before somebody resumes it."""

from __future__ import annotations

from supervisor_core.adapters.pauses import Pause
from supervisor_core.adapters.worker import find_watcher, is_stopped, stop_watcher_gracefully
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.domain.times import to_text
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.stopping import stop_details, stuck


def pause_watcher(host: Host, job: Job) -> Outcome:
    """Write the pause flag, then stop the worker and look that nothing of it is left.

    The flag comes first: whatever happens after it, nothing starts the worker again by itself.
    """
    worker = host.config.worker(job.worker_id)
    found = find_watcher(host.processes, host.drive, host.config, worker)
    earlier = host.pauses.read(worker.id)
    if earlier and is_stopped(found):
        return Outcome.done(already_paused=True, message=f"{worker.id} is already {earlier}", **earlier._asdict())
    pause = earlier or Pause(job.issuer.id, to_text(host.now()), job.audit_label, job.task_id)
    written = host.pauses.set(worker.id, pause)
    report = stop_watcher_gracefully(host.processes, worker)
    details = {"message": f"{worker.id} is paused", **stop_details(report)}
    if not written.on_drive:
        details["drive"] = f"The pause holds; its flag is written when the drive is back. {written.problem}"
    if not report.stopped:
        return stuck(report, details)
    return Outcome.done(**details)
