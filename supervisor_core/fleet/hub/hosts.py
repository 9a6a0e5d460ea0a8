"""The hosts of a fleet as the hub knows them: present or silent, their workers, and their rows in the hub's ledger."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from supervisor_core.commands.addresses import SILENT, Address, address_of
from supervisor_core.commands.targets import LONGEST_ADDRESS, can_have_address
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.times import to_text
from supervisor_core.fleet import rows
from supervisor_core.fleet.members import FleetHost, FleetMembers, HostNews, HostState
from supervisor_core.fleet.questions import (
    LONGEST_SECONDS,
    USUAL_SECONDS,
    Asker,
    HostError,
    PresenceMessage,
    Question,
    read_presence,
    read_reading,
)
from supervisor_core.fleet.reports import InvalidReport, decode_snapshot
from supervisor_core.fleet.rows import Origin, Position
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.storage.audit.chain import LARGEST_ID
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import HOST_PARTS, WORKER, Condition, Reading, Target, TargetReading

if TYPE_CHECKING:
    from supervisor_core.daemon.app import Application

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

LOOK_SECONDS = 1.0
"""The interval of looks for silent hosts."""

RETRY_SECONDS = 5.0
"""The pause after a host didn't answer, or its rows couldn't be copied."""

REFUSALS_SECONDS = 60.0
"""The interval of looks for refusals when none was copied."""

NOTE_SECONDS = 60.0
"""The interval at which it's stored when the hosts were last seen."""

NO_ROWS = Position(LARGEST_ID, LARGEST_ID, LARGEST_ID)
"""A position after which no host has rows: the cheapest question."""

MOST_REASON = 500
"""Characters of a condition's reason."""

SETTLE_SECONDS = 0.05
"""The wait before others are told: many hosts connect at the same time."""

AT_ONCE = 32
"""The hosts whose rows and snapshots are fetched at the same time."""

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class KnownHost:
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
    unstored: list[dict[str, Any]] | None = None
    """The same, if they have changed: they are shown once they are stored, and can be named in commands."""
    silent: bool = False
    trouble: str = ""
    is_set_aside: bool = False
    """True if its last report wasn't valid: what is known of its workers may be wrong."""
    minute: float = -math.inf
    """The beginning of the minute, by the monotonic clock, in which it has reported so many rows and bytes."""
    rows: int = 0
    bytes: int = 0
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


def in_fleet(name: str, worker: Mapping[str, Any]) -> dict[str, Any]:
    return {**worker, "id": str(Address(name, str(worker["id"]))), "host": name}


class _OverBudget(Exception):
    def __init__(self, wait_seconds: float) -> None:
        super().__init__(f"more than {MOST_ROWS:,} rows or {MOST_BYTES / 1e6:g} MB in a minute; the rest is read later")
        self.wait_seconds = wait_seconds


class FleetHosts(Service):
    """Follows every host: copies its new rows, fetches its status when it changes, and notices its silence."""

    name = "fleet_hosts"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        ask: Asker,
        members: FleetMembers,
        link: FleetConnection,
        daemon: Application,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._ask = ask
        self._daemon = daemon
        self._link = link
        self._places = asyncio.Semaphore(AT_ONCE)
        self._members = members
        self.hosts: dict[str, KnownHost] = {}
        self._stopping: asyncio.Event | None = None
        self._noted_at = datetime.now(UTC)
        self._was_cut_off = False
        self._refusals_due_at = datetime.now(UTC)
        """The next look for refusals in the audit trails: at once after rows were copied or a report was refused."""
        self._announced = asyncio.Event()
        self._refused: dict[str, str] = {}
        """Why reports are refused, by host, until it's recorded."""
        self._unnamed: dict[str, str] = {}
        """Why a worker can't be named, by host."""

    def problem(self) -> str:
        return "; ".join(f"{host.name}: {host.trouble}" for host in self.hosts.values() if host.trouble)

    def hear(self, name: str, data: bytes) -> None:
        host = self.hosts.get(name)
        if host is None:  # it has joined since the last look, and is known with the next one
            return
        presence = read_presence(name, data)
        if presence is None:
            if not host.is_set_aside:
                log.warning("a message on the presence subject of %s isn't one of a host's", name)
                self._set_aside(host, "a message that says it's there isn't valid")
            return
        host.presence, host.heard_at = presence, datetime.now(UTC)
        if host.silent:
            self._note_silence(host, silent=False)
            self._daemon.on_silence_changed()
        newest = presence.ledger, presence.life, presence.snapshot
        known = host.have and (host.have[0], *(host.snapshot or ()))
        if host.have is None or newest != known or host.have[1].is_behind(Position.of(presence.position)):
            host.woken.set()
            self._follow(host)

    def workers(self) -> list[dict[str, Any]]:
        """The status of all workers of all hosts, as last reported. Those of a silent host say so."""
        cut_off = is_cut_off(self._link, datetime.now(UTC))
        return [as_known(host, worker, cut_off=cut_off) for host in self.hosts.values() for worker in host.workers]

    def silent(self) -> dict[str, str]:
        """The silent hosts, in words. Without its own connection, the hub knows nothing of them, and says just that."""
        now = datetime.now(UTC)
        found = {}
        for host in self.hosts.values():
            if host.silent:
                at = host.heard_at
                since = f"no message since {at:%H:%M:%S} UTC" if at else "not connected since the hub's start"
                found[host.name] = f"{since}; its workers may still run"
        if self.hosts and is_cut_off(self._link, now):
            found[SERVER] = f"it can't be reached since {self._link.since:%H:%M:%S} UTC; commands to other hosts wait"
        return found

    def missing(self) -> dict[str, str]:
        """The silent hosts that were there before: no alert is about one that joined and hasn't connected yet."""
        new = {host.name for host in self.hosts.values() if host.is_new and host.heard_at is None}
        return {name: reason for name, reason in self.silent().items() if name not in new}

    def links(self) -> dict[str, dict[str, Any]]:
        return {
            name: {
                "seen_at": to_text(host.heard_at) if host.heard_at else None,
                "silent": host.silent,
                "trouble": host.trouble,
            }
            for name, host in self.hosts.items()
        }

    def announced(self) -> dict[str, Mapping[str, Any]]:
        """The workers of all hosts by their addresses, as their hosts announce them."""
        return {worker["id"]: worker for host in self.hosts.values() for worker in host.workers}

    def begin(self, members: Sequence[FleetHost]) -> None:
        for member in members:
            if member.state is HostState.JOINED and member.host_id not in self.hosts:
                known = KnownHost(member.host_id, datetime.now(UTC), is_new=member.last_seen_at is None)
                known.workers = [in_fleet(known.name, {**UNSEEN, **each}) for each in member.announced]
                self.hosts[known.name] = known

    def follow_members(self, members: Sequence[FleetHost]) -> None:
        """Follow these hosts. A revoked one is forgotten with its workers, a new one is known by what it announced."""
        before = self.hosts.keys() | set()
        joined = {each.host_id for each in members if each.state is HostState.JOINED}
        for name in before - joined:
            host = self.hosts.pop(name)
            if host.task is not None:
                host.task.cancel()
            self._end_conditions(
                {worker["id"] for worker in host.workers}, f"{name} isn't a host of the fleet any more"
            )
        self.begin(members)
        if self.hosts.keys() != before:
            self._daemon.on_hosts_changed()

    async def run(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        try:
            while not stopping.is_set():
                self.pulse.beat(within=LOOK_SECONDS)
                self._announced.clear()
                now = datetime.now(UTC)
                self._look_for_silence(now)
                await self._store_announcements(now)
                await self._follow_refusals(now)
                if not await wait_until(self._announced, stopping, LOOK_SECONDS) and self._announced.is_set():
                    await wait_until(None, stopping, SETTLE_SECONDS)  # many hosts connect at the same time
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
                host.trouble, host.is_set_aside = self._unnamed.get(host.name, ""), False
            except InvalidReport as error:
                self._set_aside(host, str(error))
                await wait_until(None, stopping, RETRY_SECONDS)
            except _OverBudget as error:
                if host.trouble != str(error):
                    log.warning("%s is followed more slowly: %s", host.name, error)
                    self._note_refusal(host, f"{host.name} reported {error}")
                host.trouble = str(error)
                await wait_until(None, stopping, error.wait_seconds)
                host.woken.set()
            except Exception as error:  # the edge: one host keeps no other from being followed
                words = describe(error)
                if words != host.trouble:
                    known = isinstance(error, SupervisorError)
                    log.warning("%s can't be followed: %s", host.name, words, exc_info=not known)
                host.trouble, host.have = words, None
                await wait_until(None, stopping, RETRY_SECONDS)  # the next presence goes on

    async def _ask_within_budget(self, host: KnownHost, question: Question, about: Mapping[str, Any]) -> Any:  # noqa: ANN401
        """The host's answer; `_OverBudget` if it has reported too much in this minute."""
        now = time.monotonic()
        if now >= host.minute + MINUTE:
            host.minute, host.rows, host.bytes = now, 0, 0
        if host.rows >= MOST_ROWS or host.bytes >= MOST_BYTES:
            raise _OverBudget(host.minute + MINUTE - now)
        answer, size = await self._ask(host.name, question, about)
        if not isinstance(answer, Mapping):
            raise InvalidReport(f"Its answer to {question} isn't a document.")
        host.rows += sum(len(part) for part in answer.values() if isinstance(part, list))
        host.bytes += size
        return answer

    def _set_aside(self, host: KnownHost, reason: str) -> None:
        """Believe nothing of this host until its reports are valid again; the others are followed all the same."""
        if not host.is_set_aside or host.trouble != reason:
            log.error("%s is set aside: %s", host.name, reason)
            self._note_refusal(host, f"{host.name} sent a report that isn't valid: {reason}")
        host.trouble, host.is_set_aside, host.have, host.snapshot = reason, True, None, None

    def _note_refusal(self, host: KnownHost, reason: str) -> None:
        """Have it recorded that reports of this host are refused, which raises an alert."""
        self._refused[host.name] = reason
        self._announced.set()

    async def _follow_refusals(self, now: datetime) -> None:
        """Record refused reports, and have the alerts of the hosts' links follow the audit trails."""
        refused, self._refused = self._refused, {}
        hub_id = self._ledger.supervisor_id

        def note(connection: Connection) -> list[bool]:
            return [rows.note_refused_report(connection, hub_id, host, why, now) for host, why in refused.items()]

        try:
            if refused and any(await self._blocking(self._ledger.write, note)):
                self._refusals_due_at = now
            refused = {}
            if now < self._refusals_due_at:
                return
            self._refusals_due_at = now + timedelta(seconds=REFUSALS_SECONDS)
            readings = await self._blocking(self._ledger.read, lambda look: rows.refusal_readings(look, hub_id, now))
        except SupervisorError as error:  # it's tried again with the next look
            self._refused, self._refusals_due_at = refused | self._refused, now
            log.warning("refused messages can't be recorded or read: %s", error)
            return
        self._daemon.publish_readings([reading for reading in readings if reading.target.id in self.hosts])

    async def _copy_rows(self, host: KnownHost) -> None:
        presence = host.presence
        if presence is None:
            return
        origin = Origin(presence.ledger, host.name)
        if host.have is None or host.have[0] != origin.ledger_id:
            have = await self._blocking(self._ledger.read, lambda connection: rows.position_of(connection, origin))
            host.have = origin.ledger_id, have
        have = host.have[1]
        if host.snapshot is None or host.snapshot[0] != presence.life:  # only between two runs is a ledger restored
            have.check_kept(host.name, Position.of(presence.position))
        while have.is_behind(Position.of(presence.position)):
            found = await self._ask_within_budget(host, Question.ROWS, have._asdict())
            before, have = have, Position(*map(max, have, await self._copy(origin, found)))
            host.have = origin.ledger_id, have
            self._daemon.on_rows_copied()
            self._refusals_due_at = datetime.now(UTC)
            if have == before:
                break  # an older presence than the rows that were copied

    async def _copy(self, origin: Origin, found: Mapping[str, Any]) -> Position:
        """Copy the rows of an answer; how far they reach. The writer commits those of many hosts together."""
        hub_id, now = self._ledger.supervisor_id, datetime.now(UTC)
        place = self._daemon.context.host.config.announcement()

        def work(connection: Connection) -> Position:
            position = rows.take_rows(connection, hub_id, origin, found, now, place)
            crashpoints.reach("fleet.copy:before")
            return position

        position = await asyncio.wrap_future(self._ledger.submit(work))
        crashpoints.reach("fleet.copy:after")
        return position

    async def _fetch_snapshot(self, host: KnownHost) -> None:
        presence = host.presence
        if presence is None or host.snapshot == (presence.life, presence.snapshot):
            return
        found = decode_snapshot(await self._ask_within_budget(host, Question.SNAPSHOT, {}))
        now = datetime.now(UTC)
        longest = max((worker["id"] for worker in found["workers"]), key=len, default="")
        self._unnamed[host.name] = ""
        if longest and not can_have_address(host.name, longest):
            self._unnamed[host.name] = (
                f"{host.name}/{longest[:LONGEST_ADDRESS]} can't be named here: an address has at most "
                f"{LONGEST_ADDRESS} characters. Give the host or the worker a shorter name."
            )
        workers = [
            in_fleet(host.name, worker) for worker in found["workers"] if can_have_address(host.name, worker["id"])
        ]
        host.snapshot = found["life"], found["number"]
        removed = {worker["id"] for worker in host.workers} - {worker["id"] for worker in workers}
        self._end_conditions(removed, "no longer in the configuration of its host")
        if list(map(_identity, workers)) == list(map(_identity, host.workers)):
            host.workers, host.unstored = workers, None
        else:
            host.unstored = workers
            self._announced.set()
        readings = []
        for target, reading in map(read_reading, found["readings"]):  # its clock may be ahead: nothing begins after now
            bounded = replace(reading, reason=reading.reason[:MOST_REASON], since=min(reading.since, now))
            if target.kind == WORKER and can_have_address(host.name, target.id):
                readings.append(TargetReading(Target(WORKER, str(Address(host.name, target.id))), bounded))
            elif target.kind in HOST_PARTS:
                readings.append(TargetReading(Target(target.kind, host.name), bounded))
        self._daemon.publish_readings(readings)

    def _end_conditions(self, addresses: Iterable[str], reason: str) -> None:
        """End the alerts about workers that their host won't report any more."""
        reading = Reading(Condition.PAUSED, reason, datetime.now(UTC))
        self._daemon.publish_readings([TargetReading(Target(WORKER, address), reading) for address in addresses])

    async def _store_announcements(self, now: datetime) -> None:
        """Store what hosts announce, and now and then when they were last seen.

        Others are told afterwards: a restarted hub knows every worker for which a command was accepted.
        """
        new = [host for host in self.hosts.values() if host.unstored is not None]
        due = now - self._noted_at >= timedelta(seconds=NOTE_SECONDS)
        if not (new or due):
            return
        seen = (
            [host for host in self.hosts.values() if host.heard_at and host.heard_at > self._noted_at] if due else new
        )
        heard = [(each, each.presence.version, each.unstored) for each in seen if each.presence]
        notes = []
        for host, version, workers in heard:
            announced = [
                {
                    "id": address_of(worker["id"]).worker_id,
                    "team": worker.get("team") or "",
                    "enabled": bool(worker.get("enabled", True)),
                }
                for worker in workers or ()
            ]
            notes.append(HostNews(host.name, version, None if workers is None else announced))
        try:
            await self._blocking(self._members.seen, notes, now)
        except SupervisorError as error:  # it's tried again with the next look
            log.warning("the hosts' workers can't be stored: %s", error)
            return
        for host, _, stored in heard:
            if stored is not None and host.unstored is stored:
                host.workers, host.unstored = stored, None
        self._noted_at = now if due else self._noted_at
        if new:
            self._daemon.on_hosts_changed()

    def _look_for_silence(self, now: datetime) -> None:
        cut_off = is_cut_off(self._link, now)
        found = newly_silent(self.hosts.values(), self._link)
        silent = [host for host in found if host.heard_at is not None]
        for host in silent:
            self._note_silence(host, silent=True)
        for host in found:
            if host.heard_at is None and (host.task is None or host.task.done()):
                host.task = asyncio.create_task(self._find(host), name=f"fleet {host.name}")
        if silent or cut_off != self._was_cut_off:
            self._daemon.on_silence_changed()
        self._was_cut_off = cut_off

    async def _find(self, host: KnownHost) -> None:
        """Ask a host that wasn't heard since the hub's start: it may speak once in minutes. A refusal is an answer."""
        try:
            async with self._places:
                await self._ask(host.name, Question.ROWS, NO_ROWS._asdict())
            answers = True
        except Exception as error:  # noqa: BLE001 (whatever it answers, it's there)
            answers = isinstance(error, HostError) or not isinstance(error, SupervisorError)
        if host.heard_at is None and answers:
            host.heard_at = datetime.now(UTC)
        elif host.heard_at is None and self._link.connected:
            self._note_silence(host, silent=True)
            self._daemon.on_silence_changed()
        if self._stopping is not None:
            await self._catch_up(host, self._stopping)  # with what it has said meanwhile

    def _note_silence(self, host: KnownHost, *, silent: bool) -> None:
        host.silent = silent
        if silent and host.is_new and host.heard_at is None:
            log.info("%s has joined, and hasn't connected yet", host.name)
        elif silent:
            log.error("%s is unresponsive", host.name, extra=LogEvent.HOST_SILENT.extra(host=host.name))
        else:
            log.info("%s is connected", host.name, extra=LogEvent.HOST_BACK.extra(host=host.name))


def _identity(worker: Mapping[str, Any]) -> tuple[Any, ...]:
    """The facts about a worker that others rely on. Its state isn't one of them."""
    return worker["id"], worker.get("team"), worker.get("enabled")
