"""Opens modals. Slack accepts a trigger for three seconds, so a form that needs a lookup first shows that it's loading.

view_id = await modals.open(trigger_id, view)                      # everything is known
shown = await modals.show_when_ready(trigger_id, "Deny", compose)  # rights or data are looked up first
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from aiohttp import ClientError
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.slack_errors import error_code, failure_text
from bot.views.blocks import Json
from bot.views.forms import loading, not_loaded
from bot.views.text import error_text
from supervisor_core.common.errors import SupervisorError

TRIGGER_SECONDS = 3.0
"""The time within which Slack opens a modal."""

QUICK_SECONDS = 0.25
"""A lookup that takes no longer needs no loading view."""

NOT_LOADED = ":warning: This form couldn't be loaded. Close it and try again."

log = logging.getLogger(__name__)


class NoFormError(Exception):
    """There is nothing to fill in; the caller of `show_when_ready` answers with a message instead."""


class Modals:
    """Opens and replaces modals. A failure at Slack is logged and never raised."""

    def __init__(self, client: AsyncWebClient) -> None:
        self._client = client

    async def open(self, trigger_id: str, view: Json) -> str:
        """Open a modal; its id, or nothing if Slack didn't open it."""
        try:
            async with asyncio.timeout(TRIGGER_SECONDS):
                answer = await self._client.views_open(trigger_id=trigger_id, view=view)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("a modal couldn't be opened: %s", failure_text(error))
            return ""
        return str(answer["view"]["id"])

    async def replace(self, view_id: str, view: Json) -> bool:
        """Replace a modal; False if Slack didn't. True if the person has closed it."""
        try:
            await self._client.views_update(view_id=view_id, view=view)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("a modal couldn't be updated: %s", failure_text(error))
            return isinstance(error, SlackApiError) and error_code(error) == "not_found"
        return True

    async def show_when_ready(self, trigger_id: str, title: str, compose: Callable[[], Awaitable[Json]]) -> bool:
        """Open the modal that `compose` returns, with a loading view until then. `title`: 24 characters at most.

        An error of `compose` is raised again, after the loading view has said why there is no form: in the words of a
        `SupervisorError`, else in general ones.
        """
        composing = asyncio.ensure_future(compose())
        try:
            await asyncio.wait({composing}, timeout=QUICK_SECONDS)
            if composing.done():
                return bool(await self.open(trigger_id, composing.result()))
            view_id = await self.open(trigger_id, loading(title))
            if not view_id:
                return False
            try:
                view = await composing
            except Exception as error:
                await self.replace(view_id, not_loaded(title, _explanation(error)))
                raise
            if await self.replace(view_id, view):
                return True
            await self.replace(view_id, not_loaded(title, NOT_LOADED))
            return False
        finally:
            composing.cancel()


def _explanation(error: Exception) -> str:
    if isinstance(error, NoFormError):
        return "There's nothing to fill in here. See the message from the bot."
    if isinstance(error, SupervisorError):
        return f":warning: {error_text(error)}"
    return NOT_LOADED
