"""The webhook service: sends rows of the outbox as signed documents, each at least once.

It needs no chat, and nothing waits for it: whatever the receiver does, the documents wait in the ledger.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

from supervisor_core.alerts.outside import webhook_documents as webhooks
from supervisor_core.alerts.outside.webhook_documents import (
    PATIENCE,
    WEBHOOK,
    WebhookResult,
    WebhookVerdict,
    body_of,
    delivery_id,
    headers_of,
    judge_answer,
    retry_seconds,
)
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, Service, wait_until
from supervisor_core.config.fields import mask_url
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host import web
from supervisor_core.host.web import HttpResponse, NoHttpResponse
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import PendingMessage
from supervisor_core.workers.context import DaemonContext

LONGEST_SECONDS = 20.0
"""For one try, whatever the receiver does: one that sends a byte now and then never runs into the door's own limits."""

LEFT_BEHIND = 4
"""Tries that may hang at the same time, each in a thread of its own, before the next ones wait for an end of theirs."""

TICK_SECONDS = 10.0
"""The longest sleep: a wall clock may be set."""

SHORTEST_SECONDS = 0.05
LONGEST_PAUSE_SECONDS = 60.0
"""The longest pause between attempts while the receiver is down, so it is found again within a minute."""

LAST_SECONDS = 3.0
"""The time at the end for the document that is being sent; without a response it is sent again, with the same id."""

log = logging.getLogger(__name__)


def why_not(config: SupervisorConfig) -> str:
    """The reason why this host sends nothing; empty if it does."""
    return "" if config.alerts.webhook.url else "alerts.webhook.url is not set"


class Webhook(Service):
    """Works behind the services that `status` lists. One document at a time; those of one alert in their order."""

    name = "webhook"

    def __init__(self, parts: DaemonContext, blocking: Blocking, clock: Callable[[], float] = time.monotonic) -> None:
        config = parts.host.config.alerts.webhook
        super().__init__()
        self._ledger = parts.ledger
        self._blocking = blocking
        self._clock = clock
        self._asking = Blocking(LEFT_BEHIND)
        self._network = parts.host.config.network
        self._url = config.url.get_secret_value()
        self._secret = config.secret.get_secret_value()
        self._shown = mask_url(self._url)
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
        lost = await self._blocking(self._ledger.read, webhooks.last_loss)
        self._lost = self._loss(lost) if lost else ""

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
        """Send what may be sent now; in how many seconds to look again."""
        while not stopping.is_set() and self._clock() >= self._pause_until:
            now = datetime.now(UTC)
            heads = await self._blocking(self._ledger.read, partial(webhooks.heads, now=now))
            if not heads:
                break
            for message in heads:
                if stopping.is_set() or not await self._deliver(message):
                    break
        return await self._until_next()

    async def _until_next(self) -> float:
        due = await self._blocking(self._ledger.read, webhooks.next_due)
        left = (due - datetime.now(UTC)).total_seconds() if due else TICK_SECONDS
        return max(left, self._pause_until - self._clock(), SHORTEST_SECONDS)

    async def _deliver(self, message: PendingMessage) -> bool:
        """Send one document; True if the receiver is up, so the next can follow immediately."""
        card = await self._blocking(self._ledger.read, partial(webhooks.card_of, alert_id=message.payload["alert"]))
        delivery = delivery_id(self._ledger.supervisor_id, message.subject)
        body = body_of({**message.payload, "delivery": delivery, "card": card})
        crashpoints.reach("webhook.post:before")
        self._ledger.require()
        judged = await self._asked(body, delivery)
        crashpoints.reach("webhook.post:after")
        now = datetime.now(UTC)
        if judged.verdict is WebhookVerdict.TAKEN:
            await self._blocking(self._ledger.step, outbox.mark_sent(message, now))
            self._well()
            return True
        if judged.verdict is WebhookVerdict.REFUSED:
            await self._given_up(message, judged, now)
            return True
        self._pause(judged)
        if now - message.created_at >= PATIENCE:
            await self._given_up(message, judged, now)
        else:
            await self._later(message, judged, now)
        return False

    async def _asked(self, body: bytes, delivery: str) -> WebhookResult:
        now = datetime.now(UTC)
        headers = headers_of(body, delivery, self._secret, now)
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                answer: HttpResponse = await self._asking(
                    web.send_request, self._network, "POST", self._url, body, headers
                )
        except TimeoutError:
            return WebhookResult(WebhookVerdict.AGAIN, f"no complete response within {LONGEST_SECONDS:.0f} s")
        except NoHttpResponse as error:
            return WebhookResult(WebhookVerdict.AGAIN, str(error))
        return judge_answer(answer.status, answer.retry_after, now)

    def _well(self) -> None:
        if self._problem:
            log.info("alerts are being delivered to %s again", self._shown, extra=LogEvent.WEBHOOK_BACK.extra())
        self._failures, self._problem, self._lost = 0, "", ""

    def _pause(self, judged: WebhookResult) -> None:
        """The receiver has other troubles: nothing is sent for a while, longer each time or as long as it asks."""
        pause = min(retry_seconds(self._failures), LONGEST_PAUSE_SECONDS)
        self._failures += 1
        self._pause_until = self._clock() + (judged.seconds or pause)

    async def _given_up(self, message: PendingMessage, judged: WebhookResult, now: datetime) -> None:
        """Drop the document. Its row, the log and `status` say so, until another one gets through."""
        what = f"{message.payload['event']} of {message.payload['target']['id']}, alert {message.payload['alert']}"
        reason = f"{judged.words} ({what})"
        await self._blocking(self._ledger.step, outbox.mark_dropped(message, reason, now))
        self._problem, self._lost = "", self._loss(reason)
        about = LogEvent.OUTBOX_DROPPED.extra(kind=message.kind, subject=message.subject, error=reason)
        log.error("%s; check alerts.webhook.url and the receiver", self._lost, extra=about)

    def _loss(self, reason: str) -> str:
        return f"an alert to {self._shown} was dropped: {reason}"

    async def _later(self, message: PendingMessage, judged: WebhookResult, now: datetime) -> None:
        """Those of its alert wait behind it; the others until the receiver had a moment."""
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
