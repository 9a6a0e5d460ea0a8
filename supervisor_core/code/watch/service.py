"""Watches workers after a code change, one row for each command and worker, and shows the outcome on the card.

Nothing is reverted automatically. The ledger holds all that counts, so the watch continues after a crash.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from datetime import datetime, timedelta

from sqlalchemy import Connection, RowMapping, func, insert, select

from supervisor_core.code.watch.rules import (
    FOLLOWED,
    Bake,
    BakedChange,
    BakeState,
    BakeVerdict,
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

REASON = 300
"""Characters of why it ended so: a line on a card."""


def file(connection: Connection, bake: Bake, now: datetime) -> bool:
    """Keep a new one, and have its card told anew; False where this worker is known for this command already."""
    mine = (bakes.c.task_id == bake.task_id, bakes.c.worker_id == bake.worker_id)
    if connection.execute(select(bakes.c.state).where(*mine)).first() is not None:
        return False
    row = {
        "task_id": bake.task_id,
        "worker_id": bake.worker_id,
        "supervisor_id": bake.supervisor_id,
        "asked_for": bake.asked_for,
        "state": bake.state,
        "since": bake.since,
        "until": bake.until,
    }
    connection.execute(insert(bakes), row)
    record(connection, bake.supervisor_id, None, (refresh_card(bake.task_id),), now)
    return True


def of_task(connection: Connection, task_id: str) -> list[Bake]:
    query = select(bakes).where(bakes.c.task_id == task_id).order_by(bakes.c.worker_id)
    return [_bake(row) for row in connection.execute(query).mappings()]


def newest_of(connection: Connection, worker_id: str, since: datetime) -> Bake | None:
    """The last time that this worker was watched, unless that began before this moment."""
    query = select(bakes).where(bakes.c.worker_id == worker_id, bakes.c.since >= since)
    row = connection.execute(query.order_by(bakes.c.since.desc()).limit(1)).mappings().first()
    return _bake(row) if row else None


def watched_now(connection: Connection) -> list[Bake]:
    """Those that go on, the first to end first."""
    query = select(bakes).where(bakes.c.state == BakeState.WATCHING)
    query = query.order_by(bakes.c.until, bakes.c.task_id, bakes.c.worker_id)
    return [_bake(row) for row in connection.execute(query).mappings()]


def degraded(connection: Connection, since: datetime) -> list[Bake]:
    """Those that have degraded since then, where no newer change of the code concerns the worker."""
    newer = bakes.alias("newer")
    later = select(newer.c.task_id).where(newer.c.worker_id == bakes.c.worker_id, newer.c.since > bakes.c.since)
    query = select(bakes).where(bakes.c.state == BakeState.DEGRADED, bakes.c.until >= since, ~later.exists())
    return [_bake(row) for row in connection.execute(query.order_by(bakes.c.until)).mappings()]


def recover(bake: Bake, now: datetime) -> Step:
    """degraded → recovered; the card tells of it, and why it had degraded stays."""
    key = {"task_id": bake.task_id, "worker_id": bake.worker_id}
    values = {"decided_at": now}
    return Step(bakes, key, (BakeState.DEGRADED,), BakeState.RECOVERED, values, outbox=(refresh_card(bake.task_id),))


def first_end(connection: Connection) -> datetime | None:
    query = select(func.min(bakes.c.until)).where(bakes.c.state == BakeState.WATCHING)
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def move(bake: Bake, verdict: BakeVerdict, now: datetime) -> Step:
    """watching → what came of it; the card tells of it. Whoever comes second changes nothing."""
    key = {"task_id": bake.task_id, "worker_id": bake.worker_id}
    values = {"decided_at": now, "reason": one_line(storable(verdict.reason), REASON) or None}
    return Step(bakes, key, (BakeState.WATCHING,), verdict.state, values, outbox=(refresh_card(bake.task_id),))


def _bake(row: RowMapping) -> Bake:
    return Bake(
        task_id=row["task_id"],
        worker_id=row["worker_id"],
        supervisor_id=row["supervisor_id"],
        asked_for=row["asked_for"],
        since=row["since"],
        until=row["until"],
        state=BakeState(row["state"]),
        decided_at=row["decided_at"],
        reason=row["reason"] or "",
    )


LOOK_SECONDS = 5.0
"""Between two looks at who is watched. What is over by then, a crash and a start after it, leaves its mark."""

RECOVERY_LOOK = timedelta(seconds=30)
"""Between two looks at who has degraded."""

Look = Callable[[Collection[str]], Mapping[str, WatchedWorker]]
"""How these workers are right now; who is not configured is missing in it. It blocks."""

log = logging.getLogger(__name__)


class BakingChore:
    """A chore of the scheduler. It files no commands, and while nobody is watched it costs one look into an index."""

    name = "baking"

    def __init__(self, ledger: Ledger, config: Callable[[], SupervisorConfig], look: Look) -> None:
        self._ledger = ledger
        self._config = config
        self._look = look
        self._looked_at: datetime | None = None
        self._recovery_at: datetime | None = None
        """When those who have degraded are looked at next; None where there are none."""
        self._known: frozenset[int] = frozenset()
        """Jobs of late that were dealt with by this program. What is forgotten is dealt with again, and comes to the
        same."""

    def due_at(self) -> datetime | None:
        """When somebody must be looked at: the first end, or sooner; None while nobody is watched."""
        end = self._ledger.read(first_end)
        recovery = self._recovery_at
        if end is None or self._looked_at is None:
            return end if recovery is None else min(end or recovery, recovery)
        look = self._looked_at + timedelta(seconds=LOOK_SECONDS)
        due = min(end, look) if end > self._looked_at else look
        return due if recovery is None else min(due, recovery)

    def work(self, now: datetime) -> bool:
        """Begin to watch whose code was changed, judge who is watched. Nothing is filed by that.

        First the look, then the changes: so no worker is judged by what a newer command has done to it.
        """
        watching = self._ledger.read(watched_now)
        before, interval = self._looked_at, timedelta(seconds=LOOK_SECONDS)
        ended = before is not None and any(before < bake.until <= now for bake in watching)
        seen: Mapping[str, WatchedWorker] | None = None
        if not watching or ended or before is None or not timedelta(0) <= now - before < interval:
            seen = self._look({bake.worker_id for bake in watching}) if watching else None
            self._looked_at = now
        self._follow_changes(watching, now)
        if seen is not None:
            grace = timedelta(seconds=self._config().alerts.start_grace_seconds)
            for bake in watching:
                verdict = judge(bake, seen.get(bake.worker_id), now, grace)
                if verdict is not None and self._ledger.step(move(bake, verdict, now), now):
                    self._log(bake, verdict)
        # Now and then, look at who has degraded: their card says when they have recovered.
        if self._recovery_at is None or not now < self._recovery_at <= now + RECOVERY_LOOK:
            bakes = self._ledger.read(lambda connection: degraded(connection, now - FOLLOWED))
            self._recovery_at = now + RECOVERY_LOOK if bakes else None
            seen = self._look({bake.worker_id for bake in bakes}) if bakes else {}
            for bake in bakes:
                if recovered(bake, seen.get(bake.worker_id), now) and self._ledger.step(recover(bake, now), now):
                    log.info("%s has recovered with its new code", bake.worker_id)
        return False

    def _follow_changes(self, watching: Collection[Bake], now: datetime) -> None:
        """For each command on code that has ended since: end the bakes that it overtakes, and begin its own."""
        length = timedelta(minutes=self._config().slack.bake_minutes)
        if not length and not watching:
            return
        since = min([now - length, *(bake.since for bake in watching)])
        ended = self._ledger.read(lambda connection: jobs.ended_since(connection, CODE_HANDLERS, since))
        fresh = set(ended) - self._known
        for job in self._ledger.read(lambda connection: jobs.by_ids(connection, fresh)) if fresh else []:
            if change := change_of(job):
                self._overtake(job, change, now)
                if change.at + length > now:
                    self._begin(job, change, length, now)
        self._known = frozenset(ended)

    def _overtake(self, job: Job, change: BakedChange, now: datetime) -> None:
        for bake in self._ledger.read(watched_now):
            if overtakes(change, bake):
                details = job.outcome.details if job.outcome else {}
                undone = job.handler == "undo_code" and details.get("undone_task_id") == bake.task_id
                did = "undid this change" if undone else f"changed the code again ({job.command})"
                verdict = BakeVerdict(BakeState.OVERTAKEN, f"{job.issuer.name or job.issuer.id} {did}")
                if self._ledger.step(move(bake, verdict, now), now):
                    self._log(bake, verdict)

    def _begin(self, job: Job, change: BakedChange, length: timedelta, now: datetime) -> None:
        """One bake for each worker that runs with the change: by its own job, or by the one that changed its
        checkout."""
        of_task = self._ledger.read(lambda connection: jobs.of_task(connection, change.task_id))
        asked = {sibling.worker_id for sibling in of_task}
        bakes = [
            Bake(
                task_id=change.task_id,
                worker_id=worker_id,
                supervisor_id=self._ledger.supervisor_id,
                asked_for=worker_id if worker_id in asked else change.worker_id,
                since=change.at,
                until=change.at + length,
            )
            for worker_id in change.run_with_it
        ]
        if not bakes:
            return
        crashpoints.reach("bakes_t.watching:before")
        begun = self._ledger.write(lambda connection: [bake for bake in bakes if file(connection, bake, now)])
        crashpoints.reach("bakes_t.watching:after")
        for bake in begun:
            with command_context(bake.task_id, job.label, bake.worker_id):
                log.info("watching %s for %g minutes", bake.worker_id, length.total_seconds() / 60)

    def _log(self, bake: Bake, verdict: BakeVerdict) -> None:
        from supervisor_core.code.change import undo_words  # late: it imports git, and is seldom needed

        job = self._ledger.read(lambda connection: jobs.find(connection, bake.task_id, bake.asked_for))
        with command_context(bake.task_id, job.label if job else None, bake.worker_id):
            if verdict.state is BakeState.DEGRADED:
                back = f". To restore the previous code: {undo_words(job)}" if job else ""
                about = LogEvent.CODE_DEGRADED.extra(reason=verdict.reason)
                log.warning(
                    "%s degraded after its code changed: %s%s", bake.worker_id, verdict.reason, back, extra=about
                )
            elif verdict.state is BakeState.WELL:
                words = "%s is healthy with its new code; stopped watching"
                log.info(words, bake.worker_id, extra=LogEvent.CODE_HEALTHY.extra())
            else:
                log.info("stopped watching %s: %s", bake.worker_id, verdict.reason)
