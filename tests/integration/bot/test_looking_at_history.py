"""What `history` answers in Slack, by the place in which it was asked, and where no picture can be drawn."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.access.rules import Person
from bot.answers import charts
from bot.answers.history import HistoryAnswer
from bot.requests.commands import Query
from bot.requests.request import Request, from_share_button
from bot.views.blocks import blocks_of
from bot.views.files import Attachment
from supervisor_core.commands.command import Command
from supervisor_core.config.load import SupervisorConfig, load_supervisor_config
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.storage.envelopes import StoredEnvelope
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions.rules import Condition
from tests.support.alerts.condition_changes import flip_to, hours
from tests.support.intake.handler_hosts import FakeHost

AT = datetime(2026, 2, 5, 14, 30, 15, 123456, tzinfo=UTC)
ASKED = Request("history", "U0ANNA", "T0", "C0OPS", AT, "key", response_url="https://x/answer")
COMMAND = Command("history", "OrionMX", ("OrionMX",), {"span": "24h"})
ANNA = Person("U0ANNA", "T0", "Anna", zone="Pacific/Auckland")


@pytest.fixture
def config(tmp_path: Path) -> SupervisorConfig:
    return FakeHost(tmp_path).host.config


@pytest.fixture
def ledger(config: SupervisorConfig) -> Iterator[Ledger]:
    with opened_ledger(load_supervisor_config(config.path)) as made:
        flip_to(made, "TestHost", "OrionMX", *hours(AT, (30, Condition.WELL), (6, Condition.DOWN), (5, Condition.WELL)))
        yield made


def told(config: SupervisorConfig, ledger: Ledger, asked: Request, person: Person | None = ANNA) -> list[Message]:
    dealt = asyncio.run(HistoryAnswer(config, ledger)(Query(asked, COMMAND, person)))
    return list(dealt.messages)


def payload(message: Message) -> Any:
    assert message.payload is not None
    return message.payload


def pressed(value: str, key: str) -> Request:
    """A press of the button below the answer."""
    body = {
        "user": {"id": "U0ANNA", "team_id": "T0"},
        "channel": {"id": "C0OPS"},
        "container": {"is_ephemeral": True},
        "response_url": "https://x/press",
        "actions": [{"action_id": "share:history", "value": value}],
    }
    return from_share_button(StoredEnvelope(key, "interactive", body, AT + timedelta(minutes=5)))


def test_in_a_channel_the_words_are_for_the_asker_and_the_picture_is_theirs_alone(
    config: SupervisorConfig, ledger: Ledger
) -> None:
    words, file = told(config, ledger, ASKED)
    assert (words.kind, words.subject) == ("whisper", "key")
    assert "95.8% of the time" in payload(words)["content"]["text"]
    assert (payload(file)["channel"], payload(file)["alone"]) == ("U0ANNA", True)
    assert payload(file)["filename"] == "history_OrionMX_20260205T143015Z.png"
    assert "since 05 Feb 21:30" in payload(file)["alt"], "in the reader's own time"
    assert told(config, ledger, ASKED)[1].payload == file.payload, "dealt with again it is the same"


def test_in_a_direct_message_the_picture_comes_with_its_words_and_nothing_is_shared(
    config: SupervisorConfig, ledger: Ledger
) -> None:
    direct = replace(ASKED, channel="D1", direct=True, response_url=None)
    (file,) = told(config, ledger, direct)
    assert payload(file)["channel"] == "D1"
    assert "95.8% of the time" in payload(file)["comment"]


def test_shared_it_is_the_same_picture_for_everybody_once(config: SupervisorConfig, ledger: Ledger) -> None:
    words, file = told(config, ledger, ASKED)
    (button,) = blocks_of(payload(words)["content"])[-1]["elements"]
    once, again = (pressed(button["value"], key) for key in ("k1", "k2"))
    assert (once.text, once.target) == ("history OrionMX 24h", "OrionMX")
    files = [told(config, ledger, each)[0] for each in (once, again)]
    assert {each.subject for each in files} == {f"{once.press}/file"}
    assert payload(files[0])["channel"] == "C0OPS"
    assert "alone" not in payload(files[0])
    assert Attachment.of(payload(files[0])).data == Attachment.of(payload(file)).data


@pytest.mark.parametrize("which", ["9" * 30, "0", "-1", "x", str(int(AT.timestamp()) + 10**6)])
def test_a_button_that_was_made_up_shows_what_is_so_now(config: SupervisorConfig, ledger: Ledger, which: str) -> None:
    file, _ = told(config, ledger, pressed(f"nonce {which} OrionMX 24h", "k"))
    assert payload(file)["filename"] == "history_OrionMX_20260205T143515Z.png"


def test_without_the_extra_the_words_are_the_answer_and_say_why(
    config: SupervisorConfig, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg"):
        monkeypatch.setitem(sys.modules, name, None)
    (words,) = told(config, ledger, ASKED)
    assert "pip install 'supervisor-chatops[charts]'" in payload(words)["content"]["text"]
    (direct,) = told(config, ledger, replace(ASKED, channel="D1", direct=True, response_url=None))
    assert "95.8% of the time" in payload(direct)["content"]["text"]


def test_a_picture_that_can_not_be_drawn_costs_nobody_the_words(
    config: SupervisorConfig, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "FONT", object())
    (words,) = told(config, ledger, ASKED, None)
    assert "couldn't be drawn" in payload(words)["content"]["text"]
