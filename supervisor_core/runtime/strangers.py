"""Workers that are not in the configuration: those that are on record all the same, and commands that wait for them."""

from __future__ import annotations

import logging
from collections.abc import Collection

from supervisor_core.adapters.processes_records import read_record
from supervisor_core.config import SupervisorConfig, Worker
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job
from supervisor_core.ledger import jobs
from supervisor_core.runtime.executing import execute
from supervisor_core.runtime.parts import Parts

log = logging.getLogger(__name__)


def strangers(config: SupervisorConfig) -> list[Worker]:
    """Who was removed from it while no daemon ran: one with the default settings for each, so that it can be ended."""
    found = []
    for path in sorted((config.state_dir / "workers").glob("*.json")):
        if path.stem in config.workers:
            continue
        try:
            record = read_record(config.state_dir, path.stem)
        except (SupervisorError, OSError) as error:
            log.warning("%s is about no worker of this configuration, and can't be read: %s", path, error)
            continue
        if record is not None:
            worker = Worker.model_construct(command=record.command or ("unknown",))
            worker._id = path.stem  # noqa: SLF001 (a key only its parent knows, and here there is no parent)
            found.append(worker)
    return found


def refuse_strays(parts: Parts, known: Collection[str]) -> list[Job]:
    """End what waits for workers that nobody looks after any more, as failures that say so; which these were.

    Else it would wait until a worker of that name is configured again, and then be done, months later.
    """
    refused = []
    host = parts.host  # by this configuration, to the end: of one that comes meanwhile only its actor may do anything
    waiting = parts.ledger.read(jobs.workers_with_work)
    for worker_id in sorted(waiting - set(known) - set(host.config.workers)):
        while True:
            job = parts.ledger.read(lambda connection, who=worker_id: jobs.next_to_run(connection, who))  # type: ignore[misc]
            if job is None or execute(job, host, parts.ledger) is None:
                break
            refused.append(job)
    return refused
