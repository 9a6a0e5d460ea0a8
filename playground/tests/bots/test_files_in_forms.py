"""Files in a field of a form: uploaded first, then named by their ids, and handed to the bot with the submission."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest
from slack_bolt.async_app import AsyncApp

from playground.tests.support import apps
from slack_playground import Playground

FIELD = {"type": "file_input", "action_id": "papers", "filetypes": ["txt", "jpg"], "max_files": 2}


def form_app(slack: Playground, got: list[dict[str, Any]]) -> AsyncApp:
    app = apps.async_app(slack)
    label = {"type": "plain_text", "text": "Papers"}
    block = {"type": "input", "block_id": "papers", "label": label, "element": FIELD}

    @app.command("/hand-in")
    async def hand_in(ack, body, client):
        await ack()
        view = apps.modal("Hand in") | {"blocks": [block]}
        await client.views_open(trigger_id=body["trigger_id"], view=view)

    @app.view("form")
    async def handed_in(ack, view):
        await ack()
        got.extend(view["state"]["values"]["papers"]["papers"]["files"])

    return app


@asynccontextmanager
async def form_open(slack: Playground) -> AsyncIterator[list[dict[str, Any]]]:
    """What the bot got, while it is connected and the operator has the form open."""
    found: list[dict[str, Any]] = []
    async with apps.running(slack, form_app(slack, found)):
        await slack.user("operator").slash("/hand-in")
        yield found


async def test_a_story_puts_files_into_a_form_and_the_bot_fetches_their_bytes(slack: Playground):
    async with form_open(slack) as got:
        operator = slack.user("operator")
        modal = await operator.modal("Papers")
        await modal.fill("Papers", [operator.uploads("a.txt", b"first"), operator.uploads("b.JPEG", b"second")])
        await modal.shows("Papers: [a.txt, b.JPEG]")
        await modal.submit()
        assert [file["name"] for file in got] == ["a.txt", "b.JPEG"]
        async with aiohttp.ClientSession() as session, session.get(got[0]["url_private_download"]) as answer:
            assert await answer.read() == b"first"


async def test_over_http_a_file_is_uploaded_and_named_in_the_submission(slack: Playground):
    async with form_open(slack) as got:
        operator = slack.user("operator")
        view_id = (await operator.modal()).view_id
        async with aiohttp.ClientSession() as session:
            content = base64.b64encode(b"first").decode()
            body = {"as": "operator", "name": "a.txt", "content": content}
            async with session.post(f"{slack.url}_playground/file", json=body) as answer:
                file = (await answer.json())["file"]
            values = {"papers": {"papers": [file["id"]]}}
            sent = {"as": "operator", "view_id": view_id, "values": values}
            async with session.post(f"{slack.url}_playground/submit", json=sent) as answer:
                assert (await answer.json())["outcome"] == "acked"
        assert [(each["id"], each["size"]) for each in got] == [(file["id"], 5)]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("a.txt", "b.txt", "c.txt"), "takes at most 2 files, not 3"),
        (("a.pdf",), "takes txt, jpg; a.pdf isn't one of them"),
    ],
)
async def test_what_a_field_does_not_take_is_refused_in_words(slack: Playground, names: Any, words: str):
    async with form_open(slack) as got:
        operator = slack.user("operator")
        modal = await operator.modal()
        with pytest.raises(AssertionError, match=words):
            await modal.fill("Papers", [operator.uploads(name, b"x") for name in names])
        assert got == []


async def test_nobody_hands_in_what_another_uploaded(slack: Playground):
    async with form_open(slack) as got:
        foreign = slack.user("peter").uploads("a.txt", b"x")
        modal = await slack.user("operator").modal()
        with pytest.raises(AssertionError, match="operator has not uploaded the file"):
            await modal.fill("Papers", [foreign])
        assert got == []
