"""Attachments that hold blocks: checked, stored, returned, changed and pressed as Slack does it."""

from __future__ import annotations

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.webhook.async_client import AsyncWebhookClient

from playground.tests.support import apps
from playground.tests.support.blockkit_samples import Json, actions, button, mrkdwn
from playground.tests.support.cards import CARDS, section
from slack_playground import Playground
from slack_playground.blockkit import check_message

CARD = CARDS["crashed"]
BLOCKS = [section("only *blocks*")]


def client_of(slack: Playground) -> AsyncWebClient:
    return AsyncWebClient(token=slack.bot_token, base_url=slack.api_url)


def attached(*blocks: Json) -> Json:
    return {"color": "good", "blocks": list(blocks)}


@pytest.mark.parametrize("name", CARDS)
def test_a_card_with_a_colored_attachment_is_valid(name: str):
    assert check_message(CARDS[name], update=True) == []


@pytest.mark.parametrize(
    ("attachments", "path", "code"),
    [
        ([{"color": "good"}], "attachments[0]", "invalid_attachments"),
        ([{"color": "#12345", "text": "x"}], "attachments[0].color", "invalid_attachments"),
        ([attached(*[section("x")] * 51)], "attachments[0].blocks", "invalid_attachments"),
        ([attached(*[section("x")] * 30), attached(*[section("x")] * 21)], "attachments", "invalid_attachments"),
        ([attached(*[section("x" * 2900)] * 5)], "attachments[0].blocks", "msg_blocks_too_long"),
        (
            [attached(actions(button(), button()))],
            "attachments[0].blocks[0].elements[1].action_id",
            "invalid_attachments",
        ),
        ([attached(actions(button()), actions(button()))], "attachments[0].blocks[1].block_id", "invalid_attachments"),
        ([{"blocks": {"type": "divider"}}], "attachments[0].blocks", "invalid_attachments"),
        ([attached(section("x")) | {"text": "x"}], "attachments[0].text", "invalid_attachments"),
        ([attached(section("x")) | {"ts": 1}], "attachments[0].ts", "invalid_attachments"),
    ],
)
def test_mistakes_in_attachments_are_found_at_their_place(attachments: list[Json], path: str, code: str):
    problems = check_message({"text": "x", "attachments": attachments})
    assert [(each.path, each.code) for each in problems] == [(path, code)]


async def test_a_card_is_returned_with_what_slack_adds(slack: Playground):
    client = client_of(slack)
    posted = await client.chat_postMessage(channel="#ops", **CARD)
    (stored,) = (await client.conversations_history(channel=posted["channel"]))["messages"]
    assert stored["text"] == CARD["text"]
    assert "blocks" not in stored
    (attachment,) = stored["attachments"]
    assert attachment["id"] == 1
    assert attachment["color"] == "c0392b"
    assert attachment["fallback"] == "[no preview available]"
    assert [block["type"] for block in attachment["blocks"]] == ["section", "section", "section", "actions", "context"]
    assert all(block["block_id"] for block in attachment["blocks"])


async def test_a_message_changes_between_blocks_and_attachments(slack: Playground):
    client = client_of(slack)
    posted = await client.chat_postMessage(channel="#ops", text="as blocks", blocks=BLOCKS)
    place = {"channel": posted["channel"], "ts": posted["ts"]}

    async def shown(**change: Any) -> set[str]:
        message = (await client.chat_update(**place, **change))["message"]
        return {"blocks", "attachments"} & set(message)

    assert await shown(text="both", blocks=BLOCKS, attachments=CARD["attachments"]) == {"blocks", "attachments"}
    assert await shown(text="a card", blocks=[], attachments=CARD["attachments"]) == {"attachments"}
    assert await shown(text="still a card") == {"attachments"}
    assert await shown(text="again blocks", blocks=BLOCKS, attachments=[]) == {"blocks"}
    assert await shown(text="text alone", blocks=[], attachments=[]) == set()
    with pytest.raises(SlackApiError, match="no_text"):
        await client.api_call("chat.update", json={**place, "text": "", "attachments": []})


async def test_a_response_url_and_an_ephemeral_message_take_attachments(slack: Playground):
    operator, ops = slack.user("operator"), slack.channel("ops")
    address = slack.server.grants.response_url("commands", ops.id, operator.id)
    webhook = AsyncWebhookClient(address)
    assert (await webhook.send(**CARDS["overview"])).status_code == 200
    await operator.sees("quarantined 2 min ago")
    assert (await webhook.send(**CARDS["paused"], replace_original=True)).status_code == 200
    await operator.does_not_see("quarantined 2 min ago")
    await client_of(slack).chat_postEphemeral(channel=ops.id, user=operator.id, **CARDS["progress"])
    await operator.sees("Installing packages")


async def test_a_button_in_an_attachment_names_its_attachment(slack: Playground):
    app = apps.async_app(slack)
    pressed: list[Json] = []

    @app.command("/deploy")
    async def deploy(ack, say):
        await ack()
        await say(text="Deploy?", attachments=[attached(section("first")), attached(actions(button()))])

    @app.action("press")
    async def press(ack, body, respond):
        await ack()
        pressed.append(body)
        await respond(replace_original=True, **CARDS["done"])

    async with apps.running(slack, app):
        card = await slack.user("operator").slash("/deploy web")
        await card.button("Press").click()
        await card.becomes("Vega updated")
        await card.shows("3 commits, 5 files")
        await card.button("Press").is_gone()
    container = pressed[0]["container"]
    assert (container["type"], container["attachment_id"]) == ("message_attachment", 2)
    assert (container["is_ephemeral"], container["is_app_unfurl"]) == (False, False)
    assert pressed[0]["message"]["attachments"][1]["color"] == "2eb886"


async def test_a_message_event_carries_the_attachments(slack: Playground):
    app = apps.async_app(slack)
    heard: list[Json] = []

    @app.event("message")
    async def message(event):
        heard.append(event)

    async with apps.running(slack, app):
        channel = slack.channel("ops")
        world = slack.server.world
        author = slack.user("operator").user
        sent = {"user": author.id, "text": "hi", "attachments": [{"color": "warning", "blocks": [section("inside")]}]}
        world.post(channel.channel, sent)
        await slack.eventually(lambda: heard, "the app heard nothing")
    assert heard[0]["attachments"][0]["color"] == "daa038"
    assert heard[0]["attachments"][0]["blocks"][0]["text"] == mrkdwn("inside")
