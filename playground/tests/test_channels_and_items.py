"""Channels that a bot creates, its reactions and pins, and metadata of messages."""

from __future__ import annotations

from playground.tests.support.apps import async_app, running
from playground.tests.test_web_api import client_of, error_of
from slack_playground import Playground


async def test_a_channel_is_created_with_its_members(slack: Playground):
    client, ann = client_of(slack), slack.user("ann")
    made = (await client.conversations_create(name="train", is_private=True))["channel"]
    place = {"channel": made["id"]}
    assert (made["is_private"], made["is_member"]) == (True, True)
    for name, error in (("train", "name_taken"), ("Big", "invalid_name_specials"), ("", "invalid_name_required")):
        assert await error_of(client.conversations_create(name=name)) == error
    await client.conversations_invite(**place, users=[ann.id])
    assert await error_of(client.conversations_invite(**place, users=[ann.id])) == "already_in_channel"
    assert await error_of(client.conversations_invite(**place, users=["U1"])) == "user_not_found"
    assert (await client.conversations_members(**place))["members"] == [slack.server.world.bot.id, ann.id]
    await client.conversations_setTopic(**place, topic="fast")
    assert (await client.conversations_info(**place))["channel"]["topic"]["value"] == "fast"


async def test_reactions_and_pins_are_read_back(slack: Playground):
    client = client_of(slack)
    posted = await client.chat_postMessage(channel="#ops", text="hi")
    place = {"channel": posted["channel"], "timestamp": posted["ts"]}
    await client.reactions_add(**place, name="eyes")
    [told] = (await client.conversations_history(channel=posted["channel"]))["messages"]
    assert [reaction["name"] for reaction in told["reactions"]] == ["eyes"]
    await client.reactions_remove(**place, name="eyes")
    assert await error_of(client.reactions_remove(**place, name="eyes")) == "no_reaction"
    await client.pins_add(**place)
    [item] = (await client.pins_list(channel=posted["channel"]))["items"]
    assert item["message"]["ts"] == posted["ts"]
    await client.pins_remove(**place)
    assert await error_of(client.pins_remove(**place)) == "no_pin"


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
        posted = await client.chat_postMessage(channel="#ops", text="hi")
        card = await ann.sees("hi")
        await ann.pins(card)
        await client.conversations_create(name="fresh")
        await slack.eventually(lambda: len(heard) == 3, "not all events came")
    events = {event["type"]: event for event in heard}
    assert events["team_join"]["user"]["id"] == ann.id
    assert events["pin_added"]["item"]["message"]["ts"] == posted["ts"]
    assert events["channel_created"]["channel"]["name"] == "fresh"


async def test_metadata_comes_back_and_stays_until_it_is_taken_away(slack: Playground):
    client = client_of(slack)
    about = {"event_type": "deploy", "event_payload": {"n": 1}}
    posted = await client.chat_postMessage(channel="#ops", text="hi", metadata=about)
    place = {"channel": posted["channel"], "ts": posted["ts"]}
    assert (await client.chat_update(**place, text="ho"))["message"]["metadata"] == about
    assert "metadata" not in (await client.chat_update(**place, text="ho", metadata={}))["message"]
    refused = client.chat_postMessage(channel="#ops", text="hi", metadata={"event_type": 1})
    assert await error_of(refused) == "invalid_metadata_format"
