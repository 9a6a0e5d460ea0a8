"""Other pages' requests, broken bytes, numbers that are none; and what a test must not be told."""

from __future__ import annotations

import json
from typing import Any

import aiohttp
import pytest

from slack_playground import NotSeen, Playground
from slack_playground.values import PlaygroundError

pytest_plugins = ["pytester"]
HALF = "a\ud800b"


async def _status(slack: Playground, method: str, path: str, **more: Any) -> int:
    async with aiohttp.ClientSession() as session, session.request(method, slack.url[:-1] + path, **more) as answer:
        await answer.read()
        return answer.status


@pytest.mark.parametrize(
    ("headers", "path", "status"),
    [
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, "/api/auth.test", 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, "/api/auth.test", 403),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, "/api/auth.test", 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "/", 200),
        ({"Host": "["}, "/", 403),
        ({}, "/page/%00", 404),
    ],
)
async def test_other_pages_reach_nothing_but_the_page_itself(
    slack: Playground, headers: dict[str, str], path: str, status: int
):
    assert await _status(slack, "GET", path, headers=headers) == status


async def test_broken_bytes_and_numbers_are_refused(slack: Playground):
    json_type = {"Authorization": f"Bearer {slack.bot_token}", "Content-Type": "application/json"}
    assert await _status(slack, "POST", "/api/auth.test", data=b'"\xff"', headers=json_type) == 200
    strange = json_type | {"Content-Type": "application/json; charset=nonsense"}
    assert await _status(slack, "POST", "/api/auth.test", data=b"{}", headers=strange) == 200
    assert await _status(slack, "POST", "/_playground/post", data=b"\xff") == 400
    for fault in ({"status": "abc"}, {"status": 1234}, {"retry_after": "1\r\nX: y"}, {"seconds": "nan"}):
        assert await _status(slack, "POST", "/_playground/faults", json={"kind": "status", **fault}) == 400
    assert await _status(slack, "POST", "/_playground/clock", json={"advance": "inf"}) == 400
    assert await _status(slack, "GET", "/_playground/state?messages=nan") == 400


async def test_half_a_character_stops_neither_the_stream_nor_the_journal(slack: Playground):
    headers = {"Authorization": f"Bearer {slack.bot_token}", "Content-Type": "application/json"}
    async with aiohttp.ClientSession() as session:
        body = json.dumps({"channel": "ops", "text": HALF})
        await session.post(slack.api_url + "chat.postMessage", data=body, headers=headers)
        async with session.get(slack.url + "_playground/journal?kind=api") as answer:
            entry = json.loads((await answer.text()).splitlines()[0])
            assert entry["arguments"]["text"] == HALF
        async with session.get(slack.url + "_playground/conversation?channel=ops") as answer:
            assert answer.status == 200
        async with session.get(slack.url + "_playground/events?since=0") as answer:
            while b'"new": true' not in (line := await answer.content.readline()):
                assert line
            assert json.loads(line.removeprefix(b"data: "))["message"]["text"] == HALF


async def test_the_journal_holds_what_the_bot_sent_and_not_what_was_filled_in(slack: Playground):
    headers = {"Authorization": f"Bearer {slack.bot_token}"}
    blocks = [{"type": "divider"}]
    async with aiohttp.ClientSession(headers=headers) as session:
        body = {"channel": "ops", "text": "x", "blocks": blocks}
        answer = await (await session.post(slack.api_url + "chat.postMessage", json=body)).json()
        assert "block_id" in answer["message"]["blocks"][0]
        await session.post(slack.api_url + "chat.update", json=body | {"channel": "C0OPS", "ts": answer["ts"]})
    assert slack.calls("chat.postMessage")[0]["arguments"]["blocks"] == blocks
    assert slack.calls("chat.update")[0]["arguments"]["blocks"] == blocks


async def test_an_answer_from_before_a_reset_is_too_late(slack: Playground):
    address = slack.server.grants.response_url("commands", slack.user("ann").dm().id, slack.user("ann").id)
    assert await _status(slack, "POST", "/_playground/reset", json={}) == 200
    path = address.removeprefix(slack.url[:-1])
    assert await _status(slack, "POST", path, json={"text": "late"}) == 404


async def test_what_never_came_is_not_gone_and_what_one_does_not_see_cannot_be_pressed(slack: Playground):
    slack.patience = 0.05
    ann, guest = slack.user("ann"), slack.user("guest", is_restricted=True)
    card = await ann.says("hello")
    with pytest.raises(NotSeen, match="did not come"):
        await card.is_gone()
    with pytest.raises(NotSeen, match="did not come"):
        await card.button("Approve").is_gone()
    world = slack.server.world
    button = {"type": "button", "action_id": "a", "text": {"type": "plain_text", "text": "Approve"}}
    by = {"user": world.bot.id, "bot_id": world.app.bot_id}
    world.post(slack.channel("ops").channel, {**by, "text": "x", "blocks": [{"type": "actions", "elements": [button]}]})
    with pytest.raises(NotSeen, match="guest does not see"):
        await card.button("Approve").click(as_=guest)


def test_a_playground_that_has_not_started_says_so():
    with pytest.raises(PlaygroundError, match="hasn't started"):
        _ = Playground().api_url
