"""How workers were over time: a bar of colored squares, and sentences that say the same.

`UPDATE_GOLDEN=1 pytest tests/unit/diagnosis/test_history.py` rewrites the files.
"""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.views.answers.history import history_message
from bot.views.text import phrase_markup
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts.flips import ConditionSpan, Uptime, condition_spans
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.phrases import plain
from supervisor_core.common.errors import CommandText, Identifier
from supervisor_core.diagnosis.history import History, history_text, percent, slice_colors
from supervisor_core.workers.conditions import Condition
from tests.support.diagnosis.histories import (
    UNTIL,
    deploy_and_rollback,
    flapping_day,
    history,
    many,
    mark,
    quiet_week,
)
from tests.support.diagnosis.worker_facts import HOSTILE
from tests.support.sampling import examples

GOLDEN = Path(__file__).parents[1] / "golden"
NOTHING = History(
    "OrionMX", UNTIL - timedelta(hours=24), UNTIL, tuple(condition_spans([], UNTIL - timedelta(1), UNTIL)), Uptime()
)

STORIES: dict[str, list[History]] = {
    "quiet_week": [quiet_week()],
    "flapping_day": [flapping_day()],
    "deploy_and_rollback": [deploy_and_rollback()],
    "nothing": [NOTHING],
    "many": many(20),
}


@pytest.mark.parametrize("name", STORIES)
def test_each_story_is_told_in_the_words_that_were_last_looked_at(name: str) -> None:
    made: dict[str, Any] = history_message(STORIES[name])
    assert check_message(made, update=True) == []
    path = GOLDEN / f"history_{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    assert made == json.loads(path.read_text())


def test_every_golden_file_has_its_story() -> None:
    assert {path.stem.removeprefix("history_") for path in GOLDEN.glob("history_*.json")} == set(STORIES)


def test_the_longest_trouble_goes_on_through_its_forms_and_is_called_by_the_worst() -> None:
    told = deploy_and_rollback().longest_trouble
    assert told is not None
    assert (told.condition, told.length) == (Condition.DOWN, timedelta(hours=6.0) - timedelta(hours=4.1))
    assert quiet_week().longest_trouble is None, "a pause is none"


def test_an_uptime_is_never_rounded_up_to_the_whole() -> None:
    week = timedelta(days=7)
    assert percent(Uptime(week, timedelta(0), timedelta(seconds=1))) == "99.99%"
    assert percent(Uptime(week)) == "100%"
    assert percent(Uptime(uncounted=week)) == "-"
    assert percent(Uptime(timedelta(0), timedelta(0), week)) == "0.0%"


def test_an_uptime_says_how_much_time_it_stands_on() -> None:
    day = timedelta(days=1)
    assert percent(Uptime(timedelta(hours=5), uncounted=timedelta(hours=19))) == "100% of 5 h"
    assert percent(Uptime(timedelta(hours=23), uncounted=timedelta(hours=1))) == "100%"
    seconds = Uptime(timedelta(seconds=18), down=timedelta(seconds=72), uncounted=day)
    assert percent(seconds) == "-"
    begun = UNTIL - timedelta(seconds=90)
    held = (ConditionSpan(Condition.UNKNOWN, UNTIL - day, begun), ConditionSpan(Condition.DOWN, begun, UNTIL))
    (first, *_) = history_text(History("North", UNTIL - day, UNTIL, held, seconds))
    assert "on record for only 1 min 30 s" in plain(first)
    assert "%" not in plain(first)


def test_commands_are_numbered_and_older_ones_are_counted() -> None:
    told = history(24, [], [mark(24 - number, "restart") for number in range(20)])
    lines = [plain(phrase) for phrase in history_text(told)]
    assert lines[-13] == "20 commands; 8 earlier not listed"
    assert lines[-12].startswith("1. ")
    assert lines[-1].startswith("12. ")


def test_a_command_id_is_plain_in_a_terminal_and_code_in_slack() -> None:
    phrase = ("restart (", Identifier("task_1"), "), then ", CommandText("why West"))
    assert plain(phrase) == "restart (task_1), then `supervisor why West`"
    assert phrase_markup(phrase, mentions=False) == "restart (`task_1`), then `/supervisor why West`"


@settings(max_examples=examples(20))
@given(name=st.text(max_size=60) | st.just(HOSTILE), count=st.integers(1, 20), marks=st.integers(0, 40))
def test_whatever_people_are_called_nobody_is_pinged_and_it_fits(name: str, count: int, marks: int) -> None:
    done = [mark(number / 2, "update", Issuer("cli:x", name), f" “{name}”: failed") for number in range(marks)]
    told = [history(24, [(3, Condition.DOWN)], done, "W" * 64) for _ in range(count)]
    content = history_message(told, 180)
    assert check_message(content, update=True) == []
    assert "<@" not in content["text"]
    assert "<!channel" not in content["text"]


def test_a_slice_shows_the_worst_of_its_time() -> None:
    day = history(24, [(20, Condition.PAUSED), (12, Condition.WELL), (5.9, Condition.DEGRADED), (3.1, Condition.WELL)])
    assert slice_colors(day, 6) == ["green", "white", "white", "green", "yellow", "yellow"]
    brief = history(24, [(2.2, Condition.DEGRADED), (2.1, Condition.DOWN), (2.0, Condition.WELL)])
    assert slice_colors(brief, 4) == ["green", "green", "green", "red"]
    assert slice_colors(NOTHING, 3) == ["white"] * 3
