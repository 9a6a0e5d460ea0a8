"""Messages that Slack refuses: sent once more as plain text, elsewhere, or dropped with the reason, never for ever."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.inbound.dispatcher import Response
from bot.inbound.router import handle_safely
from bot.outbound.delivery import Delivery
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.requests.request import Request
from bot.views.blocks import Color, card, fields
from slack_playground import Playground
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from tests.support.alerts.delivery import whole_round

ALERT = card(":rotating_light: *North is down*", Color.CRITICAL, fields({"Since": "05:06", "Exit": "code 1"}))
PLAIN = ":rotating_light: *North is down*\n*Since*\n05:06\n*Exit*\ncode 1"


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.db", "Host") as made:
        yield made


class Bench:
    """A delivery with its own clock."""

    def __init__(self, slack: Playground, ledger: Ledger) -> None:
        self.slack, self.ledger = slack, ledger
        self.ops, self.elsewhere = slack.channel("ops"), slack.channel("elsewhere")
        self.ahead = timedelta(0)
        client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
        pace = Pace(lambda: time.monotonic() + self.ahead.total_seconds())
        sender = MessageSender(
            ledger,
            SlackApi(client, slack.server.world.app.bot_id),
            "supervisor",
            pace=pace,
            fallback=self.elsewhere.id,
            now=lambda: datetime.now(UTC) + self.ahead,
        )
        self.delivery = Delivery(sender)

    async def sends(self, *messages: Message, rounds: int = 3) -> None:
        """Order these, and deliver what can be delivered."""
        self.ledger.order(messages)
        for _ in range(rounds):
            await whole_round(self.delivery)

    def alert(self, subject: str = "first", **more: Any) -> Message:
        """An alert for #ops."""
        return Message(NOTICE, subject, {"channel": self.ops.id, "content": ALERT, **more})

    def rows(self) -> dict[str, tuple[str, str]]:
        """The state and the last error of each message."""
        query = "SELECT subject, state, last_error FROM outbox_t"
        rows = self.ledger.read(lambda connection: connection.exec_driver_sql(query).all())
        return {row.subject: (row.state, row.last_error or "") for row in rows}


@pytest.mark.parametrize("code", ["invalid_blocks", "msg_too_long", "metadata_too_large"])
async def test_refused_content_is_sent_once_more_as_the_same_facts_in_plain_text(
    slack: Playground, ledger: Ledger, code: str
) -> None:
    bench = Bench(slack, ledger)
    bench.slack.fault("error", "chat.postMessage", error=code)
    await bench.sends(bench.alert())
    first, second = (call["arguments"] for call in bench.slack.calls("chat.postMessage"))
    assert first["attachments"]
    assert first["metadata"]
    assert second["text"] == PLAIN
    assert not {"blocks", "attachments"} & set(second)
    assert ("metadata" in second) is (code != "metadata_too_large")
    assert bench.rows()["first"][0] == "sent"
    assert bench.delivery.problem == ""


async def test_plain_text_whose_answer_is_lost_is_found_and_not_posted_again(slack: Playground, ledger: Ledger) -> None:
    bench = Bench(slack, ledger)
    bench.slack.fault("error", "chat.postMessage", error="invalid_blocks")
    bench.slack.fault("drop_after", "chat.postMessage")
    await bench.sends(bench.alert())
    bench.ahead += timedelta(minutes=1)
    await bench.sends()
    assert bench.rows()["first"][0] == "sent"
    assert len(bench.ops.channel.messages) == 1


async def test_an_edit_that_is_refused_keeps_its_message_and_says_it_in_plain_text(
    slack: Playground, ledger: Ledger
) -> None:
    bench = Bench(slack, ledger)
    await bench.sends(bench.alert())
    bench.slack.fault("error", "chat.update", error="msg_too_long")
    await bench.sends(bench.alert(again=True))
    assert [call["answer"]["ok"] for call in bench.slack.calls("chat.update")] == [False, True]
    await bench.ops.shows(1, "North is down")
    await bench.ops.shows(1, "code 1")


async def test_the_log_names_the_invalid_part(
    slack: Playground, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(slack, ledger)
    caplog.set_level(logging.ERROR)
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": ""}}]
    await bench.sends(bench.alert(content={"text": "told in words", "blocks": blocks}))
    await bench.ops.shows(1, "told in words")
    assert "/blocks/0/text" in caplog.text
    assert "json-pointer" not in caplog.text


@pytest.mark.parametrize("code", ["is_archived", "not_in_channel", "restricted_action_read_only_channel"])
async def test_a_place_that_takes_nothing_leaves_it_to_the_fallback_channel(
    slack: Playground, ledger: Ledger, code: str
) -> None:
    bench = Bench(slack, ledger)
    bench.slack.fault("error", "chat.postMessage", error=code)
    await bench.sends(bench.alert())
    assert [call["arguments"]["channel"] for call in bench.slack.calls("chat.postMessage")] == [
        bench.ops.id,
        bench.elsewhere.id,
    ]
    assert bench.rows()["first"][0] == "sent"


async def test_a_reply_in_a_locked_thread_goes_to_its_channel(slack: Playground, ledger: Ledger) -> None:
    bench = Bench(slack, ledger)
    await bench.sends(bench.alert())
    bench.slack.fault("error", "chat.postMessage", error="restricted_action_thread_locked")
    reply = {"below": {"kind": NOTICE, "subject": "first"}, "content": ALERT}
    await bench.sends(Message(NOTICE, "reply", reply))
    _, locked, posted = (call["arguments"] for call in bench.slack.calls("chat.postMessage"))
    assert locked["thread_ts"]
    assert posted["channel"] == bench.ops.id
    assert "thread_ts" not in posted


async def test_nobody_is_left_where_a_person_is_gone(slack: Playground, ledger: Ledger) -> None:
    bench = Bench(slack, ledger)
    anna = bench.slack.user("anna").id
    bench.slack.fault("error", "conversations.open", error="user_disabled")
    await bench.sends(Message(NOTICE, "dm", {"channel": anna, "content": ALERT}))
    await bench.elsewhere.shows(1, "North is down")


async def test_what_is_refused_as_plain_text_too_is_tried_for_a_day_keeps_nothing_waiting_and_is_reported(
    slack: Playground, ledger: Ledger, caplog: pytest.LogCaptureFixture
) -> None:
    bench = Bench(slack, ledger)
    bench.slack.fault("error", "chat.postMessage", error="never_heard_of", times=2)
    await bench.sends(bench.alert(), bench.alert("next"))
    assert bench.rows()["first"] == ("pending", "Slack refuses chat.postMessage: never_heard_of")
    assert bench.rows()["next"][0] == "sent"
    bench.slack.fault("error", "chat.postMessage", error="never_heard_of", times=0)
    for _ in range(8):
        bench.ahead += timedelta(minutes=2)
        await whole_round(bench.delivery)
    bench.ahead += timedelta(days=1)
    await whole_round(bench.delivery)
    assert bench.rows()["first"] == ("dropped", "Slack refuses it: never_heard_of")
    assert "notice first can't be delivered: Slack refuses it: never_heard_of" in caplog.text


async def test_who_asked_is_told_what_slack_refused(slack: Playground) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    request = Request(text="status", user="U0OPER", team="T0", channel="C0OPS", at=datetime.now(UTC), key="k1")

    async def handling() -> Response:
        await client.conversations_info(channel="C0NONE")
        return Response()

    response = await handle_safely(request, handling())
    (message,) = response.messages
    assert message.payload is not None
    text = message.payload["content"]["text"]
    assert f"(ref `{request.task_id}`). Slack refused a call: channel_not_found" in text
    assert "slack.com" not in text
    assert response.error is not None
    assert response.error.startswith(f"{request.task_id}: it responds channel_not_found")
