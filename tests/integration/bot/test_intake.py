"""The bot's intake against a local Slack: kept, acknowledged, dealt with once, over refreshes, cuts and crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from sqlalchemy import Connection, select

from bot.inbound.dispatcher import EnvelopeDispatcher, Refusals, Response
from bot.inbound.identity import Identity
from bot.inbound.intake import EnvelopeWriter, Intake
from bot.inbound.reconnection import Link, SlackRefusedError
from bot.outbound.slack_api import SlackApi
from slack_playground import Playground
from slack_playground.testing.cards import Modal
from supervisor_core.storage.envelopes import StoredEnvelope, pending_envelopes, store_envelopes
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from supervisor_core.storage.tables import envelopes
from tests.support.storage.ledger_rows import count_pending


class Bot:
    """A link and an intake, which note what they hear instead of acting on it."""

    def __init__(self, slack: Playground, folder: Path) -> None:
        (folder / "var").mkdir(exist_ok=True)
        self.ledger = Ledger(folder / "var" / "ledger.db", "TestHost")
        self.dealt: list[str] = []
        self.deaf: list[tuple[datetime, datetime]] = []
        self.breaks = asyncio.Event()
        self.breaks_looking = False
        self.looked_at: list[list[tuple[str, str]]] = []
        client = AsyncWebClient(base_url=slack.api_url)
        me = Identity("T0", slack.server.world.bot.id, "B0", "supervisor", "playground")
        keeping = EnvelopeWriter(self.ledger)
        self.dealing = EnvelopeDispatcher(self.ledger, self._deal, keeping.quiet)
        self.intake = Intake(keeping, self.dealing, Refusals(SlackApi(client, "B0"), me), self._answer)
        self.link = Link(client, slack.app_token, self.intake.receive, self._was_deaf)
        self.stopping = asyncio.Event()

    async def _deal(self, received: StoredEnvelope) -> Response:
        if self.breaks.is_set():
            await asyncio.Event().wait()  # until the process ends
        self.dealt.append(str(received.payload.get("text", received.kind)))
        return Response()

    async def _answer(self, _kind: str, payload: Mapping[str, Any]) -> dict[str, Any] | None:
        if payload.get("type") == "block_suggestion":
            return {"options": [{"text": {"type": "plain_text", "text": payload["value"]}, "value": "x"}]}
        self.looked_at.append(self.rows())
        if self.breaks_looking:
            raise ValueError("a mistake of ours")
        typed = payload["view"]["state"]["values"]["name"]["value"]["value"]
        return {"response_action": "errors", "errors": {"name": "too short"}} if len(typed) < 3 else None

    async def _was_deaf(self, since: datetime, until: datetime) -> None:
        self.deaf.append((since, until))

    def rows(self) -> list[tuple[str, str]]:
        """Every envelope with its state, as the ledger has it."""

        def look(connection: Connection) -> list[tuple[str, str]]:
            query = select(envelopes.c.kind, envelopes.c.state).order_by(envelopes.c.received_at)
            return [(row.kind, row.state) for row in connection.execute(query)]

        return self.ledger.read(look)


@asynccontextmanager
async def a_bot(slack: Playground, folder: Path, last_heard: datetime | None = None) -> AsyncIterator[Bot]:
    bot = Bot(slack, folder)
    running = asyncio.create_task(bot.link.run(bot.stopping, last_heard, lambda: None))
    try:
        await slack.connected()
        yield bot
    finally:
        bot.stopping.set()
        await asyncio.gather(running, return_exceptions=True)
        await bot.dealing.close()
        bot.ledger.close()


async def test_of_a_burst_each_is_kept_acknowledged_and_dealt_with_once(slack: Playground, tmp_path: Path) -> None:
    texts = [f"status {number:03}" for number in range(150)]
    async with a_bot(slack, tmp_path) as bot:
        operator = slack.user("operator")
        await asyncio.gather(*(operator.slash(f"/supervisor {text}") for text in texts))
        await bot.dealing.settle()
        assert sorted(bot.dealt) == texts
        assert [state for _, state in bot.rows()] == ["handled"] * len(texts)


async def test_what_can_not_be_ended_on_a_full_disk_is_ended_once_there_is_room_and_done_once(
    slack: Playground, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tries = 0

    async def deal(received: StoredEnvelope) -> Response:
        nonlocal tries
        tries += 1
        return Response(messages=(Message("whisper", received.key, {"content": "x" * 100_000}),))

    with Ledger(tmp_path / "ledger.db", "TestHost") as ledger:
        kept = StoredEnvelope("command:1", "slash_commands", {"user_id": "U1"}, datetime.now(UTC))
        assert ledger.write(lambda connection: store_envelopes(connection, [kept])) == [True]
        pages = ledger.read(lambda connection: connection.exec_driver_sql("PRAGMA page_count").scalar_one())
        ledger.write(lambda connection: connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 2}"))
        dealing = EnvelopeDispatcher(ledger, deal, EnvelopeWriter(ledger).quiet)
        dealing.start(kept)
        await slack.eventually(lambda: "can't be stored now" in caplog.text, "its end can't be written")
        ledger.write(lambda connection: connection.exec_driver_sql("PRAGMA max_page_count = 1000000"))
        await dealing.settle()
        assert tries == 1
        assert ledger.read(pending_envelopes) == []
        assert ledger.read(lambda connection: count_pending(connection, "whisper")) == 1


@pytest.mark.parametrize("do", ["warning", "refresh", "drop", "close"])
async def test_after_every_kind_of_end_it_is_back_and_loses_nothing_acknowledged(
    slack: Playground, tmp_path: Path, do: str
) -> None:
    async with a_bot(slack, tmp_path) as bot:
        await slack.user("operator").slash("/supervisor one")
        await slack.disconnect(do)
        await slack.eventually(lambda: len(opened(slack)) == 2, "no second connection")
        await slack.user("operator").slash("/supervisor two")
        await bot.dealing.settle()
        assert bot.dealt == ["one", "two"]
        assert bot.link.trouble == ""


async def test_on_a_warning_the_next_connection_is_open_before_the_last_one_closes(
    slack: Playground, tmp_path: Path
) -> None:
    async with a_bot(slack, tmp_path):
        await slack.disconnect("warning")
        await slack.eventually(lambda: len(opened(slack)) == 2, "no second connection")
        events = [(entry["connection"], entry["event"]) for entry in slack.journal("connection")]
        closed = [place for place, event in enumerate(events) if event == (1, "close")]
        assert not closed or events.index((2, "hello")) < closed[0]


async def test_a_token_that_slack_refuses_is_no_weather(slack: Playground, tmp_path: Path) -> None:
    slack.fault("error", "apps.connections.open", times=0, error="invalid_auth")
    bot = Bot(slack, tmp_path)
    with pytest.raises(SlackRefusedError, match="invalid_auth"):
        await bot.link.run(bot.stopping, None, lambda: None)
    bot.ledger.close()


async def until(condition: Callable[[], bool], seconds: float = 10) -> None:
    """Wait for what happens in the bot; `slack.eventually` looks only when something happens in Slack."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 (a condition of others, which has no event)
            await asyncio.sleep(0.01)


async def a_modal(slack: Playground) -> Modal:
    """A form with a name and a menu in front of the operator."""
    field: dict[str, Any] = {"type": "plain_text_input", "action_id": "value"}
    menu: dict[str, Any] = {"type": "external_select", "action_id": "value", "min_query_length": 0}
    blocks: list[dict[str, Any]] = [
        {"type": "input", "block_id": name.lower(), "label": {"type": "plain_text", "text": name}, "element": element}
        for name, element in (("Name", field), ("Which", menu))
    ]
    blocks[1]["optional"] = True
    title = {"type": "plain_text", "text": "A form"}
    view = {"type": "modal", "title": title, "submit": title, "callback_id": "a_form", "blocks": blocks}
    operator = slack.user("operator")
    trigger = slack.server.acting._payloads.trigger(operator.user)  # noqa: SLF001 (what a command would have given)
    await AsyncWebClient(token=slack.bot_token, base_url=slack.api_url).views_open(trigger_id=trigger, view=view)
    modal: Modal = await operator.modal("Name")
    return modal


async def test_a_modal_is_a_row_before_its_acknowledgement_closes_it(slack: Playground, tmp_path: Path) -> None:
    async with a_bot(slack, tmp_path) as bot:
        bot.breaks.set()
        modal = await a_modal(slack)
        await modal.fill("Name", "good")
        await modal.submit()
        await modal.is_closed()
        assert bot.looked_at == [[]]
        assert bot.rows() == [("interactive", "received")]
    async with a_bot(slack, tmp_path) as bot:
        await bot.dealing.resume()
        await bot.dealing.settle()
        assert bot.dealt == ["interactive"]
        assert bot.rows() == [("interactive", "handled")]


async def test_a_modal_that_is_refused_leaves_no_row_and_stays_open_with_what_was_typed(
    slack: Playground, tmp_path: Path
) -> None:
    async with a_bot(slack, tmp_path) as bot:
        modal = await a_modal(slack)
        await modal.fill("Name", "no")
        assert (await modal.submit())["errors"] == {"name": "too short"}
        await modal.shows("Name: [no]")
        assert bot.rows() == []
        await modal.fill("Name", "good")
        await modal.submit()
        await modal.is_closed()
        await bot.dealing.settle()
        assert bot.dealt == ["interactive"]


async def test_a_modal_that_could_not_be_looked_at_is_kept_all_the_same(slack: Playground, tmp_path: Path) -> None:
    async with a_bot(slack, tmp_path) as bot:
        bot.breaks_looking = True
        modal = await a_modal(slack)
        await modal.fill("Name", "good")
        await modal.submit()
        await modal.is_closed()
        await bot.dealing.settle()
        assert bot.dealt == ["interactive"]


async def test_the_options_of_a_menu_are_answered_without_a_row(slack: Playground, tmp_path: Path) -> None:
    async with a_bot(slack, tmp_path) as bot:
        modal = await a_modal(slack)
        assert await modal.menu("Which").offers("par") == ["par"]
        assert bot.rows() == []
        assert bot.dealt == []


def opened(slack: Playground) -> list[int]:
    return [entry["connection"] for entry in slack.journal("connection") if entry["event"] == "hello"]
