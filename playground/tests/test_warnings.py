"""Differences from Slack are told once: unknown arguments, and events without a subscription."""

from __future__ import annotations

import aiohttp
import pytest

from playground.tests.support.apps import async_app, running
from playground.tests.test_web_api import client_of, error_of
from slack_playground import Playground

SUBSCRIBED = {
    "display_information": {"name": "app"},
    "oauth_config": {"scopes": {"bot": ["chat:write", "app_mentions:read"]}},
    "settings": {"event_subscriptions": {"bot_events": ["app_mention"]}},
}


def warnings(slack: Playground) -> list[str]:
    return [entry["text"] for entry in slack.journal("warning")]


@pytest.mark.playground(strict=False)
async def test_an_unknown_argument_is_ignored_with_a_warning(slack: Playground):
    client = client_of(slack)
    answer = await client.chat_postMessage(channel="#ops", text="hi", ts="1.2", thread_id="1.2")
    assert answer["warning"] == "superfluous_arg"
    assert answer["response_metadata"]["warnings"] == ["superfluous_arg"]
    assert "'ts'" in answer["response_metadata"]["messages"][0]
    assert "'thread_id'" in answer["response_metadata"]["messages"][1]
    await slack.channel("ops").shows("hi")
    await client.chat_postMessage(channel="#ops", text="again", ts="1.2")
    assert len([words for words in warnings(slack) if "'ts'" in words]) == 1


@pytest.mark.parametrize(
    ("kind", "body", "warning"),
    [
        ("application/json", "{}", "missing_charset"),
        ("application/json; charset=utf-8", "{}", None),
        ("application/x-www-form-urlencoded", "", None),
        ("application/x-www-form-urlencoded; charset=utf-8", "", "superfluous_charset"),
    ],
)
async def test_json_needs_a_charset_and_a_form_has_none(slack: Playground, kind: str, body: str, warning: str | None):
    headers = {"Authorization": f"Bearer {slack.bot_token}", "Content-Type": kind}
    async with aiohttp.ClientSession(headers=headers) as session:
        for method in ("auth.test", "team.info"):
            async with session.post(slack.api_url + method, data=body) as answer:
                told = await answer.json()
                assert (told["ok"], told.get("warning")) == (True, warning)
                assert told.get("response_metadata", {}).get("warnings") == ([warning] if warning else None)


@pytest.mark.playground(strict=False)
async def test_a_warning_of_the_method_stays_beside_it(slack: Playground):
    client = client_of(slack)
    answer = await client.conversations_join(channel=slack.channel("ops").id, nonsense="x")
    assert answer["warning"] == "already_in_channel,superfluous_arg"
    slack.user("ann")
    listed = await client.users_list(limit=1, nonsense="x")
    assert listed["response_metadata"]["next_cursor"]
    assert listed["response_metadata"]["warnings"] == ["superfluous_arg"]


@pytest.mark.playground(strict=True)
async def test_strictly_it_is_refused_by_name(slack: Playground):
    assert await error_of(client_of(slack).chat_postMessage(channel="#ops", text="hi", ts="1.2")) == "invalid_arguments"
    [call] = slack.calls("chat.postMessage")
    assert "'ts'" in call["answer"]["response_metadata"]["messages"][0]
    await slack.channel("ops").does_not_show("hi")


async def test_without_a_manifest_every_event_arrives(slack: Playground):
    app, seen = async_app(slack), []

    @app.event("reaction_added")
    async def reacted(event):
        seen.append(event["reaction"])

    async with running(slack, app):
        ann = slack.user("ann")
        await ann.says("hi")
        [message] = slack.channel("ops").messages()
        slack.server.people.react(ann.user, slack.channel("ops").channel, message["ts"], "eyes", remove=False)
        await slack.eventually(lambda: seen == ["eyes"], "no reaction arrived")
        slack.server.people.react(ann.user, slack.channel("ops").channel, message["ts"], "tada", remove=False)
        await slack.eventually(lambda: seen == ["eyes", "tada"], "no second reaction arrived")
    told = [words for words in warnings(slack) if words.startswith("reaction_added ")]
    assert told == ["reaction_added was delivered without a subscription. In Slack, subscribe to reaction_added."]


@pytest.mark.playground(manifest=SUBSCRIBED)
async def test_a_manifest_decides_which_events_arrive(slack: Playground):
    app, seen = async_app(slack), []

    @app.middleware
    async def note(body, next_):
        seen.append(body["event"]["type"])
        await next_()

    @app.event("app_mention")
    async def mentioned(say):
        await say("mentioned")

    async with running(slack, app):
        ann = slack.user("ann")
        await ann.says("hi")
        [message] = slack.channel("ops").messages()
        slack.server.people.react(ann.user, slack.channel("ops").channel, message["ts"], "eyes", remove=False)
        await ann.says("@app hi")
        await slack.channel("ops").shows("mentioned")
    assert seen == ["app_mention"]
    assert warnings(slack) == []
