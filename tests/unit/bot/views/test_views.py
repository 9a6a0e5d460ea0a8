"""What people are shown beside cards: the overview with its buttons, answers, notices; always as Slack takes it."""

from __future__ import annotations

from typing import Any

from bot.views.answers.help import help_message
from bot.views.blocks import blocks_of, code_message
from bot.views.workers import BUTTONS, overview
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.catalog import CATALOG, FAMILIES

NONCE = "20260205143000-ab12cd34e"


def worker(worker_id: str = "OrionMX", **facts: Any) -> dict[str, Any]:
    usual = {"state": "running", "health": "healthy", "reason": "beats", "fine": True, "pid": 7, "paused": False}
    return {"id": worker_id, "last_error": None, **usual, **facts}


def shown(workers: list[dict[str, Any]], allowed: tuple[str, ...] = tuple(BUTTONS)) -> dict[str, Any]:
    made = overview("Host", workers, {each["id"]: allowed for each in workers}, NONCE)
    assert check_message(made, update=True) == []
    return made


def buttons(message: dict[str, Any]) -> list[tuple[str, str]]:
    rows = [block for block in blocks_of(message) if block["type"] == "actions"]
    return [(button["action_id"], button["value"]) for row in rows for button in row["elements"]]


def test_each_worker_has_the_buttons_that_make_sense_for_it() -> None:
    paused = worker("B", paused=True, pid=None, state="stopped")
    down = worker("C", pid=None, state="stopped", fine=False)
    assert buttons(shown([worker("A"), paused, down])) == [
        ("command:why", f"{NONCE} C"),
        ("command:resume", f"{NONCE} C"),
        ("command:pause", f"{NONCE} C"),
        ("command:pause", f"{NONCE} A"),
        ("command:restart", f"{NONCE} A"),
        ("command:resume", f"{NONCE} B"),
    ]


def test_the_longest_overview_fits() -> None:
    shown([worker("W" * 61 + f"{number:03}", reason="&<>" * 3000, fine=False) for number in range(1000)])


def test_every_help_is_as_slack_takes_it() -> None:
    every = list(CATALOG.values())
    for topic in ("", *CATALOG, *FAMILIES):
        assert check_message(help_message(topic, every), update=True) == []


def test_a_listing_is_cut_between_lines_and_after_what_fits() -> None:
    some = code_message("\n".join(f"{number:4} words of help & more" for number in range(300)))
    assert len(some["blocks"]) > 1
    assert all(block["text"]["text"].endswith("more```") for block in some["blocks"])
    much = code_message("x" * 100_000 + "\n" + "`&<>\n" * 20_000)
    assert "(cut)" in much["blocks"][-1]["elements"][0]["text"]
    for message in (some, much):
        assert check_message(message, update=True) == []
