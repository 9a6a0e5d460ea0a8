"""Audit trails as lines of a file: an object for each row, with its hashes, which anybody can check without a database.

Lines come in the order of the chain. A file may begin and end anywhere in it; several files that follow each other are
checked as one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select

from supervisor_core.domain.audit import ChainHead
from supervisor_core.domain.canonical import canonical_json
from supervisor_core.domain.times import from_text, to_text
from supervisor_core.ledger import audit
from supervisor_core.ledger.audit_rows import Row, shown
from supervisor_core.ledger.tables import audit_log


@dataclass(frozen=True, slots=True)
class Part:
    """The part of one chain that was found in files."""

    supervisor_id: str
    first_id: int
    rows: int
    last: ChainHead


@dataclass(frozen=True, slots=True)
class Found:
    """Everything that was found in files."""

    parts: tuple[Part, ...]
    faults: tuple[audit.Fault, ...]


def line_of(row: Mapping[str, Any]) -> str:
    """A row as a line."""
    return canonical_json(shown(row))


def lines(connection: Connection) -> Iterator[str]:
    """All rows of all chains, in their order. Damaged ones are written as they can be shown."""
    return map(line_of, audit.stored_rows(connection))


def lines_between(connection: Connection, supervisor_id: str, after: int, last: int) -> Iterator[str]:
    """The rows of one chain behind one number and up to another."""
    number = audit_log.c.audit_id
    query = select(audit_log).where(audit_log.c.supervisor_id == supervisor_id, number > after, number <= last)
    with connection.execute(query.order_by(number), execution_options={"yield_per": 1000}) as result:
        yield from (line_of(row) for row in map(dict, result.mappings()))


def check(found: Iterable[str]) -> Found:
    """Follow the chains in these lines."""
    walks: dict[str, tuple[audit.Walk, int]] = {}
    lasts: dict[str, ChainHead] = {}
    faults: list[audit.Fault] = []
    for number, line in enumerate(found, 1):
        row = _row(line)
        if row is None:
            if len(faults) < audit.MOST_FAULTS:
                faults.append(audit.Fault("", number, "isn't a row of an audit trail (the number is that of the line)"))
            continue
        name, audit_id = row["supervisor_id"], row["audit_id"]
        if name not in walks:
            walks[name] = (audit.Walk(name, anywhere=True), audit_id)
        walk, _ = walks[name]
        if walk.take(row):
            lasts[name] = ChainHead(name, audit_id, row["hash"])
    faults += [fault for walk, _ in walks.values() for fault in walk.faults]
    parts = (Part(name, first, walk.whole, lasts[name]) for name, (walk, first) in walks.items() if name in lasts)
    return Found(tuple(parts), tuple(faults[: audit.MOST_FAULTS]))


def _row(line: str) -> Row | None:
    """The row that a line holds, as a database would give it."""
    try:
        row = json.loads(line)
        values: Row = {name: row[name] for name in audit.COLUMNS}
        if not isinstance(values["supervisor_id"], str) or type(values["audit_id"]) is not int:
            return None
        moment = from_text(values["created_at"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return {**values, "created_at": moment} if to_text(moment) == values["created_at"] else values
