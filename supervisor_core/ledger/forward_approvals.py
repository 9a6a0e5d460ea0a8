"""Approvals and votes on their way to the shared database: what is open or was lately, compared and brought over.

They are few, and there is no counter of their changes: what is not there yet, or stands differently there, is brought.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Connection, func, or_, select

from supervisor_core.domain.approvals import FINAL
from supervisor_core.ledger.tables import approvals, votes

SLACK = timedelta(days=1)
"""How long after its end an approval is still compared: a clock may be set, and a copy of the database put back."""

MOST = 50
"""At once: each has its preview, which may be long."""

Row = dict[str, Any]

# Of an approval that was asked for, what may still change.
_COMPARED = ("state", "due_at", "decided_at", "finished_at", "reason")


def gather(
    local: Connection, shared: Connection, supervisor_id: str, since: datetime | None
) -> tuple[list[Row], list[Row], bool]:
    """The approvals that stand differently there, the votes on them, and whether there may be more.

    `since` is when rows were last brought; nothing where none ever were.
    """
    mine = approvals.c.supervisor_id == supervisor_id
    if since is not None:
        mine &= or_(approvals.c.state.not_in(FINAL), approvals.c.finished_at >= since - SLACK)
    here = _standing(local, mine)
    if not here:
        return [], [], False
    oldest = min(requested_at for requested_at, *_ in here.values())
    there = _standing(shared, (approvals.c.supervisor_id == supervisor_id) & (approvals.c.requested_at >= oldest))
    wanted = [approval_id for approval_id, stands in here.items() if there.get(approval_id) != stands]
    some = wanted[:MOST]
    ours = approvals.c.approval_id.in_(some)
    rows = [dict(row) for row in local.execute(select(approvals).where(ours)).mappings()]
    said = [dict(row) for row in local.execute(select(votes).where(votes.c.approval_id.in_(some))).mappings()]
    return rows, said, len(wanted) > MOST


def split(shared: Connection, rows: Sequence[Row], said: Sequence[Row]) -> tuple[list[Row], list[Row], list[Row]]:
    """The approvals that are new there, those that are known, and the votes that are new: a vote never changes."""
    wanted = [row["approval_id"] for row in rows]
    known = set(shared.execute(select(approvals.c.approval_id).where(approvals.c.approval_id.in_(wanted))).scalars())
    query = select(votes.c.approval_id, votes.c.voter_id).where(votes.c.approval_id.in_(wanted))
    voted = {(approval_id, voter_id) for approval_id, voter_id in shared.execute(query)}
    new_votes = [row for row in said if (row["approval_id"], row["voter_id"]) not in voted]
    new = [row for row in rows if row["approval_id"] not in known]
    return new, [row for row in rows if row["approval_id"] in known], new_votes


def _standing(connection: Connection, which: Any) -> Mapping[str, tuple[Any, ...]]:  # noqa: ANN401 (a clause of SQLAlchemy's)
    """How each of these stands, oldest first: when it was asked for, the number of its votes, and what may change."""
    count = select(func.count()).where(votes.c.approval_id == approvals.c.approval_id).scalar_subquery()
    columns = [approvals.c[name] for name in _COMPARED]
    query = (
        select(approvals.c.approval_id, approvals.c.requested_at, count, *columns)
        .where(which)
        .order_by(approvals.c.requested_at)
    )
    return {row[0]: tuple(row[1:]) for row in connection.execute(query)}
