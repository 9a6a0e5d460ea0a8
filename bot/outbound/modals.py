"""Opens modals. Slack accepts a trigger for three seconds, so a form that needs a lookup first shows that it's loading.

shown = await modals.show(trigger_id, view)                        # everything is known
shown = await modals.show_when_ready(trigger_id, "Deny", compose)  # rights or data are looked up first
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakValueDictionary

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.slack_errors import error_code, failure_text, is_temporary, retry_after
from bot.views.blocks import Json
from bot.views.forms import loading, not_loaded
from bot.views.text import error_text
from supervisor_core.common.errors import SupervisorError

TRIGGER_SECONDS = 3.0
"""The time within which Slack opens a modal."""

QUICK_SECONDS = 0.25
"""A lookup that takes no longer needs no loading view."""

AGAIN_SECONDS, LONGEST_SECONDS = 0.5, 10.0
"""The delay before the second try of an update, and the longest one that Slack may ask for."""

NOT_LOADED = ":warning: This form couldn't be loaded. Close it and try again."

View = Mapping[str, Any]
"""A modal as Slack returns it, with its id and its hash."""

log = logging.getLogger(__name__)


class NoFormError(Exception):
    """There is nothing to fill in; the caller of `show_when_ready` answers with a message instead."""


class Modals:
    """Opens and replaces modals, and returns them as Slack shows them. A failure at Slack is logged and returned as
    an empty view, never raised."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client
        self._newest: dict[str, object] = {}
        """The newest replacement of each view that is on its way."""
        self._in_any_case: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """One lock for each view: of two updates without a hash, the newer one reaches Slack last."""

    async def show(self, trigger_id: str, view: Json) -> View:
        """Open a modal."""
        return await self._open(trigger_id, view)

    async def show_when_ready(self, trigger_id: str, title: str, compose: Callable[[], Awaitable[Json]]) -> bool:
        """Open the modal that `compose` returns, with a loading view until then. `title`: 24 characters at most.

        An error of `compose` is raised again, after the loading view has said why there is no form: in the words of a
        `SupervisorError`, else in general ones. True also for a person who closed the loading view meanwhile.
        """
        composing = asyncio.ensure_future(compose())
        try:
            await asyncio.wait({composing}, timeout=QUICK_SECONDS)
            if composing.done():
                return bool(await self.show(trigger_id, composing.result()))
            shown = await self._open(trigger_id, loading(title))
            if not shown:
                return False
            try:
                view = await composing
            except Exception as error:
                await self.replace(shown, not_loaded(title, _explanation(error)))
                raise
            if await self.replace(shown, view):
                return True
            await self.replace(shown, not_loaded(title, NOT_LOADED))
            return False
        finally:
            composing.cancel()

    async def replace(self, shown: View, view: Json) -> View:
        """Replace a modal as it was `shown`; without a `hash`, whatever it shows by now. Empty if it has changed since,
        because somebody chose twice; the same as before if the person has closed it. A temporary error is retried
        once, because nobody else would end what the modal says is loading."""
        view_id, mine = str(shown["id"]), object()
        self._newest[view_id] = mine
        try:
            return await self._replace(shown, view, lambda: self._newest.get(view_id) is mine)
        finally:
            if self._newest.get(view_id) is mine:
                del self._newest[view_id]

    async def _replace(self, shown: View, view: Json, is_newest: Callable[[], bool]) -> View:
        try:
            return await self._update(shown, view)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            wait, may_have_arrived = _retry_delay(error), not _is_rate_limit(error)
            log.warning("a modal couldn't be updated: %s", failure_text(error))
            if wait is None:
                return _unless_closed(shown, error)
        await asyncio.sleep(wait)
        try:
            try:
                return await self._update(shown, view)
            except SlackApiError as error:
                if not (may_have_arrived and error_code(error) == "hash_conflict"):
                    raise
            # The first try arrived and its answer was lost, unless a newer one came between: its hash is unknown.
            return await self._update({"id": shown["id"]}, view, is_newest)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("a modal couldn't be updated at the second try: %s", failure_text(error))
            return _unless_closed(shown, error)

    async def _update(self, shown: View, view: Json, wanted: Callable[[], bool] = lambda: True) -> View:
        """Update a view once. Without a hash it's done in turn, and not at all if it is no longer `wanted` by then."""
        view_id = str(shown["id"])
        if shown.get("hash"):
            answer = await self._client.views_update(view_id=view_id, view=view, hash=str(shown["hash"]))
        else:
            async with self._in_any_case.setdefault(view_id, asyncio.Lock()):
                if not wanted():
                    return {}
                answer = await self._client.views_update(view_id=view_id, view=view)
        now: View = answer["view"]
        return now

    async def _open(self, trigger_id: str, view: Json) -> View:
        """The opened view; empty if Slack didn't open it."""
        try:
            async with asyncio.timeout(TRIGGER_SECONDS):
                answer = await self._client.views_open(trigger_id=trigger_id, view=view)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("a modal couldn't be opened: %s", failure_text(error))
            return {}
        shown: View = answer["view"]
        return shown


def _unless_closed(shown: View, error: Exception) -> View:
    """The view as before if the person has closed it, else an empty one."""
    return shown if isinstance(error, SlackApiError) and error_code(error) == "not_found" else {}


def _is_rate_limit(error: Exception) -> bool:
    """True if Slack was asked too often, so that it did nothing."""
    return isinstance(error, SlackApiError) and retry_after(error) is not None


def _retry_delay(error: Exception) -> float | None:
    """The delay before the second try; None if the first one was the last."""
    if not isinstance(error, SlackApiError):
        return AGAIN_SECONDS
    wait = retry_after(error) or AGAIN_SECONDS
    return wait if is_temporary(error) and wait <= LONGEST_SECONDS else None


def _explanation(error: Exception) -> str:
    if isinstance(error, NoFormError):
        return "There's nothing to fill in here. See the message from the bot."
    if isinstance(error, SupervisorError):
        return f":warning: {error_text(error)}"
    return NOT_LOADED
