"""Watches workers after a code change, one row for each command and worker, and shows the outcome on the card.

Nothing is reverted automatically. The ledger holds all that counts, so the watch continues after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, Select, func, insert, select

from supervisor_core.code.watch.rules import (
    FOLLOWED,
    Bake,
    BakeState,
    BakeVerdict,
    CodeChange,
    WatchedWorker,
    change_of,
    judge,
    overtakes,
    recovered,
)
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common import crashpoints
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import one_line, storable
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.logging.log import command_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.jobs.rows import refresh_card
from supervisor_core.storage.steps import Step, record
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import bakes

LONGEST_REASON = 300
"""Characters: a line on a card."""

LOOK_SECONDS = 5.0
"""Between two looks at the watched workers. A crash and a restart between them leave their marks."""

RECOVERY_LOOK = timedelta(seconds=30)
"""Between two looks at degraded workers."""

WorkerLook = Callable[[Collection[str]], Mapping[str, WatchedWorker]]
"""The current states of these workers, without those that aren't configured. It blocks."""

log = logging.getLogger(__name__)


def insert_bake(connection: Connection, bake: Bake, now: datetime) -> bool:
    """Start a watch and refresh its card; False if this worker was already watched for this command."""
    same = (bakes.c.task_id == bake.task_id, bakes.c.worker_id == bake.worker_id)
    if connection.execute(select(bakes.c.state).where(*same)).first() is not None:
        return False
    names = ("task_id", "worker_id", "supervisor_id", "asked_for", "state", "since", "until")
    connection.execute(insert(bakes), {name: getattr(bake, name) for name in names})
    record(connection, bake.supervisor_id, None, (refresh_card(bake.task_id),), now)
    return True


def of_task(connection: Connection, task_id: str) -> list[Bake]:
    return _read(connection, select(bakes).where(bakes.c.task_id == task_id).order_by(bakes.c.worker_id))


def newest_of(connection: Connection, worker_id: str, since: datetime) -> Bake | None:
    """The last watch of this worker, unless it began before this moment."""
    query = select(bakes).where(bakes.c.worker_id == worker_id, bakes.c.since >= since)
    return next(iter(_read(connection, query.order_by(bakes.c.since.desc()).limit(1))), None)


def watched_now(connection: Connection) -> list[Bake]:
    """The current watches, the first to end first."""
    query = select(bakes).where(bakes.c.state == BakeState.WATCHING)
    return _read(connection, query.order_by(bakes.c.until, bakes.c.task_id, bakes.c.worker_id))


def _read(connection: Connection, query: Select[tuple[object, ...]]) -> list[Bake]:
    rows = (dict(row) for row in connection.execute(query).mappings())
    return [Bake(**{**row, "state": BakeState(row["state"]), "reason": row["reason"] or ""}) for row in rows]


def move(bake: Bake, verdict: BakeVerdict, now: datetime) -> Step:
    """watching → the verdict's state, degraded → recovered; the card is refreshed. A second program changes nothing."""
    key = {"task_id": bake.task_id, "worker_id": bake.worker_id}
    values: dict[str, object] = {"decided_at": now}
    if verdict.state is not BakeState.RECOVERED:  # the reason why it had degraded stays
        values["reason"] = one_line(storable(verdict.reason), LONGEST_REASON) or None
    return Step(bakes, key, (bake.state,), verdict.state, values, outbox=(refresh_card(bake.task_id),))


class BakingChore:
    """A chore of the scheduler. It submits no commands, and while nobody is watched it costs one indexed query."""

    name = "baking"

    def __init__(self, ledger: Ledger, config: Callable[[], SupervisorConfig], look: WorkerLook) -> None:
        self._ledger = ledger
        self._config = config
        self._look = look
        self._looked_at: datetime | None = None
        self._recovery_at: datetime | None = None
        """The next look at degraded workers; None without any."""
        self._handled_jobs: frozenset[int] = frozenset()
        """Recent jobs that this program has followed. Following one again changes nothing."""

    def due_at(self) -> datetime | None:
        """The next look: at the first end of a watch, or sooner; None while nobody is watched."""
        first_end = select(func.min(bakes.c.until)).where(bakes.c.state == BakeState.WATCHING)
        end: datetime | None = self._ledger.read(lambda connection: connection.execute(first_end).scalar())
        due = end
        if end is not None and self._looked_at is not None:
            look = self._looked_at + timedelta(seconds=LOOK_SECONDS)
            due = min(end, look) if end > self._looked_at else look
        return min(filter(None, (due, self._recovery_at)), default=None)

    def work(self, now: datetime) -> bool:
        """Judge watched workers, and watch the workers of new changes. No command is submitted.

        The look comes first: so no worker is judged by the effects of a newer command.
        """
        watching = self._ledger.read(watched_now)
        before, interval = self._looked_at, timedelta(seconds=LOOK_SECONDS)
        ended = before is not None and any(before < bake.until <= now for bake in watching)
        workers: Mapping[str, WatchedWorker] | None = None
        if not watching or ended or before is None or not timedelta(0) <= now - before < interval:
            workers = self._look({bake.worker_id for bake in watching}) if watching else None
            self._looked_at = now
        self._follow_changes(watching, now)
        if workers is not None:
            grace = timedelta(seconds=self._config().alerts.start_grace_seconds)
            for bake in watching:
                if verdict := judge(bake, workers.get(bake.worker_id), now, grace):
                    self._end(bake, verdict, now)
        if self._recovery_at is None or not now < self._recovery_at <= now + RECOVERY_LOOK:
            self._find_recoveries(now)
        return False

    def _find_recoveries(self, now: datetime) -> None:
        """Move degraded workers that run well again, unless a newer code change concerns them."""
        newer = bakes.alias("newer")
        newer_change = select(newer.c.task_id).where(
            newer.c.worker_id == bakes.c.worker_id, newer.c.since > bakes.c.since
        )
        recent = bakes.c.until >= now - FOLLOWED
        query = select(bakes).where(bakes.c.state == BakeState.DEGRADED, recent, ~newer_change.exists())
        degraded = self._ledger.read(lambda connection: _read(connection, query.order_by(bakes.c.until)))
        self._recovery_at = now + RECOVERY_LOOK if degraded else None
        workers = self._look({bake.worker_id for bake in degraded}) if degraded else {}
        for bake in degraded:
            step = move(bake, BakeVerdict(BakeState.RECOVERED), now)
            if recovered(bake, workers.get(bake.worker_id), now) and self._ledger.step(step, now):
                log.info("%s has recovered with its new code", bake.worker_id)

    def _follow_changes(self, watching: Collection[Bake], now: datetime) -> None:
        """For each code change since the last round: end the watches that it overtakes, and begin its own."""
        length = timedelta(minutes=self._config().slack.bake_minutes)
        if not length and not watching:
            return
        since = min([now - length, *(bake.since for bake in watching)])
        ended = self._ledger.read(lambda connection: jobs.ended_since(connection, CODE_HANDLERS, since))
        fresh = set(ended) - self._handled_jobs
        for job in self._ledger.read(lambda connection: jobs.by_ids(connection, fresh)) if fresh else []:
            if change := change_of(job):
                for bake in self._ledger.read(watched_now):
                    if overtakes(change, bake):
                        details = job.outcome.details if job.outcome else {}
                        undone = job.handler == "undo_code" and details.get("undone_task_id") == bake.task_id
                        did = "undid this change" if undone else f"changed the code again ({job.command})"
                        reason = f"{job.issuer.name or job.issuer.id} {did}"
                        self._end(bake, BakeVerdict(BakeState.OVERTAKEN, reason), now)
                if change.at + length > now:
                    self._begin(job, change, length, now)
        self._handled_jobs = frozenset(ended)

    def _begin(self, job: Job, change: CodeChange, length: timedelta, now: datetime) -> None:
        """Watch each worker that was started with the change: by its own job, or by the one that changed its
        checkout."""
        of_task = self._ledger.read(lambda connection: jobs.of_task(connection, change.task_id))
        targets = {sibling.worker_id for sibling in of_task}
        supervisor_id, until = self._ledger.supervisor_id, change.at + length
        begun = [
            Bake(
                change.task_id,
                worker_id,
                supervisor_id,
                worker_id if worker_id in targets else change.worker_id,
                change.at,
                until,
            )
            for worker_id in change.started
        ]
        if not begun:
            return
        crashpoints.reach("bakes_t.watching:before")
        begun = self._ledger.write(lambda connection: [bake for bake in begun if insert_bake(connection, bake, now)])
        crashpoints.reach("bakes_t.watching:after")
        for bake in begun:
            with command_context(bake.task_id, job.label, bake.worker_id):
                log.info("watching %s for %g minutes", bake.worker_id, length.total_seconds() / 60)

    def _end(self, bake: Bake, verdict: BakeVerdict, now: datetime) -> None:
        if not self._ledger.step(move(bake, verdict, now), now):
            return
        from supervisor_core.code.change import undo_command  # late: it imports git, and is seldom needed

        job = self._ledger.read(lambda connection: jobs.find(connection, bake.task_id, bake.asked_for))
        with command_context(bake.task_id, job.label if job else None, bake.worker_id):
            if verdict.state is BakeState.DEGRADED:
                back = f". To restore the previous code: {undo_command(job)}" if job else ""
                about = LogEvent.CODE_DEGRADED.extra(reason=verdict.reason)
                message = "%s degraded after its code changed: %s%s"
                log.warning(message, bake.worker_id, verdict.reason, back, extra=about)
            elif verdict.state is BakeState.WELL:
                message = "%s is healthy with its new code; stopped watching"
                log.info(message, bake.worker_id, extra=LogEvent.CODE_HEALTHY.extra())
            else:
                log.info("stopped watching %s: %s", bake.worker_id, verdict.reason)
