"""Delivery from the outbox to Slack, in the order of each channel and within Slack's rate limits.

A row stays pending until Slack has its newest version. So an outage or a crash loses nothing, and several orders of one
message are sent once, with its current content.

One message is sent after the other, so that the limits hold. A call that takes longer than a moment is left behind: its
channel waits for it, and no other does.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.access.people import UnverifiedError
from bot.outbound.messages import HOME, KINDS, WHISPER, with_thread
from bot.outbound.rate_limits import HeldError, gates, hold_key, method
from bot.outbound.sender import MessageSender, UnreachableError
from bot.outbound.slack_api import UploadError
from bot.outbound.slack_errors import ErrorKind, explain, failure_text, kind_of, method_of, retry_after
from bot.pools import quick
from supervisor_core.alerts.messages import CALL
from supervisor_core.alerts.rows import ALERT
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.common.service import wait_until
from supervisor_core.intake.approvals.rows import ASKED
from supervisor_core.jobs.rows import CARD
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import FILE, PendingMessage

LOOK_SECONDS = 2.0
"""The interval of polling, for messages that another process orders."""

SHORTEST_SECONDS = 0.05
"""The shortest delay between two rounds, so that no rounding becomes a busy loop."""

MOST_FAILED = 1000
"""Messages whose last failure is remembered; beyond them, the oldest failure is forgotten."""

MOMENT_SECONDS, SHORT_MOMENT_SECONDS = 1.0, 0.1
"""The time that a call may hold up all others; the short one for an App Home page, and while another call of its method
is pending."""

UNDER_WAY, UNDER_WAY_OF_ONE = 16, 4
"""Pending calls, in total and of one method. Further calls wait."""

LAST_SECONDS = 2.0
"""The time for pending calls when the service stops; the next run sends the rest."""

CLOSED_SECONDS = 60.0
"""The pause of a channel that refuses posts, for messages that can go nowhere else: somebody must invite the bot."""

DOUBTFUL_ATTEMPTS, HOPELESS_ATTEMPTS = 10, 40
"""The tries after which temporary errors are blamed on the message itself: the first number if other messages got
through meanwhile, else the second, after about 15 minutes. Until then its channel waits behind it."""

EVERYTHING = "*"

PARENTS = frozenset({CARD, ASKED, ALERT})
"""Kinds of messages that have others in their thread."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that hasn't returned, and what it blocks."""

    outbox_id: int
    lane: str
    method: str


@dataclass(frozen=True, slots=True)
class Wait:
    """The reason why a message isn't sent yet."""

    seconds: float
    words: str
    holds: bool
    """True if the later messages of its channel wait, too, because a channel is posted in order."""


class Delivery:
    """Sends pending messages. `resolve`: finds out who is on call, for an escalation."""

    def __init__(
        self,
        sender: MessageSender,
        *,
        resolve: Callable[[PendingMessage], Awaitable[PendingMessage]] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._sender = sender
        self._ledger, self._pace, self._now = sender.ledger, sender.pace, sender.now
        self._resolve = resolve
        self._clock = clock
        self.alive: Callable[[float], None] = lambda _: None
        """Called in each round, with the longest time until the next one, work excluded."""
        self._woken = asyncio.Event()
        self._problem = ""
        self._sent_at = 0.0
        self._failed_at: dict[int, float] = {}
        self._closed_until: dict[str, float] = {}
        self._pending: dict[asyncio.Task[Wait | None], PendingCall] = {}

    @property
    def problem(self) -> str:
        """The reason why messages wait; empty if nothing is wrong."""
        return self._problem

    def wake(self) -> None:
        """Start a round now, because a message was ordered."""
        self._woken.set()

    def back(self) -> None:
        """Note that Slack is reachable: messages that waited for it are due now."""
        self._pace.well(EVERYTHING)
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Deliver until asked to stop."""
        try:
            while not stopping.is_set():
                self._woken.clear()
                seconds = await self._safe_round(stopping)
                self.alive(seconds)
                await wait_until(self._woken, stopping, seconds)
        finally:
            await self._close()

    async def _close(self) -> None:
        """End the pending calls."""
        if self._pending:
            await asyncio.wait(self._pending, timeout=LAST_SECONDS)
        left = tuple(self._pending)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    async def _safe_round(self, stopping: asyncio.Event) -> float:
        """Run one round; report a ledger error and retry soon."""
        try:
            return await self.round(stopping)
        except SupervisorError as error:
            self._problem = str(error)
            log.warning("%s", error)
            return LOOK_SECONDS

    async def round(self, stopping: asyncio.Event | None = None) -> float:
        """Send the messages that may be sent now; return the seconds until the next round."""
        soonest, problem = LOOK_SECONDS, ""
        for queue in self._queues(await self._waiting()):
            for message in queue:
                if stopping is not None and stopping.is_set():
                    return 0.0
                self.alive(0.0)
                wait = self._delay(message)
                if wait is None:
                    wait = await self._send_soon(message)
                if wait is None and message.kind in PARENTS:
                    soonest = SHORTEST_SECONDS  # its replies have waited for it
                if wait is not None:
                    soonest = min(soonest, max(wait.seconds, SHORTEST_SECONDS))
                    problem = problem or wait.words
                    if wait.holds:
                        break
        self._problem = problem
        return soonest

    def _is_blocked(self, message: PendingMessage) -> bool:
        lanes, by = self._pending.values(), method(message)
        own = any(lane.outbox_id == message.outbox_id or lane.lane == _line(message) != "" for lane in lanes)
        return own or len(lanes) >= UNDER_WAY or sum(lane.method == by for lane in lanes) >= UNDER_WAY_OF_ONE

    async def _send_soon(self, message: PendingMessage) -> Wait | None:
        """Send a message; if that takes too long, leave the call pending and go on."""
        by = method(message)
        # A page looks at all workers.
        slow = message.kind == HOME or any(lane.method == by for lane in self._pending.values())
        task = asyncio.create_task(self._deliver(message), name=f"{message.kind} {message.subject}")
        self._pending[task] = PendingCall(message.outbox_id, _line(message), by)
        await asyncio.wait({task}, timeout=SHORT_MOMENT_SECONDS if slow else MOMENT_SECONDS)
        if task.done():
            del self._pending[task]
            return task.result()
        task.add_done_callback(self._end_late)
        return Wait(LOOK_SECONDS, "", holds=True)

    def _end_late(self, task: asyncio.Task[Wait | None]) -> None:
        """Check the messages that waited for it now."""
        self._pending.pop(task, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._problem = str(error)
            log.warning("%s: %s", task.get_name(), error)
        self.wake()

    def _queues(self, waiting: Sequence[PendingMessage]) -> list[list[PendingMessage]]:
        """Order the waiting messages by channel, each channel's posts in their order.

        Channels with the fewest attempts come first, so a failing one doesn't delay the others. Then those with the
        oldest turn, so two busy cards leave the others their share of Slack's rate."""
        queues: dict[object, list[PendingMessage]] = {}
        for message in waiting:
            queues.setdefault(_line(message) or message.outbox_id, []).append(message)
        return sorted(queues.values(), key=lambda queue: self._turn(queue[0]))

    def _turn(self, message: PendingMessage) -> tuple[int, float]:
        """The sort key of a queue: fewest attempts, then the longest time since its last turn."""
        return message.attempts, self._pace.free_at(gates(message)[0])

    def reopen(self, channel: str) -> None:
        """Post to this channel again: the bot was invited."""
        self._closed_until.pop(channel, None)
        self.wake()

    async def _waiting(self) -> list[PendingMessage]:
        closed = {channel: until for channel, until in self._closed_until.items() if until > self._clock()}
        self._closed_until = closed
        now, has_fallback = self._now(), self._has_fallback()

        def look(connection: Connection) -> list[PendingMessage]:
            pending = outbox.pending_messages(connection, KINDS, now, tuple(closed), has_fallback=has_fallback)
            return [with_thread(connection, message) for message in pending]

        return await quick(self._ledger.read, look)

    def _has_fallback(self) -> bool:
        """True if there is a fallback channel that isn't known to refuse posts."""
        return bool(self._sender.fallback) and self._sender.fallback not in self._closed_until

    def _delay(self, message: PendingMessage) -> Wait | None:
        if self._is_blocked(message):
            return Wait(LOOK_SECONDS, message.last_error, holds=True)
        can_go_elsewhere = message.payload.get("user") or (self._has_fallback() and not message.payload.get("alone"))
        if _place(message) in self._closed_until and not can_go_elsewhere:
            return Wait(CLOSED_SECONDS, message.last_error, holds=False)
        own = (message.due_at - self._now()).total_seconds()
        if own > 0:
            return Wait(own, message.last_error, holds=message.attempts == 0)
        by = method(message)
        pace = self._pace.wait(gates(message), EVERYTHING, by, hold_key(message, by))
        return Wait(pace, message.last_error, holds=True) if pace > 0 else None

    async def _deliver(self, message: PendingMessage) -> Wait | None:
        """Send one message. Its failure stops no other message."""
        by = method(message)
        try:
            await self._sender.send(await self._resolve(message) if self._resolve and message.kind == CALL else message)
        except SlackApiError as error:
            words, called = explain(error), method_of(error) or by
            if kind_of(error) in (ErrorKind.RETRY, ErrorKind.RATE_LIMIT, ErrorKind.PERMISSION):
                asked = retry_after(error)
                for each in {by, called}:  # it may have ended with another method
                    self._pace.hold(each if asked is None else hold_key(message, each), asked)
                return await self._hold(message, f"Slack responds {words} to {called}")
            return await self._retry_later(message, f"Slack refuses {called}: {words}")
        except HeldError as error:
            return await self._hold(message, str(error))
        except UnverifiedError as error:
            self._pace.hold(hold_key(message, by), error.seconds or None)
            return await self._hold(message, str(error))
        except (ClientError, OSError, TimeoutError) as error:
            self._pace.hold(_unreached(error, hold_key(message, by)))
            return await self._hold(message, f"Slack can't be reached: {failure_text(error)}")
        except UnreachableError as error:
            self._closed_until |= dict.fromkeys(error.closed, self._clock() + CLOSED_SECONDS)
            return await self._retry_later(message, str(error))
        except UploadError as error:
            return await self._retry_later(message, str(error))
        except SupervisorError:
            raise  # the ledger: no result could be stored
        except Exception as error:
            log.exception("%s %s can't be sent", message.kind, message.subject)
            return await self._retry_later(message, describe(error))
        self._note_success(message, by)
        return None

    def _note_success(self, message: PendingMessage, by: str) -> None:
        self._pace.well(EVERYTHING, by, hold_key(message, by))
        self._sent_at = self._clock()
        self._failed_at.pop(message.outbox_id, None)

    async def _hold(self, message: PendingMessage, reason: str) -> Wait:
        """Retry after a temporary error, while its channel waits; after too many tries, alone."""
        now = self._clock()
        before = self._failed_at.get(message.outbox_id, now)
        self._failed_at[message.outbox_id] = now
        if len(self._failed_at) > MOST_FAILED:
            del self._failed_at[min(self._failed_at, key=self._failed_at.__getitem__)]
        others_got_through = self._sent_at > before
        if message.attempts >= (DOUBTFUL_ATTEMPTS if others_got_through else HOPELESS_ATTEMPTS):
            return await self._retry_later(message, reason)
        await self._postpone(message, reason, 0.0)
        return Wait(SHORTEST_SECONDS, reason, holds=True)

    async def _retry_later(self, message: PendingMessage, reason: str) -> Wait:
        """Retry this message alone, after a delay that grows each time."""
        await self._postpone(message, reason, None)
        return Wait(LOOK_SECONDS, reason, holds=False)

    async def _postpone(self, message: PendingMessage, reason: str, seconds: float | None) -> None:
        log.warning("%s %s is waiting: %s", message.kind, message.subject, reason)
        now = self._now()
        work = partial(outbox.postpone, message=message, error=reason, now=now, seconds=seconds)
        await asyncio.wrap_future(self._ledger.submit(work))


def _place(message: PendingMessage) -> str:
    """The channel in whose order a message is posted; none for edits and private messages."""
    if message.kind == WHISPER or message.address.get("ts"):
        return ""
    return str(message.payload.get("channel") or "")


def _unreached(error: Exception, by: str) -> str:
    """The key to hold: a call that times out says nothing about other methods."""
    return by if isinstance(error, TimeoutError) else EVERYTHING


def _line(message: PendingMessage) -> str:
    """The queue of a message: the posts of a channel, or its files, which may take long; none for edits and private
    messages."""
    place = _place(message)
    return f"files {place}" if message.kind == FILE and place else place
