"""How workers were over time: in words that say the same as the picture, and a picture that anybody can draw again.

`UPDATE_GOLDEN=1 pytest tests/unit/diagnosis/test_history.py` rewrites the files.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from datetime import UTC, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bot.answers.charts import draw
from bot.views.answers.history import ALT, history_markup, history_message, picture_description
from bot.views.blocks import text_message
from bot.views.files import MOST_BYTES
from bot.views.text import phrase_with_names
from slack_playground.blockkit.messages import check_message
from supervisor_core.alerts.flips import ConditionSpan, Uptime, condition_spans
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.phrases import plain
from supervisor_core.common.errors import CommandText, Identifier
from supervisor_core.diagnosis.history import HeartbeatSample, History, cropped, from_flips, history_text, percent
from supervisor_core.workers.conditions.rules import Condition
from tests.support.diagnosis.history_charts import (
    LIMIT,
    UNTIL,
    deploy_and_rollback,
    flapping_day,
    history,
    many,
    mark,
    of_no_heartbeat,
    quiet_week,
)
from tests.support.diagnosis.worker_facts import HOSTILE
from tests.support.sampling import examples

GOLDEN = Path(__file__).parents[1] / "golden"
NONCE = "20260205143000-ab12cd34e"
BERLIN = ZoneInfo("Europe/Berlin")
NOTHING = History(
    "OrionMX", UNTIL - timedelta(hours=24), UNTIL, tuple(condition_spans([], UNTIL - timedelta(1), UNTIL)), Uptime()
)

STORIES: dict[str, list[History]] = {
    "quiet_week": [quiet_week()],
    "flapping_day": [flapping_day()],
    "deploy_and_rollback": [deploy_and_rollback()],
    "no_heartbeat": [of_no_heartbeat()],
    "nothing": [NOTHING],
    "many": many(20),
}


def command(histories: list[History]) -> Command:
    names = tuple(each.worker_id for each in histories)
    return Command("history", names[0] if len(names) == 1 else "all", names, {"span": "24h"})


@pytest.mark.parametrize("name", STORIES)
def test_each_story_is_told_in_the_words_that_were_last_looked_at(name: str) -> None:
    told = STORIES[name]
    made: dict[str, Any] = history_message(history_markup(told), command(told), NONCE, "1770301800", drawn=True)
    assert check_message(made, update=True) == []
    kept = {"in_slack": made, "alt": picture_description(told, BERLIN)}
    path = GOLDEN / f"history_{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(kept, indent=2, ensure_ascii=False) + "\n")
    assert kept == json.loads(path.read_text())


def test_every_golden_file_has_its_story() -> None:
    assert {path.stem.removeprefix("history_") for path in GOLDEN.glob("history_*.json")} == set(STORIES)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", STORIES)
def test_a_picture_can_be_drawn_again_to_the_very_byte(name: str) -> None:
    pictures = {draw(STORIES[name], BERLIN, "Europe/Berlin") for _ in range(2)}
    (data,) = pictures
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    wide, tall = struct.unpack(">II", data[16:24])
    assert (wide, tall < 1900, len(data) < MOST_BYTES) == (1144, True, True)


@pytest.mark.parametrize("zone", ["America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "UTC"])
def test_a_week_in_which_the_clocks_are_changed_has_its_days_at_midnight(zone: str) -> None:
    for until in (UNTIL.replace(month=3, day=10), UNTIL.replace(month=3, day=31), UNTIL.replace(month=10, day=27)):
        moved = until - UNTIL
        week = quiet_week()
        held = tuple(replace(each, since=each.since + moved, until=each.until + moved) for each in week.stretches)
        shifted = replace(week, since=week.since + moved, until=until, stretches=held, samples=(), marks=())
        assert draw([shifted], ZoneInfo(zone), zone).startswith(b"\x89PNG")


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


def test_where_nobody_measured_a_stale_time_says_how_the_heartbeat_grew_older() -> None:
    held = (ConditionSpan(Condition.STALE, UNTIL - timedelta(hours=1), UNTIL),)
    assert from_flips((), held, LIMIT) == (
        HeartbeatSample(UNTIL - timedelta(hours=1), LIMIT),
        HeartbeatSample(UNTIL, LIMIT + 3600),
    )
    measured = (HeartbeatSample(UNTIL - timedelta(minutes=30), 2100.0),)
    assert from_flips(measured, held, LIMIT) == measured
    assert from_flips((), held, 0.0) == ()


def test_commands_have_the_numbers_that_the_picture_has_and_older_ones_are_counted() -> None:
    told = history(24, [], [mark(24 - number, "restart") for number in range(20)])
    lines = [plain(phrase) for phrase in history_text(told)]
    assert lines[-13] == "20 commands; 8 earlier not listed"
    assert lines[-12].startswith("1. ")
    assert lines[-1].startswith("12. ")


def test_a_command_id_is_plain_in_a_terminal_and_code_in_slack() -> None:
    phrase = ("restart (", Identifier("task_1"), "), then ", CommandText("why West"))
    assert plain(phrase) == "restart (task_1), then `supervisor why West`"
    assert phrase_with_names(phrase) == "restart (`task_1`), then `/supervisor why West`"


@settings(max_examples=examples(20))
@given(name=st.text(max_size=60) | st.just(HOSTILE), count=st.integers(1, 20), marks=st.integers(0, 40))
def test_whatever_people_are_called_nobody_is_pinged_and_it_fits(name: str, count: int, marks: int) -> None:
    done = [mark(number / 2, "update", Issuer("cli:x", name), f" “{name}”: failed") for number in range(marks)]
    told = [history(24, [(3, Condition.DOWN)], done, "W" * 64) for _ in range(count)]
    made = history_message(history_markup(told, 180), command(told), NONCE, "1770301800", drawn=True)
    for content in (made, text_message(history_markup(told))):
        assert check_message(content, update=True) == []
        assert "<@" not in content["text"]
        assert "<!channel" not in content["text"]
    assert len(picture_description(told, UTC)) <= ALT


def test_however_often_a_worker_has_changed_its_picture_has_a_few_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part takes a millisecond, and no other picture is drawn meanwhile."""
    from matplotlib.axes import Axes

    drawn: list[int] = []
    real = Axes.broken_barh

    def counted(axes: Axes, xranges: Any, *arguments: Any, **looks: Any) -> Any:
        drawn.append(len(xranges))
        return real(axes, xranges, *arguments, **looks)

    monkeypatch.setattr(Axes, "broken_barh", counted)
    conditions = (Condition.DOWN, Condition.WELL, Condition.STALE)
    changes = [(24 - number / 50, conditions[number % 3]) for number in range(1000)]
    draw([history(24, changes, [])], BERLIN, "Europe/Berlin")
    assert len(drawn) < 20
    assert sum(drawn) >= 2 * 1000, "all of it is there, its face and its outline"


def test_a_picture_begins_where_the_first_worker_is_on_record() -> None:
    whole = history(24, [(1.0, Condition.DOWN), (0.5, Condition.WELL)])
    unknown = ConditionSpan(Condition.UNKNOWN, whole.since, UNTIL - timedelta(hours=2))
    young = replace(
        whole,
        stretches=(unknown, ConditionSpan(Condition.WELL, unknown.until, UNTIL)),
        marks=(),
    )
    never = replace(whole, stretches=(replace(unknown, until=UNTIL),), marks=())
    shown, beside = cropped([young, never])
    assert shown.since == beside.since
    assert timedelta(0) < unknown.until - shown.since < timedelta(minutes=5)
    assert shown.stretches[0].since == shown.since
    assert all(sample.at >= shown.since for sample in shown.samples)
    assert cropped([whole]) == [whole]
    assert cropped([never]) == [never]
    assert draw([young], UTC, "UTC").startswith(b"\x89PNG")
