"""The doors of App Home: it is opened, turned over, and its buttons open the forms of commands."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from typing import Any

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext

from bot.inbound.dispatcher import Response
from bot.outbound.home import HomeRefresher
from bot.outbound.messages import whisper
from bot.requests.form_views import FormActions, not_opened
from bot.requests.request import VoteRequest, from_decision_form, from_form_opening, from_home_button
from bot.views.blocks import text_message
from bot.views.cards.approval import DECISION
from bot.views.home.page import PAGE, REFRESH, SHOW
from bot.views.home.sections import DECIDE, DO
from bot.views.text import escape
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.words import excerpt
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.storage.envelopes import StoredEnvelope

HandleVote = Callable[[VoteRequest], Awaitable[Response]]

HOME_TAB = "home"
"""The other tab of the app, its messages, tells by the same event that it was opened."""


class HomeActions:
    """Hears what people do on their pages."""

    def __init__(self, homes: HomeRefresher, forms: FormActions, config: Callable[[], SupervisorConfig]) -> None:
        self._homes = homes
        self._forms = forms
        self._config = config
        self._vote: HandleVote | None = None
        self._ask_how: HandleVote | None = None

    def listen(self, bolt: AsyncApp, vote: HandleVote, ask_how: HandleVote) -> None:
        """Hear of all that can be done there. `vote` counts a vote, `ask_how` asks for one."""
        self._vote, self._ask_how = vote, ask_how
        bolt.event("app_home_opened")(self._on_opened)
        bolt.action(re.compile(f"^{DO}(:|$)"))(self._on_command)
        bolt.action(re.compile(f"^({PAGE}:|{REFRESH}$|{SHOW}$)"))(self._on_turned)
        bolt.action(DECIDE)(self._on_decide)
        bolt.view(DECISION)(self._on_decided)

    async def _on_opened(self, context: AsyncBoltContext) -> None:
        received: StoredEnvelope = context["received"]
        event = received.payload["event"]
        if event.get("tab") == HOME_TAB:
            context["dealt"] = Response(messages=(await self._homes.opened(str(event["user"]), received.received_at),))

    async def _on_turned(self, ack: AsyncAck, action: dict[str, Any], context: AsyncBoltContext) -> None:
        await ack()
        received: StoredEnvelope = context["received"]
        page = only = None
        if action["action_id"] == SHOW:
            only = str(action["selected_option"]["value"])
        elif action["action_id"] != REFRESH:
            page = int(action["value"])
        user = str(received.payload["user"]["id"])
        context["dealt"] = Response(
            messages=(await self._homes.turned(user, received.received_at, page=page, only=only),)
        )

    async def _on_command(self, ack: AsyncAck, action: dict[str, Any], context: AsyncBoltContext) -> None:
        """The form of the command, filled in as far as the button says: whoever sends it is judged then."""
        await ack()
        received: StoredEnvelope = context["received"]
        value = str((action.get("selected_option") or action).get("value") or "")
        name, _, worker_id = value.partition(":")
        if name not in CATALOG:
            return
        if worker_id and worker_id not in self._config().workers:  # else the form would begin with another one
            told = text_message(f":warning: {escape(excerpt(worker_id))} is not among the workers here any more.")
            context["dealt"] = Response(messages=(whisper(from_form_opening(received), told),))
            return
        trigger, text = str(received.payload.get("trigger_id") or ""), f"{name} {worker_id}" if worker_id else ""
        if not await self._forms.open_form(trigger, name, text=text, chosen=self._place(name)):
            context["dealt"] = not_opened(from_form_opening(received))

    async def _on_decide(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        assert self._ask_how is not None  # noqa: S101 (who hears has said who deals)
        context["dealt"] = await self._ask_how(from_home_button(context["received"]))

    async def _on_decided(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        assert self._vote is not None  # noqa: S101 (who hears has said who deals)
        context["dealt"] = await self._vote(from_decision_form(context["received"]))

    def _place(self, name: str) -> str:
        """Where the card of a command goes unless somebody chooses another place: the alert channel, or where commands
        may be given. An answer is for its asker alone, and goes there only where it may go nowhere else."""
        slack = self._config().slack
        allowed = slack.channels
        if allowed:
            return slack.alert_channel if slack.alert_channel in allowed else allowed[0]
        return slack.alert_channel if CATALOG[name].handler is not None else ""
