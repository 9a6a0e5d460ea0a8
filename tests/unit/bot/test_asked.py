"""One value for every door: what was said, opened or sent, and where its sender can be answered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

import pytest

from bot.inbound.dispatcher import Refusals
from bot.inbound.identity import Identity
from bot.outbound.messages import card_place
from bot.outbound.slack_api import SlackApi
from bot.requests.request import (
    Request,
    from_command_button,
    from_form,
    is_direct_message,
)
from bot.views.blocks import Content
from bot.views.forms import command_form
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.common.errors import LedgerUnavailable
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message
from tests.support.slack.forms import filled

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
CONTEXT = GrammarContext(("OrionMX",))
WHO = {"user": {"id": "U0OPER", "team_id": "T0TEAM"}, "team": {"id": "T0TEAM"}}
DIRECT: dict[str, Any] = {"type": "message", "channel": "D1", "channel_type": "im", "user": "U0OPER", "ts": "1.2"}


def told(message: Message) -> Mapping[str, Any]:
    assert message.payload is not None
    return message.payload


def received(payload: dict[str, Any], key: str = "k1") -> StoredEnvelope:
    return StoredEnvelope(key, "interactive", payload, NOW)


def sent(channel: str = "", thread: str | None = None, chosen: str | None = None, **more: Any) -> Request:
    view = command_form(CATALOG["pause"], CONTEXT, channel, thread)
    payload = {"type": "view_submission", **WHO, "view": filled(view, {"where": chosen}), **more}
    return replace(from_form(received(payload)), text="pause OrionMX")


@pytest.mark.parametrize(
    "other",
    [
        {"subtype": "message_changed"},
        {"subtype": "message_deleted"},
        {"subtype": "channel_join"},
        {"subtype": "bot_message"},
        {"bot_id": "B1"},
        {"user": None},
        {"channel_type": "channel"},
        {"channel_type": "mpim"},
    ],
)
def test_only_what_a_person_says_to_the_bot_alone_is_a_command(other: dict[str, Any]) -> None:
    assert is_direct_message(DIRECT)
    assert is_direct_message({**DIRECT, "thread_ts": "1.1"})
    assert not is_direct_message({**DIRECT, **other})


@pytest.mark.parametrize(("thread", "where"), [(None, None), ("1.1", "1.1"), ("1.2", None)])
def test_a_button_of_a_message_that_has_replies_is_pressed_in_the_channel(
    thread: str | None, where: str | None
) -> None:
    container = {"type": "message", "channel_id": "C1", "message_ts": "1.2", "thread_ts": thread}
    action = {"action_id": "command:undo", "value": "n1 OrionMX"}
    asked = from_command_button(received({**WHO, "container": container, "actions": [action]}))
    assert card_place(asked) == {"channel": "C1", "user": "U0OPER", "thread_ts": where}


ME = Identity("T0TEAM", "U0BOT", "B0BOT", "supervisor", "team")
SPOKEN = {"type": "app_mention", "channel": "C0OPS", "user": "U0OPER"}


class Heard:
    """Notes to whom something is said."""

    def __init__(self) -> None:
        self.told: list[str] = []

    async def answer(self, response_url: str, content: Content, *, replace: bool) -> bool:
        raise AssertionError

    async def whisper(self, channel: str, user: str, thread_ts: str | None, content: Content) -> None:
        self.told.append(user)


@pytest.mark.parametrize(("text", "told"), [("<@U0BOT> pause North", ["U0OPER"]), ("thanks", [])])
def test_nobody_is_refused_what_they_did_not_ask_for(text: str, told: list[str]) -> None:
    heard = Heard()
    event = {"event": {**SPOKEN, "text": text}}
    asyncio.run(
        Refusals(cast("SlackApi", heard), ME).refuse("events_api", event, LedgerUnavailable("The disk is full."))
    )
    assert heard.told == told
