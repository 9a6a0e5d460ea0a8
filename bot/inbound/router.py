"""Which request goes where: a Bolt app that is handed envelopes from their rows, long after they were acknowledged."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.dispatcher import Dealt, Say
from bot.outbound.messages import whisper
from bot.requests.form_views import FormDoors
from bot.requests.home_actions import HomeDoors
from bot.requests.request import (
    Asked,
    Attention,
    Vote,
    attended,
    chosen,
    denied,
    is_said_to_us,
    mentioned,
    pressed,
    said,
    shared,
    turned,
    typed,
    voted,
)
from bot.views.answers.help import CHOOSE
from bot.views.buttons import ACTION, PAGE, SHARE, named
from bot.views.cards.alert import PRESS
from bot.views.cards.approval import DENIAL, VOTE
from bot.views.parts import text_message
from supervisor_core.common.errors import describe
from supervisor_core.storage.envelopes import Received

ANYTHING = re.compile(".*")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Doors:
    """Who deals with what."""

    command: Callable[[Asked], Awaitable[Dealt]]
    vote: Callable[[Vote], Awaitable[Dealt]]
    ask_why: Callable[[Vote], Awaitable[Dealt]]
    """Somebody wants to deny: they may say why."""
    ask_how: Callable[[Vote], Awaitable[Dealt]]
    """Somebody wants to vote from their own page."""
    attend: Callable[[Attention], Awaitable[Dealt]]
    """Somebody does something about an alert."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Who the bot is in this workspace, as `auth.test` says."""

    team_id: str
    user_id: str
    bot_id: str
    name: str
    team: str
    url: str = ""
    """The address of the workspace."""


class SlackApp:
    """Bolt as a router: it matches, our listeners deal, and what came of it goes back to whoever holds the row."""

    def __init__(
        self,
        client: AsyncWebClient,
        identity: Identity,
        doors: Doors,
        forms: FormDoors,
        homes: HomeDoors | None = None,
    ) -> None:
        self._doors = doors
        self._bolt = AsyncApp(
            client=client,
            logger=_quiet(),
            authorize=_as(identity, client.token),
            # A listener has ended when the dispatch has: only then is the row dealt with.
            process_before_response=True,
            # What Socket Mode does not need: no request is signed, and there is no address to verify.
            request_verification_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            attaching_conversation_kwargs_enabled=False,
        )
        self._bolt.error(_raise)
        self._bolt.command(ANYTHING)(self._on_command)
        self._bolt.action(re.compile(f"^{ACTION}"))(self._on_button)
        self._bolt.action(re.compile(f"^{PAGE}"))(self._on_page)
        self._bolt.action(re.compile(f"^{SHARE}"))(self._on_share)
        self._bolt.action(CHOOSE)(self._on_choice)
        self._bolt.action(re.compile(f"^{VOTE}"))(self._on_vote)
        self._bolt.action(re.compile(f"^{PRESS}"))(self._on_alert)
        self._bolt.view(DENIAL)(self._on_denial)
        forms.listen(self._bolt, self._commanded)
        if homes is not None:
            homes.listen(self._bolt, self._voted, self._asked_how)
        self._bolt.event("app_mention")(self._on_mention)
        self._bolt.event("message")(self._on_message)
        self._bolt.event(ANYTHING)(_pass)  # last: what the app is subscribed to and has no use for yet

    async def deal(self, received: Received) -> Dealt:
        """Do what this envelope asks for."""
        context = {"received": received}
        request = AsyncBoltRequest(body=dict(received.payload), mode="socket_mode", context=context)
        await self._bolt.async_dispatch(request)
        dealt = request.context.get("dealt")
        return dealt if isinstance(dealt, Dealt) else Dealt()

    async def _commanded(self, asked: Asked) -> Dealt:
        return await _careful(asked, self._doors.command(asked))

    async def _voted(self, vote: Vote) -> Dealt:
        return await _careful(vote.asked, self._doors.vote(vote))

    async def _asked_how(self, vote: Vote) -> Dealt:
        return await _careful(vote.asked, self._doors.ask_how(vote))

    async def _on_command(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(typed(context["received"]))

    async def _on_mention(self, context: AsyncBoltContext) -> None:
        received = context["received"]
        direct = str(received.payload["event"]["channel"]).startswith("D")
        context["dealt"] = await self._commanded(said(received) if direct else mentioned(received))

    async def _on_message(self, context: AsyncBoltContext) -> None:
        received = context["received"]
        if is_said_to_us(received.payload["event"]):
            context["dealt"] = await self._commanded(said(received))

    async def _on_button(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(pressed(context["received"], named(action["action_id"])))

    async def _on_page(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        command = action["action_id"].removeprefix(PAGE).partition(":")[2]
        context["dealt"] = await self._commanded(turned(context["received"], command))

    async def _on_share(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(shared(context["received"], action["action_id"].removeprefix(SHARE)))

    async def _on_choice(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(chosen(context["received"]))

    async def _on_vote(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        vote = voted(context["received"], action["action_id"].removeprefix(VOTE))
        deal = self._doors.ask_why if vote.choice == "deny" else self._doors.vote
        context["dealt"] = await _careful(vote.asked, deal(vote))

    async def _on_alert(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        attention = attended(context["received"], action["action_id"].removeprefix(PRESS))
        context["dealt"] = await _careful(attention.asked, self._doors.attend(attention))

    async def _on_denial(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        vote = denied(context["received"])
        context["dealt"] = await self._voted(vote)


async def _careful(asked: Asked, dealing: Awaitable[Dealt]) -> Dealt:
    """The edge of a request: whoever asked hears of our mistake, with a reference to what the log says."""
    try:
        dealt = await dealing
    except Exception as error:
        log.exception("%s (%s) could not be dealt with", asked.task_id, asked.key)
        apology = text_message(
            f":boom: Something went wrong on our side (ref `{asked.task_id}`). `/supervisor status` shows what became "
            "of it; the log has the reason under that reference."
        )
        return Dealt(messages=(whisper(asked, apology),), error=f"{asked.task_id}: {describe(error)}")
    rest = dealt.rest
    if rest is None:
        return dealt

    async def careful_rest(say: Say) -> Dealt:
        return await _careful(asked, rest(say))

    return replace(dealt, rest=careful_rest)


def _quiet() -> logging.Logger:
    """Bolt's own remarks are for who writes an app: that a token is not needed, that a request has no listener."""
    logger = logging.getLogger("bot.bolt")
    logger.setLevel(logging.ERROR)
    return logger


def _as(identity: Identity, token: str | None) -> Callable[..., Awaitable[AuthorizeResult]]:
    """Bolt need not ask Slack at each request who we are."""
    result = AuthorizeResult(
        enterprise_id=None,
        team_id=identity.team_id,
        bot_user_id=identity.user_id,
        bot_id=identity.bot_id,
        bot_token=token,
    )

    async def authorize() -> AuthorizeResult:
        return result

    return authorize


async def _raise(error: Exception) -> None:
    """What a listener raises is for whoever holds the row."""
    raise error


async def _pass() -> None:
    """Nothing to do."""
