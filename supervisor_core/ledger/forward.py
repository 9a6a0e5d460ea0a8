"""Forwarding: what is new in the ledger is brought to the shared database, in order, as often as it takes.

The shared database itself says how far it got: by its newest row of this host's audit chain, and by a mark that is
written in the same transaction as the jobs. So a kill at any moment, a database that was restored from a copy or made
anew, and two programs that forward the same ledger at once all end the same way: every row is there once.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Column, Connection, Integer, Table, bindparam, insert, or_, select, update

from supervisor_core.domain import crashpoints
from supervisor_core.domain.audit import damage_of
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.health import SKEW_SECONDS
from supervisor_core.domain.texts import storable
from supervisor_core.ledger import audit, audit_rows, audit_workers, forward_approvals, forward_marks, schema
from supervisor_core.ledger.engine import reading
from supervisor_core.ledger.forward_database import SharedDatabase
from supervisor_core.ledger.forward_marks import Marks, Origin
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.tables import (
    approvals,
    audit_anchors,
    audit_log,
    jobs,
    supervisors,
    team_members,
    teams,
    votes,
    workers,
)
from supervisor_core.ledger.tables import audit_workers as audit_workers_table

BATCH_ROWS = 500
"""Of each table, in one transaction: some tens of milliseconds on a server nearby."""

BATCH_CHARACTERS = 4_000_000
"""Whatever the rows hold, so that a transaction fits into a query's time on a slow line."""

LARGEST_INTEGER = 2**31 - 1
"""Of an INTEGER in PostgreSQL and MariaDB."""

log = logging.getLogger(__name__)

Row = dict[str, Any]


class OtherHistory(SupervisorError):
    """The shared database has an audit trail of this name that is not the ledger's."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What one transaction brought."""

    rows: int
    full: bool
    """Whether there may be more."""


@dataclass(slots=True)
class _Parcel:
    """What is new in the ledger, read in one picture."""

    audit_rows: list[Row] = field(default_factory=list)
    audit_workers: list[Row] = field(default_factory=list)
    jobs: list[Row] = field(default_factory=list)
    workers: list[Row] = field(default_factory=list)
    own: list[tuple[Table, list[Row]]] = field(default_factory=list)
    approvals: list[Row] = field(default_factory=list)
    votes: list[Row] = field(default_factory=list)
    more_approvals: bool = False
    marks: Marks = field(default_factory=Marks)
    full: bool = False


class Forwarding:
    """Brings the rows of one ledger to one database. One thread at a time."""

    def __init__(self, ledger: Ledger, url: str, query_timeout_seconds: float) -> None:
        self._ledger = ledger
        self._database = SharedDatabase(url, query_timeout_seconds)
        self._origin: Origin | None = None
        self._most = BATCH_ROWS
        self._known: Marks | None = None
        self._noted: Marks | None = None
        self._told: set[str] = set()
        self._ours = False
        """Whether the tables there were found to be ours."""
        self._compared = False
        """Whether all approvals were compared by now; from then on those that are open or were lately are enough."""

    def reach(self) -> None:
        """See that the database answers at all, and that its tables are ours."""
        self._check_ours()
        with self._database.asking(), reading(self._database.engine).connect():
            pass

    def _check_ours(self) -> None:
        if not self._ours and not self._database.is_missing():
            self._database.check_ours()
            self._ours = True

    def is_behind(self) -> bool:
        """Whether the database lacks tables of ours, so that an upgrade comes first."""
        return self._database.read(schema.current) != schema.HEAD

    def connect(self) -> None:
        """See that the database is there and has our tables."""
        origin = self._who()
        self._check_ours()
        with self._database.asking():
            schema.ensure(self._database.engine)
            if self._known is None:  # in a transaction of its own, so that many hosts may begin at once
                with self._database.engine.begin() as shared:
                    forward_marks.read(shared, origin)

    def batch(self) -> Batch:
        """Bring the next rows; `DatabaseAway` or another `SupervisorError` where that can't be done now."""
        origin = self._who()
        with self._database.asking():
            try:
                batch, marks = self._send(origin)
            except BaseException:
                self._ours = False  # somebody may have put another database in its place
                self._most = max(1, self._most // 2)  # a line may be too slow for many, and a bad row be found alone
                raise
        self._most = min(BATCH_ROWS, self._most * 2)
        self._known = marks
        return batch

    def waiting(self) -> int:
        """How many rows wait, by what was known when the database was last there."""
        origin = self._who()
        return self._ledger.read(lambda local: forward_marks.waiting(local, self._marks(local, origin)))

    def note(self) -> None:
        """Keep in the ledger how far it got, for whoever asks while the database is away."""
        known, origin = self._known, self._who()
        if known is None or (self._noted and replace(self._noted, forwarded_at=known.forwarded_at) == known):
            return
        self._ledger.write(lambda local: forward_marks.write(local, origin, known))
        self._noted = known

    def close(self) -> None:
        """Let go of the connection; the next batch makes a new one."""
        self._database.close()

    def _who(self) -> Origin:
        if self._origin is None:
            name = self._ledger.supervisor_id
            self._origin = self._ledger.write(lambda local: forward_marks.origin_of(local, name))
        return self._origin

    def _marks(self, local: Connection, origin: Origin) -> Marks:
        return self._known or forward_marks.read(local, origin)

    def _send(self, origin: Origin) -> tuple[Batch, Marks]:
        with self._database.engine.begin() as shared:
            marks = forward_marks.read(shared, origin, lock=True)
            parcel = self._ledger.read(lambda local: self._gather(local, shared, marks))
            _insert(shared, audit_log, parcel.audit_rows)
            _insert(shared, audit_workers_table, parcel.audit_workers)
            rows = len(parcel.audit_rows) + _send_jobs(shared, parcel.jobs) + _send_workers(shared, parcel.workers)
            rows += sum(_send_own(shared, table, content) for table, content in parcel.own)
            rows += _send_approvals(shared, parcel.approvals, parcel.votes)
            if rows or parcel.marks != marks:
                parcel.marks = replace(parcel.marks, forwarded_at=datetime.now(UTC))
                forward_marks.write(shared, origin, parcel.marks)
                crashpoints.reach("forward.commit:before")
        if rows:
            crashpoints.reach("forward.commit:after")
        self._compared = not parcel.more_approvals
        return Batch(rows, parcel.full), parcel.marks

    def _gather(self, local: Connection, shared: Connection, marks: Marks) -> _Parcel:
        parcel = _Parcel(marks=marks)
        there = 0
        for chain in forward_marks.chains(local):
            there += self._gather_chain(local, shared, chain, parcel)
        changes = select(jobs).order_by(jobs.c.changed)
        parcel.jobs, full = _some(local, changes.where(jobs.c.changed > marks.jobs_changed), self._most)
        if full and parcel.jobs:  # rows that were changed by one statement stay together: the mark can't part them
            last = parcel.jobs[-1]["changed"]
            parcel.jobs = [row for row in parcel.jobs if row["changed"] != last]
            parcel.jobs += [dict(row) for row in local.execute(changes.where(jobs.c.changed == last)).mappings()]
        parcel.full |= full
        parcel.workers = [dict(row) for row in local.execute(select(workers)).mappings()]
        for table in (supervisors, teams, team_members, audit_anchors):
            mine = select(table).where(table.c.supervisor_id == self._ledger.supervisor_id)
            parcel.own.append((table, [dict(row) for row in local.execute(mine).mappings()]))
        since = marks.forwarded_at if self._compared else None
        gathered = forward_approvals.gather(local, shared, self._ledger.supervisor_id, since)
        parcel.approvals, parcel.votes, parcel.more_approvals = gathered
        parcel.full |= parcel.more_approvals
        changed = parcel.jobs[-1]["changed"] if parcel.jobs else marks.jobs_changed
        parcel.marks = replace(marks, jobs_changed=changed, audit_rows=there)
        return parcel

    def _gather_chain(self, local: Connection, shared: Connection, chain: str, parcel: _Parcel) -> int:
        """Add the next rows of a chain; how many of it will then be there."""
        newest = audit.newest_row(shared, chain)
        anchor = audit.anchor_of(local, chain)
        if newest and anchor and newest.audit_id < anchor.audit_id and chain == self._ledger.supervisor_id:
            self._refuse_gap(chain, newest.audit_id, anchor.audit_id)
        if newest and audit.hash_of(local, chain, newest.audit_id) != newest.hash:
            self._refuse(chain, newest.audit_id)
            head = audit.newest_row(local, chain)
            return head.audit_id if head else 0
        begin = newest.audit_id if newest else 0
        query = select(audit_log).where(
            audit_log.c.supervisor_id == chain, audit_log.c.audit_id > begin, *audit_rows.numbered(local)
        )
        rows, full = _some(local, query.order_by(audit_log.c.audit_id), self._most - len(parcel.audit_rows))
        parcel.audit_rows += [_as_it_may_go(row) for row in rows]
        parcel.audit_workers += audit_workers.between(local, chain, rows) if rows else []
        parcel.full |= full
        return rows[-1]["audit_id"] if rows else begin

    def _refuse_gap(self, chain: str, newest: int, archived: int) -> None:
        """A shared database that was put back from a copy may lack rows that this ledger no longer has."""
        raise OtherHistory(
            f"The shared database ends at row {newest} of the audit trail of {chain}, and this ledger has archived its "
            f"rows up to {archived}.",
            remedy="Restore a newer backup of the shared database. A supervisor.id of its own lets this host forward "
            "again, too.",
        )

    def _refuse(self, chain: str, audit_id: int) -> None:
        """Two histories can't be one. Of an earlier name of this host there is nothing more to come, only to say."""
        words = f"The shared database has another row {audit_id} in the audit trail of {chain} than this ledger."
        if chain == self._ledger.supervisor_id:
            raise OtherHistory(
                words,
                remedy="Another host has the same supervisor.id, or the ledger was replaced or altered. "
                "`supervisor audit verify` checks the ledger; a supervisor.id of its own lets this host forward again.",
            )
        if chain not in self._told:
            self._told.add(chain)
            log.warning("%s It is left as it is; this host is called %s now.", words, self._ledger.supervisor_id)


def _as_it_may_go(row: Row) -> Row:
    """A row as it is, because of its hash. A damaged one, which other databases might refuse, goes as it can be shown:
    the check there names it as well."""
    if not damage_of(row):
        return row
    at = row["created_at"]
    told = {name: value for name, value in audit_rows.shown(row).items() if name in audit_log.c}
    return _fitting(audit_log, {**told, "created_at": at if isinstance(at, datetime) else datetime.now(UTC)})


def _some(local: Connection, query: Any, most: int) -> tuple[list[Row], bool]:  # noqa: ANN401 (a select of SQLAlchemy's)
    """The first rows of a query, as many as a batch may hold, at least one; and whether there may be more."""
    rows: list[Row] = []
    characters = 0
    with local.execute(query.limit(max(most, 0)), execution_options={"yield_per": 100}) as result:
        for row in result.mappings():
            rows.append(dict(row))
            characters += sum(len(value) for value in row.values() if isinstance(value, str))
            if characters > BATCH_CHARACTERS:
                return rows, True
    return rows, len(rows) >= most


def _send_jobs(shared: Connection, rows: Sequence[Row]) -> int:
    """Insert or update by task id and worker. The shared database counts its own `job_id`."""
    if not rows:
        return 0
    wanted = [_fitting(jobs, {name: value for name, value in row.items() if name != "job_id"}) for row in rows]
    query = select(jobs.c.task_id, jobs.c.worker_id, jobs.c.supervisor_id)
    query = query.where(jobs.c.task_id.in_({row["task_id"] for row in wanted}))
    there = {(task, worker): supervisor for task, worker, supervisor in shared.execute(query)}
    new: list[Row] = []
    known: list[Row] = []
    for row in wanted:
        key = (row["task_id"], row["worker_id"])
        (known if key in there else new).append(row)
        if there.get(key, row["supervisor_id"]) != row["supervisor_id"]:
            log.warning("task %s of %s was in the shared database as one of %s; it is told anew", *key, there[key])
    _insert(shared, jobs, new)
    _update(shared, jobs, ("task_id", "worker_id"), known)
    return len(wanted)


def _send_workers(shared: Connection, rows: Sequence[Row]) -> int:
    """Insert or update by worker id; where another host told of the same worker, the newest beat wins.

    A beat from the future, which a wrong clock left there, is older than any other: no beat of the right time would
    ever be newer.
    """
    if not rows:
        return 0
    wanted = [_fitting(workers, row) for row in rows]
    query = select(workers).where(workers.c.worker_id.in_([row["worker_id"] for row in wanted]))
    there = {row["worker_id"]: dict(row) for row in shared.execute(query).mappings()}
    latest = datetime.now(UTC) + timedelta(seconds=SKEW_SECONDS)
    new = [row for row in wanted if row["worker_id"] not in there]
    known = [row for row in wanted if row["worker_id"] in there and _is_news(row, there[row["worker_id"]], latest)]
    _insert(shared, workers, new)
    beat = workers.c.last_heartbeat_at
    older = or_(beat.is_(None), beat > latest, beat <= bindparam("new_last_heartbeat_at"))
    _update(shared, workers, ("worker_id",), known, older)
    return len(new) + len(known)


def _send_own(shared: Connection, table: Table, rows: Sequence[Row]) -> int:
    """Insert or update rows that this supervisor alone writes. Updates first: who left a team may be in another now.

    Members that a ledger told of which is no more have left, or their agents could never be in a team again.
    """
    if not rows:
        return 0
    key = next(iter(table.primary_key.columns))
    wanted = [_fitting(table, row) for row in rows]
    mine = select(table).where(table.c.supervisor_id == rows[0]["supervisor_id"])
    there = {row[key.name]: dict(row) for row in shared.execute(mine).mappings()}
    known = [row for row in wanted if row[key.name] in there and row != there[row[key.name]]]
    lost = there.keys() - {row[key.name] for row in wanted}
    if table is team_members and lost:
        gone = update(table).where(key.in_(lost), table.c.active_agent_id.is_not(None))
        shared.execute(gone.values(active_agent_id=None, left_at=datetime.now(UTC)))
    new = [row for row in wanted if row[key.name] not in there]
    _update(shared, table, (key.name,), known)
    _insert(shared, table, new)
    return len(known) + len(new)


def _send_approvals(shared: Connection, rows: Sequence[Row], said: Sequence[Row]) -> int:
    """Insert or update by the approval's id, with the votes that are not there yet."""
    if not rows:
        return 0
    fitting = [_fitting(approvals, row) for row in rows]
    new, known, new_votes = forward_approvals.split(shared, fitting, [_fitting(votes, row) for row in said])
    _insert(shared, approvals, new)
    _update(shared, approvals, ("approval_id",), known)
    _insert(shared, votes, new_votes)
    return len(fitting) + len(new_votes)


def _is_news(row: Row, there: Row, latest: datetime) -> bool:
    """Whether a row is to replace the one that is there; beats after `latest` are from the future."""
    if row == there:
        return False
    mine, theirs = row["last_heartbeat_at"], there["last_heartbeat_at"]
    if mine is None or theirs is None:
        return theirs is None
    return bool(mine >= theirs) if (mine > latest) == (theirs > latest) else bool(theirs > latest)


def _insert(shared: Connection, table: Table, rows: Sequence[Row]) -> None:
    if rows:
        shared.execute(insert(table), list(rows))


def _update(shared: Connection, table: Table, keys: tuple[str, ...], rows: Sequence[Row], *also: Any) -> None:  # noqa: ANN401
    """Set all columns of these rows; `also` may compare with `new_COLUMN`."""
    if not rows:
        return
    where = [table.c[name] == bindparam(f"its_{name}") for name in keys]
    values: Row = {name: bindparam(f"new_{name}") for name in rows[0] if name not in keys}
    named = [{f"{'its' if name in keys else 'new'}_{name}": value for name, value in row.items()} for row in rows]
    shared.execute(update(table).where(*where, *also).values(values), named)


def _fitting(table: Table, row: Mapping[str, Any]) -> Row:
    """SQLite takes any character, length and number; the others do not, and one row must not stop all."""
    return {name: _fit(table.c[name], value) for name, value in row.items()}


def _fit(column: Column[Any], value: Any) -> Any:  # noqa: ANN401 (whatever a column holds)
    if isinstance(value, str):
        return storable(value)[: getattr(column.type, "length", None)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, int) and type(column.type) is Integer and abs(value) > LARGEST_INTEGER:
        return None
    return value
