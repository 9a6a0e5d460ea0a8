"""The handlers of pause, resume and restart.

A pause succeeds when the worker has ended; a start, when the new process is alive after its grace period. A pause that
waits behind it, or the end of the daemon, cuts that wait short.
"""

from __future__ import annotations

import time
from typing import Any

from supervisor_core.commands.command import NOTE_KEY, Outcome
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.common.times import to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.jobs.handler_checks import (
    check_alone,
    check_startable,
    is_person,
    left_alone,
    presence_text,
    start_objection,
    start_objection_for,
    stop_details,
    stop_reason,
    stuck,
    why_paused,
)
from supervisor_core.jobs.model import Job
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.pauses import LONGEST_SAID, Pause
from supervisor_core.workers.worker import (
    end_watcher,
    find_watcher,
    is_stopped,
    start_watcher,
    stop_watcher_gracefully,
)


def pause_watcher(host: HostContext, job: Job) -> Outcome:
    """Write the pause flag, then stop the worker and check that none of its processes is left.

    The flag comes first, so that nothing restarts the worker automatically whatever happens next. A copy that somebody
    started by hand is stopped too, if it's the only one and runs as our user; any other process that looks like the
    worker makes this a failure.
    """
    worker = host.config.worker(job.worker_id)
    if worker.quarantined:
        return left_alone(host, job, worker) or Outcome.failed(f"{worker.id} wasn't paused. {start_objection(worker)}")
    earlier = host.pauses.read(worker.id)
    before = find_watcher(host, worker)
    if earlier and is_stopped(before):
        return Outcome.done(already_paused=True, message=f"{worker.id} is already {earlier}", **earlier.facts())
    note = one_line(str(job.params.get(NOTE_KEY) or ""), LONGEST_SAID)
    pause = earlier or Pause(job.issuer.id, to_text(host.now()), job.audit_label, job.task_id, note=note)
    written = host.pauses.set(worker.id, pause)
    details: dict[str, Any] = {}
    if not written.on_drive:
        details["drive"] = f"The pause is in effect. Its flag is written once the drive is back. {written.problem}"
    if before.identity:
        host.progress(f"stopping {worker.id} (pid {before.identity.pid})")
    ended = end_watcher(host, worker, stop_reason(job))
    message = f"{worker.id} is paused"
    details = {"message": message, **stop_details(ended.report), **details}
    if ended.copies:
        details["message"] = f"{message}. The copy that was started by hand was stopped too (pid {ended.copies[0]})"
        details["others"] = list(ended.copies)
    if not ended.report.stopped:
        return stuck(ended.report, details)
    if ended.left:
        details |= {"message": f"{message}, but may still be running", "may_run": list(ended.left)}
        return Outcome.failed(f"{worker.id} is paused, but may still be running. {ended.doubt}", **details)
    return Outcome.done(**details)


def resume_watcher(host: HostContext, job: Job) -> Outcome:
    """Remove the pause flag and start the worker, unless it's running.

    If it can't be started, or may run unnoticed, the pause stays. A person's resume also ends its quarantine.
    """
    worker = host.config.worker(job.worker_id)
    found = find_watcher(host, worker)
    if found.stuck:
        return Outcome.failed(
            f"{worker.id} is stuck: processes of an earlier stop are still running. Pause it again first."
        )
    earlier = host.pauses.read(worker.id)
    details: dict[str, object] = {"was_paused": earlier is not None}
    if found.presence is Presence.UNVERIFIABLE:
        return Outcome.failed(f"{worker.id} wasn't resumed, because it may be running: {found.reason}", **details)
    if found.identity is None and (reason := start_objection_for(host, worker, job.issuer)):
        return left_alone(host, job, worker) or Outcome.failed(f"{worker.id} wasn't resumed. {reason}", **details)
    if is_person(job.issuer):
        details["was_quarantined"] = host.quarantines.end(worker.id)
    written = host.pauses.set(worker.id, None)
    if not written.on_drive:
        details["drive"] = f"The pause flag is removed once the drive is back. {written.problem}"
    if found.identity is not None:
        message = f"{worker.id} is already running"
        if details.get("was_quarantined"):
            message = f"{worker.id} is no longer quarantined; it was already running"
        if worker.quarantined:
            message = f"{message}; it's quarantined in the configuration, so nothing restarts it"
        return Outcome.done(already_running=True, message=message, pid=found.identity.pid, **details)
    host.progress(f"starting {worker.id}")
    start_begun = time.monotonic()
    try:
        started = start_watcher(host, worker, found)
    except (SupervisorError, OSError) as error:
        ended = "quarantined" if details.get("was_quarantined") else "paused" if details["was_paused"] else ""
        subject = f"{worker.id} is no longer {ended}, but" if ended else worker.id
        return Outcome.failed(f"{subject} couldn't be started: {presence_text(host, worker)}. {error}", **details)
    return Outcome.done(
        message=f"{worker.id} is running{_cut_short(host, worker, start_begun)}", pid=started.pid, **details
    )


def _cut_short(host: HostContext, worker: WorkerSettings, start_begun: float) -> str:
    """That a start wasn't watched for its whole grace period, and why; empty if it was."""
    why, grace, watched = host.overtaken(), worker.start_grace_seconds, time.monotonic() - start_begun
    return (
        f"; it was watched for {watched:.1f} s of its start grace of {grace:g} s, because {why}"
        if why and watched < grace
        else ""
    )


BETWEEN_SECONDS = 2.0
"""The wait between stop and start. A connection or a lock on the drive may be released a moment after the processes are
gone."""


def restart_watcher(host: HostContext, job: Job) -> Outcome:
    """Stop the worker, wait two seconds, and start it. A stopped worker is started at once.

    A person's restart starts a paused worker once and keeps the flag; a worker that knows the flag comes up paused.
    Other restarts, such as a schedule's, don't touch a paused worker, and a pause during the stop counts. A worker that
    is quarantined, disabled, or couldn't be started again keeps running: that's better than nothing.
    """
    worker = host.config.worker(job.worker_id)
    found = find_watcher(host, worker, beside=True)
    old_pid = found.identity.pid if found.identity else None
    pause = host.pauses.read(worker.id)
    reason = (
        why_paused(worker, pause)
        if pause and not is_person(job.issuer)
        else start_objection_for(host, worker, job.issuer)
    )
    if reason:
        skipped = left_alone(host, job, worker)
        return skipped or Outcome.failed(f"{worker.id} wasn't restarted. {reason}", pid=old_pid)
    try:
        check_alone(found)
        check_startable(host, worker)
    except (SupervisorError, OSError) as error:
        return _not_begun(worker, old_pid, error)
    ended_quarantine = is_person(job.issuer) and host.quarantines.end(worker.id)
    begun = time.monotonic()
    if old_pid is not None:
        host.progress(f"stopping {worker.id} (pid {old_pid})")
    report = stop_watcher_gracefully(host.processes, worker, stop_reason(job))
    details: dict[str, Any] = {"was_running": old_pid is not None, "old_pid": old_pid, "new_pid": None}
    details |= {**stop_details(report), "paused": pause is not None, "was_quarantined": ended_quarantine}
    if not report.stopped:
        return stuck(report, details, "It wasn't started again.")
    if old_pid is not None:
        time.sleep(BETWEEN_SECONDS)
    newer = host.pauses.read(worker.id)
    if newer and newer != pause:
        words = f"{worker.id} was stopped, but not started again. {why_paused(worker, newer)}"
        return Outcome.failed(words, **{**details, "paused": True, "paused_meanwhile": True})
    host.progress(f"starting {worker.id}")
    start_begun = time.monotonic()
    try:
        started = start_watcher(host, worker)
    except (SupervisorError, OSError) as error:
        before = "was stopped, but" if old_pid is not None else "wasn't running and"
        return Outcome.failed(  # the error, which may be long, comes last
            f"{worker.id} {before} couldn't be started: {presence_text(host, worker)}. Fix the error, then: "
            f"restart {worker.id}. {error}",
            **details,
        )
    details |= {"new_pid": started.pid, "seconds": round(time.monotonic() - begun, 3)}
    message = f"{_message(report, old_pid, started.pid, newer)}{_cut_short(host, worker, start_begun)}"
    return Outcome.done(message=message, **details)


def _not_begun(worker: WorkerSettings, pid: int | None, error: Exception) -> Outcome:
    goes_on = f" It's still running (pid {pid}). To stop it anyway: pause {worker.id}." if pid else ""
    return Outcome.failed(f"{worker.id} wasn't restarted, because it couldn't be started. {error}{goes_on}", pid=pid)


def _message(report: StopReport, old_pid: int | None, new_pid: int, pause: Pause | None) -> str:
    still = f". It's still {pause}. To end the pause: resume {report.worker_id}" if pause else ""
    if old_pid is None:
        return f"Started {report.worker_id} (pid {new_pid}); it wasn't running{still}"
    killed = "; the old process didn't stop in time and was killed" if report.ending is Ending.KILLED else ""
    return f"Restarted {report.worker_id} (pid {old_pid} → {new_pid}){killed}{still}"
