"""Bolt apps for the playground's tests: Slack's own SDK as it is, in each shape that people use."""

from __future__ import annotations

import logging
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk import WebClient
from slack_sdk.web.async_client import AsyncWebClient

from slack_playground import Playground

logging.getLogger("slack_bolt").setLevel(logging.CRITICAL)


def async_app(slack: Playground) -> AsyncApp:
    """An async app that talks to this playground."""
    return AsyncApp(client=AsyncWebClient(token=slack.bot_token, base_url=slack.api_url))


@asynccontextmanager
async def running(
    slack: Playground, app: AsyncApp, connections: int = 1
) -> AsyncIterator[list[AsyncSocketModeHandler]]:
    """The app is connected with Slack's aiohttp client."""
    handlers = []
    try:
        for _ in range(connections):
            client = AsyncWebClient(base_url=slack.api_url)
            handler = AsyncSocketModeHandler(app, slack.app_token, web_client=client)
            await handler.connect_async()
            handlers.append(handler)
        await slack.connected(connections)
        yield handlers
    finally:
        for handler in handlers:
            await handler.close_async()


def until(condition: Callable[[], object], seconds: float = 5.0) -> None:
    """Wait until this is true, in a test without await."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.02)


@contextmanager
def running_sync(slack: Any, app: App) -> Iterator[SocketModeHandler]:
    """A sync app is connected with the built-in client."""
    handler = SocketModeHandler(app, slack.app_token, web_client=WebClient(base_url=slack.api_url))
    handler.connect()
    try:
        slack.connected()
        yield handler
    finally:
        _end_reading(handler)
        handler.close()


def _end_reading(handler: SocketModeHandler) -> None:
    """Wake the client's thread, which else waits 3 s for the next frame, and `close` for it."""
    client = handler.client
    client.auto_reconnect_enabled = False
    client.current_session_state.terminated = True
    if client.current_session is not None and client.current_session.sock is not None:
        with suppress(OSError):
            client.current_session.sock.shutdown(socket.SHUT_RDWR)


BUTTONS = [
    {"type": "section", "block_id": "what", "text": {"type": "mrkdwn", "text": "Deploy *web*?"}},
    {
        "type": "actions",
        "block_id": "buttons",
        "elements": [
            {
                "type": "button",
                "action_id": "approve",
                "text": {"type": "plain_text", "text": "Approve"},
                "style": "primary",
                "value": "web",
            },
            {
                "type": "button",
                "action_id": "deny",
                "text": {"type": "plain_text", "text": "Deny"},
                "style": "danger",
                "confirm": {
                    "title": {"type": "plain_text", "text": "Deny it?"},
                    "text": {"type": "plain_text", "text": "The deploy will not happen."},
                    "confirm": {"type": "plain_text", "text": "Deny"},
                    "deny": {"type": "plain_text", "text": "Keep"},
                },
            },
        ],
    },
]


def modal(title: str, callback_id: str = "form", **more: object) -> dict[str, Any]:
    """A modal with one input."""
    return {
        "type": "modal",
        "callback_id": callback_id,
        "title": {"type": "plain_text", "text": title},
        "submit": {"type": "plain_text", "text": "Send"},
        "blocks": [
            {
                "type": "input",
                "block_id": "label",
                "label": {"type": "plain_text", "text": "Label"},
                "element": {"type": "plain_text_input", "action_id": "text"},
            }
        ],
        **more,
    }
