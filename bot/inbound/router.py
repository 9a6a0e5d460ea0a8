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

from bot.inbound.dispatcher import Response, SendNow
from bot.outbound.messages import whisper
from bot.requests.form_views import FormActions
from bot.requests.home_actions import HomeActions
from bot.requests.request import (
    AlertAction,
    Request,
    VoteRequest,
    from_alert_button,
    from_button,
    from_denial_form,
    from_direct_message,
    from_mention,
    from_menu,
    from_page_button,
    from_share_button,
    from_slash_command,
    from_vote_button,
    is_direct_message,
)
from bot.views.answers.help import CHOOSE
from bot.views.blocks import text_message
from bot.views.buttons import ACTION, PAGE, SHARE, command_name
from bot.views.cards.alert import PRESS
from bot.views.cards.approval import DENIAL, VOTE
from supervisor_core.common.errors import describe
from supervisor_core.storage.envelopes import StoredEnvelope

ANYTHING = re.compile(".*")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RequestHandlers:
    """Who deals with what."""

    command: Callable[[Request], Awaitable[Response]]
    vote: Callable[[VoteRequest], Awaitable[Response]]
    ask_why: Callable[[VoteRequest], Awaitable[Response]]
    """Somebody wants to deny: they may say why."""
    ask_how: Callable[[VoteRequest], Awaitable[Response]]
    """Somebody wants to vote from their own page."""
    attend: Callable[[AlertAction], Awaitable[Response]]
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


class Router:
    """Bolt as a router: it matches, our listeners deal, and what came of it goes back to whoever holds the row."""

    def __init__(
        self,
        client: AsyncWebClient,
        identity: Identity,
        doors: RequestHandlers,
        forms: FormActions,
        homes: HomeActions | None = None,
    ) -> None:
        self._doors = doors
        self._bolt = AsyncApp(
            client=client,
            logger=_bolt_logger(),
            authorize=_authorize_as(identity, client.token),
            # A listener has ended when the dispatch has: only then is the row dealt with.
            process_before_response=True,
            # What Socket Mode does not need: no request is signed, and there is no address to verify.
            request_verification_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            attaching_conversation_kwargs_enabled=False,
        )
        self._bolt.error(_raise_error)
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
        self._bolt.event(ANYTHING)(_ignore)  # last: what the app is subscribed to and has no use for yet

    async def deal(self, received: StoredEnvelope) -> Response:
        """Do what this envelope asks for."""
        context = {"received": received}
        request = AsyncBoltRequest(body=dict(received.payload), mode="socket_mode", context=context)
        await self._bolt.async_dispatch(request)
        dealt = request.context.get("dealt")
        return dealt if isinstance(dealt, Response) else Response()

    async def _commanded(self, asked: Request) -> Response:
        return await _handle_safely(asked, self._doors.command(asked))

    async def _voted(self, vote: VoteRequest) -> Response:
        return await _handle_safely(vote.request, self._doors.vote(vote))

    async def _asked_how(self, vote: VoteRequest) -> Response:
        return await _handle_safely(vote.request, self._doors.ask_how(vote))

    async def _on_command(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(from_slash_command(context["received"]))

    async def _on_mention(self, context: AsyncBoltContext) -> None:
        received = context["received"]
        direct = str(received.payload["event"]["channel"]).startswith("D")
        context["dealt"] = await self._commanded(from_direct_message(received) if direct else from_mention(received))

    async def _on_message(self, context: AsyncBoltContext) -> None:
        received = context["received"]
        if is_direct_message(received.payload["event"]):
            context["dealt"] = await self._commanded(from_direct_message(received))

    async def _on_button(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(from_button(context["received"], command_name(action["action_id"])))

    async def _on_page(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        command = action["action_id"].removeprefix(PAGE).partition(":")[2]
        context["dealt"] = await self._commanded(from_page_button(context["received"], command))

    async def _on_share(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(
            from_share_button(context["received"], action["action_id"].removeprefix(SHARE))
        )

    async def _on_choice(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        context["dealt"] = await self._commanded(from_menu(context["received"]))

    async def _on_vote(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        vote = from_vote_button(context["received"], action["action_id"].removeprefix(VOTE))
        deal = self._doors.ask_why if vote.choice == "deny" else self._doors.vote
        context["dealt"] = await _handle_safely(vote.request, deal(vote))

    async def _on_alert(self, ack: AsyncAck, action: dict[str, str], context: AsyncBoltContext) -> None:
        await ack()
        attention = from_alert_button(context["received"], action["action_id"].removeprefix(PRESS))
        context["dealt"] = await _handle_safely(attention.request, self._doors.attend(attention))

    async def _on_denial(self, ack: AsyncAck, context: AsyncBoltContext) -> None:
        await ack()
        vote = from_denial_form(context["received"])
        context["dealt"] = await self._voted(vote)


async def _handle_safely(asked: Request, dealing: Awaitable[Response]) -> Response:
    """The edge of a request: whoever asked hears of our mistake, with a reference to what the log says."""
    try:
        dealt = await dealing
    except Exception as error:
        log.exception("%s (%s) could not be dealt with", asked.task_id, asked.key)
        apology = text_message(
            f":boom: Something went wrong on our side (ref `{asked.task_id}`). `/supervisor status` shows what became "
            "of it; the log has the reason under that reference."
        )
        return Response(messages=(whisper(asked, apology),), error=f"{asked.task_id}: {describe(error)}")
    rest = dealt.rest
    if rest is None:
        return dealt

    async def careful_rest(say: SendNow) -> Response:
        return await _handle_safely(asked, rest(say))

    return replace(dealt, rest=careful_rest)


def _bolt_logger() -> logging.Logger:
    """Bolt's own remarks are for who writes an app: that a token is not needed, that a request has no listener."""
    logger = logging.getLogger("bot.bolt")
    logger.setLevel(logging.ERROR)
    return logger


def _authorize_as(identity: Identity, token: str | None) -> Callable[..., Awaitable[AuthorizeResult]]:
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


async def _raise_error(error: Exception) -> None:
    """What a listener raises is for whoever holds the row."""
    raise error


async def _ignore() -> None:
    """Nothing to do."""
