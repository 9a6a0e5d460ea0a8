"""An Enterprise organization: the shapes that differ, for an app in one workspace and one that is organization-wide."""

from __future__ import annotations

import time
from typing import Any

import aiohttp
import pytest
from slack_sdk.webhook.async_client import AsyncWebhookClient

from playground.tests.support.apps import async_app, running
from playground.tests.test_web_api import client_of
from slack_playground import Playground
from slack_playground.values import PlaygroundError

HOME, ELSEWHERE = "T0PLAYGROUND", "T0ELSEWHERE"


async def envelopes(slack: Playground) -> list[dict[str, Any]]:
    """The payloads of a command, a mention, a global shortcut and a click, in this order."""
    app, seen = async_app(slack), []

    @app.middleware
    async def note(body, next_):
        seen.append(body)
        await next_()

    @app.command("/hello")
    async def hello(ack, say):
        await ack()
        element = {"type": "button", "action_id": "go", "text": {"type": "plain_text", "text": "Go"}}
        await say(text="hi", blocks=[{"type": "actions", "elements": [element]}])

    @app.event("app_mention")
    async def mentioned(say):
        await say("mentioned")

    @app.shortcut("open")
    @app.action("go")
    async def done(ack):
        await ack()

    async with running(slack, app):
        ann = slack.user("ann")
        card = await ann.slash("/hello")
        await ann.says("@app hi")
        await slack.channel("ops").shows("mentioned")
        await ann.shortcut("open")
        await card.button("Go").click()
    return seen


SHORTCUT = {
    "display_information": {"name": "app"},
    "features": {
        "slash_commands": [{"command": "/hello"}],
        "shortcuts": [{"name": "Open", "type": "global", "callback_id": "open", "description": "x"}],
    },
    "oauth_config": {"scopes": {"bot": ["chat:write", "commands", "app_mentions:read", "users:read"]}},
    "settings": {"interactivity": {"is_enabled": True}, "event_subscriptions": {"bot_events": ["app_mention"]}},
}


@pytest.mark.playground(SHORTCUT, enterprise="workspace")
async def test_an_app_in_one_workspace_of_an_organization(slack: Playground):
    told = await client_of(slack).auth_test()
    assert (told["team_id"], told["enterprise_id"], told["is_enterprise_install"]) == (HOME, "E0PLAYGROUND", False)
    command, event, shortcut, click = await envelopes(slack)
    assert (command["enterprise_id"], command["is_enterprise_install"]) == ("E0PLAYGROUND", "false")
    assert (event["team_id"], event["enterprise_id"]) == (HOME, "E0PLAYGROUND")
    [authorization] = event["authorizations"]
    assert (authorization["enterprise_id"], authorization["team_id"]) == ("E0PLAYGROUND", HOME)
    assert authorization["is_enterprise_install"] is False
    for payload in (shortcut, click):
        assert payload["enterprise"] == {"id": "E0PLAYGROUND", "name": "Playground Inc."}
        assert (payload["team"]["id"], payload["is_enterprise_install"]) == (HOME, False)


@pytest.mark.playground(SHORTCUT, enterprise="organization")
async def test_an_organization_wide_app(slack: Playground):
    told = await client_of(slack).auth_test()
    assert (told["team_id"], told["is_enterprise_install"]) == ("E0PLAYGROUND", True)
    command, event, shortcut, click = await envelopes(slack)
    assert command["is_enterprise_install"] == "true"
    [authorization] = event["authorizations"]
    assert (authorization["team_id"], authorization["is_enterprise_install"]) == (None, True)
    assert (shortcut["team"], shortcut["is_enterprise_install"]) == (None, True)
    assert shortcut["user"]["team_id"] == click["team"]["id"] == HOME


@pytest.mark.playground(enterprise="workspace")
async def test_the_workspaces_of_a_user_are_in_enterprise_user(slack: Playground):
    async def told(**about: object) -> dict[str, Any]:
        user = slack.user("ann", **about)
        answer = await client_of(slack).users_info(user=user.id)
        return dict(answer["user"])

    ann = await told()
    assert "team_id" not in ann
    assert ann["enterprise_user"]["teams"] == [HOME]
    foreign = await told(team_id=ELSEWHERE, teams=[ELSEWHERE])
    assert foreign["team_id"] == ELSEWHERE
    assert foreign["enterprise_user"]["teams"] == [ELSEWHERE]
    both = await told(teams=[ELSEWHERE, HOME])
    assert both["enterprise_user"]["teams"] == [ELSEWHERE, HOME]


async def test_a_workspace_of_its_own_has_no_organization(slack: Playground):
    told = await client_of(slack).auth_test()
    assert "enterprise_id" not in told.data
    user = (await client_of(slack).users_info(user=slack.user("ann").id))["user"]
    assert user["team_id"] == HOME
    assert "enterprise_user" not in user
    assert "teams" not in user


def test_another_word_is_refused():
    with pytest.raises(PlaygroundError, match="grid"):
        Playground(enterprise="grid")


@pytest.mark.playground(latency=0.2)
async def test_latency_delays_each_call(slack: Playground):
    started = time.monotonic()
    await client_of(slack).auth_test()
    assert time.monotonic() - started >= 0.2
    [call] = slack.calls("auth.test")
    assert call["ms"] >= 200
    started = time.monotonic()
    url = slack.server.grants.response_url("commands", slack.channel("ops").id, slack.user("ann").id)
    await AsyncWebhookClient(url).send(text="hi")
    assert time.monotonic() - started >= 0.2
    slack.delay(0)
    await client_of(slack).auth_test()
    assert slack.calls("auth.test")[-1]["ms"] < 200


async def test_latency_is_set_over_http(slack: Playground):
    async with aiohttp.ClientSession() as session:
        async with session.post(f"{slack.url}_playground/latency", json={"seconds": 0.2}) as answer:
            assert await answer.json() == {"ok": True, "seconds": 0.2}
        await client_of(slack).auth_test()
        assert slack.calls("auth.test")[-1]["ms"] >= 200
        async with session.post(f"{slack.url}_playground/latency", json={"seconds": "x"}) as answer:
            assert (await answer.json())["error"] == "bad_value"


async def test_teams_of_a_user_are_set_over_http(slack: Playground):
    async with aiohttp.ClientSession() as session:
        body = {"name": "ann", "teams": [ELSEWHERE]}
        async with session.post(f"{slack.url}_playground/users", json=body) as answer:
            assert (await answer.json())["user"]["teams"] == [ELSEWHERE]
        async with session.post(f"{slack.url}_playground/users", json={"name": "ann", "teams": "x"}) as answer:
            assert (await answer.json())["error"] == "bad_value"
