"""The doors with a form: shortcuts and a button open it, menus in it are answered, and what was sent is dealt with."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from aiohttp import ClientError
from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.access.people import UnverifiedError
from bot.inbound.dispatcher import Response
from bot.outbound.messages import whisper
from bot.outbound.slack_errors import error_code, failure_text
from bot.requests.forms import read_form
from bot.requests.request import Request, from_form, from_form_opening
from bot.views import forms as views
from bot.views.blocks import text_message
from bot.views.forms import TARGET, matching_options
from bot.views.text import escape
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.storage.envelopes import StoredEnvelope

FORGOTTEN = timedelta(minutes=10)
"""Whoever wanted a form so long ago does not wait for it any more, and is not told that it did not come."""

NOT_OPENED = (
    ":warning: The form did not open: Slack allows three seconds for it, and I was too slow, or Slack was away. "
    "Try again; `/supervisor help` shows how to type the same."
)

FORM_SECONDS = 3.0
"""After so long Slack opens no form any more; whoever asked for it gives their next command meanwhile."""

log = logging.getLogger(__name__)

HandleRequest = Callable[[Request], Awaitable[Response]]
ListCommands = Callable[[str], Awaitable[Sequence[CommandDefinition]]]


class FormActions:
    """Opens forms and takes what is filled in. `offered`: what somebody, by their id, may be offered."""

    def __init__(self, client: AsyncWebClient, config: Callable[[], SupervisorConfig], offered: ListCommands) -> None:
        self._client = client
        self._config = config
        self._offered = offered
        self._deal: HandleRequest | None = None

    def listen(self, bolt: AsyncApp, deal: HandleRequest) -> None:
        """Hear of shortcuts, of the button and the menu, and of what is sent."""
        self._deal = deal
        for shortcut in (views.SHORTCUT, views.SHORTCUT_ON_MESSAGE):
            bolt.shortcut(shortcut)(self._on_wanted)
        bolt.action(views.OPEN)(self._on_wanted)
        bolt.action(views.PICK)(self._on_picked)
        bolt.view(views.FORM)(self._on_submitted)

    async def answer(self, _kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is said in the acknowledgement: the options of a menu, or what is wrong in a form; pure and quick."""
        view = payload.get("view") or {}
        if view.get("callback_id") != views.FORM:
            return None
        context = grammar_context(self._config())
        if payload.get("type") == "block_suggestion":
            typed = str(payload.get("value") or "")
            return {"options": matching_options(typed, context) if payload.get("block_id") == TARGET else []}
        found = read_form(view, context)
        return None if isinstance(found, str) else {"response_action": "errors", "errors": dict(found)}

    async def open_form(
        self, trigger_id: str, name: str, channel: str = "", thread: str | None = None, text: str = "", chosen: str = ""
    ) -> bool:
        """Show the form of one command to whoever just did what gave this trigger; `text`: the command, as far as it is
        known; `chosen`: the channel that it begins with, where it is opened from none. False where Slack did not show
        it, which the log says; nothing is raised."""
        filled = None
        try:
            filled = self._parsed(text) if text else None
        except GrammarError as error:
            log.info("a form of %s begins empty: %s", name, error)
        if filled is not None and filled.name != name:
            filled = None
        return await self._open(trigger_id, self._form(CATALOG[name], channel, thread, filled, chosen))

    async def _on_wanted(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        """A picker of commands, for this place where there is one."""
        await ack()
        received: StoredEnvelope = context["received"]
        request = from_form_opening(received)
        place = ("", None) if request.channel == request.user else (request.channel, request.thread)
        try:
            definitions = await self._offered(request.user)
        except UnverifiedError as error:
            log.warning("no form is opened for %s: %s", request.user, error)
        else:
            if await self._open(
                str(received.payload.get("trigger_id") or ""), views.command_picker(definitions, *place)
            ):
                return
        context["dealt"] = not_opened(request)

    async def _on_picked(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        """The picker turns into the form of what was chosen in it."""
        await ack()
        received: StoredEnvelope = context["received"]
        view = received.payload.get("view") or {}
        chosen = (received.payload["actions"][0].get("selected_option") or {}).get("value")
        definition = CATALOG.get(str(chosen))
        if definition is None or not view:
            return
        known = views.form_context(view)
        try:
            # By its hash: a picker that changed meanwhile is not the one in which this was chosen.
            async with asyncio.timeout(FORM_SECONDS):
                await self._client.views_update(
                    view_id=str(view["id"]),
                    hash=str(view["hash"]),
                    view=self._form(definition, known.channel, known.thread),
                )
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("the form of %s could not be shown: %s", definition.name, _why(error))
            context["dealt"] = not_opened(from_form_opening(received))

    async def _on_submitted(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        """What was filled in is a request like every other. It was acknowledged when it became a row."""
        await ack()
        received: StoredEnvelope = context["received"]
        found = read_form(received.payload["view"], grammar_context(self._config()))
        if isinstance(found, str):
            assert self._deal is not None  # noqa: S101 (who hears has said who deals)
            context["dealt"] = await self._deal(from_form(received, found))
            return
        # It was right when it was sent: the configuration has changed since.
        wrong = "\n".join(f"• {escape(each)}" for each in found.values())
        told = text_message(f":warning: Nothing was done; what you filled in does not fit any more:\n{wrong}")
        context["dealt"] = Response(messages=(whisper(from_form(received, ""), told),))

    def _form(
        self,
        definition: CommandDefinition,
        channel: str,
        thread: str | None,
        filled: Command | None = None,
        chosen: str = "",
    ) -> dict[str, Any]:
        config = self._config()
        approval, context = config.needs_approval(definition.name, "slack"), grammar_context(config)
        return views.command_form(definition, context, channel, thread, approval=approval, filled=filled, chosen=chosen)

    def _parsed(self, text: str) -> Command:
        return parse(text, grammar_context(self._config()))

    async def _open(self, trigger_id: str, view: dict[str, Any]) -> bool:
        try:
            async with asyncio.timeout(FORM_SECONDS):
                await self._client.views_open(trigger_id=trigger_id, view=view)
        except (SlackApiError, ClientError, OSError, TimeoutError) as error:
            log.warning("a form could not be opened: %s", _why(error))
            return False
        return True


def not_opened(request: Request) -> Response:
    """Said to whoever waits for it, and not to somebody who has long gone on."""
    if datetime.now(UTC) - request.at > FORGOTTEN:
        return Response()
    return Response(messages=(whisper(request, text_message(NOT_OPENED)),))


def _why(error: Exception) -> str:
    return error_code(error) if isinstance(error, SlackApiError) else failure_text(error)
