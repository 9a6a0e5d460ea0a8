"""Forms: opened by shortcuts and buttons, previewed with each choice, and submitted as commands.

The preview in a form is for its reader alone and binds nothing: an approval has its own, like that of a typed command.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from bot.access.checks import AccessChecks, AllowedCommands
from bot.access.people import UnverifiedError
from bot.inbound.dispatcher import Response, SendNow
from bot.outbound.messages import tell
from bot.outbound.modals import Modals
from bot.pools import preview_in_time
from bot.requests.commands import CommandRequests
from bot.requests.forms import chosen_channel, read_choice, read_form
from bot.requests.request import Request, from_form_opening
from bot.views import forms as views
from bot.views.blocks import Json, context, section
from bot.views.cards.preview import ON_A_CARD, previews_as_text
from bot.views.forms import COMMITS, TARGET, LivePreview, commit_menu, matching_options
from bot.views.text import error_text, escape
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.common.errors import SupervisorError, describe
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.storage.envelopes import StoredEnvelope

FORGOTTEN = timedelta(minutes=10)
"""After this time, nobody is told any more that a form didn't open."""

NOT_OPENED = (
    ":warning: The form couldn't be opened in time. Try again, or type the command. `/supervisor help` lists them all."
)
WORKING = ":hourglass_flowing_sand: Working out the preview…"
FAILED = (
    ":warning: Something went wrong on our side, and the log has the reason. You can submit the form without a preview."
)

log = logging.getLogger(__name__)


class FormActions:
    def __init__(
        self,
        modals: Modals,
        config: SupervisorConfig,
        hosts: Hosts,
        access: AccessChecks,
        allowed: AllowedCommands,
        commands: CommandRequests,
        facts: FactSource | None = None,
    ) -> None:
        self._modals = modals
        self._config = config
        self._grammar = grammar_context(config, facts)
        self._hosts = hosts
        self._access = access
        self._allowed = allowed
        self._commands = commands
        self._choices: dict[str, object] = {}
        """The newest choice in each form whose preview is being worked out."""

    async def answer(self, _kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        """The answer in the acknowledgement: the options of a menu or the errors of a form. Pure and quick."""
        view = payload.get("view") or {}
        if view.get("callback_id") != views.FORM:
            return None
        if payload.get("type") == "block_suggestion":
            typed = str(payload.get("value") or "")
            return {"options": matching_options(typed, self._grammar) if payload.get("block_id") == TARGET else []}
        text = read_form(view, self._grammar)
        return None if isinstance(text, str) else {"response_action": "errors", "errors": dict(text)}

    async def open_picker(self, envelope: StoredEnvelope) -> Response:
        request = from_form_opening(envelope)

        async def compose() -> Json:
            return views.command_picker(await self._allowed.to_user(request.user), *_place_of(request))

        trigger = str(envelope.payload.get("trigger_id") or "")
        try:
            opened = await self._modals.show_when_ready(trigger, views.PICKER_TITLE, compose)
        except UnverifiedError as error:
            log.warning("no form is opened for %s: %s", request.user, error)
            opened = False
        return Response() if opened else not_opened(request)

    async def show_picked(self, envelope: StoredEnvelope) -> Response:
        view = envelope.payload.get("view") or {}
        chosen = (envelope.payload["actions"][0].get("selected_option") or {}).get("value")
        definition = CATALOG.get(str(chosen))
        if definition is None or not view:
            return Response()
        request, known = from_form_opening(envelope), views.form_context(view)
        form = partial(self._form, definition, known.channel, known.thread, "")
        command, view_id = self._first_command(definition), str(view["id"])
        if not await self._modals.replace(view_id, form(command)):
            return not_opened(request)
        return self._show_preview(view_id, request.user, form, command)

    async def open_form(
        self, request: Request, trigger_id: str, name: str, text: str = "", chosen: str = ""
    ) -> Response:
        """Open the form of a command with this trigger. `text`: the command as far as it's known; `chosen`: the initial
        channel, for a form that is opened outside one."""
        definition = CATALOG[name]
        form = partial(self._form, definition, *_place_of(request), chosen)
        command = self._first_command(definition, text)
        view_id = await self._modals.open(trigger_id, form(command))
        return self._show_preview(view_id, request.user, form, command) if view_id else not_opened(request)

    async def choose(self, envelope: StoredEnvelope) -> Response:
        view = envelope.payload.get("view") or {}
        known = views.form_context(view)
        definition = CATALOG.get(known.command)
        if view.get("callback_id") != views.FORM or definition is None or not views.is_updated(definition):
            return Response()
        form = partial(self._form, definition, known.channel, known.thread, chosen_channel(view))
        command, view_id = read_choice(view, self._grammar), str(view["id"])
        if command is not None and views.is_live(definition):
            return self._show_preview(view_id, str(envelope.payload["user"]["id"]), form, command)
        self._choices.pop(view_id, None)
        await self._modals.replace(view_id, form(command, LivePreview()))
        return Response()

    async def submit(self, request: Request) -> Response:
        """Handle a submitted form like any other request. It was acknowledged when it was stored."""
        text = read_form(request.form or {}, self._grammar)
        if isinstance(text, str):
            return await self._commands.handle(replace(request, text=text))
        # It was right when it was sent: the configuration has changed since.
        wrong = "\n".join(f"• {escape(error)}" for error in text.values())
        return tell(request, f":warning: Nothing was done. These values are no longer valid:\n{wrong}")

    def _first_command(self, definition: CommandDefinition, text: str = "") -> Command | None:
        """The command that a form begins with; without a text, one for the default worker if it can be previewed."""
        if not text and not views.is_live(definition):
            return None
        try:
            command = parse(text or definition.name, self._grammar)
        except GrammarError as error:
            log.info("a form of %s begins empty: %s", definition.name, error)
            return None
        return command if command.name == definition.name else None

    def _form(
        self,
        definition: CommandDefinition,
        channel: str,
        thread: str | None,
        chosen: str,
        command: Command | None,
        preview: LivePreview | None = None,
    ) -> Json:
        """The form of a command; without a preview, it says that one is being worked out if that is so."""
        if preview is None and command is not None and views.is_live(definition):
            preview = LivePreview([context(WORKING)])
        return views.command_form(
            definition,
            self._grammar,
            channel,
            thread,
            approval=self._config.needs_approval(definition.name, "slack"),
            filled=command,
            chosen=chosen,
            preview=preview,
        )

    def _show_preview(
        self, view_id: str, user: str, form: Callable[[Command, LivePreview], Json], command: Command | None
    ) -> Response:
        """Work out a preview, and update the form unless its reader has made another choice by then."""
        if command is None or not views.is_live(CATALOG[command.name]):
            return Response()
        choice = self._choices[view_id] = object()

        async def update(_send: SendNow) -> Response:
            try:
                preview = await self._preview(user, command)
                if self._choices.get(view_id) is choice:
                    await self._modals.replace(view_id, form(command, preview))
            finally:
                if self._choices.get(view_id) is choice:
                    del self._choices[view_id]
            return Response()

        return Response(rest=update)

    async def _preview(self, user: str, command: Command) -> LivePreview:
        """The effect of a command, with the commits to choose from; the reason if there's none."""
        if why := await self._access.objection(user, command):
            return LivePreview([section(f":no_entry: {why}")])
        menu = await self._commits(command)
        try:
            documents = await preview_in_time(self._hosts.preview, command)
        except SupervisorError as error:
            return LivePreview([section(f":warning: {error_text(error)}")], menu)
        except Exception:  # the edge: the form works without a preview
            log.exception("the preview of %s failed", render(command))
            return LivePreview([section(FAILED)], menu)
        texts = previews_as_text(documents, ON_A_CARD)
        return LivePreview([section("*Preview*"), *map(section, texts)], menu)

    async def _commits(self, command: Command) -> Json | None:
        """The menu of this checkout's commits; None for a command that doesn't choose among them."""
        parameter = next((each for each in CATALOG[command.name].parameters if each.name == COMMITS), None)
        if parameter is None:
            return None
        try:
            commits = await preview_in_time(self._hosts.commits, command.workers, parameter.high)
        except Exception as error:  # noqa: BLE001 (the form works without a list, and the preview says why)
            log.warning("the commits of %s can't be listed: %s", command.target, describe(error))
            return None
        return commit_menu(parameter, commits, int(command.params[COMMITS])) if commits else None


def _place_of(request: Request) -> tuple[str, str | None]:
    return ("", None) if request.channel == request.user else (request.channel, request.thread)


def not_opened(request: Request) -> Response:
    """Tell the person that the form didn't open, unless that's long ago."""
    if datetime.now(UTC) - request.at > FORGOTTEN:
        return Response()
    return tell(request, NOT_OPENED)
