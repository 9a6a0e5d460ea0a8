"""Sorts the flags of an inbox: ready, junk, or still being written.

Each flag is examined once and remembered by its fingerprint while it is unchanged, so a genuine flag is found among
thousands of junk ones. A slow writer has a moment from when this host first saw the file: clocks of hosts differ.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum

from sqlalchemy import Connection, bindparam, delete, insert, select

from supervisor_core.commands.flags import FlagIncomplete, FlagRejected
from supervisor_core.common.text import storable
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.inbox import UnclaimedFlag
from supervisor_core.intake.inbox.rules import FlagRules
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import sightings
from supervisor_core.workers.context import HostContext

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
    keys = [{"its_name": storable(name)} for name in names]
    if keys:
        connection.execute(delete(sightings).where(sightings.c.name == bindparam("its_name")), keys)


SETTLE_SECONDS = 5.0
"""How long a file that can't be understood must have stayed as it is before it is judged."""

LOOK_SECONDS, SOON_SECONDS = 0.5, 0.2
"""For the looks of one sweep; and once there is a flag to follow. The rest is looked at with the next sweep."""

BATCH = 200
"""Flags that are read in one call to the drive."""

NOTED = 500
"""Unripe flags of one sweep whose first sight is noted in the ledger, for passes and restarts."""

SMALL = 4096
"""Bytes: a genuine flag is smaller, so these are looked at first."""


class _Kind(Enum):
    READY = "ready"
    JUNK = "junk"
    BLANK = "blank"
    """Empty, or white space: an order without parameters once it has stayed so."""
    PARTIAL = "partial"


@dataclass(frozen=True, slots=True)
class _Sighting:
    fingerprint: str
    kind: _Kind
    since: datetime


@dataclass(frozen=True, slots=True)
class SortedFlags:
    """Names, each in the order of the file times."""

    ready: list[str]
    junk: list[str]
    unripe: int
    more: bool
    """Whether some were not looked at."""


class FlagTriage:
    """Remembers its looks for as long as it lives."""

    def __init__(self, host: HostContext, ledger: Ledger, rules: FlagRules) -> None:
        self._host = host
        self._ledger = ledger
        self._rules = rules
        self._looks: dict[str, _Sighting] = {}

    def sort(self, lying: list[UnclaimedFlag], now: datetime) -> SortedFlags:
        """Judge all of these, as far as the time of a sweep allows."""
        kept = self._looks
        self._looks = {
            flag.name: kept[flag.name]
            for flag in lying
            if flag.name in kept
            and kept[flag.name].fingerprint == flag.fingerprint
            and kept[flag.name].kind is not _Kind.READY  # else it could not be claimed
        }
        new = [flag for flag in lying if flag.name not in self._looks]
        more = not self._look_at(sorted(new, key=_first_newest), now)
        self._note([flag for flag in new if self._is_unripe(flag.name)], now)
        ready, junk, unripe = [], [], 0
        for flag in lying:
            look = self._looks.get(flag.name)
            if look is None:
                continue
            ripe = now - look.since >= timedelta(seconds=SETTLE_SECONDS)
            if look.kind is _Kind.READY or (look.kind is _Kind.BLANK and ripe):
                ready.append(flag.name)
            elif look.kind is _Kind.JUNK or ripe:
                junk.append(flag.name)
            else:
                unripe += 1
        return SortedFlags(ready, junk, unripe, more)

    def _look_at(self, new: list[UnclaimedFlag], now: datetime) -> bool:
        """Whether there was time for all."""
        begun, ready = time.monotonic(), False
        for start in range(0, len(new), BATCH):
            batch = new[start : start + BATCH]
            found = self._host.drive.call(self._host.inbox.peek_all, [flag.name for flag in batch])
            for flag in batch:
                content = found[flag.name]
                if not isinstance(content, FileNotFoundError):
                    look = _Sighting(flag.fingerprint, self._kind(flag.name, content), now)
                    self._looks[flag.name] = look
                    ready = ready or look.kind is _Kind.READY
            if time.monotonic() - begun > (SOON_SECONDS if ready else LOOK_SECONDS):
                return start + BATCH >= len(new)
        return True

    def _kind(self, name: str, content: bytes | Exception) -> _Kind:
        if isinstance(content, Exception):
            return _Kind.JUNK if isinstance(content, UnreadableFileError) else _Kind.PARTIAL
        try:
            self._rules.understand(name, "peek", content)
        except FlagIncomplete:
            return _Kind.PARTIAL if content.strip() else self._kind_of_blank(name)
        except FlagRejected:
            return _Kind.JUNK
        return _Kind.READY

    def _kind_of_blank(self, name: str) -> _Kind:
        try:
            self._rules.understand(name, "peek", b"{}")
        except FlagRejected:
            return _Kind.PARTIAL
        return _Kind.BLANK

    def _is_unripe(self, name: str) -> bool:
        look = self._looks.get(name)
        return look is not None and look.kind in (_Kind.BLANK, _Kind.PARTIAL)

    def _note(self, unripe: Collection[UnclaimedFlag], now: datetime) -> None:
        """Since when they have been as they are: noted in the ledger, as the next pass must know it too."""
        seen = {flag.name: flag.fingerprint for flag in list(unripe)[:NOTED]}
        if not seen:
            return
        since = self._ledger.write(lambda connection: first_seen_all(connection, seen, now))
        for name, moment in since.items():
            look = self._looks[name]
            self._looks[name] = _Sighting(look.fingerprint, look.kind, moment)


def _first_newest(flag: UnclaimedFlag) -> tuple[bool, int]:
    """Small ones first, since a genuine flag is small, and of these the newest: the others were there before."""
    return not 0 < flag.size <= SMALL, -flag.moment
