"""A host's services in its fleet: the connection, its presence, and the hub's commands and questions."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from supervisor_core.common.service import BEAT_SECONDS, Service, wait_until
from supervisor_core.fleet import keys
from supervisor_core.fleet.host.answers import QuestionAnswers
from supervisor_core.fleet.host.commands import FleetCommands
from supervisor_core.fleet.host.presence import PresenceSpeaker
from supervisor_core.fleet.host.refusals import RefusedMessages
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.messages import FleetMessage
from supervisor_core.fleet.transport.subjects import host_inbox

if TYPE_CHECKING:
    from supervisor_core.daemon.composition import DaemonServices
    from supervisor_core.daemon.wiring import CodeReader


class HostLink(Service):
    """Stays connected, and hands the hub's questions to those who answer them."""

    name = "fleet_link"

    def __init__(self, host: str, connection: FleetConnection, answers: QuestionAnswers) -> None:
        super().__init__()
        self._host = host
        self._connection = connection
        self._answers = answers
        self._answering: set[asyncio.Task[None]] = set()

    def problem(self) -> str:
        return self._connection.problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Stay connected until asked to stop. The workers don't depend on it."""
        await self._connection.subscribe(subjects.ask_subject(self._host), self._asked)
        self._connection.start()
        while not stopping.is_set():
            self.pulse.beat(within=BEAT_SECONDS)
            await wait_until(None, stopping, BEAT_SECONDS)

    async def shut_down(self) -> None:
        for task in self._answering:
            task.cancel()
        await self._connection.close()

    async def _asked(self, message: FleetMessage) -> None:
        """Answer in a task of its own: a preview takes seconds, and a status mustn't wait for it."""
        task = asyncio.create_task(self._answer(message))
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)

    async def _answer(self, message: FleetMessage) -> None:
        answer = await self._answers.answer(message.data)
        if answer is not None:
            await message.respond(answer)


class HostServices:
    """The parts that make a daemon a host of a fleet."""

    def __init__(self, daemon: DaemonServices, code: CodeReader) -> None:
        context, blocking, view = daemon.context, daemon.blocking, daemon.view
        ledger, config = context.ledger, context.host.config
        settings, host = config.fleet, ledger.supervisor_id
        key = KeyPair.read(config.resolve(str(settings.credentials)))
        url = settings.url.get_secret_value()
        connection = FleetConnection(url, key, name=host, inbox=host_inbox(host), ca=settings.ca)
        verify = partial(keys.verify, settings.hub_key)
        self.presence = PresenceSpeaker(lambda: context.host.config, ledger, blocking, connection, view)
        refusals = RefusedMessages(host, ledger, blocking)
        answers = QuestionAnswers(host, ledger, blocking, view, code, verify, self.presence.snapshot, refusals)
        self.link = HostLink(host, connection, answers)

        def knows(worker_id: str) -> bool:
            return worker_id in context.host.config.workers

        wake = daemon.reconciler.wake
        self.commands = FleetCommands(host, ledger, blocking, connection, verify, wake, knows, refusals)

    @property
    def services(self) -> tuple[Service, ...]:
        return (self.link, self.presence, self.commands)
