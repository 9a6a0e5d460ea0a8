"""App Home: people open and turn their pages, and open forms from the buttons there."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from bot.inbound.dispatcher import Response
from bot.outbound.home import order_page, position_in
from bot.outbound.messages import HOME, tell
from bot.pools import quick
from bot.requests.form_actions import FormActions
from bot.requests.request import from_form_opening
from bot.views.forms import is_target
from bot.views.home import REFRESH, SHOW, HomePosition
from bot.views.text import escape
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.words import excerpt
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.storage import outbox
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.store import Ledger

HOME_TAB = "home"
"""The Home tab. The Messages tab sends the same event."""


class HomeActions:
    def __init__(
        self, ledger: Ledger, forms: FormActions, config: SupervisorConfig, facts: FactSource | None = None
    ) -> None:
        self._ledger = ledger
        self._forms = forms
        self._config = config
        self._grammar = grammar_context(config, facts)

    async def open(self, envelope: StoredEnvelope) -> Response:
        event = envelope.payload["event"]
        if event.get("tab") != HOME_TAB:
            return Response()
        user = str(event["user"])
        return Response(messages=(order_page(user, await self._position(user)),))

    async def turn(self, envelope: StoredEnvelope) -> Response:
        user, action = str(envelope.payload["user"]["id"]), envelope.payload["actions"][0]
        position = await self._position(user)
        if action["action_id"] == SHOW:
            position = HomePosition(0, str(action["selected_option"]["value"]))
        elif action["action_id"] != REFRESH:
            position = replace(position, page=max(0, int(action["value"])))
        return Response(messages=(order_page(user, position),))

    async def _position(self, user: str) -> HomePosition:
        payload = await quick(self._ledger.read, partial(outbox.payload_of, kind=HOME, subject=user))
        return position_in(payload or {})

    async def open_form(self, envelope: StoredEnvelope) -> Response:
        """Open the form of a command, filled in from the button. Rights are checked when it's submitted."""
        action = envelope.payload["actions"][0]
        value = str((action.get("selected_option") or action).get("value") or "")
        name, _, target = value.partition(":")
        if name not in CATALOG:
            return Response()
        if target and not is_target(target, self._grammar):  # else the form would begin with another one
            words = f":warning: {escape(excerpt(target))} is no longer a worker{self._grammar.here}."
            return tell(from_form_opening(envelope), words)
        trigger, text = str(envelope.payload.get("trigger_id") or ""), f"{name} {target}" if target else ""
        return await self._forms.open_form(
            from_form_opening(envelope), trigger, name, text=text, chosen=self._place(name)
        )

    def _place(self, name: str) -> str:
        """The initial channel of a form: the alert channel, or one in which commands are allowed. An answer is for one
        person and needs a channel only if commands are limited to some."""
        slack = self._config.slack
        allowed = slack.channels
        if allowed:
            return slack.alert_channel if slack.alert_channel in allowed else allowed[0]
        return slack.alert_channel if CATALOG[name].handler is not None else ""
