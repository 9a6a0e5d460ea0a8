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
from supervisor_core.alerts.outside.formats.table import call_of
from supervisor_core.alerts.outside.transport import SendResult, SendVerdict, attempt, retry_seconds
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.alert_settings import Receiver
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

log = logging.getLogger(__name__)


REMOVED = "its receiver was removed from the configuration"


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
        self._config = parts.host.config.alerts
        self.name = WEBHOOK if receiver.label == WEBHOOK else f"receiver {receiver.label}"
        self._ledger = parts.ledger
        self._blocking = blocking
        self._clock = clock
        self._asking = Blocking(LEFT_BEHIND)
        self._network = parts.host.config.network
        self._shown = receiver.shown
        self._woken = asyncio.Event()
        self._failures = 0
        self._pause_until = 0.0
        self._problem = ""
        self._lost = ""
        self._unkept = ""
        """The error of the ledger."""

    def wake(self) -> None:
        """There is something new."""
        self._woken.set()

    def problem(self) -> str:
        """The reason why alerts are waiting, or why the last one was dropped."""
        return self._unkept or self._problem or self._lost

    async def initialise(self) -> None:
        lost = await self._blocking(self._ledger.read, partial(documents.last_loss, receiver=self._receiver.label))
        self._lost = self._loss(lost) if lost else ""
        known = [each.label for each in self._config.outside]
        for message in await self._blocking(self._ledger.read, partial(documents.strays, receivers=known)):
            await self._drop(message, REMOVED, datetime.now(UTC))

    async def run(self, stopping: asyncio.Event) -> None:
        """Send what waits, until asked to stop."""
        loop = asyncio.get_running_loop()
        with self._ledger.listening(lambda: loop.call_soon_threadsafe(self.wake), kinds=(WEBHOOK,)):
            while not stopping.is_set():
                self.pulse.beat()
                self._woken.clear()
                work = asyncio.ensure_future(self._careful_round(stopping))
                await wait_until(work, stopping)
                if not work.done():
                    await asyncio.wait({work}, timeout=LAST_SECONDS)
                    work.cancel()
                    return
                await self._sleep(stopping, work.result())

    async def shut_down(self) -> None:
        """Reset the state for the next start."""
        self._failures, self._pause_until = 0, 0.0

    async def _careful_round(self, stopping: asyncio.Event) -> float:
        """Run one round; log a ledger error and retry soon."""
        try:
            seconds = await self.round(stopping)
        except SupervisorError as error:
            if self._unkept != str(error):
                log.warning("alerts to %s are waiting: %s", self._shown, error)
            self._unkept = str(error)
            return TICK_SECONDS
        self._unkept = ""
        return seconds

    async def round(self, stopping: asyncio.Event) -> float:
        """Send what can be sent now. Returns the seconds until the next look."""
        while not stopping.is_set() and self._clock() >= self._pause_until:
            now = datetime.now(UTC)
            heads = await self._blocking(
                self._ledger.read, partial(documents.heads, receiver=self._receiver.label, now=now)
            )
            if not heads:
                break
            for message in heads:
                if stopping.is_set() or not await self._deliver(message):
                    break
        return await self._until_next()

    async def _until_next(self) -> float:
        due = await self._blocking(self._ledger.read, partial(documents.next_due, receiver=self._receiver.label))
        left = (due - datetime.now(UTC)).total_seconds() if due else TICK_SECONDS
        return max(left, self._pause_until - self._clock(), SHORTEST_SECONDS)

    async def _deliver(self, message: PendingMessage) -> bool:
        """Send one document; True if the receiver is up, so the next can follow immediately."""
        card = await self._blocking(self._ledger.read, partial(documents.card_of, alert_id=message.payload["alert"]))
        delivery = delivery_id(self._ledger.supervisor_id, message.subject)
        told = {**message.payload, "delivery": delivery, "card": card}
        crashpoints.reach("webhook.post:before")
        self._ledger.require()
        call = call_of(told, self._receiver, datetime.now(UTC))
        judged = await attempt(self._asking, self._network, call)
        crashpoints.reach("webhook.post:after")
        now = datetime.now(UTC)
        if judged.verdict is SendVerdict.TAKEN:
            await self._blocking(self._ledger.step, outbox.mark_sent(message, now))
            self._well()
            return True
        if judged.verdict is SendVerdict.REFUSED:
            await self._given_up(message, judged, now)
            return True
        self._pause(judged)
        if now - message.created_at >= PATIENCE:
            await self._given_up(message, judged, now)
        else:
            await self._later(message, judged, now)
        return False

    def _well(self) -> None:
        if self._problem:
            log.info("alerts are being delivered to %s again", self._shown, extra=LogEvent.WEBHOOK_BACK.extra())
        self._failures, self._problem, self._lost = 0, "", ""

    def _pause(self, judged: SendResult) -> None:
        """The receiver is unavailable: back off, or wait as long as it asks."""
        pause = min(retry_seconds(self._failures), LONGEST_PAUSE_SECONDS)
        self._failures += 1
        self._pause_until = self._clock() + (judged.seconds or pause)

    async def _given_up(self, message: PendingMessage, judged: SendResult, now: datetime) -> None:
        """Drop the document. Its row, the log and `status` say so, until another one gets through."""
        what = f"{message.payload['event']} of {message.payload['target']['id']}, alert {message.payload['alert']}"
        reason = f"{judged.words} ({what})"
        self._problem, self._lost = "", self._loss(reason)
        await self._drop(message, reason, now)

    async def _drop(self, message: PendingMessage, reason: str, now: datetime) -> None:
        await self._blocking(self._ledger.step, outbox.mark_dropped(message, reason, now))
        about = LogEvent.OUTBOX_DROPPED.extra(kind=message.kind, subject=message.subject, error=reason)
        log.error("%s; `supervisor alerts test` shows what the receiver answers", self._loss(reason), extra=about)

    def _loss(self, reason: str) -> str:
        return f"an alert to {self._shown} was dropped: {reason}"

    async def _later(self, message: PendingMessage, judged: SendResult, now: datetime) -> None:
        """Later documents of the same alert wait behind it; others wait for the backoff."""
        own = retry_seconds(message.attempts)
        seconds = own if judged.seconds is None else max(judged.seconds, SHORTEST_SECONDS)
        postpone = partial(outbox.postpone, message=message, error=judged.words, now=now, seconds=seconds)
        await self._blocking(self._ledger.write, postpone)
        problem = f"alerts to {self._shown} are waiting: {judged.words}"
        if problem != self._problem:
            log.warning("%s; retrying for a day", problem, extra=LogEvent.WEBHOOK_LOST.extra(error=judged.words))
        self._problem = problem

    async def _sleep(self, stopping: asyncio.Event, seconds: float) -> None:
        """Sleep until something is due or new; while the receiver is down, new documents wait, too."""
        self.pulse.beat(within=TICK_SECONDS)
        paused = self._pause_until > self._clock()
        await wait_until(None if paused else self._woken, stopping, min(seconds, TICK_SECONDS))
