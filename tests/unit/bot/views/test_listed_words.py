"""The notice of ids that Slack does not know: short, harmless, and always as Slack takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bot.views.blocks import blocks_of
from bot.views.cards.configuration import IDS_SHOWN, unknown_ids
from slack_playground.blockkit.messages import check_message


def said(content: Mapping[str, Any]) -> str:
    return "\n".join(block["text"]["text"] for block in blocks_of(content))


def test_it_names_the_host_and_each_trouble() -> None:
    told = unknown_ids("OrionMX", ["slack.access.operators: U0GONE (Gone) is deactivated, and gets no rights"])
    assert told["text"] == ":warning: *Slack and the configuration of OrionMX disagree*"
    assert "• slack.access.operators: U0GONE (Gone) is deactivated" in said(told)
    assert "`supervisor doctor`" in said(told)
    assert check_message(told, update=True) == []


def test_of_many_the_first_are_shown_and_the_others_counted() -> None:
    told = unknown_ids("H" * 64, [f"{number} {'&<>' * 2000}" for number in range(500)])
    assert check_message(told, update=True) == []
    assert f"and {500 - IDS_SHOWN} more" in said(told)
    assert said(told).endswith("`supervisor doctor` checks again.")


def test_a_name_in_it_can_mention_nobody() -> None:
    told = unknown_ids("Host", ["slack.access.viewers: U1 (<!channel> <@U2> <https://x|y>) is a bot"])
    assert "<" not in told["text"] + said(told)
