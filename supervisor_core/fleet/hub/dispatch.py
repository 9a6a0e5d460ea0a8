"""Sends commands to the hosts of their workers. The job row is the order: it's sent until it's on record as sent.

A job is `queued` until NATS has the command on disk, then `claimed`; all else comes from its host. After a crash
between the two it's sent again, and its host knows the command id. A command whose deadline has passed is sent as well:
its host may have got it before, and says whether it has started it. It never starts it then.

A server can lose its stream, or its whole disk. So once it's prepared, what is `claimed` and no host has reported yet
is sent again, up to its deadline. The server drops a repeat of the last minutes, and a host one whose id it knows.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial

from sqlalchemy import Connection

from supervisor_core.commands.addresses import address_of
from supervisor_core.commands.command import Command, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.fleet.keys import CommandMessage, KeyPair
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection, FleetUnavailable, NoAnswer
from supervisor_core.fleet.transport.server import MAX_PAYLOAD
from supervisor_core.fleet.transport.streams import COMMANDS_KEPT_SECONDS
from supervisor_core.intake.rolling import service as rolling
from supervisor_core.intake.rolling.rules import of_one_batch
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import Ledger

AT_ONCE = 500
"""The jobs that are read for one round."""

SENT_AT_ONCE = 64
"""The messages that wait for NATS at the same time."""

HEADERS = 1_024
"""Bytes of a message beside its data."""

RETRY_SECONDS = 1.0
SETTLE_SECONDS = 0.005
"""The pause before a round: commands and reports come in bursts."""

FOLLOW_UP_SECONDS = 1.0
"""The shortest time between two looks for hosts that haven't answered."""

LOOK_SECONDS = 30.0
"""The interval of looks for jobs whose filer died before it could say so."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Order:
    host: str
    jobs: tuple[Job, ...]
    turn: datetime
    """The time since when it could be sent."""


class CommandDispatcher(Service):
    """Sends what waits, each host's commands in their order."""

    name = "fleet_commands"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        connection: FleetConnection,
        key: KeyPair,
        hosts: Callable[[], Collection[str]],
        deadline: timedelta,
        waits: Callable[[], str],
        silent: Callable[[], Collection[str]] = tuple,
        parallel: int = 1,
    ) -> None:
        """`waits` says why nothing may be sent now: the server isn't there, or can't keep what we promise. `silent`:
        the hosts that are unresponsive. `parallel`: how many workers restart at once."""
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._key = key
        self._hosts = hosts
        self._deadline = deadline
        self._waits = waits
        self._silent = silent
        self._parallel = parallel
        self._woken = asyncio.Event()
        self._problem = ""
        self._look_seconds = min(LOOK_SECONDS, deadline.total_seconds() / 4)
        self._followed_up = -math.inf
        self._failed_until: dict[str, float] = {}
        """The hosts whose last message failed, and until when they are left out."""
        self._resend = True
        self.on_lost_stream: Callable[[], None] = lambda: None
        """Called when nobody stores commands: the server has to be prepared again."""

    def resend(self) -> None:
        """Send what no host has reported yet once more: the server may have lost it. On the event loop."""
        self._resend = True
        self.wake()

    def wake(self) -> None:
        """Look now; on the event loop."""
        self._woken.set()

    def problem(self) -> str:
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            self._woken.clear()
            self.pulse.beat(within=LOOK_SECONDS)
            again, problem = False, ""
            try:
                again = await self._round()
            except SupervisorError as error:
                problem = str(error)
            if time.monotonic() >= self._followed_up + FOLLOW_UP_SECONDS:
                try:
                    await self._follow_up()
                    self._followed_up = time.monotonic()
                except SupervisorError as error:
                    problem = str(error)
            if problem and problem != self._problem:
                log.warning("commands to other hosts are waiting: %s", problem)
            self._problem = problem
            if not again:
                seconds = RETRY_SECONDS if problem else self._look_seconds
                await wait_until(self._woken, stopping, seconds)
                await wait_until(None, stopping, SETTLE_SECONDS)

    async def _round(self) -> bool:
        """Send the jobs whose turn has come; True if more may wait. A host whose message fails is left out for a while,
        so that its commands hold up no others."""
        now = time.monotonic()
        self._failed_until = {host: until for host, until in self._failed_until.items() if until > now}
        failed = {*self._failed_until, *self._silent()}  # a command for an unresponsive host can be cancelled
        found = await self._blocking(self._ledger.read, lambda connection: _orders(connection, self._parallel, failed))
        unreported = await self._blocking(self._ledger.read, self._unreported) if self._resend else []
        if (found or unreported) and (reason := self._waits()):
            raise FleetUnavailable(reason)
        self._resend = False
        places, sent, known = asyncio.Semaphore(SENT_AT_ONCE), list[Job](), frozenset(self._hosts())
        gone = [job for order in found if order.host not in known for job in order.jobs]
        by_host: dict[str, list[_Order]] = {}
        orders = [order for order in found if order.host in known]
        if orders:  # without the jobs that were cancelled meanwhile; the others can't be any more
            some = [job for order in orders for job in order.jobs]
            begin = partial(remote.begin_sending, some=some, now=datetime.now(UTC))
            waiting = await self._blocking(self._ledger.write, begin)
            left = [replace(order, jobs=tuple(job for job in order.jobs if job.job_id in waiting)) for order in orders]
            orders = [order for order in left if order.jobs]
        for order in (*unreported, *orders):
            by_host.setdefault(order.host, []).append(order)
        receivers, too_large = [host for host in by_host if host in known], list[Job]()
        results = await asyncio.gather(
            *(self._send_all(by_host[host], places, sent, too_large) for host in receivers),
            return_exceptions=True,
        )
        failures = [result for result in results if isinstance(result, BaseException)]
        self._resend = self._resend or bool(failures and unreported)
        if any(isinstance(failure, NoAnswer) for failure in failures):
            self.on_lost_stream()
        if sent:
            crashpoints.reach("fleet.send:after")
        if sent or gone or too_large:
            await self._blocking(self._ledger.write, lambda connection: self._note(connection, sent, gone, too_large))
        for host, result in zip(receivers, results, strict=True):
            if isinstance(result, SupervisorError):
                self._failed_until[host] = time.monotonic() + RETRY_SECONDS
        if failures:
            raise failures[0]
        return sum(len(order.jobs) for order in found) >= AT_ONCE

    async def _send_all(
        self, orders: Sequence[_Order], places: asyncio.Semaphore, sent: list[Job], too_large: list[Job]
    ) -> None:
        """Send one host's commands, one after the other. What is sent is added to `sent`, whatever comes after it."""
        for order in orders:
            first = order.jobs[0]
            until = order.turn + self._deadline
            workers = tuple(address_of(job.worker_id).worker_id for job in order.jobs)
            target, params = workers[0] if len(workers) == 1 else " ".join(workers), of_one_batch(first.params)
            command = Command(
                first.command, target, workers, params, first.label, issuer=first.issuer, task_id=first.task_id
            )
            message = CommandMessage(order.host, command, first.door, first.filed_at, until, tuple(first.approvals))
            message_id = f"{first.task_id}/{order.host}/{first.job_id}"
            data = message.encode(self._key)
            if len(data) > MAX_PAYLOAD - HEADERS:
                too_large += order.jobs
                continue
            async with places:
                crashpoints.reach("fleet.send:before")
                subject = subjects.command_subject(order.host)
                await self._blocking(self._ledger.require)
                await self._connection.publish_durably(subject, data, message_id)
            sent += order.jobs

    def _note(self, connection: Connection, sent: Sequence[Job], gone: Sequence[Job], too_large: Sequence[Job]) -> None:
        now, hub_id = datetime.now(UTC), self._ledger.supervisor_id
        remote.note_sent(connection, sent, now)
        reasons = [
            (job, f"{_host_of(job)} isn't a host of this fleet any more, so the command isn't sent.") for job in gone
        ]
        for job in too_large:
            words = f"The command is too large for a message to {_host_of(job)}, so it isn't sent. Nothing was done."
            reasons.append((job, words))
        for job, words in reasons:
            take(connection, hub_id, jobs.refuse(job, Outcome.failed(words), now), now)

    async def _follow_up(self) -> None:
        """Say on the cards which hosts are unresponsive and until when they may start it, then that they haven't
        answered; and end what none will answer for."""
        now, hosts = datetime.now(UTC), frozenset(self._hosts())
        notes, lost, orphaned = await self._blocking(
            self._ledger.read,
            lambda connection: (
                *self._unanswered(connection, hosts, now),
                remote.has_open_history(connection, hosts),
            ),
        )
        hub_id = self._ledger.supervisor_id
        if not (notes or lost or orphaned):
            return

        def say(connection: Connection) -> None:
            remote.end_history(connection, hub_id, hosts, now)
            for job, words in notes:
                remote.note(connection, hub_id, job, words, now)
            for job in lost:
                host = _host_of(job)
                why = "hasn't answered for days" if host in hosts else "isn't a host of this fleet any more"
                remote.abandon(connection, hub_id, job, f"{host} {why}. It isn't known whether it ran this.", now)

        await self._blocking(self._ledger.write, say)

    def _unreported(self, connection: Connection) -> list[_Order]:
        """The messages that were sent and may still be started, and of which no host has reported anything."""
        claimed = [each.job for each in remote.under_way(connection) if each.job.state is JobState.CLAIMED]
        orders = _orders_of(connection, sorted(claimed, key=lambda job: (job.filed_at, job.job_id)))
        now = datetime.now(UTC)
        return [order for order in orders if order.turn + self._deadline > now]

    def _unanswered(
        self, connection: Connection, hosts: Collection[str], now: datetime
    ) -> tuple[list[tuple[Job, str]], list[Job]]:
        """The jobs whose cards lack a word about their host, with it, and those that no host will answer for."""
        under_way, silent = remote.under_way(connection), self._silent()
        waiting = [
            (job, order.turn + self._deadline) for order in _orders(connection, self._parallel) for job in order.jobs
        ]
        unheard = [each for each in under_way if each.job.state is JobState.CLAIMED]
        waiting += [(each.job, each.sent_at + self._deadline) for each in unheard]
        kept = max(timedelta(seconds=COMMANDS_KEPT_SECONDS), self._deadline)
        lost = [each.job for each in unheard if each.sent_at + kept <= now]
        lost += [each.job for each in under_way if _host_of(each.job) not in hosts and each.job not in lost]
        notes = []
        for job, until in waiting:
            host = _host_of(job)
            if until <= now:
                words = f"No answer from {host}. If it hasn't started this by now, it never will"
            elif host in silent:
                words = (
                    f"Waiting for {host}, which is unresponsive. It starts this if it's back by {until:%H:%M:%S} UTC"
                )
            else:
                continue
            if job not in lost and not any(step.words == words for step in job.progress):
                notes.append((job, words))
        return notes, lost


def _orders(connection: Connection, parallel: int, without: Collection[str] = ()) -> list[_Order]:
    return _orders_of(connection, remote.to_send(connection, AT_ONCE, parallel, without))


def _orders_of(connection: Connection, waiting: Sequence[Job]) -> list[_Order]:
    """The messages for these jobs: each has those of one command for one host."""
    groups: dict[tuple[str, str], list[Job]] = {}
    for job in waiting:
        groups.setdefault((job.task_id, _host_of(job)), []).append(job)
    turns = remote.turns_began(connection, [some[0] for some in groups.values()])
    for first in (some[0] for some in groups.values() if some[0].batch is not None):
        change = rolling.find(connection, first.task_id)
        turns[first.task_id] = change.released_at if change else first.filed_at
    return [
        _Order(host, tuple(some), max(some[0].filed_at, turns.get(task_id, some[0].filed_at)))
        for (task_id, host), some in groups.items()
    ]


def _host_of(job: Job) -> str:
    return address_of(job.worker_id).host
