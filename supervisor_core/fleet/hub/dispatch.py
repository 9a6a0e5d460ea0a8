"""Sends commands to the hosts of their workers. The job row is the order: it's sent until it's on record as sent.

A job is `queued` until NATS has the command on disk, then `claimed`; all else comes from its host. After a crash
between the two it's sent again, and its host knows the command id.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Protocol

from sqlalchemy import Connection, func, select

from supervisor_core.commands.addresses import address_of
from supervisor_core.commands.command import Command, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.times import format_span
from supervisor_core.fleet.signing import CommandMessage, Signer
from supervisor_core.fleet.transport import subjects
from supervisor_core.intake.rolling import rows as rolling
from supervisor_core.intake.rolling.rules import of_one_batch
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import jobs as jobs_table

AT_ONCE = 500
"""The jobs that are read for one round."""

SENT_AT_ONCE = 64
"""The messages that wait for NATS at the same time."""

RETRY_SECONDS = 1.0
LOOK_SECONDS = 30.0
"""The interval of looks for jobs whose filer died before it could say so."""

log = logging.getLogger(__name__)


class DurablePublisher(Protocol):
    """The connection, for commands."""

    async def publish_durably(self, subject: str, data: bytes, message_id: str) -> object:
        """Return once NATS has the message on disk; the same id within the dedup window is stored once."""


class CommandDispatcher(Service):
    """Sends what waits, each host's commands in their order."""

    name = "fleet_commands"

    def __init__(
        self,
        ledger: Ledger,
        blocking: Blocking,
        connection: DurablePublisher,
        key: Signer,
        hosts: Callable[[], Collection[str]],
        deadline: timedelta,
    ) -> None:
        super().__init__()
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._key = key
        self._hosts = hosts
        self._deadline = deadline
        self._woken = asyncio.Event()
        self._knows_hosts = False
        self._problem = ""

    def begin(self) -> None:
        """Send from now on, because the hosts are known: before, every host would look like one that has left."""
        self._knows_hosts = True
        self.wake()

    def wake(self) -> None:
        """Look now; on the event loop."""
        self._woken.set()

    def problem(self) -> str:
        """The reason why commands wait."""
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Send until asked to stop."""
        while not stopping.is_set():
            self._woken.clear()
            self.pulse.beat(within=LOOK_SECONDS)
            try:
                again = await self._round()
                await self._note_unanswered()
                self._problem = ""
                seconds = 0.0 if again else LOOK_SECONDS
            except SupervisorError as error:
                if str(error) != self._problem:
                    log.warning("commands to other hosts are waiting: %s", error)
                self._problem, seconds = str(error), RETRY_SECONDS
            if seconds:
                await wait_until(self._woken, stopping, seconds)

    async def _round(self) -> bool:
        """Send the jobs whose turn has come; True if more may wait."""
        if not self._knows_hosts:
            return False
        found = await self._blocking(self._ledger.read, lambda connection: remote.to_send(connection, AT_ONCE))
        groups: dict[tuple[str, str], list[Job]] = {}
        for job in found:
            groups.setdefault((job.task_id, address_of(job.worker_id).host), []).append(job)
        by_host: dict[str, list[list[Job]]] = {}
        for (_, host), some in groups.items():
            by_host.setdefault(host, []).append(some)
        places = asyncio.Semaphore(SENT_AT_ONCE)
        results = await asyncio.gather(
            *(self._send_all(host, commands, places) for host, commands in by_host.items()), return_exceptions=True
        )
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return len(found) >= AT_ONCE

    async def _send_all(self, host: str, commands: Sequence[Sequence[Job]], places: asyncio.Semaphore) -> None:
        """Send one host's commands, one after the other."""
        for some in commands:
            async with places:
                await self._send(host, some)

    async def _send(self, host: str, some: Sequence[Job]) -> None:
        first, now = some[0], datetime.now(UTC)
        turn = await self._blocking(self._ledger.read, lambda connection: _turn_came_at(connection, first))
        late = now >= turn + self._deadline
        if host not in self._hosts() or late:
            span = format_span(self._deadline.total_seconds())
            reason = (
                f"{host} couldn't be reached within {span}. The command wasn't sent, and won't be."
                if host in self._hosts()
                else f"{host} isn't a host of this fleet any more. The command wasn't sent."
            )
            await self._refuse(some, reason)
            return
        message = CommandMessage(
            host, _command_of(some), first.door, first.filed_at, turn + self._deadline, tuple(first.approvals)
        )
        message_id = f"{first.task_id}/{host}/{first.job_id}"
        crashpoints.reach("fleet.send:before")
        self._ledger.require()
        await self._connection.publish_durably(subjects.command_subject(host), message.encode(self._key), message_id)
        crashpoints.reach("fleet.send:after")

        def claim(connection: Connection) -> None:
            for job in some:
                take(connection, self._ledger.supervisor_id, jobs.claim(job, now), now)

        await self._blocking(self._ledger.write, claim)

    async def _note_unanswered(self) -> None:
        """Say on the cards which hosts haven't answered by the deadline."""
        now = datetime.now(UTC)
        found = await self._blocking(
            self._ledger.read, lambda connection: remote.unanswered(connection, now - self._deadline)
        )
        late = [job for job in found if not job.progress]
        if not late:
            return
        hub_id = self._ledger.supervisor_id

        def say(connection: Connection) -> None:
            for job in late:
                host = address_of(job.worker_id).host
                words = f"{host} hasn't answered. If it hasn't started this by now, it never will"
                remote.note(connection, hub_id, job, words, now)

        await self._blocking(self._ledger.write, say)

    async def _refuse(self, some: Sequence[Job], reason: str) -> None:
        for job in some:
            await self._blocking(self._ledger.step, jobs.refuse(job, Outcome.failed(reason), datetime.now(UTC)))


def _command_of(some: Sequence[Job]) -> Command:
    """The command of these jobs, for their own host."""
    first = some[0]
    workers = tuple(address_of(job.worker_id).worker_id for job in some)
    target = workers[0] if len(workers) == 1 else " ".join(workers)
    command = Command(first.command, target, workers, of_one_batch(first.params), first.label)
    return replace(command, issuer=first.issuer, task_id=first.task_id)


def _turn_came_at(connection: Connection, job: Job) -> datetime:
    """Since when this job could be sent: its filing, the release of its batch, or the end of the last job of its
    command before it."""
    if job.batch is not None:
        change = rolling.find(connection, job.task_id)
        return change.released_at if change else job.filed_at
    ended = select(func.max(jobs_table.c.finished_at)).where(jobs_table.c.task_id == job.task_id)
    last = connection.execute(ended).scalar()
    return max(job.filed_at, last) if last else job.filed_at
