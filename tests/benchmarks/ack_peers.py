"""The programs beside which the daemon is measured: bare Bolt, sync and async, and clients that only ack or only post.

Each is a program of its own: `python -m tests.benchmarks.ack_peers NAME`, told by the environment where its Slack is.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import time
from typing import Any

from aiohttp import ClientSession, WSMsgType
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_sdk import WebClient
from slack_sdk.web.async_client import AsyncWebClient

COMMAND = "/supervisor"
QUICK = "help"
"""The command whose listener has nothing to do after its acknowledgement."""

WORK_SECONDS = 1.0
"""What every other command takes after its acknowledgement: about as long as a deploy script needs to say anything."""

CARD = "pause OrionMX"
"""The command whose listener posts a message after its acknowledgement."""

POSTS, PAUSE_SECONDS = 30, 0.1


def bolt_sync() -> None:
    """Bolt as its first page shows it, with the built-in Socket Mode client."""
    app = App(client=WebClient(token=os.environ["SLACK_BOT_TOKEN"], base_url=os.environ["SLACK_API_URL"]))

    @app.command(COMMAND)
    def work(ack: Any, body: dict[str, Any]) -> None:
        ack()
        if body["text"] == CARD:
            app.client.chat_postMessage(channel=body["channel_id"], text="Paused")
        elif body["text"] != QUICK:
            time.sleep(WORK_SECONDS)

    client = WebClient(base_url=os.environ["SLACK_API_URL"])
    SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"], web_client=client).start()  # type: ignore[no-untyped-call]


async def bolt_async() -> None:
    """The same with Bolt's asyncio half and its aiohttp client."""
    app = AsyncApp(client=AsyncWebClient(token=os.environ["SLACK_BOT_TOKEN"], base_url=os.environ["SLACK_API_URL"]))

    @app.command(COMMAND)
    async def work(ack: Any, body: dict[str, Any]) -> None:
        await ack()
        if body["text"] == CARD:
            await app.client.chat_postMessage(channel=body["channel_id"], text="Paused")
        elif body["text"] != QUICK:
            await asyncio.sleep(WORK_SECONDS)

    client = AsyncWebClient(base_url=os.environ["SLACK_API_URL"])
    handler = AsyncSocketModeHandler(app, os.environ["SLACK_APP_TOKEN"], web_client=client)
    await handler.start_async()  # type: ignore[no-untyped-call]


async def floor() -> None:
    """Acknowledges whatever comes and keeps none of it: what the wire and the playground take by themselves."""
    opened = await AsyncWebClient(base_url=os.environ["SLACK_API_URL"]).apps_connections_open(
        app_token=os.environ["SLACK_APP_TOKEN"]
    )
    async with ClientSession() as session, session.ws_connect(str(opened["url"])) as socket:
        async for message in socket:
            if message.type is WSMsgType.TEXT and (envelope_id := json.loads(message.data).get("envelope_id")):
                await socket.send_str(json.dumps({"envelope_id": envelope_id}))


async def post() -> None:
    """Posts messages one after the other, and prints the milliseconds of each call: the floor of a message."""
    client = AsyncWebClient(token=os.environ["SLACK_BOT_TOKEN"], base_url=os.environ["SLACK_API_URL"])
    times = []
    for _ in range(POSTS):
        begun = time.perf_counter()
        await client.chat_postMessage(channel=sys.argv[2], text="Crashed")
        times.append((time.perf_counter() - begun) * 1000)
        await asyncio.sleep(PAUSE_SECONDS)
    print(json.dumps(times))


if __name__ == "__main__":
    logging.getLogger("slack_bolt").setLevel(logging.CRITICAL)
    if sys.argv[1] == "bolt-sync":
        bolt_sync()
    else:
        asyncio.run({"bolt-async": bolt_async, "floor": floor, "post": post}[sys.argv[1]]())
