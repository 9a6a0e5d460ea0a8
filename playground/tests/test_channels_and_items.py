"""Channels that a bot makes and changes, its reactions and pins, and metadata of messages."""

from __future__ import annotations

from typing import Any

import aiohttp

from playground.tests.support.apps import async_app, running
from playground.tests.test_web_api import client_of, error_of
from slack_playground import Playground


async def test_a_channel_is_made_changed_and_archived(slack: Playground):
    client, ann = client_of(slack), slack.user("ann")
    made = (await client.conversations_create(name="train", is_private=True))["channel"]
    place = {"channel": made["id"]}
    assert (made["is_private"], made["is_member"]) == (True, True)
    for name, error in (
        ("train", "name_taken"),
        ("Big", "invalid_name_specials"),
        ("", "invalid_name_required"),
        ("-", "invalid_name_punctuation"),
        ("x" * 81, "invalid_name_maxlength"),
    ):
        assert await error_of(client.conversations_create(name=name)) == error
    await client.conversations_invite(**place, users=[ann.id])
    assert await error_of(client.conversations_invite(**place, users=[ann.id])) == "already_in_channel"
    assert await error_of(client.conversations_invite(**place, users=["U1"])) == "user_not_found"
    assert (await client.conversations_members(**place))["members"] == [slack.server.world.bot.id, ann.id]
    await client.conversations_kick(**place, user=ann.id)
    assert await error_of(client.conversations_kick(**place, user=ann.id)) == "not_in_channel"
    await client.conversations_setTopic(**place, topic="fast")
    assert (await client.conversations_rename(**place, name="tram"))["channel"]["name"] == "tram"
    assert (await client.conversations_info(**place))["channel"]["topic"]["value"] == "fast"
    mine = await client.users_conversations(types="public_channel,private_channel")
    assert "tram" in [channel["name"] for channel in mine["channels"]]
    await client.conversations_archive(**place)
    assert await error_of(client.conversations_archive(**place)) == "already_archived"
    await client.conversations_unarchive(**place)
    assert await error_of(client.conversations_unarchive(**place)) == "not_archived"
    await client.conversations_leave(**place)
    assert await error_of(client.conversations_info(**place)) == "channel_not_found"
    general = slack.channel("general").id
    assert await error_of(client.conversations_leave(channel=general)) == "cant_leave_general"


async def test_reactions_and_pins_are_read_back(slack: Playground):
    client = client_of(slack)
    posted = await client.chat_postMessage(channel="#ops", text="hi *there* <@U0APP>")
    place = {"channel": posted["channel"], "timestamp": posted["ts"]}
    await client.reactions_add(**place, name="eyes")
    got = await client.reactions_get(**place)
    assert [reaction["name"] for reaction in got["message"]["reactions"]] == ["eyes"]
    assert got["message"]["permalink"].endswith(posted["ts"].replace(".", ""))
    [item] = (await client.reactions_list())["items"]
    assert item["message"]["ts"] == posted["ts"]
    assert (await client.reactions_list(user=slack.user("ann").id))["items"] == []
    assert await error_of(client.reactions_get(channel=posted["channel"])) == "no_item_specified"
    await client.pins_add(**place)
    assert [item["message"]["ts"] for item in (await client.pins_list(channel=posted["channel"]))["items"]] == [
        posted["ts"]
    ]
    await client.pins_remove(**place)
    assert await error_of(client.pins_remove(**place)) == "no_pin"
    [told] = (await client.conversations_history(channel=posted["channel"]))["messages"]
    assert [(each["type"], each.get("style")) for each in told["blocks"][0]["elements"][0]["elements"]] == [
        ("text", None),
        ("text", {"bold": True}),
        ("text", None),
        ("user", None),
    ]


async def test_what_people_do_to_messages_arrives(slack: Playground):
    app, heard = async_app(slack), []

    for name in ("pin_added", "team_join", "channel_created"):

        @app.event(name)
        async def note(event):
            heard.append(event)

    async with running(slack, app):
        ann = slack.user("ann")
        ann.joins_workspace()
        client = client_of(slack)
        about: dict[str, Any] = {"event_type": "deploy", "event_payload": {"n": 1}}
        posted = await client.chat_postMessage(channel="#ops", text="hi", metadata=about)
        place = {"channel": posted["channel"], "ts": posted["ts"]}
        card = await ann.sees("hi")
        await ann.pins(card)
        await client.conversations_create(name="fresh")
        await client.chat_update(**place, text="hi", metadata=about | {"event_payload": {"n": 2}})
        await client.chat_update(**place, text="hi", metadata={})
        await slack.eventually(lambda: len(heard) == 3, "not all events came")
    events = {event["type"]: event for event in heard}
    # Slack's SDK hides from a bot what the bot did itself, so the rest is read from the wire.
    events |= {
        e["payload"]["event"]["type"]: e["payload"]["event"]
        for e in slack.journal("envelope")
        if "event" in e["payload"]
    }
    assert events["message_metadata_posted"]["metadata"]["event_payload"] == {"n": 1}
    assert events["team_join"]["user"]["id"] == ann.id
    assert events["pin_added"]["item"]["message"]["ts"] == posted["ts"]
    assert events["channel_created"]["channel"]["name"] == "fresh"
    assert events["message_metadata_updated"]["previous_metadata"]["event_payload"] == {"n": 1}
    assert events["message_metadata_deleted"]["previous_metadata"]["event_payload"] == {"n": 2}


async def test_entities_are_metadata_too(slack: Playground):
    client = client_of(slack)
    entity = {"entity_type": "slack#/entities/task", "url": "https://example.com/1", "entity_payload": {}}
    posted = await client.chat_postMessage(channel="#ops", text="hi", metadata={"entities": [entity]})
    assert posted["message"]["metadata"] == {"entities": [entity]}
    refused = client.chat_postMessage(channel="#ops", text="hi", metadata={"entities": "x"})
    assert await error_of(refused) == "invalid_metadata_format"


async def test_api_test_answers_without_a_token(slack: Playground):
    client = client_of(slack)
    assert (await client.api_test(foo="bar"))["args"] == {"foo": "bar"}
    assert await error_of(client.api_test(error="my_error")) == "my_error"
    async with aiohttp.ClientSession() as session, session.post(f"{slack.api_url}api.test") as answer:
        assert await answer.json() == {"ok": True}


async def test_pins_and_assistants_are_used_over_http(slack: Playground):
    ann = slack.user("ann")
    posted = await client_of(slack).chat_postMessage(channel="#ops", text="hi")
    async with aiohttp.ClientSession() as session:

        async def do(action: str, **body: object) -> dict[str, Any]:
            async with session.post(f"{slack.url}_playground/{action}", json={"as": "ann", **body}) as answer:
                told: dict[str, Any] = await answer.json()
                return told

        assert (await do("pin", channel="ops", ts=posted["ts"]))["ok"]
        assert slack.channel("ops").channel.pins == [posted["ts"]]
        assert (await do("users", name="ann", joins=True))["user"]["id"] == ann.id
        thread = await do("assistant", channel="ops")
        assert thread["channel"] == ann.dm().id
        assert (await do("assistant_context", ts=thread["ts"], channel="general"))["ok"]
        assert (await do("assistant_context", ts="1.1", channel="general"))["error"] == "message_not_found"


async def test_a_group_message_is_named_after_its_members(slack: Playground):
    client = client_of(slack)
    ids = [slack.user(name).id for name in ("ann", "bob")]
    opened = await client.conversations_open(users=ids, return_im=True)
    assert (opened["channel"]["is_mpim"], opened["channel"]["name"]) == (True, "mpdm-app--ann--bob-1")
    again = await client.conversations_open(users=ids)
    assert (again["channel"]["id"], again["already_open"]) == (opened["channel"]["id"], True)
