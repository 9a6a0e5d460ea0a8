"""Flags seen but not yet understood: since when, so that a slow writer gets a moment and a broken file an end.

The moment is when *we* first saw the file as it is: the clocks of hosts that share a drive differ.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from sqlalchemy import Connection, bindparam, delete, insert, select

from supervisor_core.domain.texts import storable
from supervisor_core.ledger.tables import sightings

REJECTED = "rejected"
"""Instead of a fingerprint: this claimed flag's rejection is in the trail, and only the file must still be moved."""


def first_seen(connection: Connection, name: str, fingerprint: str, now: datetime) -> datetime:
    """Since when this file has been as it is; from now on where it is new or has changed."""
    key = storable(name)
    query = select(sightings.c.first_seen_at).where(sightings.c.name == key, sightings.c.fingerprint == fingerprint)
    seen: datetime | None = connection.execute(query).scalar()
    if seen is not None and seen <= now:  # else our clock was set back, and would let it wait for as long
        return seen
    forget(connection, name)
    connection.execute(insert(sightings), {"name": key, "fingerprint": fingerprint, "first_seen_at": now})
    return now


def first_seen_all(connection: Connection, seen: Mapping[str, str], now: datetime) -> dict[str, datetime]:
    """The same for many files, by name and fingerprint."""
    return {name: first_seen(connection, name, fingerprint, now) for name, fingerprint in seen.items()}


def mark(connection: Connection, name: str, fingerprint: str, now: datetime) -> bool:
    """Note something once; False where it was noted before."""
    key = storable(name)
    query = select(sightings.c.name).where(sightings.c.name == key, sightings.c.fingerprint == fingerprint)
    if connection.execute(query).first():
        return False
    connection.execute(insert(sightings), {"name": key, "fingerprint": fingerprint, "first_seen_at": now})
    return True


def forget(connection: Connection, name: str) -> None:
    """The file is gone, or understood."""
    connection.execute(delete(sightings).where(sightings.c.name == storable(name)))


def forget_all(connection: Connection, names: Collection[str]) -> None:
    """The same for many."""
    keys = [{"its_name": storable(name)} for name in names]
    if keys:
        connection.execute(delete(sightings).where(sightings.c.name == bindparam("its_name")), keys)
