"""Gathers the facts for `why`: a live check of the workers, the ledger, the logs, the drive and the disks.

Nothing here waits long: the drive has a second, and disks are read in threads that may be abandoned. Unavailable facts
are named, and the explanation does without them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts.flips import Flip
from supervisor_core.alerts.incoming import firing_by_worker
from supervisor_core.code.watch import service as bakes
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import from_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.diagnosis.reports.files import masking_of
from supervisor_core.diagnosis.why.explanation import explain
from supervisor_core.diagnosis.why.model import (
    Circumstance,
    Disk,
    Explanation,
    KnownPause,
    RecentChange,
    RecentConfiguration,
    WorkerFacts,
)
from supervisor_core.host.disks import disk_space
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.host.logging.masking import Masking
from supervisor_core.host.open_folder import FileEnd
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.processes.output.files import OutputSource, source_of, written_to
from supervisor_core.storage import supervisors
from supervisor_core.storage.audit.chain import AFFECTED, CONFIG_APPLIED, DAMAGED, details_of
from supervisor_core.storage.audit.search import AuditFilter, cause_of, search
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Target
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.health import Health, WorkerState
from supervisor_core.workers.heartbeats.files import heartbeat_file
from supervisor_core.workers.observation import DRIVE_SECONDS
from supervisor_core.workers.output.runs import read_lines_of_run, run_in_question
from supervisor_core.workers.restarts import history as starts
from supervisor_core.workers.restarts.history import read_history
from supervisor_core.workers.restarts.policy import automatic_starts
from supervisor_core.workers.status import WorkerStatus

T = TypeVar("T")

SINCE = timedelta(days=7)
"""So far back is looked for what may have broken a worker."""

FLIPS_SINCE = timedelta(days=1)
JOBS, LINES = 30, 400
"""Of one worker: commands that are looked through, and lines of its log."""

MUTES = 5
"""Rows of the audit trail that are read for the newest one that wasn't altered."""

READ_BYTES = 64 * 1024
"""Of the end of a log."""

IN_FULL = 20
"""The most workers whose logs are read, unhealthy ones first. Others are explained without logs."""

SECONDS = 1.0
"""The timeout for local disks, which may hang, too."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts about the host that all its workers share."""

    drive_problem: str = ""
    disks: tuple[Disk, ...] = ()
    resting: str = ""
    resting_by: Issuer | None = None
    resting_since: datetime | None = None
    since: Mapping[str, datetime] = field(default_factory=dict)
    """The start of the condition of each unhealthy worker."""
    alerts: Mapping[str, tuple[Circumstance, ...]] = field(default_factory=dict)
    """Alertmanager's alerts about each worker."""


class Explainer:
    """Explains observed workers of this host. It blocks, so it runs in a thread."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._threads = DaemonThreads("why", 2)

    def __call__(
        self,
        host: HostContext,
        looked: Sequence[WorkerStatus],
        documents: Sequence[Mapping[str, Any]],
        wanted: Collection[str],
    ) -> list[Explanation]:
        """Explain the wanted workers, unhealthy ones first. `looked` and `documents` are the same observation, raw and
        as `status` shows it."""
        shown = {str(document["id"]): document for document in documents}
        mine = [seen for seen in looked if seen.worker.id in wanted and seen.worker.id in shown]
        mine.sort(key=lambda seen: bool(shown[seen.worker.id]["fine"]))
        around = self._surroundings(host)
        full = mine if len(mine) == 1 else [seen for seen in mine if not shown[seen.worker.id]["fine"]][:IN_FULL]
        ends = self._ends(host, [seen.worker for seen in full])
        masking = masking_of(host.config)
        found = []
        for seen in mine:
            facts = facts_of(host.config, seen, shown[seen.worker.id], around)
            if seen in full:
                # A ledger without a fleet has no other host's rows, but perhaps some of an earlier name.
                chain = host.config.supervisor.id if host.config.fleet.role == HUB else None
                facts = self._recorded(seen, facts, chain)
                facts = _with_log(facts, host.config, seen, ends.get(seen.worker.id), masking)
            found.append(explain(facts))
        return sorted(found, key=lambda each: each.fine)

    def _surroundings(self, host: HostContext) -> Surroundings:
        config, problem = host.config, ""
        try:
            host.drive.call(host.drive.confirm, timeout=DRIVE_SECONDS)
        except (DriveUnavailable, OSError) as error:
            problem = str(error)
        disks = [self._bounded(_read_disk, "the state folder", config.state_dir)]
        if config.nas.root is not None and not problem:
            disks.append(self._bounded(host.drive.call, _read_disk, "the drive", config.drive_root))
        around = Surroundings(problem, tuple(disk for disk in disks if disk is not None))

        def read(connection: Connection) -> Surroundings:
            standing = flips.current_conditions(connection, config.supervisor.id)
            bad = {
                each.target.id: each.since
                for each in standing.values()
                if each.target.kind == WORKER and not each.condition.fine
            }
            foreign = {
                worker_id: tuple(
                    Circumstance(f"Alertmanager: {each.reading.reason}", each.reading.since) for each in told
                )
                for worker_id, told in firing_by_worker(connection, config.supervisor.id).items()
            }
            known = replace(around, since=bad, alerts=foreign)
            row = supervisors.find(connection, config.supervisor.id)
            if row is None or not row.paused:
                return known
            name = config.supervisor.id
            asked = AuditFilter(
                targets=(name,), action="MUTED", limit=MUTES, target_type="supervisor", supervisor_id=name
            )
            trail = [row for row in search(connection, asked) if DAMAGED not in row]
            by = Issuer(trail[0]["actor"], _name(trail[0]["label"])) if trail else None
            since = from_text(trail[0]["created_at"]) if trail else row.changed_at
            return replace(known, resting=row.reason or "paused", resting_by=by, resting_since=since)

        return self._ledger.read(read)

    def _recorded(self, seen: WorkerStatus, facts: WorkerFacts, chain: str | None) -> WorkerFacts:
        """Add the facts of the ledger, of this chain if it has several hosts'."""
        worker_id, now = seen.worker.id, seen.at

        def read(
            connection: Connection,
        ) -> tuple[list[Flip], list[Job], RecentChange | None, RecentConfiguration | None]:
            found = flips.flips_of_target(connection, Target(WORKER, worker_id), now - FLIPS_SINCE, now, chain)
            asked = jobs.recent_for(connection, worker_id, now - SINCE, JOBS)
            change = _newest_change(connection, worker_id, now - SINCE)
            return found, asked, change, _newest_settings(connection, worker_id, now - SINCE, chain)

        changed, asked, change, settings = self._ledger.read(read)
        if facts.paused is not None and seen.pause is not None and seen.pause.task_id:
            job = next((job for job in asked if job.task_id == seen.pause.task_id), None)
            if job:  # it has the label as it was given: in the flag it may be cut
                facts = replace(facts, paused=replace(facts.paused, by=job.issuer, label=job.label or ""))
        return replace(facts, flips=tuple(changed), jobs=tuple(asked), change=change, settings=settings)

    def _ends(self, host: HostContext, workers: Sequence[WorkerSettings]) -> dict[str, FileEnd | str]:
        """The end of what each of them wrote, or why it can't be read."""
        sources = {worker.id: source_of(host.config, worker) for worker in workers}
        there = {name: source for name, source in sources.items() if source.on_drive}
        local = {name: source for name, source in sources.items() if name not in there}
        found: dict[str, FileEnd | str] = dict(
            self._bounded(_read_all, local) or dict.fromkeys(local, "its disk isn't responding")
        )
        if there:
            known = self._bounded(host.drive.call, _read_all, there, host.drive.root)
            found |= known or dict.fromkeys(there, "it's on the shared drive, which is unreachable or slow")
        return found

    def _bounded(self, work: Callable[..., T], *arguments: Any) -> T | None:  # noqa: ANN401
        """Return its result; None on a timeout or failure. A call to the drive continues in the background, because
        the drive has its own timeout."""
        try:
            return self._threads.submit(work, *arguments).result(SECONDS)
        except (FutureTimeout, DriveUnavailable, OSError):
            return None


def facts_of(
    config: SupervisorConfig, seen: WorkerStatus, document: Mapping[str, Any], around: Surroundings
) -> WorkerFacts:
    """Combine the status of one worker with the facts about its host."""
    worker_id = seen.worker.id
    lives, _ = read_history(config.state_dir, worker_id)
    due, given_up = document.get("due_at"), seen.quarantine
    leader = seen.found.identity
    stuck = seen.state is WorkerState.STUCK
    left = [str(member) for member in seen.found.leftovers] if stuck else []
    paused, pause = None, seen.pause
    if pause is not None:
        by = Issuer(pause.by, _name(pause.label)) if pause.by else None
        paused = KnownPause(by, _moment(pause.at), pause.label.partition(" - ")[2])
    return WorkerFacts(
        worker_id=worker_id,
        at=seen.at,
        state=WorkerState(document["state"]),
        health=Health(document["health"]),
        reason=str(document["reason"]),
        fine=bool(document["fine"]),
        seen=seen,
        paused=paused,
        given_up=given_up.words if given_up else "",
        given_up_at=_moment(given_up.at) if given_up else None,
        survivors=tuple([f"pid {leader.pid}", *left] if stuck and leader else left),
        start_error=str(document.get("start_error") or "") if leader is None else "",
        due_at=_moment(str(due)) if due else None,
        drive=str(config.drive_root),
        drive_problem=around.drive_problem,
        disks=around.disks,
        lives=tuple(lives),
        starts=automatic_starts(starts.read_starts(config.state_dir, worker_id), seen.at),
        policy=seen.worker.restart.policy,
        resting=around.resting,
        resting_by=around.resting_by,
        resting_since=around.resting_since,
        since=around.since.get(worker_id),
        alerts=around.alerts.get(worker_id, ()),
        log=str(written_to(config, seen.worker)),
        heartbeat_file=heartbeat_file(config, seen.worker),
    )


def _newest_change(connection: Connection, worker_id: str, since: datetime) -> RecentChange | None:
    """The newest command that changed the code that this worker runs from: its own, or of one that shares it."""
    own = [job for job in jobs.ended(connection, [worker_id], CODE_HANDLERS, JOBS) if _changed(job, since)]
    found = [RecentChange(job, job.finished_at, worker_id) for job in own[:1] if job.finished_at]
    bake = bakes.newest_of(connection, worker_id, since)
    if bake is not None:
        job = jobs.find(connection, bake.task_id, bake.asked_for)
        if job is not None and job.finished_at is not None:
            watched = RecentChange(job, job.finished_at, bake.asked_for, bake.state, bake.reason)
            found = [each for each in found if each.job.job_id != job.job_id]
            found.append(watched)
    if not found:
        return None
    newest = max(found, key=lambda each: each.at)
    tries = jobs.undoing(connection, newest.job.task_id, JOBS)
    undone = any(each.worker_id == newest.asked_for and each.outcome and each.outcome.success for each in tries)
    return replace(newest, undone=undone, undoable=newest.job.handler != "undo_code")


def _newest_settings(
    connection: Connection, worker_id: str, since: datetime, chain: str | None
) -> RecentConfiguration | None:
    """The newest configuration that restarts, starts or stops this worker."""
    wanted = AuditFilter(targets=(worker_id,), action=AFFECTED, since=since, supervisor_id=chain)
    for row in search(connection, wanted):
        if details_of(row).get("action") != CONFIG_APPLIED:
            continue
        try:
            said = json.loads(cause_of(connection, row)["details_json"])
            own = [each for each in said["changes"] if str(each).startswith(f"{worker_id}: ")]
            return RecentConfiguration(
                Issuer(row["actor"], row["label"] or ""),
                from_text(said["begun_at"]),
                tuple(str(each) for each in own or said["changes"]),
                str(row["task_id"]),
            )
        except (KeyError, TypeError, ValueError):  # an altered row says nothing
            continue
    return None


def _changed(job: Job, since: datetime) -> bool:
    details: Mapping[str, Any] = job.outcome.details if job.outcome and job.outcome.success else {}
    late = job.finished_at is not None and job.finished_at >= since
    return late and details.get("before") != details.get("after")


def _with_log(
    facts: WorkerFacts, config: SupervisorConfig, seen: WorkerStatus, end: FileEnd | str | None, masking: Masking
) -> WorkerFacts:
    """Add what the process in question wrote: of a worker that is well again or starting, the one that failed."""
    worker = seen.worker
    if end is None or isinstance(end, str):
        words = f"{written_to(config, worker)} can't be read: {end or 'it took too long'}"
        return replace(facts, unknown=(*facts.unknown, masking.text(words)))
    about_end = facts.fine or facts.state is WorkerState.STARTING
    run = run_in_question(seen.found.record, facts.lives, running=facts.runs, about_end=about_end)
    return replace(facts, lines=tuple(read_lines_of_run(worker, end, run, LINES, masking)))


def _read_all(sources: Mapping[str, OutputSource]) -> dict[str, FileEnd | str]:
    found: dict[str, FileEnd | str] = {}
    for name, source in sources.items():
        try:
            found[name] = source.read(READ_BYTES)
        except FileNotFoundError:
            found[name] = FileEnd(b"", 0, cut=False)
        except (SupervisorError, OSError) as error:
            found[name] = str(error)
    return found


def _read_disk(what: str, folder: Path) -> Disk:
    found = disk_space(folder)
    return Disk(what, str(folder), found.free, found.percent_free)


def _name(label: str | None) -> str:
    return (label or "").partition(" - ")[0]


def _moment(text: str) -> datetime | None:
    try:
        return from_text(text)
    except ValueError:  # a flag that was made by hand may say anything
        return None
