"""Whatever a method is called with, it answers in Slack's form."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from slack_playground import Playground
from slack_playground.web_api.methods import HANDLERS, METHODS

ODD = ["", "x", "[]", "{}", "[1]", "null", '[{"type": 1}]', "-1", "1.5", "C0OPS", "U0OPERATOR"]


def test_every_method_that_is_known_has_a_handler():
    assert set(METHODS) == set(HANDLERS)


@pytest.mark.parametrize("name", sorted(METHODS))
async def test_odd_arguments_are_refused_and_never_break_it(slack: Playground, name: str):
    slack.user("operator")
    method = METHODS[name]
    token = slack.app_token if method.app_token else slack.bot_token
    async with aiohttp.ClientSession(headers={"Authorization": f"Bearer {token}"}) as session:
        for odd in ODD:
            arguments = dict.fromkeys((*method.required, *method.optional), odd)
            forms: list[dict[str, Any]] = [{"data": arguments}, {"json": arguments}]
            for form in forms:
                async with session.post(slack.api_url + name, **form) as answer:
                    assert answer.status in (200, 429), (odd, await answer.text())
                    assert isinstance((await answer.json())["ok"], bool)
        others: list[Any] = [1, [], {}, [None], True]
        for typed in others:
            values = dict.fromkeys((*method.required, *method.optional), typed)
            async with session.post(slack.api_url + name, json=values) as answer:
                assert answer.status == 200, (typed, await answer.text())
