"""How long each worker was at its work, over spans of time that end at the same moment; from its flips."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.domain.conditions import WORKER, Condition, Target
from supervisor_core.domain.flips import Flip, Uptime, uptime
from supervisor_core.ledger import flips

SPANS: Mapping[str, timedelta] = {"24h": timedelta(days=1), "7d": timedelta(days=7), "30d": timedelta(days=30)}
"""What people ask for, the longest last."""


def of_workers(
    connection: Connection,
    supervisor_id: str,
    workers: Collection[str],
    until: datetime,
    spans: Sequence[timedelta] = tuple(SPANS.values()),
) -> dict[str, tuple[Uptime, ...]]:
    """Of each of these workers, one for each span; two queries, however many workers."""
    since = until - max(spans)
    past: dict[str, list[Flip]] = {}
    for flip in flips.of_kind(connection, supervisor_id, WORKER, since, until):
        past.setdefault(flip.target.id, [_before(flip, since)]).append(flip)
    for target, standing in flips.standings(connection, supervisor_id).items():
        if target.kind == WORKER and target.id not in past and standing.since < since:
            past[target.id] = [_flip(target, standing.condition, since)]
    return {
        worker_id: tuple(uptime(past.get(worker_id, ()), until - span, until) for span in spans)
        for worker_id in workers
    }


def _before(first: Flip, since: datetime) -> Flip:
    """How it was when the span began: what its first change in it says."""
    return _flip(first.target, first.old, since)


def _flip(target: Target, condition: Condition, at: datetime) -> Flip:
    return Flip(flips.UNSEEN, target, Condition.UNKNOWN, condition, "", at, at)
