"""One host as the hub knows it, and its silence: how long it must last, and what it says about its workers."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from supervisor_core.commands.addresses import SILENT, Address
from supervisor_core.common.times import to_text
from supervisor_core.fleet.questions import LONGEST_SECONDS, USUAL_SECONDS, PresenceMessage
from supervisor_core.fleet.rows import Position
from supervisor_core.fleet.transport.connection import FleetConnection

MISSED = 3.0
"""A host from which so many messages are missing is silent."""

CUT_OFF_SECONDS = 15.0
"""The time after which a hub without a connection says so."""

SERVER = "NATS server"
"""Its name among the silent ones; no host can have it."""

UNSEEN: Mapping[str, Any] = {
    "state": "stopped",
    "health": "unknown",
    "reason": "its host hasn't connected since the hub's start",
    "fine": True,
    "pid": None,
    "paused": False,
    "quarantined": False,
    "muted_until": None,
    "muted_for": None,
    "started_at": None,
    "last_health_at": None,
    "last_error": None,
}
"""The status of a worker whose host hasn't connected yet."""


MOST_ROWS, MOST_BYTES = 3_000, 2_000_000
"""The rows and the bytes of its reports that the hub takes from one host in a minute. A host that was away for weeks
needs some minutes more; one that has gone wild, or was taken over, fills no disk and delays nobody."""

MINUTE = 60.0


class ReportBudget:
    """The reports of one host in the current minute, by the monotonic clock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun_at = -math.inf
        self._rows = self._bytes = 0

    def spend(self, rows: int, size: int) -> None:
        now = self._clock()
        if now >= self._begun_at + MINUTE:
            self._begun_at, self._rows, self._bytes = now, 0, 0
        self._rows, self._bytes = self._rows + rows, self._bytes + size

    def wait_seconds(self) -> float:
        """The time until more is taken; 0 if it is now."""
        spent = self._rows >= MOST_ROWS or self._bytes >= MOST_BYTES
        return max(0.0, self._begun_at + MINUTE - self._clock()) if spent else 0.0


class UnstoredWorkers(NamedTuple):
    """Workers that are shown once they are stored."""

    announced: Sequence[Mapping[str, Any]]
    """The facts that are stored."""
    workers: list[dict[str, Any]]
    """Their status, by their addresses."""


@dataclass(eq=False, slots=True)
class KnownHost:
    """One host as the hub knows it, and the task that follows it."""

    name: str
    since: datetime
    """The time of its first sign, or of the hub's start."""
    is_new: bool = False
    """True if it has joined, and hadn't connected by then: somebody is setting it up."""
    presence: PresenceMessage | None = None
    heard_at: datetime | None = None
    """By the hub's clock."""
    snapshot: tuple[str, int] | None = None
    """The run of its daemon and the number of the snapshot that the hub has."""
    have: tuple[str, Position] | None = None
    """Its ledger's id, and the newest rows of it that the hub has."""
    workers: list[dict[str, Any]] = field(default_factory=list)
    """Its workers' status, by their addresses."""
    unstored: UnstoredWorkers | None = None
    """Its workers, if they have changed and aren't stored yet."""
    silent: bool = False
    trouble: str = ""
    is_set_aside: bool = False
    """True if its last report wasn't valid: what is known of its workers may be wrong."""
    budget: ReportBudget = field(default_factory=ReportBudget)
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


def newly_silent(hosts: Iterable[KnownHost], link: FleetConnection) -> list[KnownHost]:
    """The hosts that have said nothing for too long, at a time at which the server answered us.

    Those that fell silent together are told together: the first waits until the last of them is known.
    """
    if not link.connected:
        return []
    missed = [(host, _missed(host, link)) for host in hosts if not host.silent]
    most = max((each for _, each in missed), default=0.0)
    others = any(MISSED - 1 < each <= MISSED for _, each in missed)
    if most <= MISSED or (others and most <= MISSED + 1):
        return []
    return [host for host, each in missed if each > MISSED]


def _missed(host: KnownHost, link: FleetConnection) -> float:
    """The messages that a host should have sent since its last one."""
    quiet = link.heard_at - max(host.heard_at or host.since, link.since)
    if host.presence is None:  # it says its interval when it speaks; until then it may have answered a question
        return quiet.total_seconds() / (USUAL_SECONDS if host.heard_at is None else LONGEST_SECONDS)
    return quiet.total_seconds() / host.presence.every


def is_cut_off(link: FleetConnection, now: datetime) -> bool:
    return not link.connected and now - link.since > timedelta(seconds=CUT_OFF_SECONDS)


def as_known(host: KnownHost, worker: dict[str, Any], *, cut_off: bool) -> dict[str, Any]:
    """The status of a worker; of a silent host's, or of one that is set aside, nobody knows whether it runs."""
    if not (host.silent or cut_off):
        if host.is_set_aside:
            return {**worker, "health": "unknown", "fine": False, "reason": f"{host.name} is set aside: {host.trouble}"}
        return worker
    seen = f"last seen {host.heard_at:%H:%M} UTC" if host.heard_at else "not connected since the hub's start"
    words = f"the {SERVER} can't be reached" if cut_off else f"{host.name} is unresponsive"
    return {**worker, "health": "unknown", "fine": False, "reason": f"{words}, {seen}", SILENT: seen}


def silence_in_words(host: KnownHost) -> str:
    since = f"no message since {host.heard_at:%H:%M:%S} UTC" if host.heard_at else "not connected since the hub's start"
    return f"{since}; its workers may still run"


def has_news(host: KnownHost, presence: PresenceMessage) -> bool:
    if host.have is None or host.have[0] != presence.ledger or host.snapshot != (presence.life, presence.snapshot):
        return True
    return host.have[1].is_behind(Position.of(presence.position))


def last_sign(host: KnownHost) -> dict[str, Any]:
    heard = to_text(host.heard_at) if host.heard_at else None
    return {"seen_at": heard, "silent": host.silent, "trouble": host.trouble}


def addressed(name: str, worker: Mapping[str, Any]) -> dict[str, Any]:
    return {**worker, "id": str(Address(name, str(worker["id"]))), "host": name}
