"""A hub's services: the NATS server and the connection to it, the hosts, their commands, and requests to join."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import BEAT_SECONDS, Blocking, Service, wait_until
from supervisor_core.fleet.hub.dispatch import CommandDispatcher
from supervisor_core.fleet.hub.fleet import Fleet
from supervisor_core.fleet.hub.hosts import FleetHosts
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.members import FleetHost, FleetMembers, JoinService
from supervisor_core.fleet.questions import Asker
from supervisor_core.fleet.transport import subjects
from supervisor_core.fleet.transport.connection import FleetConnection, FleetMessage
from supervisor_core.fleet.transport.server import NatsServer, ServerError, own_authority
from supervisor_core.fleet.transport.streams import require_durability
from supervisor_core.fleet.transport.subjects import HUB_INBOX

if TYPE_CHECKING:
    from supervisor_core.daemon.app import Application

RETRY_SECONDS = 2.0
LOOK_SECONDS = 10.0
CONNECT_SECONDS = 10.0
NOT_PREPARED = "The NATS server isn't prepared yet."

log = logging.getLogger(__name__)


class HubLink(Service):
    """Runs the NATS server where the hub has it, stays connected, lets hosts join, and hears them."""

    name = "fleet_link"

    def __init__(
        self,
        connection: FleetConnection,
        joins: JoinService,
        members: FleetMembers,
        blocking: Blocking,
        server: NatsServer | None,
        hear: Callable[[str, bytes], None],
        followed: Callable[[Sequence[FleetHost]], None],
    ) -> None:
        """`followed` is called with all hosts once the server is prepared, and again and again."""
        super().__init__()
        self._connection = connection
        self._joins = joins
        self._members = members
        self._blocking = blocking
        self._server = server
        self._hear = hear
        self._followed = followed
        self._unprepared, self._server_failed = NOT_PREPARED, False
        self._prepared_at: datetime | None = None
        """The beginning of the connection over which the server was prepared."""
        self._woken = asyncio.Event()
        self.on_prepared: Callable[[], None] = lambda: None
        """Called each time that the server was prepared: it may have lost what it had."""

    def problem(self) -> str:
        if self._server_failed:  # another program may answer in its place
            return self._unprepared
        again = self._connection.since != self._prepared_at
        return self._connection.problem or self._unprepared or (NOT_PREPARED if again else "")

    async def run(self, stopping: asyncio.Event) -> None:
        await self._connection.subscribe(subjects.ALL_PRESENCE, self._heard)
        self._connection.came_up = self.wake
        self._connection.start()
        while not stopping.is_set():
            self.pulse.beat(within=BEAT_SECONDS)
            try:
                if self._server is not None:
                    await self._blocking(self._server.start)  # it finds the one that runs
                if self._unprepared or self._prepared_at != self._connection.since:
                    await self._prepare()  # after each reconnect: it may be another server
                self._followed(await self._blocking(self._members.hosts))
            except (SupervisorError, OSError) as error:
                if str(error) != self._unprepared:
                    log.warning("the fleet waits: %s", error)
                self._unprepared, self._server_failed = str(error), isinstance(error, ServerError)
            away = self._unprepared or not self._connection.connected
            await wait_until(self._woken, stopping, RETRY_SECONDS if away else LOOK_SECONDS)
            self._woken.clear()

    def wake(self) -> None:
        """The connection is up, or a host has joined; on the event loop."""
        self._woken.set()

    def prepare_again(self) -> None:
        """The server has lost its stream; on the event loop."""
        self._prepared_at = None
        self.wake()

    async def shut_down(self) -> None:
        """Disconnect. The server goes on, so that no host is cut off by a restart of the hub."""
        await self._connection.close()

    async def _prepare(self) -> None:
        try:
            await self._connection.wait_connected(CONNECT_SECONDS)
        except SupervisorError:
            if self._server is not None and self._server.identity is None:
                raise ServerError(f"The NATS server exited: {self._server.last_words()}") from None
            raise
        await require_durability(self._connection)
        since = self._connection.since
        await self._joins.start()
        self._unprepared, self._server_failed, self._prepared_at = "", False, since
        self.on_prepared()

    async def _heard(self, message: FleetMessage) -> None:
        self._hear(subjects.last_word(message.subject), message.data)


class HubServices:
    def __init__(self, daemon: Application) -> None:
        config, ledger, blocking = daemon.context.host.config, daemon.context.ledger, daemon.blocking
        settings = config.fleet
        key = KeyPair.read(config.resolve(str(settings.credentials)))
        url = settings.url.get_secret_value()
        ca = settings.ca or own_authority(config.fleet_folder)
        connection = FleetConnection(url, key, name=ledger.supervisor_id, inbox=HUB_INBOX, ca=ca)
        members = FleetMembers(ledger)
        self.ask = Asker(connection, key)
        self.hosts = FleetHosts(ledger, blocking, self.ask, members, connection, daemon)
        self.hosts.begin(members.hosts())
        self.fleet = Fleet(self.hosts, self.ask, daemon.local)
        deadline = timedelta(minutes=settings.deadline_minutes)
        joins = JoinService(connection, members, config.fleet_folder, key)
        server = NatsServer(config.fleet_folder) if settings.server.run else None
        self.link = HubLink(connection, joins, members, blocking, server, self.hosts.hear, self._follow)
        joins.joined = self.link.wake
        self.dispatcher = CommandDispatcher(
            ledger,
            blocking,
            connection,
            key,
            self.hosts.hosts.keys,
            deadline,
            self.link.problem,
            self.hosts.silent,
            config.supervisor.parallel,
        )
        self.dispatcher.on_lost_stream = self.link.prepare_again
        self.link.on_prepared = self.dispatcher.resend
        self.fleet.dispatcher = self.dispatcher
        self.services: tuple[Service, ...] = (self.link, self.hosts, self.dispatcher)

    def _follow(self, hosts: Sequence[FleetHost]) -> None:
        self.ask.bind()
        self.hosts.follow_members(hosts)
        self.dispatcher.wake()
