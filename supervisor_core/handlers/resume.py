"""Resume: the worker may work again, and is seen to be alive before that is called a success."""

from __future__ import annotations

from supervisor_core.adapters.processes import Presence
from supervisor_core.adapters.worker import Search, look_for_watcher, start_watcher
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.starting import how_it_is, is_person, why_not_for


def resume_watcher(host: Host, job: Job) -> Outcome:
    """Take the pause away and start the worker, unless it runs already.

    Where it may not be started, or may run without our knowing, the pause is not touched. A person ends the quarantine
    of a worker that was given up, too.
    """
    worker = host.config.worker(job.worker_id)
    found = look_for_watcher(host.processes, host.drive, host.config, worker, Search.IF_STOPPED).found
    if found.stuck:
        return Outcome.failed(f"{worker.id} is stuck: what a stop could not end must end first. Pause it again.")
    earlier = host.pauses.read(worker.id)
    details: dict[str, object] = {"was_paused": earlier is not None}
    if found.presence is Presence.UNVERIFIABLE:
        return Outcome.failed(f"Nothing was done. {worker.id} may be running: {found.reason}", **details)
    if found.identity is None and (reason := why_not_for(host, worker, job.issuer)):
        return Outcome.failed(f"Nothing was done. {reason}", **details)
    if is_person(job.issuer):
        details["was_quarantined"] = host.quarantines.end(worker.id)
    written = host.pauses.set(worker.id, None)
    if not written.on_drive:
        details["drive"] = f"The pause flag is removed when the drive is back. {written.problem}"
    if found.identity is not None:
        message = f"{worker.id} is already running"
        if details.get("was_quarantined"):
            message = f"{worker.id} is not quarantined any more; it is already running"
        return Outcome.done(already_running=True, message=message, pid=found.identity.pid, **details)
    host.progress(f"starting {worker.id}")
    try:
        started = start_watcher(host.processes, host.drive, host.config, worker, found)
    except (SupervisorError, OSError) as error:
        rested = "quarantined" if details.get("was_quarantined") else "paused"
        words = f"{worker.id} is not {rested} any more, but could not be started: {how_it_is(host, worker)}. {error}"
        return Outcome.failed(words, **details)
    return Outcome.done(message=f"{worker.id} is running", pid=started.pid, **details)
