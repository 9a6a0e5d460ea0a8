"""The hosts of a fleet as the hub knows them: present or silent, their workers, and their rows in the hub's ledger."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from supervisor_core.commands.addresses import SILENT, Address
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.times import format_span, to_text
from supervisor_core.fleet import rows
from supervisor_core.fleet.hub.host_questions import Asker
from supervisor_core.fleet.members.membership import FleetHost, FleetMembers, HostState
from supervisor_core.fleet.questions import PresenceMessage, Question, read_presence, read_reading
from supervisor_core.fleet.rows import Position
from supervisor_core.storage.replication_progress import Origin
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import (
    WORKER,
    Target,
    TargetReading,
)

SILENT_SECONDS = 15.0
"""A host that has said nothing for so long is silent: it speaks every 5 s."""

LOOK_SECONDS = 1.0
"""The interval of looks for silent hosts."""

RETRY_SECONDS = 5.0
"""The pause after a host didn't answer, or its rows couldn't be copied."""

AT_ONCE = 32
"""The hosts whose rows and snapshots are fetched at the same time."""

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

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class KnownHost:
    """What the hub knows of one host, and the task that follows it."""

    name: str
    since: datetime
    """The time of its first sign, or of the hub's start."""
    presence: PresenceMessage | None = None
    heard_at: datetime | None = None
    """By the hub's clock."""
    snapshot: tuple[str, int] | None = None
    """The run of its daemon and the number of the snapshot that the hub has."""
    workers: list[dict[str, Any]] = field(default_factory=list)
    """Its workers' status, by their addresses."""
    silent: bool = False
    trouble: str = ""
    woken: asyncio.Event = field(default_factory=asyncio.Event)
    task: asyncio.Task[None] | None = None


@dataclass(frozen=True, slots=True)
class HubHooks:
    """Callbacks of the hub, all on the event loop."""

    observe: Callable[[Iterable[TargetReading]], None]
    """Conditions of workers and hosts as they are now."""
    workers_changed: Callable[[], None]
    """Hosts have other workers than before, or other teams."""
    silence_changed: Callable[[], None]
    """A host has fallen silent, or is back."""
    announcement: Callable[[], Mapping[str, Any] | None]
    """Where commands are announced that didn't come from Slack."""
    copied: Callable[[], None]
    """Rows were copied from a host: jobs may have ended, and others have their turn."""


class FleetHosts(Service):
    """Follows every host: copies its new rows, fetches its status when it changes, and notices its silence."""

    name = "fleet_hosts"

    def __init__(self, ledger: Ledger, blocking: Blocking, ask: Asker, members: FleetMembers, hooks: HubHooks) -> None:
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._ask = ask
        self._hooks = hooks
        self._places = asyncio.Semaphore(AT_ONCE)
        self._members = members
        self.hosts: dict[str, KnownHost] = {}
        self._stopping: asyncio.Event | None = None

    def problem(self) -> str:
        """The hosts whose rows can't be copied."""
        return "; ".join(f"{host.name}: {host.trouble}" for host in self.hosts.values() if host.trouble)

    def hear(self, name: str, data: bytes) -> None:
        """Take a message on a host's presence subject."""
        presence = read_presence(name, data)
        if presence is None:
            log.warning("a message on the presence subject of %s isn't one of a host's", name)
            return
        host = self.hosts.get(name)
        if host is None:  # it has joined since the last look, and is known with the next one
            return
        host.presence, host.heard_at = presence, datetime.now(UTC)
        if host.silent:
            self._note_silence(host, silent=False)
        host.woken.set()
        self._follow(host)

    def workers(self) -> list[dict[str, Any]]:
        """The status of all workers of all hosts, as last reported. Those of a silent host say so."""
        return [self._as_known(host, worker) for host in self.hosts.values() for worker in host.workers]

    def silent(self) -> dict[str, str]:
        """The silent hosts, in words."""
        now = datetime.now(UTC)
        return {host.name: _silence(host, now) for host in self.hosts.values() if host.silent}

    def links(self) -> dict[str, dict[str, Any]]:
        """The last sign of each host, and why it can't be followed, for `supervisor fleet list`."""
        return {
            host.name: {
                "seen_at": to_text(host.heard_at) if host.heard_at else None,
                "silent": host.silent,
                "trouble": host.trouble,
            }
            for host in self.hosts.values()
        }

    def announced(self) -> dict[str, Mapping[str, Any]]:
        """The workers of all hosts by their addresses, as their hosts announce them."""
        return {worker["id"]: worker for host in self.hosts.values() for worker in host.workers}

    def follow_members(self, members: Sequence[FleetHost]) -> None:
        """Follow these hosts. A revoked one is forgotten with its workers, a new one is known by what it announced."""
        changed = False
        joined = {each.host_id: each for each in members if each.state is HostState.JOINED}
        for name in [name for name in self.hosts if name not in joined]:
            host = self.hosts.pop(name)
            changed = True
            if host.task is not None:
                host.task.cancel()
        for name, member in joined.items():
            if name not in self.hosts:
                known = KnownHost(name, datetime.now(UTC))
                known.workers = [_addressed(name, {**UNSEEN, **each}) for each in member.announced]
                self.hosts[name] = known
                changed = changed or bool(known.workers)
        if changed:
            self._hooks.workers_changed()

    async def run(self, stopping: asyncio.Event) -> None:
        """Look for silent hosts until asked to stop."""
        self._stopping = stopping
        try:
            while not stopping.is_set():
                self.pulse.beat(within=LOOK_SECONDS)
                self._look_for_silence(datetime.now(UTC))
                await wait_until(None, stopping, LOOK_SECONDS)
        finally:
            self._stopping = None
            tasks = [host.task for host in self.hosts.values() if host.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _follow(self, host: KnownHost) -> None:
        stopping = self._stopping
        if stopping is not None and not stopping.is_set() and (host.task is None or host.task.done()):
            host.task = asyncio.create_task(self._catch_up(host, stopping), name=f"fleet {host.name}")

    async def _catch_up(self, host: KnownHost, stopping: asyncio.Event) -> None:
        """Copy and fetch until the hub has what the host announced. The next presence begins another task."""
        while host.woken.is_set() and not stopping.is_set():
            host.woken.clear()
            try:
                async with self._places:
                    await self._copy_rows(host)
                    await self._fetch_snapshot(host)
                host.trouble = ""
            except Exception as error:  # the edge: one host keeps no other from being followed
                words = describe(error)
                if words != host.trouble:
                    known = isinstance(error, SupervisorError)
                    log.warning("%s can't be followed: %s", host.name, words, exc_info=not known)
                host.trouble = words
                host.woken.set()
                await wait_until(None, stopping, RETRY_SECONDS)

    async def _copy_rows(self, host: KnownHost) -> None:
        presence = host.presence
        if presence is None:
            return
        origin = Origin(presence.ledger, host.name)
        have = await self._blocking(self._ledger.read, lambda connection: rows.position_of(connection, origin))
        copied = False
        while have.is_behind(Position.of(presence.position)):
            found = await self._ask(host.name, Question.ROWS, have.as_json())
            before, have = have, await self._blocking(self._take, origin, found)
            copied = True
            if have == before:
                break  # an older presence than the rows that were copied
        if copied:
            self._hooks.copied()

    def _take(self, origin: Origin, found: Mapping[str, Any]) -> Position:
        hub_id, now, place = self._ledger.supervisor_id, datetime.now(UTC), self._hooks.announcement()
        return self._ledger.write(lambda connection: rows.take_rows(connection, hub_id, origin, found, now, place))

    async def _fetch_snapshot(self, host: KnownHost) -> None:
        presence = host.presence
        if presence is None or host.snapshot == (presence.life, presence.snapshot):
            return
        found = await self._ask(host.name, Question.SNAPSHOT, {})
        first, before = host.snapshot is None, [_identity(each) for each in host.workers]
        host.workers = [_addressed(host.name, each) for each in found["workers"]]
        host.snapshot = str(found["life"]), int(found["number"])
        changed = [_identity(each) for each in host.workers] != before
        if changed or first:
            announced = [_announced(each) for each in found["workers"]]
            await self._blocking(self._members.seen, host.name, presence.version, announced, datetime.now(UTC))
        if changed:
            self._hooks.workers_changed()
        self._hooks.observe([_of_host(host.name, read_reading(each)) for each in found["readings"]])

    def _look_for_silence(self, now: datetime) -> None:
        limit = timedelta(seconds=SILENT_SECONDS)
        for host in self.hosts.values():
            if not host.silent and now - (host.heard_at or host.since) > limit:
                self._note_silence(host, silent=True)

    def _note_silence(self, host: KnownHost, *, silent: bool) -> None:
        host.silent = silent
        if silent:
            log.error("%s is unresponsive", host.name, extra=LogEvent.HOST_SILENT.extra(host=host.name))
        else:
            log.info("%s is connected", host.name, extra=LogEvent.HOST_BACK.extra(host=host.name))
        self._hooks.silence_changed()

    def _as_known(self, host: KnownHost, worker: dict[str, Any]) -> dict[str, Any]:
        """The status of a worker; of a silent host's, nobody knows whether it runs."""
        if not host.silent:
            return worker
        seen = f"last seen {host.heard_at:%H:%M} UTC" if host.heard_at else "not connected since the hub's start"
        words = f"{host.name} is unresponsive, {seen}"
        return {**worker, "health": "unknown", "fine": False, "reason": words, SILENT: seen}


def _addressed(name: str, worker: Mapping[str, Any]) -> dict[str, Any]:
    """A worker's status under its address."""
    return {**worker, "id": str(Address(name, str(worker["id"]))), "host": name}


def _announced(worker: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of a worker for the next start of the hub."""
    return {"id": str(worker["id"]), "team": worker.get("team") or "", "enabled": bool(worker.get("enabled", True))}


def _identity(worker: Mapping[str, Any]) -> tuple[Any, ...]:
    """What others must know of a worker, whatever it does."""
    return worker["id"], worker.get("team"), worker.get("enabled")


def _silence(host: KnownHost, now: datetime) -> str:
    if host.heard_at is None:
        return "not connected since the hub's start"
    return f"no message for {format_span((now - host.heard_at).total_seconds())}"


def _of_host(name: str, seen: TargetReading) -> TargetReading:
    """A host's reading under the address of its worker, or the host's name."""
    target = seen.target
    if target.kind == WORKER:
        return TargetReading(Target(target.kind, str(Address(name, target.id))), seen.reading)
    return TargetReading(Target(target.kind, name), seen.reading)
