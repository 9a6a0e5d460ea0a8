"""A Bolt app that shows everything the page must be able to draw and use, and its manifest."""

from __future__ import annotations

from typing import Any

from slack_bolt import App
from slack_sdk import WebClient

from playground.tests.support.blockkit_samples import (
    CONFIRM,
    MENUS,
    TYPED,
    VIEWS,
    Json,
    actions,
    button,
    field,
    modal,
    mrkdwn,
    plain,
)

MANIFEST: Json = {
    "display_information": {"name": "Deployer"},
    "features": {
        "bot_user": {"display_name": "deployer"},
        "app_home": {"home_tab_enabled": True, "messages_tab_enabled": True},
        "slash_commands": [
            {"command": "/deploy", "description": "Deploy something", "usage_hint": "[what]", "should_escape": True},
            {"command": "/form", "description": "Fill in a form"},
            {"command": "/slow", "description": "Never answers"},
            {"command": "/whisper", "description": "Only for you"},
            {"command": "/view", "description": "Shows a sample of a view", "usage_hint": "[name]"},
        ],
    },
    "oauth_config": {
        "scopes": {
            "bot": [
                *("commands", "chat:write", "chat:write.public", "channels:read", "channels:history", "files:write"),
                *("users:read", "im:write", "im:history", "app_mentions:read", "reactions:write"),
            ]
        }
    },
    "settings": {
        "socket_mode_enabled": True,
        "interactivity": {"is_enabled": True},
        "event_subscriptions": {"bot_events": ["app_mention", "app_home_opened"]},
    },
}


def card(state: str = "") -> list[Json]:
    """A card with two buttons, or its end."""
    if state:
        return [{"type": "section", "text": mrkdwn(f"*web* is {state}")}]
    approve = button(text=plain("Approve"), action_id="approve", style="primary")
    deny = button(text=plain("Deny"), action_id="deny", style="danger", confirm=CONFIRM)
    return [{"type": "section", "text": mrkdwn("Deploy *web*?")}, actions(approve, deny)]


def form() -> Json:
    """A modal with a text field that refuses `bad`, a menu, and a button that stacks another on top."""
    return modal(
        field({**TYPED["text"], "action_id": "name"}, block_id="name", label=plain("Name")),
        field({**MENUS["static"], "action_id": "pick"}, block_id="pick", label=plain("Pick one"), optional=True),
        actions(button(text=plain("More"), action_id="more")),
        callback_id="form",
    )


def make(slack: Any) -> App:
    """The app, wired to this playground."""
    app = App(client=WebClient(token=slack.bot_token, base_url=slack.api_url))
    _commands(app)
    _buttons(app)
    _forms(app)
    _events(app)
    return app


def _commands(app: App) -> None:
    @app.command("/deploy")
    def deploy(ack: Any, say: Any) -> None:
        ack()
        say(text="Deploy web?", blocks=card())

    @app.command("/form")
    def open_form(ack: Any, body: Json, client: Any) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=form())

    @app.command("/view")
    def view(ack: Any, body: Json, client: Any) -> None:
        ack()
        client.views_open(trigger_id=body["trigger_id"], view=VIEWS[body["text"]])

    @app.command("/whisper")
    def whisper(ack: Any, respond: Any) -> None:
        ack()
        respond("psst, a secret")

    @app.command("/slow")
    def slow() -> None:
        """No ack at all."""


def _buttons(app: App) -> None:
    @app.action("approve")
    def approve(ack: Any, body: Json, client: Any) -> None:
        ack()
        where = {"channel": body["channel"]["id"], "ts": body["message"]["ts"]}
        client.chat_update(**where, text="approved", blocks=card(f"approved by <@{body['user']['id']}>"))

    @app.action("deny")
    def deny(ack: Any, body: Json, client: Any) -> None:
        ack()
        client.chat_update(
            channel=body["channel"]["id"], ts=body["message"]["ts"], text="denied", blocks=card("denied")
        )

    @app.action("more")
    def more(ack: Any, body: Json, client: Any) -> None:
        ack()
        second = {
            **modal({"type": "section", "text": mrkdwn("A second sheet")}),
            "title": plain("More"),
            "callback_id": "x",
        }
        client.views_push(trigger_id=body["trigger_id"], view=second)

    @app.action("press")
    @app.action("x")
    @app.action("o")
    def pressed(ack: Any) -> None:
        ack()


def _forms(app: App) -> None:
    @app.view("form")
    def sent(ack: Any, body: Json, view: Json, client: Any) -> None:
        name = view["state"]["values"]["name"]["name"]["value"]
        if name == "bad":
            ack(response_action="errors", errors={"name": "That is no good name"})
            return
        ack()
        client.chat_postMessage(channel="general", text=f"form says {name}")

    @app.view("x")
    def second_sent(ack: Any) -> None:
        ack()


def _events(app: App) -> None:
    @app.event("app_home_opened")
    def home(event: Json, client: Any) -> None:
        blocks = [
            {"type": "header", "text": plain("Your deploys")},
            actions(button(text=plain("Approve"), action_id="x")),
        ]
        client.views_publish(user_id=event["user"], view={"type": "home", "blocks": blocks})

    @app.event("app_mention")
    def mentioned(event: Json, say: Any) -> None:
        say("you called?", thread_ts=event["ts"])
