"""How one message is told: edited where it stands, else posted, else looked for; or whispered, or uploaded."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Protocol, TypeVar

from slack_sdk.errors import SlackApiError
from sqlalchemy import Connection

from bot.outbound.content import MessageComposer
from bot.outbound.home_content import PageComposer
from bot.outbound.home_publisher import HomePublisher
from bot.outbound.messages import HOME, WHISPER, is_orphaned
from bot.outbound.rate_limits import (
    EPHEMERAL,
    EPHEMERAL_GATES,
    POST,
    UPLOADS,
    HeldError,
    Pace,
    edit_gates,
    hold_key,
    post_gates,
    whisper_gates,
)
from bot.outbound.slack_api import Address, SlackApi, UploadError
from bot.outbound.slack_errors import FATAL, error_code, is_temporary, retry_after
from bot.pools import quick, slow
from bot.views.files import EMPTY, UNREADABLE, Attachment, cut, file_text
from bot.views.parts import Content, not_a_member_hint, with_hint, without_blocks
from supervisor_core.common import crashpoints
from supervisor_core.common.times import utc_now
from supervisor_core.storage import outbox
from supervisor_core.storage.outbox import DETAILS, FILE, PendingMessage
from supervisor_core.storage.steps import Step
from supervisor_core.storage.store import Ledger

T = TypeVar("T")


class ShutOut(Protocol):
    """Follows, in a transaction of its own, when a channel takes nothing from us."""

    def __call__(self, connection: Connection, channel: str, refused: str) -> object:
        """`refused`: Slack's word for why."""


ANNOUNCED_FOR = timedelta(days=1)
"""A command that was given elsewhere is announced for so long; after that it is history, which the audit trail has. And
for so long a reply waits for somebody who opens its channel again, and what is for one person alone for them."""

CLOCKS_SECONDS = 120.0
"""How far apart our clock and Slack's may be when a message is looked for."""

UPLOAD_TRIES = 5
"""After so many a file whose bytes Slack does not take is told as text."""

# The original is gone, or can't be edited any more: a new post takes its place.
LOST = frozenset(
    {
        "cant_update_message",
        "channel_not_found",
        "edit_window_closed",
        "is_archived",
        "is_inactive",
        "message_not_found",
        "not_in_channel",
    }
)
# The bot can't speak there.
SHUT_OUT = frozenset(
    {
        "cannot_reply_to_message",
        "channel_not_found",
        "is_archived",
        "messages_tab_disabled",
        "not_in_channel",
        "restricted_action",
        "restricted_action_non_threadable_channel",
        "restricted_action_read_only_channel",
        "restricted_action_thread_only_channel",
        "thread_not_found",
    }
)
# About files alone: what else is said goes on.
OF_UPLOADS = frozenset({"missing_scope", "no_permission"})
# Slack refuses the content; plain text may be taken all the same.
MALFORMED = frozenset(
    {
        "invalid_attachments",
        "invalid_blocks",
        "invalid_blocks_format",
        "metadata_too_large",
        "msg_blocks_too_long",
        "msg_too_long",
        "no_text",
        "too_many_attachments",
    }
)

log = logging.getLogger(__name__)


class UnreachableError(Exception):
    """Nobody can be reached with this message for now."""


class MessageSender:
    """Tells one message at a time. What keeps it from that is raised, as the SDK raises it or as an error of ours."""

    def __init__(
        self,
        ledger: Ledger,
        speaker: SlackApi,
        pace: Pace,
        composing: MessageComposer,
        name: str,
        fallback: str,
        read_report: Callable[[str, str], str],
        compose: PageComposer | None = None,
        shut_out: ShutOut | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._ledger = ledger
        self._shut_out = shut_out
        self._speaker = speaker
        self._pace = pace
        self._composing = composing
        self._name = name
        self._fallback = fallback
        self._publisher = HomePublisher(ledger, speaker, pace, compose) if compose else None
        self._read_report = read_report
        self._now = now

    async def tell(self, message: PendingMessage) -> None:
        """Bring one message to where it belongs, as it is now."""
        try:
            await self._tell(message)
        except UnreachableError as error:
            if not (self._is_old(message) and (message.payload.get("below") or message.payload.get("alone"))):
                raise
            log.error("%s %s is told to nobody: %s", message.kind, message.subject, error)  # noqa: TRY400
            await self._step(outbox.dropped(message, str(error), self._now()))

    async def _tell(self, message: PendingMessage) -> None:
        if message.kind == WHISPER:
            await self._whisper(message)
            return
        if message.kind == HOME and self._publisher is not None:
            await self._publisher.tell(message)
            return
        if is_orphaned(message):
            await self._step(outbox.dropped(message, "the message above it stands nowhere", self._now()))
            return
        if message.kind == FILE:
            await self._file(message)
            return
        content = await self._content(message)
        if content is None or self._is_history(message):
            why = "it would add nothing" if message.kind == DETAILS else "nobody waits for it any more"
            await self._step(outbox.dropped(message, why, self._now()))
            return
        address = message.address
        if address.get("trying"):
            address = await self._look_for(message) or {}
        await self._told(message, await self._or_plain(message, content, partial(self._said, message, address)))

    async def _or_plain(self, message: PendingMessage, content: Content, send: Callable[[Content], Awaitable[T]]) -> T:
        """Send the content as it is, or as plain text where Slack refuses its blocks; a test checks each view."""
        try:
            return await send(content)
        except SlackApiError as error:
            if not _is_malformed(error, content):
                raise
            why = error_code(error)
            log.error("%s %s is refused (%s); it is told as plain text", message.kind, message.subject, why)  # noqa: TRY400
        return await send(without_blocks(content))

    async def _said(self, message: PendingMessage, address: Mapping[str, Any], content: Content) -> Mapping[str, Any]:
        """Edited where it stands, else posted; where it stands then."""
        if address.get("ts"):
            if await self._edited(message, address, content):
                return address
            self._must_be_free(message, POST)
        return await self._posted(message, content)

    def _must_be_free(self, message: PendingMessage, method: str) -> None:
        """What takes the place of another way is held by what Slack asked of the method, as everything else is."""
        wait = self._pace.wait((), method, hold_key(message, method))
        if wait > 0:
            raise HeldError(method, wait)

    async def _content(self, message: PendingMessage) -> Content | None:
        return await self._read(lambda connection: self._composing.content(connection, message, self._now()))

    async def _edited(self, message: PendingMessage, address: Mapping[str, Any], content: Content) -> bool:
        """False where the original is gone, so that it must be posted anew."""
        self._pace.used(edit_gates(message))
        hint = _hint(message, address, self._name)
        try:
            crashpoints.reach("message.edit:before")
            await self._speaker.edit(address, with_hint(content, hint))
            crashpoints.reach("message.edit:after")
        except SlackApiError as error:
            if error_code(error) not in LOST:
                raise
            log.warning("%s %s is gone (%s); it is posted anew", message.kind, message.subject, error_code(error))
            return False
        return True

    async def _posted(self, message: PendingMessage, content: Content) -> Address:
        """Where it stands: where it belongs, else with whoever asked, else in the fallback channel."""
        self._pace.used(post_gates(message))
        home, refused = str(message.payload["channel"]), ""
        for channel, thread in self._places(message):
            hint = not_a_member_hint(home, self._name) if channel != home else ""
            try:
                return await self._post(message, channel, thread, with_hint(content, hint))
            except SlackApiError as error:
                if error_code(error) not in SHUT_OUT:
                    raise
                refused = refused or error_code(error)
                log.warning("%s %s can't be told in %s: %s", message.kind, message.subject, channel, error_code(error))
                if self._shut_out is not None:
                    await self._write(partial(self._shut_out, channel=channel, refused=error_code(error)))
        await self._write(partial(outbox.addressed, message=message, address={}))
        raise UnreachableError(f"The channel {home} can't be written in ({refused}): /invite @{self._name} there.")

    def _places(self, message: PendingMessage) -> list[tuple[str, str | None]]:
        """The channels, and the thread in them, where it may be told: the right one first. A person stands for their
        direct messages. A reply whose thread takes none any more stands beside it."""
        home, thread = str(message.payload["channel"]), message.payload.get("thread_ts")
        person, last = str(message.payload.get("user") or ""), "" if message.payload.get("alone") else self._fallback
        beside = [home] if message.payload.get("below") else []
        others = [place for place in (person, last) if place != home]
        places = [(home, thread), *((place, None) for place in (*beside, *others))]
        return list(dict.fromkeys(place for place in places if place[0]))

    async def _post(self, message: PendingMessage, channel: str, thread: str | None, content: Content) -> Address:
        """One try, noted before it is made: should its answer be lost, it is looked for before the next."""
        place = await self._place(channel)
        await self._note_try(message, place, thread)
        crashpoints.reach("message.post:before")
        try:
            loud = bool(thread and message.payload.get("broadcast"))
            address = await self._speaker.post(place, thread, content, message.subject, broadcast=loud)
        except SlackApiError as error:
            if not is_temporary(error) or retry_after(error) is not None:  # an answer: it was not posted
                await self._write(partial(outbox.addressed, message=message, address={}))
            raise
        crashpoints.reach("message.post:after")
        return address

    async def _place(self, channel: str) -> str:
        """The channel's id; of a person that of their direct messages."""
        return await self._speaker.direct(channel) if channel.startswith(("U", "W")) else channel

    async def _note_try(self, message: PendingMessage, place: str, thread: str | None, **more: str) -> None:
        trying = {"trying": place, "thread_ts": thread, "since": self._now().timestamp(), **more}
        await self._write(partial(outbox.addressed, message=message, address=trying))

    async def _look_for(self, message: PendingMessage) -> Mapping[str, Any] | None:
        """A post whose answer was lost, where we may read what was said."""
        trying = message.address
        since = float(trying.get("since", 0.0)) - CLOCKS_SECONDS
        try:
            place, file = str(trying["trying"]), str(trying.get("file") or "")
            found = await self._speaker.find(place, trying.get("thread_ts"), message.subject, since, file)
        except SlackApiError as error:
            if is_temporary(error):
                raise
            why = f"{error_code(error)}; with the scope channels:history the app may look it up"
        except LookupError as error:
            why = str(error)
        else:
            return found
        log.warning("whether %s %s was posted is not known (%s): it may stand there twice", *_named(message), why)
        return None

    async def _whisper(self, message: PendingMessage) -> None:
        """To one person: by the address of their request, else in the channel, else in their direct messages."""
        await self._or_plain(message, message.payload["content"], partial(self._whispered, message))

    async def _whispered(self, message: PendingMessage, content: Content) -> None:
        payload = message.payload
        self._pace.used(whisper_gates(message))
        url, user = payload.get("response_url"), str(payload["user"])
        if url and await self._speaker.answer(str(url), content, replace=bool(payload.get("replace"))):
            await self._told(message, None)
            return
        if url:
            self._must_be_free(message, EPHEMERAL)
            self._pace.used(EPHEMERAL_GATES)
        try:
            await self._speaker.whisper(str(payload["channel"]), user, payload.get("thread_ts"), content)
        except SlackApiError as error:
            if is_temporary(error) or error_code(error) in FATAL or _is_malformed(error, content):
                raise
            self._must_be_free(message, POST)
            try:
                await self._speaker.post(await self._speaker.direct(user), None, content, message.subject)
            except SlackApiError as second:
                if is_temporary(second) or error_code(second) in FATAL or _is_malformed(second, content):
                    raise
                reason = f"{user} can't be answered: {error_code(error)}, and directly: {error_code(second)}"
                log.error("%s", reason)  # noqa: TRY400 (the words say it all)
                await self._step(outbox.dropped(message, reason, self._now()))
                return
        await self._told(message, None)

    async def _file(self, message: PendingMessage) -> None:
        """As a file, once; as text where Slack takes none. Ordered anew it is not sent anew."""
        address = message.address
        if address.get("trying"):
            address = await self._look_for(message) or {}
        if not address.get("channel"):
            address = await self._uploaded(message, await self._attached(message))
        await self._told(message, address)

    async def _attached(self, message: PendingMessage) -> Attachment:
        path = message.payload.get("report")
        if not path:
            return Attachment.of(message.payload)
        report = await self._read(partial(self._composing.report, message=message))
        digest = str(message.payload.get("sha256") or "")
        return replace(report, content=cut(await slow(self._read_report, str(path), digest)))

    async def _uploaded(self, message: PendingMessage, file: Attachment) -> Mapping[str, Any]:
        """Where the file is, or the text that stands for it."""
        self._pace.used((UPLOADS,))
        refused = "" if file.data else UNREADABLE if message.payload.get("report") else EMPTY
        for channel, thread in self._places(message) if file.data else ():
            try:
                shared = await self._shared(message, file, channel, thread)
            except SlackApiError as error:
                if is_temporary(error) or error_code(error) in FATAL - OF_UPLOADS:
                    raise
                refused = refused or error_code(error)
                log.warning("%s %s can't be uploaded to %s: %s", *_named(message), channel, error_code(error))
                if error_code(error) not in SHUT_OUT:
                    break
            except UploadError as error:
                if message.attempts < UPLOAD_TRIES:
                    raise
                refused = str(error)
                break
            else:
                self._pace.used(post_gates(message))
                return shared
        self._must_be_free(message, POST)
        return await self._or_plain(message, file_text(file, refused), partial(self._posted, message))

    async def _shared(
        self, message: PendingMessage, file: Attachment, channel: str, thread: str | None
    ) -> Mapping[str, Any]:
        """One try to upload it there. Until it is shared nobody sees it, so only then there is something to note."""
        place = await self._place(channel)
        file_id = await self._speaker.upload(file)
        await self._note_try(message, place, thread, file=file_id)
        crashpoints.reach("message.upload:before")
        try:
            await self._speaker.share(file_id, file, place, thread)
        except SlackApiError as error:
            if not is_temporary(error) or retry_after(error) is not None:  # an answer: it was not shared
                await self._write(partial(outbox.addressed, message=message, address={}))
            raise
        crashpoints.reach("message.upload:after")
        return {"channel": place, "file": file_id}

    async def _told(self, message: PendingMessage, address: Mapping[str, Any] | None) -> None:
        """Its row is done, unless it was ordered anew meanwhile; where it stands is kept all the same."""
        told = await self._step(outbox.sent(message, self._now(), address))
        if not told and address is not None:
            await self._write(partial(outbox.addressed, message=message, address=address))

    def _is_history(self, message: PendingMessage) -> bool:
        never_told = not message.address.get("ts")
        return bool(message.payload.get("announced")) and never_told and self._is_old(message)

    def _is_old(self, message: PendingMessage) -> bool:
        return self._now() - message.created_at > ANNOUNCED_FOR

    async def _step(self, step: Step) -> bool:
        return await quick(self._ledger.step, step, self._now())

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await quick(self._ledger.read, look)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.wrap_future(self._ledger.submit(work))


def _named(message: PendingMessage) -> tuple[str, str]:
    return message.kind, message.subject


def _is_malformed(error: SlackApiError, content: Content) -> bool:
    """True where Slack refuses the content, and the same in plain text is something else."""
    return error_code(error) in MALFORMED and content != without_blocks(content)


def _hint(message: PendingMessage, address: Mapping[str, Any], name: str) -> str:
    home = str(message.payload["channel"])
    told_there = address["channel"] == home or home.startswith(("U", "W"))  # a person: their direct messages
    return "" if told_there else not_a_member_hint(home, name)
