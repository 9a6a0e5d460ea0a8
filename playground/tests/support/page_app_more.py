"""The app of the page's tests with more to it: it can be busy, retries, offers choices, has shortcuts."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from slack_bolt import App, BoltResponse
from slack_sdk.http_retry.builtin_handlers import RateLimitErrorRetryHandler

from playground.tests.support import page_app
from playground.tests.support.blockkit_samples import Json, actions, mrkdwn, option, plain

CITIES = ("Paris", "Parma", "Oslo")
SHORTCUTS = (
    {"name": "Fill in the form", "type": "global", "callback_id": "open_form", "description": "Opens a form"},
    {"name": "Ignored", "type": "global", "callback_id": "ignored", "description": "Nobody answers"},
    {"name": "Quote it", "type": "message", "callback_id": "quote", "description": "Says it again"},
)
COMMANDS = ({"command": "/city", "description": "Choose a city"},)


def manifest() -> Json:
    """The manifest of the app."""
    made = copy.deepcopy(page_app.MANIFEST)
    made["features"]["slash_commands"] += COMMANDS
    made["features"]["shortcuts"] = list(SHORTCUTS)
    made["oauth_config"]["scopes"]["bot"] += ["reactions:read"]
    made["settings"]["event_subscriptions"]["bot_events"] += ["reaction_added", "message.channels"]
    return made


class Busy:
    """How many of the next mentions the app does not acknowledge, and what it was told of retries."""

    def __init__(self) -> None:
        self.left = 0
        self.retries: list[str] = []


def make(slack: Any, busy: Busy) -> App:
    """The app, wired to this playground."""
    app = page_app.make(slack)
    app.client.retry_handlers.append(RateLimitErrorRetryHandler(max_retry_count=3))
    _sometimes_busy(app, busy)
    _choices(app)
    _shortcuts(app)
    _hearing(app)
    return app


def _sometimes_busy(app: App, busy: Busy) -> None:
    @app.middleware
    def answer_or_not(request: Any, next: Callable[[], BoltResponse]) -> BoltResponse:  # noqa: A002 -- Bolt's word
        if request.body.get("event", {}).get("type") != "app_mention":
            return next()
        busy.retries += request.headers.get("x-slack-retry-num", [])
        if busy.left:
            busy.left -= 1
            return BoltResponse(status=503)
        return next()


def _choices(app: App) -> None:
    menu = {"type": "external_select", "action_id": "city", "min_query_length": 2, "placeholder": plain("Which city?")}

    @app.command("/city")
    def city(ack: Any, say: Any) -> None:
        ack()
        say(text="A city", blocks=[{"type": "section", "text": mrkdwn("A city, please")}, actions(menu)])

    @app.options("city")
    def cities(ack: Any, payload: Json) -> None:
        typed = payload["value"].lower()
        ack(options=[option(name) for name in CITIES if name.lower().startswith(typed)])

    @app.action("city")
    def chosen(ack: Any, action: Json, say: Any) -> None:
        ack()
        say(f"off to {action['selected_option']['value']}")


def _shortcuts(app: App) -> None:
    @app.shortcut("open_form")
    def open_form(ack: Any, body: Json, client: Any) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=page_app.form())

    @app.shortcut("ignored")
    def ignored() -> None:
        """No ack at all."""

    @app.shortcut("quote")
    def quote(ack: Any, shortcut: Json, client: Any) -> None:
        ack()
        client.chat_postMessage(
            channel=shortcut["channel"]["id"], text=f"<@{shortcut['user']['id']}> quotes: {shortcut['message']['text']}"
        )


def _hearing(app: App) -> None:
    @app.event("reaction_added")
    def reacted(event: Json, client: Any) -> None:
        client.chat_postMessage(channel=event["item"]["channel"], text=f"somebody sent {event['reaction']}")

    @app.event({"type": "message", "subtype": "message_changed"})
    def changed(event: Json, client: Any) -> None:
        if not event["message"].get("bot_id"):
            client.chat_postMessage(channel=event["channel"], text=f"now it says: {event['message']['text']}")

    @app.event("message")
    def heard() -> None:
        """Everything else that is said needs an ack and no answer."""
