"""HTTP mode: signed requests to the app's request URL, their answers, their failures and their repetition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient

from playground.tests.support.apps import BUTTONS, modal
from slack_playground import NotSeen, Playground, Timings
from slack_playground.values import PlaygroundError

SHORT = Timings(ack=0.3, redelivery=(0.0, 0.05))


@asynccontextmanager
async def serving(slack: Playground, application: web.Application) -> AsyncIterator[None]:
    """The app listens on a port of its own, and the playground posts to it."""
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        slack.posts_to(f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events")
        await slack.connected()
        yield
    finally:
        await runner.cleanup()


def bolt(slack: Playground, secret: str = "") -> AsyncApp:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)
    return AsyncApp(client=client, signing_secret=secret or slack.signing_secret)


async def test_commands_clicks_forms_and_events_are_posted(slack: Playground):
    app = bolt(slack)

    @app.command("/deploy")
    async def deploy(ack, say):
        await ack("On it")
        await say(text="Deploy?", blocks=BUTTONS)

    @app.action("approve")
    async def approve(ack, body, client):
        await ack()
        await client.views_open(trigger_id=body["trigger_id"], view=modal("Why?"))

    @app.view("form")
    async def submitted(ack, view, client):
        why = view["state"]["values"]["label"]["text"]["value"]
        if why == "no":
            await ack(response_action="errors", errors={"label": "Say more"})
            return
        await ack()
        await client.chat_postMessage(channel="#ops", text=f"because {why}")

    @app.event("app_mention")
    async def mentioned(say):
        await say("You called?")

    async with serving(slack, app.web_app("/slack/events")):
        ann = slack.user("ann")
        await ann.slash("/deploy web")
        await ann.sees("On it")
        card = await slack.channel("ops").shows("Deploy")
        await card.button("Approve").click(as_=ann)
        form = await ann.modal("Why?")
        await form.fill("Label", "no")
        assert (await form.submit())["errors"] == {"label": "Say more"}
        await form.fill("Label", "it works")
        await form.submit()
        await form.is_closed()
        await slack.channel("ops").shows("because it works")
        await ann.says("@bot hi")
        await slack.channel("ops").shows("You called?")
        assert slack.server.world.app_json()["connections"] == 1
    assert {entry["connection"] for entry in slack.journal("envelope")} == {0}


@pytest.mark.playground(timings=SHORT)
async def test_a_request_that_is_signed_with_another_secret_is_refused_by_the_app(slack: Playground):
    app = bolt(slack, "another secret")

    @app.command("/deploy")
    async def deploy(ack):
        await ack("never")

    async with serving(slack, app.web_app("/slack/events")):
        ann = slack.user("ann")
        await ann.slash("/deploy", expect="dispatch_failed")
        await ann.sees("dispatch_failed")
    assert slack.journal("no_ack")[-1]["reason"] == "status 401"
    assert any("challenge" in entry["text"] for entry in slack.journal("warning"))


@pytest.mark.playground(timings=SHORT)
async def test_an_event_that_fails_is_posted_again_and_a_slow_command_fails(slack: Playground):
    seen: list[dict[str, str]] = []

    async def events(request: web.Request) -> web.Response:
        if request.content_type == "application/json":
            body: dict[str, Any] = await request.json()
            if body["type"] == "event_callback" and body["event"]["type"] == "app_mention":
                seen.append({key: value for key, value in request.headers.items() if "Retry" in key})
                return web.Response(status=500)
            return web.Response(text=body.get("challenge", ""))
        await asyncio.sleep(1)
        return web.Response()

    application = web.Application()
    application.add_routes([web.post("/slack/events", events)])
    async with serving(slack, application):
        ann = slack.user("ann")
        await ann.says("@bot hi")
        await slack.eventually(lambda: len(seen) == 3, "the event didn't come three times")
        await ann.slash("/slow", expect="operation_timeout")
    assert seen[0] == {}
    assert seen[2] == {"X-Slack-Retry-Num": "2", "X-Slack-Retry-Reason": "http_error"}


@pytest.mark.playground(timings=SHORT)
@pytest.mark.parametrize(("status", "headers"), [(202, {}), (500, {"X-Slack-No-Retry": "1"})])
async def test_an_event_is_not_posted_again_after_a_success_or_if_the_app_wants_no_retry(
    slack: Playground, status: int, headers: dict[str, str]
):
    seen: list[str] = []

    async def events(request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        if body["type"] == "event_callback":
            seen.append(body["event"]["type"])
            return web.Response(status=status, headers=headers)
        return web.Response(text=body["challenge"])

    application = web.Application()
    application.add_routes([web.post("/slack/events", events)])
    async with serving(slack, application):
        await slack.user("ann").says("@bot hi")
        await slack.eventually(lambda: "app_mention" in seen, "the event didn't come")
        await asyncio.sleep(sum(SHORT.redelivery) + 0.1)
    assert sorted(seen) == ["app_mention", "message"]


@pytest.mark.playground(request_url="http://127.0.0.1:9/slack/events", patience=0.3)
async def test_nobody_at_the_address(slack: Playground):
    with pytest.raises(NotSeen, match="nobody answered"):
        await slack.connected()
    await slack.user("ann").slash("/deploy", expect="dispatch_failed")


async def test_the_address_is_on_this_machine(slack: Playground):
    with pytest.raises(PlaygroundError, match="on this machine"):
        slack.posts_to("https://example.com/slack/events")
    async with aiohttp.ClientSession() as session:
        address = f"{slack.url}_playground/request_url"
        async with session.post(address, json={"url": "http://localhost:1/x"}) as answer:
            assert (await answer.json())["url"] == "http://localhost:1/x"
        async with session.post(address, json={"url": "file:///etc/passwd"}) as answer:
            assert (await answer.json())["error"] == "bad_request_url"
        async with session.post(address, json={"url": ""}) as answer:
            assert (await answer.json())["url"] == ""
    assert slack.server.delivery.request_url == ""
