"""The router: a Bolt app that dispatches stored envelopes by one table of routes."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from slack_bolt.async_app import AsyncAck, AsyncApp, AsyncBoltContext
from slack_bolt.authorization import AuthorizeResult
from slack_bolt.request.async_request import AsyncBoltRequest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.dispatcher import Response, SendNow
from bot.inbound.identity import Identity
from bot.outbound.home import refresh_page
from bot.outbound.messages import whisper
from bot.outbound.slack_errors import explain, failure_text
from bot.requests import request as requests
from bot.requests.handlers import RequestHandlers
from bot.requests.request import Request, VoteRequest
from bot.views import forms
from bot.views.answers.help import CHOOSE
from bot.views.blocks import text_message
from bot.views.buttons import ACTION, DO, PAGE, WITHDRAW
from bot.views.cards.alert import PRESS
from bot.views.cards.approval import DECISION, DENIAL, VOTE
from bot.views.forms import VALUE
from bot.views.home import DECIDE, REFRESH, SHOW
from bot.views.home import PAGE as HOME_PAGE
from bot.views.text import escape
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message

ANYTHING = re.compile(".*")

log = logging.getLogger(__name__)

R = TypeVar("R")
Pattern = str | re.Pattern[str]


@dataclass(frozen=True, slots=True)
class Route:
    """One listener of the Bolt app: the kind of envelope, the name that it carries, and the handler."""

    kind: str
    """`command`, `action`, `view`, `shortcut` or `event`, as Bolt calls them."""
    name: Pattern
    handle: Callable[[RequestHandlers, StoredEnvelope], Awaitable[Response]]


def route(
    kind: str,
    name: Pattern,
    parse: Callable[[StoredEnvelope], R | None],
    handler: Callable[[RequestHandlers], Callable[[R], Awaitable[Response]]],
) -> Route:
    """A route whose envelopes are parsed into a request; if that gives None, there is nothing to do."""

    async def handle(handlers: RequestHandlers, envelope: StoredEnvelope) -> Response:
        parsed = parse(envelope)
        if parsed is None:
            return Response()
        response = handler(handlers)(parsed)
        request = parsed.request if isinstance(parsed, VoteRequest) else parsed
        if not isinstance(request, Request):
            return await response
        # App Home acts through forms, so whoever sends one may be looking at it.
        return await handle_safely(request, response, (refresh_page(request.user),) if kind == "view" else ())

    return Route(kind, name, handle)


def _prefix(text: str) -> re.Pattern[str]:
    return re.compile(f"^{re.escape(text)}")


def _envelope(envelope: StoredEnvelope) -> StoredEnvelope:
    return envelope


ROUTES: Sequence[Route] = (
    route("command", ANYTHING, requests.from_slash_command, lambda to: to.commands.handle),
    route("event", "app_mention", requests.from_mention, lambda to: to.commands.handle),
    route("event", "message", requests.from_direct_message, lambda to: to.commands.handle),
    route("action", _prefix(ACTION), requests.from_command_button, lambda to: to.commands.handle),
    route("action", _prefix(PAGE), requests.from_page_button, lambda to: to.commands.handle),
    route("action", CHOOSE, requests.from_menu, lambda to: to.commands.handle),
    route("action", f"{VOTE}deny", requests.from_vote_button, lambda to: to.votes.ask_reason),
    route("action", _prefix(VOTE), requests.from_vote_button, lambda to: to.votes.handle),
    route("view", DENIAL, requests.from_denial_form, lambda to: to.votes.handle),
    route("action", DECIDE, requests.from_home_button, lambda to: to.votes.ask_vote),
    route("view", DECISION, requests.from_decision_form, lambda to: to.votes.handle),
    route("action", WITHDRAW, requests.from_withdraw_button, lambda to: to.held.cancel),
    route("action", _prefix(PRESS), requests.from_alert_button, lambda to: to.alerts.handle),
    route("shortcut", forms.SHORTCUT, _envelope, lambda to: to.forms.open_picker),
    route("shortcut", forms.SHORTCUT_ON_MESSAGE, _envelope, lambda to: to.forms.open_picker),
    route("action", forms.OPEN, _envelope, lambda to: to.forms.open_picker),
    route("action", forms.PICK, _envelope, lambda to: to.forms.show_picked),
    route("action", VALUE, _envelope, lambda to: to.forms.choose),
    route("view", forms.FORM, requests.from_form, lambda to: to.forms.submit),
    route("event", "member_joined_channel", _envelope, lambda to: to.introductions.joined),
    route("event", "app_home_opened", _envelope, lambda to: to.home.open),
    route("action", re.compile(f"^{DO}(:|$)"), _envelope, lambda to: to.home.open_form),
    route("action", re.compile(f"^({HOME_PAGE}:|{REFRESH}$|{SHOW}$)"), _envelope, lambda to: to.home.turn),
)
"""The first route that matches is taken."""


class Router:
    """Dispatches stored envelopes through Bolt. `handlers` gives the handlers of the configuration in force."""

    def __init__(self, client: AsyncWebClient, identity: Identity, handlers: Callable[[], RequestHandlers]) -> None:
        self._handlers = handlers
        self._identity = identity
        logger = logging.getLogger("bot.bolt")
        logger.setLevel(logging.ERROR)  # Bolt's remarks for app developers stay out of the log
        own = AuthorizeResult(
            enterprise_id=None,
            team_id=identity.team_id,
            bot_user_id=identity.user_id,
            bot_id=identity.bot_id,
            bot_token=client.token,
        )

        async def authorize() -> AuthorizeResult:
            """Our identity, so that Bolt doesn't ask Slack at each request."""
            return own

        self._bolt = AsyncApp(
            name="supervisor",  # else Bolt looks for its caller's file among those of all modules
            client=client,
            logger=logger,
            authorize=authorize,
            # The dispatch ends after its listener; only then is the row handled.
            process_before_response=True,
            # Socket Mode doesn't need these: no request is signed, and there is no address to verify.
            request_verification_enabled=False,
            ssl_check_enabled=False,
            url_verification_enabled=False,
            attaching_function_token_enabled=False,
            attaching_conversation_kwargs_enabled=False,
        )
        self._bolt.error(_raise_error)
        register: Mapping[str, Callable[[Pattern], Callable[..., object]]] = {
            "command": self._bolt.command,
            "action": self._bolt.action,
            "view": self._bolt.view,
            "shortcut": self._bolt.shortcut,
            "event": self._bolt.event,
        }
        for each in ROUTES:
            register[each.kind](each.name)(self._listener(each))
        self._bolt.event(ANYTHING)(_ignore)  # last: events that nothing handles

    async def handle(self, envelope: StoredEnvelope) -> Response:
        """Handle one envelope. A message in a channel that isn't addressed to the bot gets no response."""
        if not self._identity.is_meant(envelope.payload.get("event") or {}):
            return Response()
        context = {"envelope": envelope, "responses": (responses := [Response()])}
        await self._bolt.async_dispatch(
            AsyncBoltRequest(body=dict(envelope.payload), mode="socket_mode", context=context)
        )
        return responses[-1]

    def _listener(self, each: Route) -> Callable[..., Awaitable[None]]:
        async def listen(ack: AsyncAck, context: AsyncBoltContext) -> None:
            await ack()
            context["responses"].append(await each.handle(self._handlers(), context["envelope"]))

        return listen


async def handle_safely(request: Request, handling: Awaitable[Response], more: tuple[Message, ...] = ()) -> Response:
    """Handle a request, and order `more` messages with its own. On an unexpected error the sender gets a reference to
    the log."""
    try:
        response = await handling
    except Exception as error:
        log.exception("%s (%s) could not be handled", request.task_id, request.key)
        refused = f" Slack refused a call: {escape(explain(error))}." if isinstance(error, SlackApiError) else ""
        apology = text_message(
            f":boom: Something went wrong on our side (ref `{request.task_id}`).{refused} The log has the reason under "
            "that reference; `/supervisor status` shows how the workers are."
        )
        return Response(messages=(whisper(request, apology),), error=f"{request.task_id}: {failure_text(error)}")
    rest = response.rest
    if rest is None:
        return replace(response, messages=(*response.messages, *more))

    async def safe_rest(send: SendNow) -> Response:
        return await handle_safely(request, rest(send), more)

    return replace(response, rest=safe_rest)


async def _raise_error(error: Exception) -> None:
    """Raise a listener's error to the caller."""
    raise error


async def _ignore() -> None:
    """Nothing to do."""
