"""Forms: opened by shortcuts and buttons, and submitted as commands."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.access.people import UnverifiedError
from bot.inbound.dispatcher import Response
from bot.outbound.messages import whisper
from bot.outbound.modals import Modals
from bot.requests.form_previews import FormPreviews, seen_in
from bot.requests.forms import read_form, unseen_values
from bot.requests.request import FormSubmission, Request, from_form_opening
from bot.views import forms as views
from bot.views.blocks import text_message
from bot.views.form_fields import TARGET, matching_options
from bot.views.text import escape
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.storage.envelopes import StoredEnvelope

FORGOTTEN = timedelta(minutes=10)
"""After this time, nobody is told any more that a form didn't open."""

NOT_OPENED = (
    ":warning: The form couldn't be opened in time. Try again, or type the command. `/supervisor help` lists them all."
)

log = logging.getLogger(__name__)

Submit = Callable[[Request], Awaitable[Response]]
ListCommands = Callable[[str], Awaitable[Sequence[CommandDefinition]]]


class FormActions:
    """Opens forms and submits them. `list_commands` gives the commands for a user id, `submit` runs one."""

    def __init__(
        self,
        modals: Modals,
        config: SupervisorConfig,
        previews: FormPreviews,
        list_commands: ListCommands,
        submit: Submit,
        facts: FactSource | None = None,
    ) -> None:
        self._modals = modals
        self._config = config
        self._grammar = grammar_context(config, facts)
        self._previews = previews
        self._list_commands = list_commands
        self._submit = submit

    async def answer(self, _kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer in the acknowledgement: the options of a menu or the errors of a form. Pure and quick."""
        view = payload.get("view") or {}
        if view.get("callback_id") != views.FORM:
            return None
        context = self._grammar
        if payload.get("type") == "block_suggestion":
            typed = str(payload.get("value") or "")
            return {"options": matching_options(typed, context) if payload.get("block_id") == TARGET else []}
        found = read_form(view, context)
        errors = unseen_values(view, context) if isinstance(found, str) else found
        return {"response_action": "errors", "errors": dict(errors)} if errors else None

    async def open_form(
        self, request: Request, trigger_id: str, name: str, text: str = "", chosen: str = ""
    ) -> Response:
        """Open the form of a command with this trigger. `text`: the command as far as it's known; `chosen`: the initial
        channel, for a form that is opened outside one."""
        filled = None
        try:
            filled = self._parsed(text) if text else None
        except GrammarError as error:
            log.info("a form of %s begins empty: %s", name, error)
        if filled is not None and filled.name != name:
            filled = None
        view = self._previews.form(CATALOG[name], *_place_of(request), filled, chosen)
        shown = await self._modals.show(trigger_id, view)
        return self._previews.opened(shown, request.user) if shown else not_opened(request)

    async def open_picker(self, envelope: StoredEnvelope) -> Response:
        """Open the picker of commands, for this channel if there is one."""
        request = from_form_opening(envelope)

        async def compose() -> dict[str, Any]:
            return views.command_picker(await self._list_commands(request.user), *_place_of(request))

        trigger = str(envelope.payload.get("trigger_id") or "")
        try:
            opened = await self._modals.show_when_ready(trigger, views.PICKER_TITLE, compose)
        except UnverifiedError as error:
            log.warning("no form is opened for %s: %s", request.user, error)
            opened = False
        return Response() if opened else not_opened(request)

    async def show_picked(self, envelope: StoredEnvelope) -> Response:
        """Replace the picker by the form of the chosen command."""
        view = envelope.payload.get("view") or {}
        chosen = (envelope.payload["actions"][0].get("selected_option") or {}).get("value")
        definition = CATALOG.get(str(chosen))
        if definition is None or not view:
            return Response()
        known = views.form_context(view)
        request = from_form_opening(envelope)
        shown = await self._modals.replace(view, self._previews.form(definition, known.channel, known.thread))
        return self._previews.opened(shown, request.user) if shown else not_opened(request)

    async def choose(self, envelope: StoredEnvelope) -> Response:
        """Show the preview of what was just chosen in a form."""
        return await self._previews.chosen(envelope)

    async def submit(self, submission: FormSubmission) -> Response:
        """Handle a submitted form like any other request. It was acknowledged when it was stored."""
        found = read_form(submission.view, self._grammar)
        if isinstance(found, str):
            seen = seen_in(submission.view, self._config)
            return await self._submit(replace(submission.request, text=found, seen=seen))
        # It was right when it was sent: the configuration has changed since.
        wrong = "\n".join(f"• {escape(each)}" for each in found.values())
        told = text_message(f":warning: Nothing was done. These values are no longer valid:\n{wrong}")
        return Response(messages=(whisper(submission.request, told),))

    def _parsed(self, text: str) -> Command:
        return parse(text, self._grammar)


def _place_of(request: Request) -> tuple[str, str | None]:
    """The channel and thread for the form; none for one that must ask."""
    return ("", None) if request.channel == request.user else (request.channel, request.thread)


def not_opened(request: Request) -> Response:
    """Tell the person that the form didn't open, unless that's long ago."""
    if datetime.now(UTC) - request.at > FORGOTTEN:
        return Response()
    return Response(messages=(whisper(request, text_message(NOT_OPENED)),))
