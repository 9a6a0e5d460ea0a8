"""Events have the fields that Slack's documentation and its SDKs' types give them."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from playground.tests.support import apps
from slack_playground import Playground

Json = dict[str, Any]
BLOCKS = [{"type": "section", "text": {"type": "mrkdwn", "text": "deployed"}}]


@pytest.fixture
def sent(slack: Playground) -> list[Json]:
    """All events of this playground, whether or not the app subscribes to them."""
    events: list[Json] = []
    slack.server.world.send_event = events.append
    return events


def client_of(slack: Playground) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)


def of_type(sent: list[Json], name: str, subtype: str | None = None) -> list[Json]:
    events = [each["event"] for each in sent]
    return [event for event in events if event["type"] == name and event.get("subtype") == subtype]


WITHOUT_SCOPE = {
    "display_information": {"name": "narrow"},
    "oauth_config": {"scopes": {"bot": ["chat:write", "reactions:write", "app_mentions:read"]}},
    "settings": {"event_subscriptions": {"bot_events": ["app_mention", "reaction_added"]}},
}


@pytest.mark.playground(manifest=WITHOUT_SCOPE)
async def test_an_event_without_its_scope_is_not_delivered_and_says_so(slack: Playground):
    app = apps.async_app(slack)
    async with apps.running(slack, app):
        client = client_of(slack)
        posted = await client.chat_postMessage(channel="#ops", text="x")
        await client.reactions_add(channel=posted["channel"], timestamp=posted["ts"], name="eyes")
        await slack.user("operator").says("@narrow hello")
        await slack.eventually(lambda: slack.journal("envelope"), "the mention was delivered")
    kinds = [entry["payload"]["event"]["type"] for entry in slack.journal("envelope")]
    assert set(kinds) == {"app_mention"}
    assert "reaction_added wasn't delivered: the app needs the scope reactions:read." in [
        entry["text"] for entry in slack.journal("warning")
    ]


async def test_an_update_of_blocks_is_told_without_marking_the_message_as_edited(slack: Playground, sent: list[Json]):
    client = client_of(slack)
    posted = await client.chat_postMessage(channel="#ops", text="deploying")
    await client.chat_update(channel=posted["channel"], ts=posted["ts"], text="deployed", blocks=BLOCKS)
    changed = of_type(sent, "message", "message_changed")
    assert [each["message"]["text"] for each in changed] == ["deployed"]
    assert changed[0]["previous_message"]["text"] == "deploying"
    assert "edited" not in changed[0]["message"]
    assert changed[0]["ts"] == changed[0]["event_ts"] != posted["ts"]


async def test_a_file_that_somebody_shares_is_a_file_share_that_the_bot_can_download(
    slack: Playground, sent: list[Json]
):
    person = slack.user("operator").user
    ops = slack.channel("ops").channel
    slack.server.people.upload(person, ops, "a.txt", b"hello", "see this")
    shared = of_type(sent, "message", "file_share")
    assert [each["text"] for each in shared] == ["see this"]
    assert shared[0]["files"][0]["url_private_download"].startswith(slack.url)
    assert of_type(sent, "file_shared")[0]["file_id"] == shared[0]["files"][0]["id"]
    client = client_of(slack)
    history = await client.conversations_history(channel=ops.id)
    assert "subtype" not in history["messages"][0], "the stored message has none"
    about = (await client.files_info(file=shared[0]["files"][0]["id"]))["file"]
    assert about["url_private_download"] == shared[0]["files"][0]["url_private_download"]


async def test_a_reply_names_its_parents_author_and_a_broadcast_has_the_parent(slack: Playground, sent: list[Json]):
    client = client_of(slack)
    parent = await client.chat_postMessage(channel="#ops", text="down")
    person, ops = slack.user("operator").user, slack.channel("ops").channel
    slack.server.people.post(person, ops, "up again", thread_ts=parent["ts"], broadcast=True)
    told = of_type(sent, "message", "thread_broadcast")[0]
    assert told["parent_user_id"] == slack.server.world.bot.id
    assert (told["root"]["text"], told["root"]["reply_count"]) == ("down", 1)


async def test_an_edit_mentions_the_bot_once_more_and_says_that_it_is_an_edit(slack: Playground, sent: list[Json]):
    operator = slack.user("operator")
    ops = slack.channel("ops").channel
    message = slack.server.people.post(operator.user, ops, "@app helo")
    slack.server.people.edit(operator.user, ops, message["ts"], "@app hello")
    first, second = of_type(sent, "app_mention")
    assert ("edited" in first, second["edited"]["user"]) == (False, operator.id)
    assert (first["ts"], first["event_ts"]) == (message["ts"], message["ts"])
    assert (second["ts"], second["event_ts"]) == (message["ts"], second["edited"]["ts"])


async def test_who_joins_who_invited_them_and_when(slack: Playground, sent: list[Json]):
    operator, guest = slack.user("operator"), slack.user("guest", is_restricted=True)
    ops = slack.channel("ops").channel
    slack.server.world.join(ops, guest.user, operator.id)
    slack.server.world.leave(ops, guest.user)
    joined, left = of_type(sent, "member_joined_channel")[0], of_type(sent, "member_left_channel")[0]
    assert (joined["inviter"], joined["channel_type"], "inviter" in left) == (operator.id, "C", False)
    assert joined["event_ts"] < left["event_ts"]


async def test_a_message_under_another_name_is_a_bot_message(slack: Playground, sent: list[Json]):
    posted = await client_of(slack).chat_postMessage(channel="#ops", text="hi", username="Nightly", icon_emoji=":owl:")
    told = of_type(sent, "message", "bot_message")[0]
    assert (told["username"], told["icons"]) == ("Nightly", {"emoji": ":owl:"})
    assert posted["message"]["subtype"] == "bot_message"


async def test_channels_pins_and_new_users_are_told_with_their_times(slack: Playground, sent: list[Json]):
    client, operator = client_of(slack), slack.user("operator")
    made = (await client.conversations_create(name="fresh"))["channel"]["id"]
    created = of_type(sent, "channel_created")[0]
    assert created["channel"]["is_channel"]
    await client.conversations_invite(channel=made, users=operator.id)
    assert of_type(sent, "member_joined_channel")[-1]["inviter"] == slack.server.world.bot.id
    slack.server.world.greet(operator.user)
    joined = of_type(sent, "team_join")[0]
    assert joined["cache_ts"] == int(float(joined["event_ts"]))
    posted = await client.chat_postMessage(channel="#ops", text="x")
    for change in (client.pins_add, client.pins_remove):
        await change(channel=posted["channel"], timestamp=posted["ts"])
    added, removed = of_type(sent, "pin_added")[0], of_type(sent, "pin_removed")[0]
    assert (added["pin_count"], removed["pin_count"], removed["has_pins"]) == ("1", "0", False)
    assert added["pinned_info"]["pinned_by"] == added["item"]["created_by"] == slack.server.world.bot.id
