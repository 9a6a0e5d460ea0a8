"""Forwards new rows of the ledger to the shared database, in order, with retries.

The shared database itself says how far it got: by its newest row of this host's audit chain, and by a mark that is
written in the same transaction as the jobs. So a kill at any moment, a database that was restored from a copy or made
anew, and two programs that forward the same ledger at once all end the same way: every row is there once.

The audit trail in the shared database, checked: each chain in itself, and this host's own against its ledger.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from sqlalchemy import Connection

from supervisor_core.common import crashpoints
from supervisor_core.daemon.replication import table_copies
from supervisor_core.daemon.replication.connection import SharedDatabase
from supervisor_core.daemon.replication.table_copies import CopyScope
from supervisor_core.storage import replication_progress, schema
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import ChainHead
from supervisor_core.storage.engine import reader_of
from supervisor_core.storage.replication_progress import Marks, Origin
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import approvals

BATCH_ROWS = 500
"""The rows of each table in one transaction, which takes tens of milliseconds on a server nearby."""

BATCH_CHARACTERS = 4_000_000
"""The size of a transaction, so that it fits into a query's time limit on a slow connection."""


@dataclass(frozen=True, slots=True)
class Batch:
    """The result of one transaction."""

    rows: int
    full: bool
    """True if there may be more."""


class Replicator:
    """Copies the rows of one ledger to one database. One thread at a time."""

    def __init__(self, ledger: Ledger, url: str, query_timeout_seconds: float) -> None:
        self._ledger = ledger
        self._database = SharedDatabase(url, query_timeout_seconds)
        self._origin: Origin | None = None
        self._most = BATCH_ROWS
        self._known: Marks | None = None
        self._noted: Marks | None = None
        self._told: set[str] = set()
        self._ours = False
        """True once the tables there are verified to be ours."""
        self._compared = False
        """True once all approvals were compared; after that, open and recent ones are enough."""

    def reach(self) -> None:
        """Check that the database responds and that its tables are ours."""
        self._check_ours()
        with self._database.asking(), reader_of(self._database.engine).connect():
            pass

    def _check_ours(self) -> None:
        if not self._ours and not self._database.is_missing():
            self._database.check_ours()
            self._ours = True

    def is_behind(self) -> bool:
        """True if the database lacks tables and needs an upgrade first."""
        return self._database.read(schema.current_revision) != schema.HEAD

    def connect(self) -> None:
        """Check that the database exists and has our tables."""
        origin = self._who()
        self._check_ours()
        with self._database.asking():
            schema.ensure(self._database.engine)
            if self._known is None:  # in a transaction of its own, so that many hosts may begin at once
                with self._database.engine.begin() as shared:
                    replication_progress.read(shared, origin)

    def batch(self) -> Batch:
        """Copy the next rows; `DatabaseUnavailable` or another `SupervisorError` if that isn't possible now."""
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
        """The number of waiting rows, as known at the last contact."""
        origin = self._who()
        return self._ledger.read(lambda local: replication_progress.count_waiting(local, self._marks(local, origin)))

    def note(self) -> None:
        """Store the progress in the ledger, for readers while the database is unreachable."""
        known, origin = self._known, self._who()
        if known is None or (self._noted and replace(self._noted, forwarded_at=known.forwarded_at) == known):
            return
        self._ledger.write(lambda local: replication_progress.write(local, origin, known))
        self._noted = known

    def close(self) -> None:
        """Close the connection; the next batch opens a new one."""
        self._database.close()

    def _who(self) -> Origin:
        if self._origin is None:
            name = self._ledger.supervisor_id
            self._origin = self._ledger.write(lambda local: replication_progress.origin_of(local, name))
        return self._origin

    def _marks(self, local: Connection, origin: Origin) -> Marks:
        return self._known or replication_progress.read(local, origin)

    def _send(self, origin: Origin) -> tuple[Batch, Marks]:
        with self._database.engine.begin() as shared:
            before = replication_progress.read(shared, origin, lock=True)
            scope = self._ledger.read(lambda local: self._found(local, shared, before))
            rows = table_copies.write(shared, scope)
            marks = scope.marks
            if rows or marks != before:
                marks = replace(marks, forwarded_at=datetime.now(UTC))
                replication_progress.write(shared, origin, marks)
                crashpoints.reach("forward.commit:before")
        if rows:
            crashpoints.reach("forward.commit:after")
        self._compared = approvals.name not in scope.unfinished
        return Batch(rows, bool(scope.unfinished)), marks

    def _found(self, local: Connection, shared: Connection, marks: Marks) -> CopyScope:
        """The changed rows, read from one snapshot of the ledger."""
        scope = CopyScope(
            local,
            shared,
            self._ledger.supervisor_id,
            marks,
            most_rows=self._most,
            most_characters=BATCH_CHARACTERS,
            compare_all=not self._compared,
            told=self._told,
        )
        table_copies.find(scope)
        return scope


@dataclass(frozen=True, slots=True)
class SharedTrail:
    """The state of an audit trail in the shared database."""

    hosts: int
    rows: int
    faults: list[audit.Fault]
    waiting: int
    """The rows of this host that aren't in the shared database yet."""


def verify_shared(database: SharedDatabase, ledger: Ledger) -> SharedTrail:
    """Follow all chains that are there. What other hosts have not brought yet, only they can know."""
    own = ledger.read(
        lambda local: {chain: audit.newest_row(local, chain) for chain in replication_progress.chains(local)}
    )

    def head_of(shared: Connection, chain: str) -> ChainHead:
        newest = audit.newest_row(shared, chain) or ChainHead(chain, 0, "")
        if chain not in own:
            return newest
        written = ledger.read(lambda local: audit.hash_of(local, chain, newest.audit_id))
        return ChainHead(chain, newest.audit_id, written or "")

    def look(shared: Connection) -> SharedTrail:
        heads = [head_of(shared, chain) for chain in replication_progress.chains(shared)]
        there = {head.supervisor_id: head.audit_id for head in heads}
        waiting = sum(max(0, head.audit_id - there.get(chain, 0)) for chain, head in own.items() if head)
        return SharedTrail(len(heads), *audit.verify(shared, heads), waiting)

    return database.read(look)
