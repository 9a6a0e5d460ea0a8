"""The workers that an audit row affected beside its target: an index into the trail, made from what the row says.

The row's own details, which its hash covers, say the same: this table only finds the row by each of its workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, insert, select, tuple_

from supervisor_core.domain.affected import Affected
from supervisor_core.domain.texts import is_plain
from supervisor_core.ledger.audit_rows import LARGEST_ID
from supervisor_core.ledger.tables import audit_workers, jobs

MOST = 1000
"""Workers of one row. A larger fleet on one checkout is found by the named worker alone."""

_AT_ONCE = 200


def add(
    connection: Connection, supervisor_id: str, audit_id: int, affected: Affected, task_id: str | None, at: datetime
) -> None:
    """Have the row found by these workers, except those whose own row of the same command tells of them."""
    if not affected:
        return
    named = select(jobs.c.worker_id).where(jobs.c.task_id == task_id) if task_id else None
    own = set(connection.execute(named).scalars()) if named is not None else set()
    key = {"supervisor_id": supervisor_id, "audit_id": audit_id, "created_at": at}
    rows = [{**key, "worker_id": each, "role": role} for each, role in affected.items() if each not in own]
    if rows:
        connection.execute(insert(audit_workers), rows[:MOST])


def of_rows(connection: Connection, places: Iterable[tuple[Any, Any]]) -> dict[tuple[str, int], dict[str, str]]:
    """The workers that these rows affected, with their roles."""
    found: dict[tuple[str, int], dict[str, str]] = {}
    key = tuple_(audit_workers.c.supervisor_id, audit_workers.c.audit_id)
    wanted = sorted({place for place in places if _is_whole(place)})
    for begin in range(0, len(wanted), _AT_ONCE):
        query = select(audit_workers).where(key.in_(wanted[begin : begin + _AT_ONCE]))
        for row in connection.execute(query).mappings():
            found.setdefault((row["supervisor_id"], row["audit_id"]), {})[row["worker_id"]] = row["role"]
    return found


def _is_whole(place: tuple[Any, Any]) -> bool:
    """Whether a row could have this place: in an altered one anything may stand."""
    host, number = place
    return isinstance(host, str) and is_plain(host) and type(number) is int and 0 < number <= LARGEST_ID


def between(connection: Connection, chain: str, rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Those of these rows of a chain, which follow on each other."""
    number, first, last = audit_workers.c.audit_id, rows[0]["audit_id"], rows[-1]["audit_id"]
    mine = (audit_workers.c.supervisor_id == chain, number >= first, number <= last)
    return [dict(row) for row in connection.execute(select(audit_workers).where(*mine)).mappings()]
