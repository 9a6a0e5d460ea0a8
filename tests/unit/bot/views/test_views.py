"""What people are shown beside cards: the overview with its buttons, answers, notices; always as Slack takes it."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.views.answers.help import help_message
from bot.views.answers.overview import BUTTONS, SHOWN, overview, pressed_button
from bot.views.blocks import blocks_of, code_message, text_message, with_hint, without_blocks
from bot.views.buttons import EFFECTS
from bot.views.cards.notices import connection_gap_notice
from bot.views.workers import worker_line
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.catalog import CATALOG, FAMILIES

NONCE = "20260205143000-ab12cd34e"
NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)


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


def test_every_button_asks_first_and_says_what_it_will_do_to_whom() -> None:
    (row,) = [block for block in blocks_of(shown([worker()])) if block["type"] == "actions"]
    for button in row["elements"]:
        assert "OrionMX" in button["confirm"]["title"]["text"]
        assert button["confirm"]["text"]["text"] in EFFECTS.values()
        assert button["confirm"]["confirm"]["text"] == button["text"]["text"]


def test_who_may_do_nothing_sees_no_buttons() -> None:
    assert buttons(shown([worker()], allowed=())) == []


def test_for_whom_there_is_a_form_there_is_one_more_button_below_all_workers() -> None:
    made = overview("Host", [worker()], {"OrionMX": ()}, NONCE, more=True)
    assert check_message(made, update=True) == []
    assert buttons(made) == [("form:open", NONCE)]


def test_those_in_trouble_come_first_and_the_rest_is_counted() -> None:
    many = [worker(f"W{number:03}") for number in range(50)] + [worker("Z", fine=False, last_error="No such program.")]
    message = shown(many)
    assert message["text"] == ":red_circle: *Host*: 1 of 51 workers needs attention"
    texts = [block["text"]["text"] for block in blocks_of(message) if block["type"] == "section"]
    lines = "\n".join(texts).split("\n")
    assert "\n".join(lines[:2]) == worker_line(worker("Z", fine=False, last_error="No such program."))
    assert len(lines) == SHOWN + 1
    assert f"and {51 - SHOWN} more" in json.dumps(message, ensure_ascii=False)


def test_the_longest_overview_fits() -> None:
    shown([worker("W" * 61 + f"{number:03}", reason="&<>" * 3000, fine=False) for number in range(1000)])


def test_no_workers_at_all_is_said() -> None:
    assert shown([])["text"] == ":white_circle: *Host*: no workers"
    assert "`workers`" in str(shown([]))


def test_a_notice_of_deafness_says_from_when_to_when_and_stays_short() -> None:
    one = connection_gap_notice("Host", [(NOW, NOW + timedelta(seconds=75))], away=True)
    assert "• <!date^1770301800^" in one["text"]
    assert "(1 min 15 s)" in one["text"]
    gaps = [(NOW + timedelta(minutes=n), NOW + timedelta(minutes=n, seconds=5)) for n in range(200)]
    many = connection_gap_notice("Host", gaps, away=False)
    assert "185 earlier gaps" in many["text"]
    assert str(int(gaps[-1][0].timestamp())) in many["text"]
    assert "check the channel before you repeat it" in many["text"]
    for message in (one, many):
        assert check_message(message, update=True) == []


def test_help_shows_the_commands_that_its_reader_may_give_by_what_they_do() -> None:
    made = help_message("", [CATALOG["pause"], CATALOG["status"]])
    shown = [block["text"]["text"] for block in blocks_of(made) if block["type"] == "section"]
    assert [line.partition(": ")[0] for text in shown for line in text.split("\n") if line.startswith("•")] == [
        "• `/supervisor status [target]`",
        "• `/supervisor pause [target] [label…]`",
    ]
    assert "• `/supervisor pause [target] [label…]`: Stop a worker and keep it stopped" in str(made)


def test_every_help_is_as_slack_takes_it() -> None:
    every = list(CATALOG.values())
    for topic in ("", *CATALOG, *FAMILIES):
        assert check_message(help_message(topic, every), update=True) == []


def test_what_stands_for_a_pressed_button_fits_the_longest_worker() -> None:
    assert check_message(pressed_button("restart", "W" * 64, NONCE), update=True) == []


def test_a_listing_is_cut_between_lines_and_after_what_fits() -> None:
    some = code_message("\n".join(f"{number:4} words of help & more" for number in range(300)))
    assert len(some["blocks"]) > 1
    assert all(block["text"]["text"].endswith("more```") for block in some["blocks"])
    much = code_message("x" * 100_000 + "\n" + "`&<>\n" * 20_000)
    assert "(cut)" in much["blocks"][-1]["elements"][0]["text"]
    for message in (some, much):
        assert check_message(message, update=True) == []


def test_anything_told_is_cut_to_fit_and_a_hint_goes_below() -> None:
    long = with_hint(text_message("x" * 100_000), "h" * 10_000)
    assert check_message(long, update=True) == []
    assert "(cut)" in long["text"]
    assert with_hint(long, "") == long
    assert check_message(without_blocks(long), update=True) == []
