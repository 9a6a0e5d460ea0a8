"""What `history` shows, gathered: flips and commands from the ledger, ages of heartbeats from the samples."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection

from supervisor_core.adapters.beat_ages import read_ages
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.catalog import by_handler
from supervisor_core.domain.conditions import WORKER, Target
from supervisor_core.domain.definitions import CODE_HANDLERS, Risk
from supervisor_core.domain.explaining import came_of, named
from supervisor_core.domain.flips import stretches, uptime
from supervisor_core.domain.history import History, Mark, Sample, Sort, from_flips
from supervisor_core.domain.jobs import Job
from supervisor_core.ledger import flips, jobs
from supervisor_core.ledger.store import Ledger

MOST = 20
"""Workers of one answer: more rows than that are no picture."""

COMMANDS = 200
MARKS = 40
"""Of one worker that are shown; the others are counted."""


def histories(
    ledger: Ledger, config: SupervisorConfig, workers: Sequence[str], since: datetime, until: datetime
) -> list[History]:
    """Of the first of these workers that are configured. It blocks."""
    wanted = [each for each in workers if each in config.workers][:MOST]
    return ledger.read(lambda connection: [_of(connection, config, each, since, until) for each in wanted])


def _of(connection: Connection, config: SupervisorConfig, worker_id: str, since: datetime, until: datetime) -> History:
    found = flips.of_target(connection, Target(WORKER, worker_id), since, until)
    held = tuple(stretches(found, since, until))
    done = [job for job in jobs.lately(connection, worker_id, since, COMMANDS) if _changes(job, since, until)]
    limit = config.workers[worker_id].heartbeat_max_age_seconds
    ages = (
        [Sample(age.at, age.seconds) for age in read_ages(config.state_dir, worker_id, since, until)] if limit else []
    )
    marks = sorted((_mark(job, worker_id) for job in done), key=lambda mark: mark.at)
    return History(
        worker_id,
        since,
        until,
        held,
        uptime(found, since, until),
        from_flips(ages, held, limit),
        limit,
        tuple(marks[-MARKS:]),
        max(len(marks) - MARKS, 0),
    )


def _changes(job: Job, since: datetime, until: datetime) -> bool:
    definition = by_handler(job.handler)
    return definition is not None and definition.risk is not Risk.READS and since <= _at(job) <= until


def _mark(job: Job, worker_id: str) -> Mark:
    sort = Sort.DEPLOY if job.handler in CODE_HANDLERS else Sort.COMMAND
    return Mark(_at(job), sort, job.command, (f"{named(job, worker_id)} by ", job.issuer, *came_of(job)))


def _at(job: Job) -> datetime:
    return job.finished_at or job.filed_at
