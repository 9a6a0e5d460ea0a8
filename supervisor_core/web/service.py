"""The HTTP service of the daemon: `/metrics`, `/healthz`, `/readyz`, and the status page.

It listens from the start, and imports aiohttp with the first connection. It answers only requests that name its own
address: another site's page can't read it through a browser. It only reads, but for the alerts of Alertmanager, which
need a token.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.common.service import BEAT_SECONDS, Service, wait_until
from supervisor_core.common.service_names import METRICS
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.web.facts import FactCollector, WebFacts
from supervisor_core.web.metrics import EVENTS, CommandTally, exposition

if TYPE_CHECKING:
    from aiohttp import web

    from supervisor_core.daemon.app import Application

STATIC = Path(__file__).parent / "static"
TYPES = {".css": "text/css", ".js": "text/javascript"}
BACKLOG = 64
MOST_CONNECTIONS = 200
"""The most open connections. A further one takes the place of the oldest without a request."""

IDLE_SECONDS = 5.0
"""A connection without a request, or with half of one, is closed after this time, or twice that at the latest."""

READING_SECONDS = 60.0
"""The time that a slow client has to read a response."""

ACCEPT_ERROR_SECONDS = 1.0
"""The pause after a connection can't be accepted."""

MOST_READERS = 100
"""The most open pages that follow changes. More are refused."""

SETTLE_SECONDS = 0.5
"""The pause before a change is announced: changes come in bursts."""

REFRESH_SECONDS = 30.0
"""The page is refreshed after this time even without a change: it shows ages."""

SHARED_SECONDS = 0.4
"""Facts serve all requests within this time: less than `SETTLE_SECONDS`, so that none are older than a change."""

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
LOCAL = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger(__name__)


IN_USE = "no metrics: {} is in use by another program"
CHOOSE = 'Set metrics.bind to another address, or to "" to turn the metrics off.'


def is_needed(config: SupervisorConfig) -> bool:
    """True if somebody chose the address, or Alertmanager sends alerts to it."""
    return ("metrics", "bind") in config.explicit_settings or bool(config.alerts.incoming.token)


class WebService(Service):
    """Listens on `metrics.bind`."""

    name = METRICS

    def __init__(self, daemon: Application) -> None:
        super().__init__()
        config = daemon.context.host.config
        host, _, port = config.metrics.bind.rpartition(":")
        self._host, self._port = host.strip("[]"), int(port)
        self._facts = FactCollector(daemon)
        self._bus = daemon.bus
        self._ledger = daemon.context.ledger
        self._by_default = not is_needed(config)
        """Nobody has chosen the address, so that another program that uses it is no problem."""
        self.take_alerts = daemon.incoming.take if daemon.incoming else None
        """Stores the alerts of a request of Alertmanager; None if none are accepted."""
        self.token = config.alerts.incoming.token.get_secret_value()
        """The one that Alertmanager sends."""
        self._tally = CommandTally()
        self._listener: socket.socket | None = None
        self._runner: web.AppRunner | None = None
        self._asked = asyncio.Event()
        self._idle: dict[asyncio.Transport, float] = {}
        """The connections without a request, oldest first."""
        self._busy: set[asyncio.Transport] = set()
        self._readers = 0
        self._known: tuple[float, WebFacts] | None = None
        self._gathering = asyncio.Lock()
        self._problem = self._notice = ""

    @property
    def port(self) -> int:
        """The port that it listens on; 0 if it doesn't."""
        return int(self._listener.getsockname()[1]) if self._listener else 0

    def problem(self) -> str:
        """The reason why it doesn't listen."""
        return self._problem

    def notice(self) -> str:
        """The reason why it doesn't listen at the default address."""
        return self._notice

    async def run(self, stopping: asyncio.Event) -> None:
        """Serve until asked to stop."""
        self._asked.clear()
        subscription = self._bus.subscribe(types=EVENTS, name="metrics")
        counting, accepting = asyncio.create_task(self._count(subscription)), None
        try:
            self._listen()
            await self._wait_for_first_connection(stopping)
            if self._listener is not None and not stopping.is_set():
                accepting = asyncio.create_task(self._accept_connections(self._listener))
            while not stopping.is_set():
                self.pulse.beat(within=BEAT_SECONDS)
                await wait_until(accepting, stopping, IDLE_SECONDS if accepting else BEAT_SECONDS)
                if accepting and accepting.done():
                    accepting.result()
                self._close_idle_connections()
        finally:
            tasks = [task for task in (counting, accepting) if task]
            for task in tasks:
                task.cancel()
            subscription.close()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def shut_down(self) -> None:
        """Close everything."""
        self._idle.clear()
        runner, self._runner = self._runner, None
        if runner is not None:
            await runner.cleanup()
        listener, self._listener = self._listener, None
        if listener is not None:
            with contextlib.suppress(OSError, ValueError):
                asyncio.get_running_loop().remove_reader(listener)
            listener.close()

    async def facts(self) -> WebFacts:
        """The facts as of a moment ago."""
        loop = asyncio.get_running_loop()
        async with self._gathering:
            if self._known is None or loop.time() - self._known[0] > SHARED_SECONDS:
                begun = loop.time()
                self._known = begun, await self._facts.gather()
            return self._known[1]

    async def metrics(self) -> bytes:
        """The metrics in Prometheus' text format."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        await asyncio.sleep(0)  # one turn of the loop: it takes as long as everything else that is due
        lag = loop.time() - asked
        return exposition(await self.facts(), self._tally, lag)

    def is_ours(self, host: str) -> bool:
        """True for a `Host` header that names this service, and not another site that resolves to it."""
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
        name = name.strip("[]").casefold()
        if name in (*LOCAL, self._host.casefold(), socket.gethostname().casefold()):
            return True
        with contextlib.suppress(ValueError):
            ipaddress.ip_address(name)
            return True  # no site has an address for its name
        return False

    @asynccontextmanager
    async def changes(self) -> AsyncIterator[asyncio.Event]:
        changed, loop = asyncio.Event(), asyncio.get_running_loop()
        with (
            self._bus.subscribe(name="status page") as subscription,
            self._ledger.listening(lambda: loop.call_soon_threadsafe(changed.set)),
        ):

            async def follow() -> None:
                async for _ in subscription:
                    changed.set()

            following = asyncio.create_task(follow())
            try:
                yield changed
            finally:
                following.cancel()
                await asyncio.gather(following, return_exceptions=True)

    def _listen(self) -> None:
        family = socket.AF_INET6 if ":" in self._host else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((self._host, self._port))
            listener.listen(BACKLOG)
            listener.setblocking(False)
        except OSError as error:
            listener.close()
            words = f"metrics.bind: {self._host}:{self._port} can't be used: {error.strerror}"
            if self._by_default and error.errno == errno.EADDRINUSE:
                self._notice = f"{IN_USE.format(f'{self._host}:{self._port}')}. {CHOOSE}"
                log.info("%s", self._notice)
                return
            self._problem = words
            log.error("%s", words)  # noqa: TRY400 (the words say it all)
            return
        self._problem, self._notice, self._listener = "", "", listener

    async def _wait_for_first_connection(self, stopping: asyncio.Event) -> None:
        if self._listener is None:
            return
        loop = asyncio.get_running_loop()
        loop.add_reader(self._listener, self._asked.set)
        self.pulse.rest()
        await wait_until(self._asked, stopping)
        loop.remove_reader(self._listener)

    async def _accept_connections(self, listener: socket.socket) -> None:
        """Hand connections to aiohttp. asyncio's own servers accept without limit, and run hot without descriptors."""
        from aiohttp import web

        from supervisor_core.web.routes import Routes

        self._runner = web.AppRunner(Routes(self).application(), access_log=None, shutdown_timeout=1.0)
        await self._runner.setup()
        loop, server = asyncio.get_running_loop(), self._runner.server
        assert server is not None  # noqa: S101 (it was set up)
        while True:
            try:
                connection, _ = await loop.sock_accept(listener)
            except OSError as error:
                log.warning("a connection to the status page can't be accepted: %s", error.strerror)
                await asyncio.sleep(ACCEPT_ERROR_SECONDS)
                continue
            self._idle = {each: since for each, since in self._idle.items() if not each.is_closing()}
            if len(self._idle) + len(self._busy) >= MOST_CONNECTIONS:
                if not self._idle:
                    connection.close()
                    continue
                oldest = next(iter(self._idle))
                del self._idle[oldest]
                oldest.abort()
            with contextlib.suppress(OSError):  # it's gone again
                transport, _ = await loop.connect_accepted_socket(server, connection)
                self._idle[transport] = loop.time()

    def _close_idle_connections(self) -> None:
        now = asyncio.get_running_loop().time()
        for transport, since in list(self._idle.items()):
            if now - since >= (READING_SECONDS if transport.get_write_buffer_size() else IDLE_SECONDS):
                del self._idle[transport]
                transport.abort()

    @contextmanager
    def request_on(self, transport: asyncio.Transport | None) -> Iterator[None]:
        """Keep the connection of a request open while it's handled."""
        if transport is None:  # it's gone
            yield
            return
        self._idle.pop(transport, None)
        self._busy.add(transport)
        try:
            yield
        finally:
            self._busy.discard(transport)
            self._idle[transport] = asyncio.get_running_loop().time()

    async def _count(self, subscription: object) -> None:
        async for event in subscription:  # type: ignore[attr-defined]  # a subscription of the bus
            self._tally.take(event)

    def enter(self) -> bool:
        """Count a page that follows changes; False if there are too many."""
        if self._readers >= MOST_READERS:
            return False
        self._readers += 1
        return True

    def leave(self) -> None:
        self._readers -= 1
