"""From the outbox to a local Slack: what can't be told keeps no other from being told."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import Connection

from bot.delivery import Delivery
from bot.pace import Pace
from bot.playground import Playground
from bot.speaking import Speaker
from supervisor_core.adapters.head_file import HeadFile
from supervisor_core.domain.command import Issuer
from supervisor_core.ledger import jobs
from supervisor_core.ledger.steps import Message, record
from supervisor_core.ledger.store import Ledger

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


def order(connection: Connection, task_id: str, place: dict[str, str]) -> None:
    new = jobs.NewJob(task_id, "OrionMX", "pause", {}, None, Issuer("cli:anna", "anna"), "cli", NOW)
    assert jobs.file(connection, "Host", new, NOW) is not None
    record(connection, "Host", None, (Message(jobs.CARD, task_id, place),), NOW)


async def test_a_card_without_a_place_is_kept_with_its_reason_and_the_next_is_posted(
    slack: Playground, tmp_path: Path
) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    with Ledger(tmp_path / "ledger.db", "Host", HeadFile(tmp_path)) as ledger:
        ledger.write(lambda connection: order(connection, "t1", {}))
        ledger.write(lambda connection: order(connection, "t2", {"channel": slack.channel("ops").channel.id}))
        stopping, delivery = asyncio.Event(), Delivery(ledger, Speaker(client), "supervisor")
        running = asyncio.create_task(delivery.run(stopping))
        await slack.channel("ops").shows(1, "OrionMX: pause accepted")
        stopping.set()
        delivery.wake()
        await running
        rows = ledger.read(
            lambda c: c.exec_driver_sql("SELECT subject, state, last_error FROM outbox_t ORDER BY subject").all()
        )
    assert [(row.subject, row.state) for row in rows] == [("t1", "pending"), ("t2", "sent")]
    assert "KeyError" in rows[0].last_error


async def test_a_card_that_was_lost_is_posted_anew_only_when_slack_lets_posts_through_again(
    slack: Playground, tmp_path: Path
) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    now, ops = 1000.0, slack.channel("ops")
    pace = Pace(lambda: now)
    with Ledger(tmp_path / "ledger.db", "Host", HeadFile(tmp_path)) as ledger:
        delivery = Delivery(ledger, Speaker(client), "supervisor", pace=pace)
        ledger.write(lambda connection: order(connection, "t1", {"channel": ops.id}))
        await delivery.round()
        slack.fault("error", "chat.update", error="message_not_found", times=2)
        pace.hold("chat.postMessage", 30)
        ledger.write(lambda connection: record(connection, "Host", None, (Message(jobs.CARD, "t1", None),), NOW))
        await delivery.round()
        assert "not to call chat.postMessage" in delivery.problem
        assert len(slack.calls("chat.postMessage")) == 1
        now += 30
        await delivery.round()
        assert len(slack.calls("chat.postMessage")) == 2
        assert delivery.problem == ""


async def test_a_post_that_is_refused_in_place_of_an_edit_holds_all_posts(slack: Playground, tmp_path: Path) -> None:
    client = AsyncWebClient(token=slack.bot_token, base_url=slack.api_url, retry_handlers=[])
    pace, ops = Pace(), slack.channel("ops")
    with Ledger(tmp_path / "ledger.db", "Host", HeadFile(tmp_path)) as ledger:
        delivery = Delivery(ledger, Speaker(client), "supervisor", pace=pace)
        ledger.write(lambda connection: order(connection, "t1", {"channel": ops.id}))
        await delivery.round()
        slack.fault("error", "chat.update", error="message_not_found")
        slack.fault("ratelimited", "chat.postMessage", retry_after=30)
        ledger.write(lambda connection: record(connection, "Host", None, (Message(jobs.CARD, "t1", None),), NOW))
        await delivery.round()
        assert pace.wait((), "chat.postMessage") > 25
