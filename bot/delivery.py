"""From the outbox to Slack: one message for each card, posted once, then edited at a pace that Slack bears."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, TypeVar

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import Connection

from bot.blockkit import check_message
from bot.views.card import card
from supervisor_core.domain import crashpoints
from supervisor_core.ledger import jobs, outbox
from supervisor_core.ledger.outbox import Waiting
from supervisor_core.ledger.store import Ledger

T = TypeVar("T")

LOOK_SECONDS = 1.0
"""The net below the wakes: a step that told nobody is on its card within so long."""

EDIT_SECONDS = 2.5
"""Between two edits of one card; what comes in between is told by the next."""

ALL_EDITS_SECONDS = 1.3
"""Between two edits of any card: `chat.update` bears 50 a minute for the whole app."""

EVENT_TYPE = "supervisor_message"
HISTORY = 50

# The original is gone: a new post takes its place.
LOST = frozenset({"message_not_found", "channel_not_found", "is_archived", "edit_window_closed", "cant_update_message"})
# The bot can't speak there: the asker hears of it in a direct message.
SHUT_OUT = frozenset({"not_in_channel", "channel_not_found", "is_archived", "restricted_action"})

log = logging.getLogger(__name__)


class Delivery:
    """Sends what waits, oldest first. A row stays pending until Slack has its newest version."""

    def __init__(self, ledger: Ledger, client: AsyncWebClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._ledger = ledger
        self._client = client
        self._clock = clock
        self._woken = asyncio.Event()
        self._edited: dict[int, float] = {}
        self._last_edit = float("-inf")

    def wake(self) -> None:
        """Look now."""
        self._woken.set()

    async def run(self, stopping: asyncio.Event) -> None:
        """Deliver until asked to stop."""
        while not stopping.is_set():
            self._woken.clear()
            for message in await self._read(lambda c: outbox.due(c, jobs.CARD, datetime.now(UTC))):
                await self._deliver_alone(message)
            try:
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._woken.wait()
            except TimeoutError:
                pass

    async def _deliver_alone(self, message: Waiting) -> None:
        """The edge of a message: one that can't be told keeps no other from being told."""
        try:
            await self._deliver(message)
        except Exception as error:
            log.exception("the card of %s can't be told", message.subject)
            await self._postponed(message, f"{type(error).__name__}: {error}", None)

    async def _deliver(self, message: Waiting) -> None:
        """Post or edit one card; what can't be sent now waits, and says why."""
        wait = self._pace(message)
        if wait > 0:
            await self._write(partial(outbox.postpone_until, message=message, moment=_in(wait)))
            return
        subject = message.subject
        found = await self._read(lambda c: jobs.of_task(c, subject))
        if not found:
            return
        content = card(found, datetime.now(UTC))
        for problem in check_message(content):
            log.error("the card of %s is not as Slack wants it: %s", subject, problem)
        try:
            address = await self._send(message, subject, content)
        except SlackApiError as error:
            await self._postponed(message, str(error.response.get("error")), _retry_after(error))
        except (ClientError, OSError, TimeoutError) as error:
            await self._postponed(message, f"{type(error).__name__}: {error}", None)
        else:
            if address != message.address:
                await self._write(partial(outbox.addressed, message=message, address=address))
            crashpoints.reach("card.address:after")
            await self._step(message)

    async def _send(self, message: Waiting, subject: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        """Where the card is now."""
        address = message.address
        if address.get("trying"):
            address = await self._look_for(message, subject) or {}
        if address.get("ts"):
            try:
                self._edited[message.outbox_id] = self._last_edit = self._clock()
                await self._client.chat_update(channel=address["channel"], ts=address["ts"], **content)
            except SlackApiError as error:
                if error.response.get("error") not in LOST:
                    raise
                log.warning("the card of %s is gone (%s); it is posted anew", subject, error.response.get("error"))
            else:
                return address
        return await self._post(message, subject, content)

    async def _post(self, message: Waiting, subject: str, content: Mapping[str, Any]) -> Mapping[str, Any]:
        await self._write(partial(outbox.addressed, message=message, address={"trying": True}))
        place = {"channel": message.payload["channel"], "thread_ts": message.payload.get("thread_ts")}
        crashpoints.reach("card.post:before")
        try:
            answer = await self._say(subject, content, place)
        except SlackApiError as error:
            if error.response.get("error") not in SHUT_OUT or not message.payload.get("user"):
                raise
            answer = await self._say(subject, content, {"channel": message.payload["user"]})
        crashpoints.reach("card.post:after")
        return {"channel": answer["channel"], "ts": answer["ts"]}

    async def _say(self, subject: str, content: Mapping[str, Any], place: Mapping[str, Any]) -> Any:  # noqa: ANN401
        metadata = {"event_type": EVENT_TYPE, "event_payload": {"subject": subject}}
        return await self._client.chat_postMessage(metadata=metadata, unfurl_links=False, **place, **content)

    async def _look_for(self, message: Waiting, subject: str) -> Mapping[str, Any] | None:
        """A post whose answer was lost, by its metadata, where we may read what was said."""
        channel = message.payload["channel"]
        try:
            answer = await self._client.conversations_history(channel=channel, limit=HISTORY, include_all_metadata=True)
        except SlackApiError as error:
            log.warning(
                "whether %s was posted can't be looked up (%s): it may stand there twice",
                subject,
                error.response["error"],
            )
            return None
        for said in answer.get("messages") or ():
            metadata = said.get("metadata") or {}
            if metadata.get("event_payload", {}).get("subject") == subject:
                return {"channel": channel, "ts": said["ts"]}
        return None

    def _pace(self, message: Waiting) -> float:
        """How long an edit must still wait."""
        if not message.address.get("ts"):
            return 0.0
        now = self._clock()
        own = self._edited.get(message.outbox_id, float("-inf")) + EDIT_SECONDS - now
        return max(own, self._last_edit + ALL_EDITS_SECONDS - now)

    async def _postponed(self, message: Waiting, error: str, seconds: float | None) -> None:
        log.warning("a card waits: %s", error)
        now = datetime.now(UTC)
        await self._write(partial(outbox.postpone, message=message, error=error, now=now, seconds=seconds))

    async def _step(self, message: Waiting) -> None:
        await asyncio.get_running_loop().run_in_executor(
            None, self._ledger.step, outbox.sent(message, datetime.now(UTC))
        )

    async def _read(self, look: Callable[[Connection], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(None, self._ledger.read, look)

    async def _write(self, work: Callable[[Connection], T]) -> T:
        return await asyncio.wrap_future(self._ledger.submit(work))


def _in(seconds: float) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


def _retry_after(error: SlackApiError) -> float | None:
    value = error.response.headers.get("Retry-After")
    return float(value) if value else None
