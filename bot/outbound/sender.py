"""Sends one message: edits or posts it, shows it to one person only, or uploads a file."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.outbound.channel_health import ChannelHealth
from bot.outbound.content import MessageComposer
from bot.outbound.home import PageComposer, publish_page
from bot.outbound.messages import HOME, WHISPER, DroppedError, is_orphaned, update_if_queued
from bot.outbound.rate_limits import (
    EPHEMERAL,
    EPHEMERAL_GATES,
    PAGE_GATES,
    POST,
    UPLOADS,
    HeldError,
    Pace,
    edit_gates,
    gates,
    hold_key,
    post_gates,
)
from bot.outbound.slack_api import Address, SlackApi, UploadError
from bot.outbound.slack_errors import ErrorKind, error_code, explain, is_temporary, kind_of
from bot.pools import quick, slow
from bot.views.blocks import Content, fingerprint, with_hint, without_blocks
from bot.views.cards.headlines import MOMENT
from bot.views.cards.notices import not_a_member_hint
from bot.views.files import EMPTY, UNREADABLE, Attachment, cut, file_text
from supervisor_core.common import crashpoints
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.times import utc_now
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import CARD, DETAILS, FILE, PendingMessage
from supervisor_core.storage.store import Ledger

T = TypeVar("T")

ANNOUNCED_FOR = timedelta(days=1)
"""The time for which a command from elsewhere is announced, and a private message or a reply waits for its place."""

CLOCKS_SECONDS = 120.0
"""The clock difference to Slack that finding a message allows for."""

THREADS_ONLY = "restricted_action_thread_only_channel"
"""A channel that takes replies, so it isn't closed."""

UPLOAD_TRIES = 5
"""Tries before a file whose bytes Slack rejects is posted as text."""

log = logging.getLogger(__name__)


REFUSED_TRIES = 5
"""Tries, over a day at least, before a message is dropped that Slack refuses as plain text, too."""


class UnreachableError(Exception):
    """The message can't be posted anywhere right now. `closed`: the tried channels that take no post at all."""

    def __init__(self, message: str, closed: Collection[str]) -> None:
        super().__init__(message)
        self.closed = closed


class MessageSender:
    """Sends one message at a time. Failures are raised.

    `fallback`: the channel for what no other place takes; `compose_page`: the page of one person's App Home;
    `on_refusal`: called in a transaction when a channel refuses a post, with the channel and Slack's error code;
    `channels`: learns which channels take posts.
    """

    def __init__(
        self,
        ledger: Ledger,
        slack: SlackApi,
        bot_name: str,
        *,
        pace: Pace | None = None,
        fallback: str = "",
        composer: MessageComposer | None = None,
        compose_page: PageComposer | None = None,
        read_report: Callable[[str, str], str] = lambda *_: "",
        on_refusal: Callable[..., object] | None = None,
        channels: ChannelHealth | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self.ledger = ledger
        self.pace = pace or Pace()
        self.now = now
        self._slack = slack
        self._bot_name = bot_name
        self.fallback = fallback
        self._composer = composer or MessageComposer()
        self._compose_page = compose_page
        self._read_report = read_report
        self._on_refusal = on_refusal
        self._channels = channels

    async def send(self, message: PendingMessage) -> None:
        """Deliver one message with its current content, or drop it if nobody is waiting for it or Slack refuses it."""
        await quick(self.ledger.require)
        try:
            if message.kind == WHISPER:
                await self._send_plain_if_refused(message, message.payload["content"], self._whisper)
                await self._mark_sent(message, None)
            elif message.kind == HOME and self._compose_page is not None:
                page = await self._compose_page(message)
                self.pace.used(PAGE_GATES)
                await publish_page(self._slack, message.subject, page)
                await self._mark_sent(message, None)
            elif is_orphaned(message):
                await self._drop(message, "its parent message was never posted")
            elif message.kind == FILE:
                await self._mark_sent(message, await self._find(message) or await self._upload(message))
            else:
                await self._send_content(message)
        except (DroppedError, UnreachableError, SlackApiError) as error:
            await self._drop_or_raise(message, error)

    async def _drop_or_raise(self, message: PendingMessage, error: Exception) -> None:
        """Drop a message that can't be delivered; raise the error if it may be delivered later."""
        private = message.payload.get("below") or message.payload.get("alone")
        reason = str(error)
        if isinstance(error, SlackApiError):
            if not self._is_old(message) or message.attempts < REFUSED_TRIES or kind_of(error) is not ErrorKind.OTHER:
                raise error
            reason = f"Slack refuses it: {explain(error)}"
        elif isinstance(error, UnreachableError) and not (private and self._is_old(message)):
            raise error
        about = LogEvent.OUTBOX_DROPPED.extra(kind=message.kind, subject=message.subject, error=reason)
        log.error("%s %s can't be delivered: %s", message.kind, message.subject, reason, extra=about)
        await self._drop(message, reason)

    async def _send_content(self, message: PendingMessage) -> None:
        content = await self._read(partial(self._composer.content, message=message, now=(now := self.now())))
        unseen = bool(message.payload.get("announced")) and not message.address.get("ts")
        if content is None or (unseen and self._is_old(message)):
            why = "it adds nothing" if message.kind == DETAILS else "nobody is waiting for it"
            await self._drop(message, why)
            return
        send, known = self._edit_or_post, await self._find(message)
        await self._mark_sent(message, await self._send_plain_if_refused(message, content, send, known), now)

    async def _send_plain_if_refused(
        self, message: PendingMessage, content: Content, send: Callable[..., Awaitable[T]], *more: object
    ) -> T:
        """Send the content; where Slack refuses it, the same once more as plain text, without what may be refused."""
        try:
            return await send(message, content, *more)
        except SlackApiError as error:
            if kind_of(error) is not ErrorKind.OTHER:
                raise
            kind, subject = message.kind, message.subject
            log.error("Slack refuses %s %s: %s; it's sent as plain text", kind, subject, explain(error))  # noqa: TRY400
            if "metadata" in error_code(error):
                message = replace(message, payload={**message.payload, "unmarked": True})
        return await send(message, without_blocks(content), *more)

    async def _edit_or_post(
        self, message: PendingMessage, content: Content, address: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """Edit the message, unless it's a new card that shows that already; post it if it has no address or is gone."""
        shown = fingerprint(content)
        is_new_card = message.kind == CARD and self.now() - message.created_at < MOMENT
        if address.get("ts"):
            if (is_new_card and address.get("shown") == shown) or await self._edit(message, content, address):
                return {**address, "shown": shown}
            self._require_free(message, POST)
        return {**await self._post(message, content), "shown": shown}

    async def _edit(self, message: PendingMessage, content: Content, address: Mapping[str, Any]) -> bool:
        """Edit the message; False if the original is gone."""
        self.pace.used(edit_gates(message))
        home = str(message.payload["channel"])
        at_home = address["channel"] == home or home.startswith(("U", "W"))  # a person: their direct messages
        try:
            crashpoints.reach("message.edit:before")
            await quick(self.ledger.require)
            await self._slack.edit(address, with_hint(content, "" if at_home else self._hint(home)))
            crashpoints.reach("message.edit:after")
        except SlackApiError as error:
            if kind_of(error) is not ErrorKind.GONE:
                raise
            log.warning("%s %s was deleted (%s); it's posted again", message.kind, message.subject, error_code(error))
            return False
        return True

    async def _post(self, message: PendingMessage, content: Content) -> Address:
        """Post to the first place that accepts it: its channel, its person, or the fallback channel."""
        self.pace.used(post_gates(message))
        home, refused, closed = str(message.payload["channel"]), "", list[str]()
        for channel, thread in self._destinations(message):
            hint = self._hint(home) if channel != home else ""
            loud = bool(thread and message.payload.get("broadcast"))
            post = partial(
                self._slack.post,
                content=with_hint(content, hint),
                subject="" if message.payload.get("unmarked") else message.subject,
                broadcast=loud,
            )
            try:
                address = await self._attempt(message, "post", post, await self._channel_id(channel), thread)
            except SlackApiError as error:
                if kind_of(error) is not ErrorKind.GONE:
                    raise
                code, reason = error_code(error), explain(error)
                refused = refused or reason
                log.warning("%s %s can't be posted in %s: %s", message.kind, message.subject, channel, reason)
                if thread is None and code != THREADS_ONLY:
                    closed.append(channel)
                    if self._channels is not None:
                        self._channels.record_refusal(channel, code)
                    if report := self._on_refusal:
                        await self._write(partial(report, channel=channel, refused=code))
            else:
                if self._channels is not None:
                    self._channels.record_post(channel)
                return address
        await self._note_address(message, {})
        raise UnreachableError(
            f"Can't post in the channel {home}: {refused}. If the bot isn't in it: /invite @{self._bot_name}", closed
        )

    async def _attempt(
        self,
        message: PendingMessage,
        step: str,
        call: Callable[[str, str | None], Awaitable[T]],
        place: str,
        thread: str | None,
        **more: str,
    ) -> T:
        """Record an attempt and make its call: if the answer is lost, the message is looked for."""
        attempt = {"trying": place, "thread_ts": thread, "since": self.now().timestamp(), **more}
        await self._note_address(message, attempt)
        crashpoints.reach(f"message.{step}:before")
        await quick(self.ledger.require)
        try:
            result = await call(place, thread)
        except SlackApiError as error:
            if kind_of(error) is not ErrorKind.RETRY:  # an answer: nothing is shown
                await self._note_address(message, {})
            raise
        crashpoints.reach(f"message.{step}:after")
        return result

    async def _find(self, message: PendingMessage) -> Mapping[str, Any]:
        """The address of the message; after a call whose answer was lost, found by reading the channel."""
        attempt = message.address
        if not attempt.get("trying"):
            return attempt
        place, file = str(attempt["trying"]), str(attempt.get("file") or "")
        since = float(attempt.get("since", 0.0)) - CLOCKS_SECONDS
        try:
            return await self._slack.find(place, attempt.get("thread_ts"), message.subject, since, file) or {}
        except SlackApiError as error:
            if is_temporary(error):
                raise
            why = f"{explain(error)}; grant channels:history so the app can check"
        except LookupError as error:
            why = str(error)
        kind, subject = message.kind, message.subject
        log.warning("%s %s may be posted twice: the first attempt's result is unknown (%s)", kind, subject, why)
        return {}

    async def _whisper(self, message: PendingMessage, content: Content) -> None:
        """Send to one person: by their request's response URL, else in the channel, else in their direct messages."""
        payload = message.payload
        self.pace.used(gates(message))
        url, user = payload.get("response_url"), str(payload["user"])
        if url:
            if await self._slack.answer(str(url), content, replace=bool(payload.get("replace"))):
                return
            self._require_free(message, EPHEMERAL)
            self.pace.used(EPHEMERAL_GATES)
        try:
            await self._slack.whisper(str(payload["channel"]), user, payload.get("thread_ts"), content)
        except SlackApiError as error:
            if kind_of(error) is not ErrorKind.GONE:
                raise
            first = explain(error)
        else:
            return
        self._require_free(message, POST)
        try:
            await self._slack.post(await self._slack.direct(user), None, content, message.subject)
        except SlackApiError as error:
            if kind_of(error) is not ErrorKind.GONE:
                raise
            raise DroppedError(f"no response can reach {user}: {first}, and directly: {explain(error)}") from None

    async def _upload(self, message: PendingMessage) -> Mapping[str, Any]:
        """Upload the file, or post its text if Slack accepts no file."""
        file = await self._load_file(message)
        self.pace.used((UPLOADS,))
        refused = "" if file.data else UNREADABLE if message.payload.get("report") else EMPTY
        for channel, thread in self._destinations(message) if file.data else ():
            try:
                address = await self._share(message, file, channel, thread)
            except SlackApiError as error:
                if is_temporary(error):
                    raise
                refused = refused or error_code(error)
                why = explain(error)
                log.warning("%s %s can't be uploaded to %s: %s", message.kind, message.subject, channel, why)
                if kind_of(error) is not ErrorKind.GONE:
                    break
            except UploadError as error:
                if message.attempts < UPLOAD_TRIES:
                    raise
                refused = str(error)
                break
            else:
                self.pace.used(post_gates(message))
                return address
        self._require_free(message, POST)
        return await self._send_plain_if_refused(message, file_text(file, refused), self._post)

    async def _share(
        self, message: PendingMessage, file: Attachment, channel: str, thread: str | None
    ) -> Mapping[str, Any]:
        """Upload to one place. Only sharing is recorded, because a file is invisible until then."""
        place = await self._channel_id(channel)
        file_id = await self._slack.upload(file)
        await self._attempt(message, "upload", partial(self._slack.share, file_id, file), place, thread, file=file_id)
        return {"channel": place, "file": file_id}

    async def _load_file(self, message: PendingMessage) -> Attachment:
        path = message.payload.get("report")
        if not path:
            return Attachment.of(message.payload)
        report = await self._read(partial(self._composer.report, message=message))
        digest = str(message.payload.get("sha256") or "")
        return replace(report, content=cut(await slow(self._read_report, str(path), digest)))

    def _destinations(self, message: PendingMessage) -> list[tuple[str, str | None]]:
        """Return the channels and threads to try, the best first.

        A person stands for their direct messages; a reply to a closed thread goes to its channel."""
        home, thread = str(message.payload["channel"]), message.payload.get("thread_ts")
        person, last = str(message.payload.get("user") or ""), "" if message.payload.get("alone") else self.fallback
        beside = [home] if message.payload.get("below") else []
        others = [place for place in (person, last) if place != home]
        places = [(home, thread), *((place, None) for place in (*beside, *others))]
        return list(dict.fromkeys(place for place in places if place[0]))

    async def _channel_id(self, channel: str) -> str:
        return await self._slack.direct(channel) if channel.startswith(("U", "W")) else channel

    def _hint(self, channel: str) -> str:
        return not_a_member_hint(channel, self._bot_name)

    def _require_free(self, message: PendingMessage, method: str) -> None:
        """Raise `HeldError` if Slack asked to wait with the method that replaces another."""
        wait = self.pace.wait((), method, hold_key(message, method))
        if wait > 0:
            raise HeldError(method, wait)

    def _is_old(self, message: PendingMessage) -> bool:
        return self.now() - message.created_at > ANNOUNCED_FOR

    async def _mark_sent(
        self, message: PendingMessage, address: Mapping[str, Any] | None, composed: datetime | None = None
    ) -> None:
        """End its row, unless it was ordered again meanwhile; store the address in any case."""
        step = outbox.mark_sent(message, self.now(), address)
        if message.kind == CARD and composed is not None:
            step = replace(step, follow=partial(update_if_queued, task_id=message.subject, composed=composed))
        ended = await quick(self.ledger.step, step, self.now())
        if not ended and address is not None:
            await self._note_address(message, address)

    async def _drop(self, message: PendingMessage, reason: str) -> None:
        await quick(self.ledger.step, outbox.mark_dropped(message, reason, self.now()), self.now())

    async def _note_address(self, message: PendingMessage, address: Mapping[str, Any]) -> None:
        await self._write(partial(outbox.store_address, message=message, address=address))

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await quick(self.ledger.read, look)

    async def _write(self, work: Callable[[Connection], object]) -> None:
        await asyncio.wrap_future(self.ledger.submit(work))
