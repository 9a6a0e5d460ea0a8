"""The status page: what an operator needs first, on any screen, and nothing from elsewhere as markup."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bot.views.text import dated
from supervisor_core.alerts.flips import ConditionSpan
from supervisor_core.alerts.rules import Alert
from supervisor_core.commands.command import Issuer
from supervisor_core.common.times import with_countdown
from supervisor_core.jobs.model import CommandSummary
from supervisor_core.web.facts import LedgerFacts, WebFacts
from supervisor_core.web.page import page
from supervisor_core.workers.conditions import WORKER, Condition, Severity, Target

NOW = datetime(2026, 11, 19, 12, tzinfo=UTC)
WELL: dict[str, Any] = {
    "id": "fetcher",
    "state": "running",
    "health": "healthy",
    "reason": "running",
    "fine": True,
    "pid": 4711,
    "paused": False,
    "team": "archive",
    "started_at": "2026-11-19T11:00:00Z",
    "memory_bytes": 3 * 2**20,
    "cpu_seconds": 61.0,
    "commit": "3f2a9c1d",
}
DOWN = {**WELL, "id": "crasher", "state": "stopped", "health": "missing", "reason": "exited (code 3)", "fine": False}
ALERT = Alert("abc", Target(WORKER, "crasher"), Condition.DOWN, "exited (code 3)", NOW - timedelta(minutes=2), 1)
TAGS = {"html", "head", "meta", "title", "link", "script", "body", "main", "header", "h1", "h2", "h3", "p", "section"}
TAGS |= {"table", "thead", "tbody", "tr", "th", "td", "ul", "li", "b", "span", "svg", "rect"}


def facts(*workers: dict[str, Any], **ledger: Any) -> WebFacts:
    return WebFacts("OrionMX", NOW, list(workers), (), "", LedgerFacts(**ledger))


class Tags(HTMLParser):
    """The tags and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def words_of(found: WebFacts) -> str:
    return " ".join(Tags(page(found)).text)


def test_the_worker_that_needs_attention_comes_first_with_its_reason() -> None:
    words = words_of(facts(WELL, DOWN))
    assert words.index("crasher") < words.index("fetcher")
    assert "exited (code 3)" in words
    assert "1 of 2 needs attention" in words


def test_an_alert_that_another_one_includes_is_not_repeated() -> None:
    part = replace(ALERT, alert_id="def", parent_id="abc", reason="only a part")
    words = words_of(facts(DOWN, alerts=[ALERT, part]))
    assert "for 2 min" in words
    assert "only a part" not in words


def test_a_picture_shows_each_condition_with_its_times() -> None:
    spans = (ConditionSpan(Condition.DOWN, NOW - timedelta(hours=2), NOW - timedelta(hours=1)),)
    text = page(facts(WELL, history={"fetcher": spans}))
    assert 'class="red"' in text
    assert "down from 10:00 to 11:00 UTC" in text
    done = (replace(spans[0], condition=Condition.PAUSED, reason="exited (code 0) after 4 s; not restarted"),)
    assert "stopped from 10:00 to 11:00 UTC" in page(facts(WELL, history={"fetcher": done}))


@given(st.text(max_size=60))
def test_no_word_from_elsewhere_becomes_markup(word: str) -> None:
    worker = {**DOWN, "id": word, "reason": word, "team": word}
    alert = replace(ALERT, target=Target(WORKER, word), reason=word, severity=Severity.WARNING)
    asked = CommandSummary("task_1", word, Issuer(word, word), word, NOW, (word,), 1)
    found = replace(facts(worker, alerts=[alert], commands=[asked]), host=word, problem=word)
    assert set(Tags(page(found)).tags) <= TAGS
    assert page(found).count("<script") == 1


def test_nothing_is_called_healthy_above_an_open_alert_about_it() -> None:
    assert "All 3 workers healthy" in words_of(facts(WELL, {**WELL, "id": "b"}, {**WELL, "id": "crasher"}))
    words = words_of(facts(WELL, {**WELL, "id": "crasher"}, alerts=[ALERT]))
    assert "1 of 2 needs attention" in words
    assert "healthy" not in words
    assert "Both workers healthy" in words_of(
        facts(WELL, {**WELL, "id": "crasher"}, alerts=[replace(ALERT, cleared_at=NOW)])
    )


def test_a_time_that_does_not_exist_is_shown_as_it_was_written() -> None:
    words = "behind since 2026-02-30T25:61:00Z, restarting at 2026-02-30T25:61:00Z"
    alert = replace(ALERT, reason=words)
    assert page(facts({**DOWN, "reason": words}, alerts=[alert])).count("2026-02-30T25:61:00Z") >= 3
    assert with_countdown(words, NOW) == words
    assert "2026-02-30T25:61:00Z" in dated(words)
