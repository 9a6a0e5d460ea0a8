"""The dead-man's switch: a service outside is pinged while all is well here, and raises the alarm when that ends.

*Well* is about this daemon, not about its workers: its loops live and its ledger takes rows. Open alerts are posted
by others; this is for a daemon that can't post any.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from http import HTTPStatus

from supervisor_core.alerts.outside.transport import status_words
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, ServiceReport, wait_until
from supervisor_core.common.service_names import SCHEDULER
from supervisor_core.config.fields import mask_url
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host import web
from supervisor_core.host.web import HttpResponse, NoHttpResponse
from supervisor_core.storage import outbox
from supervisor_core.storage.steps import Message
from supervisor_core.workers.context import DaemonContext

PING_SECONDS = 60.0
"""The interval of pings. The receiver should tolerate three missing ones."""

RETRY_SECONDS = 10.0
"""The interval after a failed ping and while something is unhealthy."""

LEDGER_SECONDS = 15.0
"""The timeout of a ledger write."""

ANSWER_SECONDS = 20.0
LEFT_BEHIND = 4
"""The most pings and ledger checks that can hang at once."""

DEADMAN, PING = "deadman", "ping"
"""The outbox row that is written before each ping, to check that the ledger can be written."""

log = logging.getLogger(__name__)


def why_not(config: SupervisorConfig) -> str:
    """The reason why no pings are sent; empty if they are."""
    return "" if config.alerts.deadman_url else "alerts.deadman_url is not set"


def why_silent(not_well: str, reports: Iterable[ServiceReport]) -> str:
    """Return why no ping may be sent: workers aren't supervised, or people can't be notified.

    `not_well` is the known problem of supervision."""
    troubles = [f"{each.name}: {each.trouble}" for each in reports if each.name == SCHEDULER and each.trouble]
    return "; ".join(filter(None, [not_well, *troubles]))


class DeadMan(Service):
    """Runs behind the services that `status` lists. `broken` returns why the daemon fails; empty while it works."""

    name = "deadman"

    def __init__(self, parts: DaemonContext, broken: Callable[[], str], every: float = PING_SECONDS) -> None:
        super().__init__()
        self._ledger = parts.ledger
        self._network = parts.host.config.network
        self._url = parts.host.config.alerts.deadman_url.get_secret_value()
        self._shown = mask_url(self._url)
        self._broken = broken
        self._every = every
        self._blocking = Blocking(LEFT_BEHIND)
        self._asking = Blocking(LEFT_BEHIND)
        self._unwell = ""
        self._problem = ""

    def problem(self) -> str:
        """The reason why pings are stopped or fail."""
        return f"pings to {self._shown} are stopped: {self._unwell}" if self._unwell else self._problem

    async def run(self, stopping: asyncio.Event) -> None:
        """Ping immediately and then at fixed intervals until told to stop. A running ping is abandoned."""
        clock = asyncio.get_running_loop().time
        while not stopping.is_set():
            self.pulse.beat()
            begun = clock()
            work = asyncio.ensure_future(self.beat())
            await wait_until(work, stopping)
            if not work.done():
                work.cancel()
                return
            seconds = self._every if work.result() else min(RETRY_SECONDS, self._every)
            self.pulse.beat(within=seconds)
            await wait_until(None, stopping, max(begun + seconds - clock(), 0.0))

    async def shut_down(self) -> None:
        """Reset the state for the next start."""
        self._unwell = self._problem = ""

    async def beat(self) -> bool:
        """Check this daemon, and ping if all is well. True if the ping got through."""
        self._say_whether_well(self._broken() or await self._ledger_broken())
        if self._unwell:
            return False
        trouble = await self._pinged()
        with contextlib.suppress(SupervisorError, TimeoutError):  # the next look says what is wrong with it
            async with asyncio.timeout(LEDGER_SECONDS):
                await self._blocking(self._note, trouble)
        problem = f"the ping to {self._shown} failed: {trouble}" if trouble else ""
        if problem and problem != self._problem:
            about = LogEvent.DEADMAN_LOST.extra(error=trouble)
            log.warning("%s; retrying every %.0f s", problem, min(RETRY_SECONDS, self._every), extra=about)
        elif self._problem and not problem:
            log.info("pings to %s succeed again", self._shown, extra=LogEvent.DEADMAN_BACK.extra())
        self._problem = problem
        return not trouble

    def _say_whether_well(self, why: str) -> None:
        """Log a change, not a state."""
        if why and not self._unwell:
            log.error("pings to %s are stopped: %s", self._shown, why, extra=LogEvent.DEADMAN_STOPPED.extra(error=why))
        elif self._unwell and not why:
            words = "pings to %s are resumed: all services are healthy"
            log.info(words, self._shown, extra=LogEvent.DEADMAN_RESUMED.extra())
        self._unwell = why

    async def _ledger_broken(self) -> str:
        try:
            async with asyncio.timeout(LEDGER_SECONDS):
                await self._blocking(self._ledger.order, [Message(DEADMAN, PING, {})])
        except TimeoutError:
            return f"a write to the ledger took longer than {LEDGER_SECONDS:.0f} s"
        except SupervisorError as error:
            return str(error)
        return ""

    async def _pinged(self) -> str:
        """Send one ping; return the error, empty on success."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                answer: HttpResponse = await self._asking(web.send_request, self._network, "GET", self._url)
        except TimeoutError:
            return f"no complete response within {ANSWER_SECONDS:.0f} s"
        except NoHttpResponse as error:
            return str(error)
        taken = HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES
        return "" if taken else f"responded {status_words(answer.status)}"

    def _note(self, trouble: str) -> None:
        now = datetime.now(UTC)
        for message in self._ledger.read(lambda connection: outbox.pending_of_kind(connection, DEADMAN, 1)):
            if trouble:
                self._ledger.write(partial(outbox.postpone, message=message, error=trouble, now=now))
            else:
                self._ledger.step(outbox.mark_sent(message, now), now)
