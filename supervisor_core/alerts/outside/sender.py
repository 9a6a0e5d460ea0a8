"""The service of one receiver: sends rows of the outbox in its format, each at least once.

It needs no chat, and nothing waits for it: whatever the receiver does, the documents wait in the ledger. Each receiver
has a service of its own, so none waits for another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial

from supervisor_core.alerts.outside import documents
from supervisor_core.alerts.outside.documents import WEBHOOK, delivery_id
from supervisor_core.alerts.outside.formats import call_of
from supervisor_core.alerts.outside.transport import SendVerdict, attempt, retry_seconds
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.schema import Receiver
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.workers.context import DaemonContext

PATIENCE = timedelta(days=1)
"""An older document is outdated and is not sent."""

LEFT_BEHIND = 4
"""The most attempts that can hang at once, each in its own thread. More wait for one to end."""

TICK_SECONDS = 10.0
"""The longest sleep: a wall clock may be set."""

SHORTEST_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 60.0
"""The longest pause between attempts while the receiver is down, so it is found again within a minute."""

LAST_SECONDS = 3.0
"""The time at shutdown for the document that is being sent. Without a response, it's sent again with the same id."""

REMOVED = "its receiver was removed from the configuration"

log = logging.getLogger(__name__)


class AlertSender(Service):
    """Works behind the services that `status` lists. One document at a time; those of one alert in their order."""

    name = WEBHOOK

    def __init__(
        self,
        parts: DaemonContext,
        blocking: Blocking,
        receiver: Receiver,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._receiver = receiver
        self._config = parts.host.config
        self.name = WEBHOOK if receiver.label == WEBHOOK else f"receiver {receiver.label}"
        self._ledger = parts.ledger
        self._blocking = blocking
        self._clock = clock
        self._sending = Blocking(LEFT_BEHIND)
        self._woken = asyncio.Event()
        self._failures = 0
        self._pause_until = 0.0
        self._problem = ""
        self._lost = ""
        self._ledger_error = ""

    def wake(self) -> None:
        self._woken.set()

    def problem(self) -> str:
        """The reason why alerts are waiting, or why the last one was dropped."""
        return self._ledger_error or self._problem or self._lost

    async def initialise(self) -> None:
        lost = await self._blocking(self._ledger.read, partial(documents.last_loss, receiver=self._receiver.label))
        self._lost = self._loss(lost) if lost else ""
        labels = [receiver.label for receiver in self._config.alerts.outside]
        for message in await self._blocking(self._ledger.read, partial(documents.strays, receivers=labels)):
            await self._drop(message, REMOVED, datetime.now(UTC))

    async def run(self, stopping: asyncio.Event) -> None:
        """Send what waits, until asked to stop."""
        loop = asyncio.get_running_loop()
        with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake), kinds=(WEBHOOK,)):
            while not stopping.is_set():
                self.pulse.beat()
                self._woken.clear()
                work = asyncio.ensure_future(self._round_or_retry(stopping))
                await wait_until(work, stopping)
                if not work.done():
                    await asyncio.wait({work}, timeout=LAST_SECONDS)
                    work.cancel()
                    return
                self.pulse.beat(within=TICK_SECONDS)
                paused = self._pause_until > self._clock()  # then new documents wait, too
                await wait_until(None if paused else self._woken, stopping, min(work.result(), TICK_SECONDS))

    async def shut_down(self) -> None:
        self._failures, self._pause_until = 0, 0.0

    async def _round_or_retry(self, stopping: asyncio.Event) -> float:
        """Run one round; log a ledger error and retry soon."""
        try:
            seconds = await self.round(stopping)
        except SupervisorError as error:
            if self._ledger_error != str(error):
                log.warning("alerts to %s are waiting: %s", self._receiver.shown, error)
            self._ledger_error = str(error)
            return TICK_SECONDS
        self._ledger_error = ""
        return seconds

    async def round(self, stopping: asyncio.Event) -> float:
        """Send what can be sent now. Returns the seconds until the next look."""
        label = self._receiver.label
        while not stopping.is_set() and self._clock() >= self._pause_until:
            heads = partial(documents.heads, receiver=label, now=datetime.now(UTC))
            waiting = await self._blocking(self._ledger.read, heads)
            if not waiting:
                break
            for message in waiting:
                if stopping.is_set() or not await self._deliver(message):
                    break
        due = await self._blocking(self._ledger.read, partial(documents.next_due, receiver=label))
        left = (due - datetime.now(UTC)).total_seconds() if due else TICK_SECONDS
        return max(left, self._pause_until - self._clock(), SHORTEST_SECONDS)

    async def _deliver(self, message: PendingMessage) -> bool:
        """Send one document; True if the receiver is up, so the next can follow immediately.

        While it's down, later documents of the same alert wait behind this one, all others for the pause.
        """
        payload, shown = message.payload, self._receiver.shown
        card = await self._blocking(self._ledger.read, partial(documents.card_of, alert_id=payload["alert"]))
        delivery = delivery_id(self._ledger.supervisor_id, message.subject)
        crashpoints.reach("webhook.post:before")
        await self._blocking(self._ledger.require)
        call = call_of({**payload, "delivery": delivery, "card": card}, self._receiver, datetime.now(UTC))
        result = await attempt(self._sending, self._config.network, call)
        crashpoints.reach("webhook.post:after")
        now = datetime.now(UTC)
        if result.verdict is SendVerdict.TAKEN:
            await self._blocking(self._ledger.step, outbox.mark_sent(message, now))
            if self._problem:
                log.info("alerts are being delivered to %s again", shown, extra=LogEvent.WEBHOOK_BACK.extra())
            self._failures, self._problem, self._lost = 0, "", ""
            return True
        if result.verdict is SendVerdict.AGAIN:
            pause = min(retry_seconds(self._failures), LONGEST_PAUSE_SECONDS)
            self._failures += 1
            self._pause_until = self._clock() + (result.seconds or pause)
        if result.verdict is SendVerdict.REFUSED or now - message.created_at >= PATIENCE:
            what = f"{payload['event']} of {payload['target']['id']}, alert {payload['alert']}"
            self._problem = ""
            await self._drop(message, f"{result.words} ({what})", now)
            return result.verdict is SendVerdict.REFUSED
        own = retry_seconds(message.attempts)
        seconds = own if result.seconds is None else max(result.seconds, SHORTEST_SECONDS)
        postpone = partial(outbox.postpone, message=message, error=result.words, now=now, seconds=seconds)
        await self._blocking(self._ledger.write, postpone)
        problem = f"alerts to {shown} are waiting: {result.words}"
        if problem != self._problem:
            log.warning("%s; retrying for a day", problem, extra=LogEvent.WEBHOOK_LOST.extra(error=result.words))
        self._problem = problem
        return False

    async def _drop(self, message: PendingMessage, reason: str, now: datetime) -> None:
        """Drop the document. Its row, the log and `status` say so, until another one gets through."""
        if reason is not REMOVED:
            self._lost = self._loss(reason)
        await self._blocking(self._ledger.step, outbox.mark_dropped(message, reason, now))
        about = LogEvent.OUTBOX_DROPPED.extra(kind=message.kind, subject=message.subject, error=reason)
        log.error("%s; `supervisor alerts test` shows what the receiver answers", self._loss(reason), extra=about)

    def _loss(self, reason: str) -> str:
        return f"an alert to {self._receiver.shown} was dropped: {reason}"
