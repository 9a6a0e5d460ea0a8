"""The audit trail in the shared database, checked: each chain in itself, and this host's own against its ledger."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Connection

from supervisor_core.domain.audit import ChainHead
from supervisor_core.ledger import audit, forward_marks
from supervisor_core.ledger.forward_database import SharedDatabase
from supervisor_core.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class SharedTrail:
    """What was found there."""

    hosts: int
    rows: int
    faults: list[audit.Fault]
    waiting: int
    """Rows of this host that are not there yet."""


def verify_shared(database: SharedDatabase, ledger: Ledger) -> SharedTrail:
    """Follow all chains that are there. What other hosts have not brought yet, only they can know."""
    own = ledger.read(lambda local: {chain: audit.newest_row(local, chain) for chain in forward_marks.chains(local)})

    def head_of(shared: Connection, chain: str) -> ChainHead:
        newest = audit.newest_row(shared, chain) or ChainHead(chain, 0, "")
        if chain not in own:
            return newest
        written = ledger.read(lambda local: audit.hash_of(local, chain, newest.audit_id))
        return ChainHead(chain, newest.audit_id, written or "")

    def look(shared: Connection) -> SharedTrail:
        heads = [head_of(shared, chain) for chain in forward_marks.chains(shared)]
        there = {head.supervisor_id: head.audit_id for head in heads}
        waiting = sum(max(0, head.audit_id - there.get(chain, 0)) for chain, head in own.items() if head)
        return SharedTrail(len(heads), *audit.verify(shared, heads), waiting)

    return database.read(look)
