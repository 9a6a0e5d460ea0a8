"""Takes the hub's commands: checked, filed in this host's ledger, and only then acknowledged."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime

from sqlalchemy import Connection

from supervisor_core.commands.command import Command, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.times import to_text
from supervisor_core.fleet.host.refusals import RefusedMessages
from supervisor_core.fleet.signing import CommandMessage, InvalidMessage, UnfollowableMessage, Verifier, read_command
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.messages import FleetMessage
from supervisor_core.fleet.transport.subjects import COMMANDS
from supervisor_core.intake.filing import file_jobs, log_received
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import START_BEFORE, Job
from supervisor_core.storage.steps import take
from supervisor_core.storage.store import Ledger

RETRY_SECONDS = 1.0
PULL_SECONDS = 30.0
REMEMBERED = 1000
"""The newest messages whose place in their stream is known."""


class FleetCommands(Service):
    name = "fleet_commands"

    def __init__(
        self,
        host: str,
        ledger: Ledger,
        blocking: Blocking,
        connection: FleetConnection,
        verify: Verifier,
        filed: Callable[[Collection[str]], None],
        knows: Callable[[str], bool],
        refusals: RefusedMessages,
    ) -> None:
        """`filed`: called on the event loop with the workers that have a new job. `knows`: whether a worker exists."""
        super().__init__()
        self._host = host
        self._ledger = ledger
        self._blocking = blocking
        self._connection = connection
        self._verify = verify
        self._filed = filed
        self._knows = knows
        self._refusals = refusals
        self._places: OrderedDict[bytes, int] = OrderedDict()
        self._problem = ""

    def problem(self) -> str:
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            self.pulse.beat(within=PULL_SECONDS)
            seconds = RETRY_SECONDS if self._problem else PULL_SECONDS  # a pull that finds nothing ends a problem, too
            pulling = asyncio.ensure_future(self._connection.pull(COMMANDS, self._host, seconds=seconds))
            if await wait_until(pulling, stopping):
                pulling.cancel()
                await asyncio.gather(pulling, return_exceptions=True)
                return
            try:
                for message in pulling.result():
                    await self._follow(message)
                self._problem = ""
            except SupervisorError as error:  # what isn't acknowledged comes again, and nothing overtakes it
                self._problem = f"the hub's commands are waiting: {error}"
                await wait_until(None, stopping, RETRY_SECONDS)

    async def _follow(self, message: FleetMessage) -> None:
        """File one command, and acknowledge it once that's on disk. What can't be followed is on record by then."""
        try:
            workers = await self._take(message)
        except SupervisorError:
            with contextlib.suppress(SupervisorError):
                await message.redeliver(RETRY_SECONDS)
            raise
        crashpoints.reach("fleet.take:after")
        if workers:
            self._filed(workers)
        await message.acknowledge()

    async def _take(self, message: FleetMessage) -> set[str]:
        """File a command; the workers that have a new job."""
        try:
            command = read_command(message.data, self._host, self._verify)
        except InvalidMessage as error:
            await self._refusals.note(str(error), error.task_id if isinstance(error, UnfollowableMessage) else "")
            return set()
        crashpoints.reach("fleet.take:before")
        try:
            filed = await self._blocking(self._file, command)
        except LedgerUnavailable:
            raise
        except SupervisorError as error:
            await self._refusals.note(str(error), command.command.task_id)
            return set()
        if self._is_replayed(message) and not filed:
            await self._refusals.note(f"The command {command.command.task_id} was sent again by somebody else.")
        return filed

    def _is_replayed(self, message: FleetMessage) -> bool:
        """True if the stream has this message twice: the server repeats it in its place, and the hub signs it anew."""
        place = self._places.setdefault(hashlib.sha256(message.data).digest(), message.sequence)
        while len(self._places) > REMEMBERED:
            self._places.popitem(last=False)
        return place != message.sequence

    def _file(self, message: CommandMessage) -> set[str]:
        now = datetime.now(UTC)
        late = now >= message.start_before
        bound = {**message.command.params, START_BEFORE: to_text(message.start_before)}
        command: Command = replace(message.command, params=bound)

        def work(connection: Connection) -> tuple[list[Job], list[Job]]:
            supervisor_id = self._ledger.supervisor_id
            filed = file_jobs(
                connection, supervisor_id, command, message.door, message.filed_at, approvals=message.approvals
            )
            refused = [job for job in filed if late or not self._knows(job.worker_id)]
            for job in refused:
                words = _too_late(message) if late else f"{self._host} has no worker {job.worker_id}."
                step = jobs.refuse(job, Outcome.failed(f"{words} Nothing was done."), now)
                take(connection, supervisor_id, step, now)
            return filed, refused

        filed, refused = self._ledger.write(work)
        for job in filed:
            log_received(job)
        return {job.worker_id for job in filed} - {job.worker_id for job in refused}


def _too_late(message: CommandMessage) -> str:
    return f"It came after {message.start_before:%H:%M:%S} UTC, when it had to be started by."
