"""Takes the hub's commands: checked, filed in this host's ledger, and only then acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Protocol

from sqlalchemy import Connection

from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import LedgerUnavailable, SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.common.times import to_text
from supervisor_core.fleet.signing import CommandMessage, InvalidMessage, Verifier, read_command
from supervisor_core.fleet.transport.messages import FleetMessage
from supervisor_core.fleet.transport.subjects import COMMANDS
from supervisor_core.intake.filing import file_jobs, log_received
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import START_BEFORE, Job
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record, take
from supervisor_core.storage.store import Ledger

RETRY_SECONDS = 1.0
PULL_SECONDS = 30.0
HUB = Issuer("fleet:hub", "hub")
REFUSED = "REFUSED"

log = logging.getLogger(__name__)


class CommandSource(Protocol):
    """The connection, for commands."""

    async def pull(self, stream: str, consumer: str, batch: int = 1, seconds: float = 30.0) -> Sequence[FleetMessage]:
        """The next command, once the last one is acknowledged; none if there is none in this time."""


class FleetCommands(Service):
    """Files the hub's commands in their order."""

    name = "fleet_commands"

    def __init__(
        self,
        host: str,
        ledger: Ledger,
        blocking: Blocking,
        source: CommandSource,
        verify: Verifier,
        filed: Callable[[Collection[str]], None],
        knows: Callable[[str], bool],
    ) -> None:
        """`filed`: called on the event loop with the workers that have a new job. `knows`: whether a worker exists."""
        super().__init__()
        self._host = host
        self._ledger = ledger
        self._blocking = blocking
        self._source = source
        self._verify = verify
        self._filed = filed
        self._knows = knows
        self._problem = ""

    def problem(self) -> str:
        """The reason why commands can't be taken."""
        return self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Take commands until asked to stop."""
        while not stopping.is_set():
            self.pulse.beat(within=PULL_SECONDS)
            pulling = asyncio.ensure_future(self._source.pull(COMMANDS, self._host, seconds=PULL_SECONDS))
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
        """File one command, and acknowledge it once that's on disk."""
        workers = await self._blocking(self._take, message.data)
        crashpoints.reach("fleet.take:after")
        if workers:
            self._filed(workers)
        await message.acknowledge()

    def _take(self, data: bytes) -> set[str]:
        """File a command; the workers that have a new job. What can't be followed is on record when this returns."""
        try:
            message = read_command(data, self._host, self._verify)
        except InvalidMessage as error:
            self._refuse(str(error), "")
            return set()
        crashpoints.reach("fleet.take:before")
        try:
            return self._file(message)
        except LedgerUnavailable:
            raise
        except SupervisorError as error:
            self._refuse(str(error), message.command.task_id)
            return set()

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

    def _refuse(self, why: str, task_id: str) -> None:
        about = LogEvent.FLEET_REFUSED.extra(error=why)
        log.error("a command of the fleet is refused: %s", why, extra=about)
        entry = AuditEntry(
            actor=HUB.id,
            action=REFUSED,
            target_type="supervisor",
            target_id=self._host,
            outcome="failure",
            task_id=task_id or None,
            details={"door": "fleet", "error": why},
        )
        now = datetime.now(UTC)
        self._ledger.write(lambda connection: record(connection, self._ledger.supervisor_id, entry, (), now))


def _too_late(message: CommandMessage) -> str:
    return f"It came after {message.start_before:%H:%M:%S} UTC, when it had to be started by."
