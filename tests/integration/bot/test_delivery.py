"""From the outbox to a local Slack: what can't be told keeps no other from being told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.async_slack_response import AsyncSlackResponse
from sqlalchemy import Connection

from bot.outbound.delivery import HOPELESS_ATTEMPTS, Delivery
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.views.blocks import text_message
from bot.views.files import Attachment
from slack_playground import Playground
from supervisor_core.alerts.messages import NOTICE
from supervisor_core.commands.command import Issuer
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.steps import Message, record
from supervisor_core.storage.store import Ledger
from tests.support.alerts.delivery import whole_round

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def order(connection: Connection, task_id: str, place: dict[str, str]) -> None:
    new = jobs.NewJob(task_id, "OrionMX", "pause", {}, None, Issuer("cli:anna", "anna"), "cli", NOW)
    assert jobs.file(connection, "Host", new, NOW) is not None
    record(connection, "Host", None, (Message(jobs.CARD, task_id, place),), NOW)


async def test_a_card_without_a_place_is_kept_with_its_reason_and_the_next_is_posted(
    slack: Playground, tmp_path: Path
) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        ledger.write(lambda connection: order(connection, "t1", {}))
        ledger.write(lambda connection: order(connection, "t2", {"channel": slack.channel("ops").channel.id}))
        stopping, delivery = asyncio.Event(), Delivery(MessageSender(ledger, SlackApi(client), "supervisor"))
        running = asyncio.create_task(delivery.run(stopping))
        await slack.channel("ops").shows(1, "Pausing OrionMX")
        stopping.set()
        delivery.wake()
        await running
        rows = ledger.read(
            lambda c: c.exec_driver_sql("SELECT subject, state, last_error FROM outbox_t ORDER BY subject").all()
        )
    assert [(row.subject, row.state) for row in rows] == [("t1", "pending"), ("t2", "sent")]
    assert "KeyError" in rows[0].last_error


def cards(ledger: Ledger) -> dict[str, str]:
    """The state of each card."""
    rows = ledger.read(lambda c: c.exec_driver_sql("SELECT subject, state FROM outbox_t WHERE kind = 'card'").all())
    return {row.subject: row.state for row in rows}


async def test_one_that_slack_never_takes_keeps_no_other_channel_waiting(slack: Playground, tmp_path: Path) -> None:
    """Slack fails at each post to #general, whatever comes; the cards in #ops do not wait for it."""
    client = PickyClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    client.bad = slack.channel("general").id
    now = 1000.0
    pace = Pace(lambda: now)
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        delivery = Delivery(MessageSender(ledger, SlackApi(client), "supervisor", pace=pace), clock=lambda: now)
        ledger.write(lambda connection: order(connection, "bad", {"channel": client.bad}))
        for number in range(3):
            place = {"channel": slack.channel("ops").id}
            ledger.write(partial(order, task_id=f"good{number}", place=place))
        for _ in range(4):
            await whole_round(delivery)
            now += 40
        assert cards(ledger) == {"bad": "pending", "good0": "sent", "good1": "sent", "good2": "sent"}


async def test_one_that_slack_never_takes_is_at_last_passed_by_in_its_own_channel(
    slack: Playground, tmp_path: Path
) -> None:
    client = PickyClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    ops, now = slack.channel("ops").id, 1000.0
    client.bad_subject = "bad"
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        delivery = Delivery(
            MessageSender(ledger, SlackApi(client), "supervisor", pace=Pace(lambda: now)), clock=lambda: now
        )
        for task in ("bad", "next"):
            ledger.write(partial(order, task_id=task, place={"channel": ops}))
        for tries in range(HOPELESS_ATTEMPTS + 3):
            await whole_round(delivery)
            now += 40
            if tries < HOPELESS_ATTEMPTS:
                assert cards(ledger) == {"bad": "pending", "next": "pending"}
        assert cards(ledger) == {"bad": "pending", "next": "sent"}


async def test_a_thousand_announcements_that_nobody_takes_hide_no_card(slack: Playground, tmp_path: Path) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    shut, ops = slack.channel("shut", private=True).without_bot().id, slack.channel("ops").id
    now = 1000.0
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        delivery = Delivery(
            MessageSender(ledger, SlackApi(client), "supervisor", pace=Pace(lambda: now)), clock=lambda: now
        )
        messages = [
            Message(NOTICE, f"n{n}", {"channel": shut, "content": text_message("It is shut.")}) for n in range(1001)
        ]
        ledger.order(messages)
        ledger.write(lambda connection: order(connection, "card", {"channel": ops}))
        for _ in range(4):
            await whole_round(delivery)
            now += 2
        assert cards(ledger) == {"card": "sent"}
        assert len(slack.calls("chat.postMessage")) <= 4
        assert "Can't post in" in delivery.problem or delivery.problem == ""


async def test_asked_to_stop_it_sends_no_more(slack: Playground, tmp_path: Path) -> None:
    client = PickyClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    stopping = asyncio.Event()
    client.stops = stopping
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        for number in range(3):
            place = {"channel": slack.channel("ops").id}
            ledger.write(partial(order, task_id=f"t{number}", place=place))
        await Delivery(MessageSender(ledger, SlackApi(client), "supervisor")).run(stopping)
        assert sorted(cards(ledger).values()) == ["pending", "pending", "sent"]


class PickyClient(AsyncWebClient):
    """The real client, in front of a Slack that fails at one channel, or at one message; or asked to stop by a post."""

    bad = ""
    bad_subject = ""
    stops: asyncio.Event | None = None

    async def chat_postMessage(self, **arguments: Any) -> AsyncSlackResponse:  # noqa: N802 (its name)
        if self.stops is not None:
            self.stops.set()
        if arguments["channel"] == self.bad or arguments["metadata"]["event_payload"]["subject"] == self.bad_subject:
            raise TimeoutError
        return await super().chat_postMessage(**arguments)


async def test_a_method_that_never_answers_holds_up_its_own_channel_and_no_other(
    slack: Playground, tmp_path: Path
) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, timeout=60, retry_handlers=[])
    ops, general = slack.channel("ops"), slack.channel("general")
    person = slack.user("operator").id
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        delivery, stopping = Delivery(MessageSender(ledger, SlackApi(client), "supervisor")), asyncio.Event()
        slack.fault("delay", "chat.postMessage", seconds=60)
        ledger.write(lambda connection: order(connection, "hung", {"channel": general.id}))
        ledger.write(lambda connection: order(connection, "behind", {"channel": general.id}))
        running = asyncio.create_task(delivery.run(stopping))
        await slack.eventually(lambda: ledger.read(lambda c: cards(ledger)), "it is begun")
        whisper = {"channel": ops.id, "user": person, "thread_ts": None, "content": text_message("for you alone")}
        ledger.write(lambda connection: order(connection, "other", {"channel": ops.id}))
        ledger.write(lambda connection: record(connection, "Host", None, (Message("whisper", "w", whisper),), NOW))
        delivery.wake()
        await slack.user("operator").sees("for you alone")
        await ops.shows(1, "Pausing OrionMX")
        assert cards(ledger) == {"hung": "pending", "behind": "pending", "other": "sent"}
        stopping.set()
        delivery.wake()
        async with asyncio.timeout(10):
            await running


async def test_a_file_that_is_long_on_its_way_holds_up_no_message_of_its_channel(
    slack: Playground, tmp_path: Path
) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, timeout=60, retry_handlers=[])
    ops = slack.channel("ops")
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        delivery = Delivery(MessageSender(ledger, SlackApi(client), "supervisor"))
        slack.fault("delay", "upload", seconds=60)
        file = Attachment("list.csv", "a,b", "elsewhere").as_payload()
        row = Message("file", "t1/file", {"channel": ops.id, "user": None, "thread_ts": None, **file})
        ledger.write(lambda connection: record(connection, "Host", None, (row,), NOW))
        ledger.write(lambda connection: order(connection, "card", {"channel": ops.id}))
        stopping = asyncio.Event()
        running = asyncio.create_task(delivery.run(stopping))
        await ops.shows(1, "Pausing OrionMX")
        assert not slack.calls("files.completeUploadExternal")
        stopping.set()
        delivery.wake()
        async with asyncio.timeout(10):
            await running


async def test_a_channel_in_which_slack_asks_for_an_hour_delays_no_other_and_is_tried_again_after_a_minute(
    slack: Playground, tmp_path: Path
) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    ops, general = slack.channel("ops"), slack.channel("general")
    now = 1000.0
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        pace = Pace(lambda: now)
        delivery = Delivery(MessageSender(ledger, SlackApi(client), "supervisor", pace=pace), clock=lambda: now)
        slack.fault("ratelimited", "chat.postMessage", retry_after=3600)
        ledger.write(lambda connection: order(connection, "first", {"channel": general.id}))
        ledger.write(lambda connection: order(connection, "behind", {"channel": general.id}))
        await whole_round(delivery)
        ledger.write(lambda connection: order(connection, "other", {"channel": ops.id}))
        await whole_round(delivery)
        assert cards(ledger) == {"first": "pending", "behind": "pending", "other": "sent"}
        now += 61
        await whole_round(delivery)
        assert set(cards(ledger).values()) == {"sent"}


async def test_a_new_card_is_not_edited_for_nothing(slack: Playground, tmp_path: Path) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with Ledger(tmp_path / "ledger.db", "Host") as ledger:
        delivery = Delivery(MessageSender(ledger, SlackApi(client), "supervisor", now=lambda: NOW))
        ledger.write(lambda connection: order(connection, "t1", {"channel": slack.channel("ops").id}))
        await whole_round(delivery)
        job = ledger.read(lambda connection: jobs.find(connection, "t1", "OrionMX"))
        assert job is not None
        ledger.step(jobs.claim(job, NOW), NOW)
        await whole_round(delivery)
    (posted,) = slack.calls("chat.postMessage")
    assert posted["arguments"]["text"] == ":hourglass_flowing_sand: *Pausing OrionMX*"
    assert slack.calls("chat.update") == []
