"""Restart: the worker ends, nothing of it is left, and a new one is seen to be alive before that is a success."""

from __future__ import annotations

import time
from typing import Any

from supervisor_core.adapters.pauses import Pause
from supervisor_core.adapters.processes_stop import Ending, StopReport
from supervisor_core.adapters.worker import (
    Search,
    look_for_watcher,
    start_watcher,
    stop_watcher_gracefully,
)
from supervisor_core.config import Worker
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.starting import (
    check_alone,
    check_startable,
    how_it_is,
    is_person,
    why_not_for,
    why_paused,
)
from supervisor_core.handlers.stopping import ordered_by, stop_details, stuck

BETWEEN_SECONDS = 2.0
"""From the end of the old one to the start of the new: what the old one held elsewhere (a connection, a lock on the
drive) is let go of a moment after its processes are gone."""


def restart_watcher(host: Host, job: Job) -> Outcome:
    """Stop the worker, wait a moment, start it; one that does not run is started, without the moment.

    A person's restart starts a paused worker once and leaves the flag in place: a worker that knows it comes up
    paused. Anybody else's (a schedule's) does not touch one, and a pause that is given while it stops is the newer
    word. What is quarantined, not enabled, or could not be started again is left alone: what works badly is better
    than nothing.
    """
    worker = host.config.worker(job.worker_id)
    found = look_for_watcher(host.processes, host.drive, host.config, worker, Search.ALWAYS).found
    old_pid = found.identity.pid if found.identity else None
    pause = host.pauses.read(worker.id)
    reason = why_paused(worker, pause) if pause and not is_person(job.issuer) else why_not_for(host, worker, job.issuer)
    if reason:
        return Outcome.failed(f"Nothing was done. {reason}", pid=old_pid)
    try:
        check_alone(found)
        check_startable(host, worker)
    except (SupervisorError, OSError) as error:
        return _not_begun(worker, old_pid, error)
    ended_quarantine = is_person(job.issuer) and host.quarantines.end(worker.id)
    begun = time.monotonic()
    if old_pid is not None:
        host.progress(f"stopping {worker.id}, pid {old_pid}")
    report = stop_watcher_gracefully(host.processes, worker, ordered_by(job))
    details: dict[str, Any] = {"was_running": old_pid is not None, "old_pid": old_pid, "new_pid": None}
    details |= {**stop_details(report), "paused": pause is not None, "was_quarantined": ended_quarantine}
    if not report.stopped:
        return stuck(report, details, "Nothing was started beside it.")
    if old_pid is not None:
        time.sleep(BETWEEN_SECONDS)
    newer = host.pauses.read(worker.id)
    if newer and newer != pause:
        words = f"{worker.id} is stopped and was not started again. {why_paused(worker, newer)}"
        return Outcome.failed(words, **{**details, "paused": True})
    host.progress(f"starting {worker.id}")
    try:
        started = start_watcher(host.processes, host.drive, host.config, worker)
    except (SupervisorError, OSError) as error:
        return _down(host, worker, details, error)
    details |= {"new_pid": started.pid, "seconds": round(time.monotonic() - begun, 3)}
    return Outcome.done(message=_message(report, old_pid, started.pid, newer), **details)


def _not_begun(worker: Worker, pid: int | None, error: Exception) -> Outcome:
    goes_on = f" It goes on as pid {pid}; to stop it all the same: pause {worker.id}." if pid else ""
    return Outcome.failed(f"{worker.id} was not restarted, because it could not be started. {error}{goes_on}", pid=pid)


def _down(host: Host, worker: Worker, details: dict[str, Any], error: Exception) -> Outcome:
    """Stopped and not started: what matters most comes first, for the error may be long."""
    before = "was stopped, but" if details["was_running"] else "did not run, and"
    again = f"Put right what is said here, then: restart {worker.id}."
    return Outcome.failed(
        f"{worker.id} {before} could not be started: {how_it_is(host, worker)}. {again} {error}", **details
    )


def _message(report: StopReport, old_pid: int | None, new_pid: int, pause: Pause | None) -> str:
    still = f". It is still {pause}, and rests if it knows the flag; resume ends that" if pause else ""
    if old_pid is None:
        return f"{report.worker_id} was not running; it is started as pid {new_pid}{still}"
    ended = "was killed, because it did not end when asked" if report.ending is Ending.KILLED else "ended"
    return f"{report.worker_id} is restarted: pid {old_pid} {ended}; pid {new_pid} runs{still}"
