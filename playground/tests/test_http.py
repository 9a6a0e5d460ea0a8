"""The playground over HTTP, as the page and tests in other languages use it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from playground.tests.support import apps
from slack_playground import Playground


async def do(slack: Playground, action: str, **body: Any) -> dict[str, Any]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{slack.url}_playground/{action}", json=body) as answer,
    ):
        return dict(await answer.json())


async def get(slack: Playground, what: str) -> str:
    async with aiohttp.ClientSession() as session, session.get(f"{slack.url}_playground/{what}") as answer:
        return await answer.text()


async def test_a_person_commands_and_clicks_over_http(slack: Playground):
    app = apps.async_app(slack)

    @app.command("/deploy")
    async def deploy(ack, say):
        await ack()
        await say(text="Deploy?", blocks=apps.BUTTONS)

    @app.action("deny")
    async def deny(ack, respond):
        await ack()
        await respond(text="denied", replace_original=True)

    async with apps.running(slack, app):
        await do(slack, "users", name="operator")
        assert (await do(slack, "slash", **{"as": "operator"}, channel="ops", text="/deploy"))["outcome"] == "acked"
        message = (await do(slack, "expect", channel="ops", text="Deploy web?"))["messages"][0]
        click = {"as": "operator", "channel": "ops", "ts": message["ts"], "action_id": "deny"}
        assert (await do(slack, "act", **click))["error"] == "confirm_needed"
        assert (await do(slack, "act", **click, confirmed=True))["outcome"] == "acked"
        assert (await do(slack, "expect", channel="ops", text="denied", count=1))["ok"]
        missed = await do(slack, "expect", channel="ops", text="never", timeout=0.05)
        assert (missed["ok"], "denied" in missed["conversation"]) == (False, True)
        assert "denied" in await get(slack, "conversation?channel=ops")


async def test_the_state_holds_all_and_the_journal_every_call(slack: Playground):
    slack.user("operator")
    await do(slack, "post", **{"as": "operator"}, channel="ops", text="hi @operator <b> #general")
    state = json.loads(await get(slack, "state"))
    ops = next(channel for channel in state["channels"] if channel["name"] == "ops")
    text = state["messages"][ops["id"]][0]["text"]
    assert text == "hi <@U0OPERATOR> &lt;b&gt; <#C0GENERAL>"
    entries = [json.loads(line) for line in (await get(slack, "journal")).splitlines()]
    assert entries[0]["kind"] == "person"


async def test_live_events_follow_the_state_and_resume(slack: Playground):
    since = slack.server.world.feed.seq
    slack.user("operator")
    address = f"{slack.url}_playground/events?since={since}"
    kinds = []
    async with aiohttp.ClientSession() as session, session.get(address) as stream:
        async for line in stream.content:
            if line.startswith(b"data:"):
                kinds.append(json.loads(line[5:])["type"])
                if len(kinds) == 2:
                    break
    assert kinds[0] == "user"


async def test_other_pages_and_other_names_are_refused(slack: Playground):
    async with aiohttp.ClientSession() as session:
        for headers in ({"Origin": "http://elsewhere.example"}, {"Host": "elsewhere.example"}):
            async with session.get(f"{slack.url}_playground/state", headers=headers) as answer:
                assert answer.status == 403


async def test_mistakes_are_said_in_words(slack: Playground):
    slack.user("operator")
    assert "there are" in (await do(slack, "nonsense"))["message"]
    assert (await do(slack, "post", **{"as": "nobody"}, channel="ops", text="x"))["error"] == "user_not_found"
    assert (await do(slack, "faults", kind="nonsense"))["error"] == "unknown_fault"
    assert (await do(slack, "socket", do="freeze"))["connections"] == 0


def test_a_journal_file_has_a_json_line_for_everything(tmp_path: Path):
    path = tmp_path / "journal.jsonl"
    with Playground.in_thread(journal=path) as slack:
        slack.user("operator").says("hello")
    kinds = [json.loads(line)["kind"] for line in path.read_text().splitlines()]
    assert "person" in kinds


ACTIONS = [
    *("post", "slash", "act", "options", "submit", "close", "home", "shortcut", "react", "edit", "delete", "upload"),
    *("read", "dm", "join", "leave", "invite", "kick", "users", "channels", "usergroups", "faults", "socket", "clock"),
    *("token", "expect"),
]
NAMES = [
    "channel",
    "text",
    "ts",
    "view_id",
    "block_id",
    "action_id",
    "value",
    "values",
    "name",
    "users",
    "members",
    "user",
    "kind",
    "method",
    "times",
    "handle",
]


@pytest.mark.parametrize("action", ACTIONS)
async def test_odd_words_of_a_person_are_refused_and_break_nothing(slack: Playground, action: str):
    slack.user("operator")
    async with aiohttp.ClientSession() as session:
        for odd in ("", "x", "ops", "operator", 1, -1.5, [], [1], {}, {"x": 1}, None, True):
            body = dict.fromkeys(NAMES, odd) | {"as": "operator", "timeout": 0, "advance": odd, "connection": odd}
            async with session.post(f"{slack.url}_playground/{action}", json=body) as answer:
                assert answer.status in (200, 400, 404, 409), (odd, await answer.text())
        for what in (
            "state?messages=x",
            "messages?channel=ops&limit=x",
            "journal?since=x",
            "journal?last=x",
            "events?since=x",
        ):
            async with session.get(f"{slack.url}_playground/{what}") as answer:
                assert answer.status == 400, what
