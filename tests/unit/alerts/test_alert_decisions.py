"""What is decided about an alert: a table of cases, and what no sequence of observations may bring about."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.alerts.flips import Flip
from supervisor_core.alerts.rules import (
    Alert,
    AlertRules,
    AlertState,
    Decision,
    Reason,
    after_decision,
    after_flip,
    decide,
)
from supervisor_core.alerts.suppression.rows import Hush, Suppression
from supervisor_core.commands.command import Issuer
from supervisor_core.workers.conditions import Condition, Reading, Target
from tests.support.sampling import examples

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
NORTH = Target("worker", "North")
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ANN = Issuer("cli:ann", "ann")
S, R, C = AlertState, Reason, Condition


def alert(state: AlertState = S.OPEN, condition: Condition = C.DOWN, **known: Any) -> Alert:
    """One that was told a minute ago, unless it is pending."""
    told = {} if state is S.PENDING else {"told": C.DOWN, "told_occurrence": 1, "told_at": NOW - MINUTE}
    return Alert("a1", NORTH, condition, "why", NOW - MINUTE, 1, state, condition.severity, **{**told, **known})


def calling(minutes: int, state: AlertState = S.OPEN, **known: Any) -> Alert:
    """One that people are called about for so long."""
    return alert(state, **{"calling_since": NOW - minutes * MINUTE, **known})


def hush(kind: Hush = Hush.MUTE, since: timedelta = -HOUR, until: timedelta = HOUR, **more: Any) -> Suppression:
    return Suppression("t1", NORTH, kind, NOW + since, NOW + until, ANN, **more)


@pytest.mark.parametrize(
    ("there", "rules", "hushes", "reason", "state", "due"),
    [
        (alert(S.PENDING), {}, [], R.FIRST, S.OPEN, HOUR),
        (alert(S.PENDING), {"open_after": 2 * MINUTE}, [], R.OPEN_AFTER, S.PENDING, MINUTE),
        (alert(S.PENDING, held_until=NOW + MINUTE, held_why=R.GRACE), {}, [], R.GRACE, S.PENDING, MINUTE),
        (
            alert(S.PENDING, held_until=NOW + MINUTE, held_why=R.WAITING_FOR_RESTART),
            {"open_after": HOUR},
            [],
            R.OPEN_AFTER,
            S.PENDING,
            59 * MINUTE,
        ),
        (alert(S.PENDING, cleared_at=NOW), {"close_after": HOUR}, [], R.HEALED, S.CLOSED, None),
        (alert(S.PENDING), {}, [hush()], R.MUTED, S.OPEN, HOUR),
        (alert(S.PENDING), {}, [hush(Hush.MAINTENANCE)], R.IN_MAINTENANCE, S.OPEN, HOUR),
        (alert(S.PENDING), {}, [hush(Hush.QUIET)], R.FIRST, S.OPEN, HOUR),
        (alert(S.PENDING, C.DEGRADED), {}, [hush(Hush.QUIET)], R.QUIET_HOURS, S.OPEN, HOUR),
        (alert(S.PENDING), {}, [hush(until=-MINUTE)], R.FIRST, S.OPEN, HOUR),
        (alert(S.PENDING), {}, [hush(ended_at=NOW)], R.FIRST, S.OPEN, HOUR),
        (alert(parent_id="p1"), {}, [], R.FOLDED, S.OPEN, None),
        (alert(), {}, [], R.TOLD_ALREADY, S.OPEN, 59 * MINUTE),
        (alert(), {"renotify": timedelta(0)}, [], R.TOLD_ALREADY, S.OPEN, None),
        (alert(told_at=NOW - HOUR), {}, [], R.REMINDER_DUE, S.OPEN, 2 * HOUR),
        (alert(told_at=NOW - HOUR, reminders=1), {}, [], R.TOLD_ALREADY, S.OPEN, HOUR),
        (alert(told_at=NOW - 23 * HOUR, reminders=9), {}, [], R.TOLD_ALREADY, S.OPEN, HOUR),
        (calling(9), {"escalation": (10 * MINUTE,)}, [], R.TOLD_ALREADY, S.OPEN, MINUTE),
        (calling(9, S.PENDING, told=None, told_at=None), {"escalation": (MINUTE,)}, [], R.FIRST, S.OPEN, MINUTE),
        (calling(10, condition=C.DOWN, told=C.STALE), {"escalation": (HOUR,)}, [], R.WORSE, S.OPEN, 50 * MINUTE),
        (calling(10, quieted=R.MUTED), {"escalation": (MINUTE, HOUR)}, [], R.REMINDER_DUE, S.OPEN, MINUTE),
        (calling(10, S.ACKNOWLEDGED), {"escalation": (MINUTE,)}, [], R.ACKNOWLEDGED, S.ACKNOWLEDGED, None),
        (calling(10), {"escalation": (MINUTE,)}, [hush()], R.MUTED, S.OPEN, HOUR),
        (alert(S.ACKNOWLEDGED, told_at=NOW - HOUR), {}, [], R.ACKNOWLEDGED, S.ACKNOWLEDGED, None),
        (alert(S.SNOOZED), {}, [hush(Hush.SNOOZE)], R.SNOOZED, S.SNOOZED, HOUR),
        (alert(S.SNOOZED), {}, [hush(Hush.SNOOZE, until=timedelta(0))], R.REMINDER_DUE, S.OPEN, 2 * HOUR),
        (alert(told_at=NOW - 2 * MINUTE), {}, [hush(until=-MINUTE)], R.REMINDER_DUE, S.OPEN, 2 * HOUR),
        (alert(told_at=NOW), {}, [hush(until=-MINUTE)], R.TOLD_ALREADY, S.OPEN, HOUR),
        (alert(told=C.STALE), {}, [], R.WORSE, S.OPEN, HOUR),
        (alert(S.ACKNOWLEDGED, told=C.STALE), {}, [], R.WORSE, S.ACKNOWLEDGED, None),
        (alert(S.SNOOZED, told=C.DEGRADED), {}, [hush(Hush.SNOOZE)], R.WORSE, S.OPEN, HOUR),
        (alert(S.SNOOZED, told=C.STALE), {}, [hush(Hush.SNOOZE)], R.SNOOZED, S.SNOOZED, HOUR),
        (alert(told=C.DEGRADED), {}, [hush(Hush.MUTE)], R.MUTED, S.OPEN, HOUR),
        (alert(condition=C.DEGRADED), {}, [], R.BETTER, S.OPEN, 59 * MINUTE),
        (alert(occurrences=2), {}, [], R.AGAIN, S.OPEN, HOUR),
        (alert(cleared_at=NOW), {}, [], R.RESOLVED, S.CLOSED, None),
        (alert(cleared_at=NOW), {"close_after": MINUTE}, [], R.CLOSE_AFTER, S.OPEN, MINUTE),
        (alert(S.SNOOZED, cleared_at=NOW), {}, [hush(Hush.SNOOZE)], R.RESOLVED, S.CLOSED, None),
        (alert(told=None, cleared_at=NOW), {"close_after": HOUR}, [hush()], R.RESOLVED, S.CLOSED, None),
    ],
)
def test_each_case_has_its_reason_by_name(
    there: Alert,
    rules: dict[str, Any],
    hushes: list[Suppression],
    reason: Reason,
    state: AlertState,
    due: timedelta | None,
) -> None:
    decision = decide(there, NOW, AlertRules(**rules), hushes)
    assert decision == Decision(reason, state, None if due is None else NOW + due)


def test_steps_of_the_escalation_are_taken_once_and_all_that_are_due_together() -> None:
    rules = AlertRules(renotify=timedelta(0), escalation=(MINUTE, 5 * MINUTE, HOUR))
    decision = decide(calling(10, told=C.STALE), NOW, rules)
    assert decision == Decision(R.ESCALATED, S.OPEN, NOW + 50 * MINUTE, 2)
    after = after_decision(calling(10, told=C.STALE), decision, NOW)
    assert (after.escalated, after.told, after.told_at) == (2, C.DOWN, NOW)
    assert decide(after, NOW, rules) == Decision(R.TOLD_ALREADY, S.OPEN, NOW + 50 * MINUTE)


def test_while_monitoring_is_paused_nothing_is_told_and_what_is_over_closes() -> None:
    assert decide(alert(S.PENDING), NOW, AlertRules(), resting=True)[:2] == (R.MONITORING_PAUSED, S.OPEN)
    assert decide(alert(cleared_at=NOW), NOW, AlertRules(), resting=True).reason is R.RESOLVED


# --- what no sequence of observations may bring about

CONDITIONS = (C.WELL, C.WELL, C.PAUSED, C.DEGRADED, C.STALE, C.DOWN)
EVENTS = st.lists(
    st.tuples(
        st.sampled_from([*CONDITIONS, "acknowledge", "snooze", "mute", "unmute", "rest", "work"]),
        st.integers(0, 100),
        st.integers(0, 40),
    ),
    max_size=30,
)


class Story:
    """One target, its alert, and what people hear; on a clock that only these events move."""

    def __init__(self, rules: AlertRules) -> None:
        self.rules = rules
        self.now = NOW
        self.condition = C.WELL
        self.alert: Alert | None = None
        self.hushes: list[Suppression] = []
        self.resting = False
        self.heard: list[tuple[datetime, Reason]] = []
        self.flips = 0

    def see(self, condition: Condition, held: int) -> None:
        if condition is self.condition:
            return
        self.flips += 1
        flip = Flip(self.flips, NORTH, self.condition, condition, "why", self.now, self.now)
        held_until = self.now + timedelta(seconds=held) if held and not condition.fine else None
        self.alert = after_flip(self._live(), flip, Reading(condition, "why", self.now, held_until), "a")
        self.condition = condition
        self.decide()

    def decide(self) -> None:
        if self.alert is None or self.alert.state is S.CLOSED:
            return
        decision = decide(self.alert, self.now, self.rules, self.hushes, resting=self.resting)
        assert decision.due_at is None or decision.due_at > self.now, "it would be decided again and again"
        self.alert = after_decision(self.alert, decision, self.now)
        if decision.reason.tells:
            self.heard.append((self.now, decision.reason))
        again = decide(self.alert, self.now, self.rules, self.hushes, resting=self.resting)
        assert not again.reason.tells or self.alert.state is S.CLOSED, "nothing is told twice"

    def wait(self, seconds: int) -> None:
        """Time goes by; what is due by then is decided at its moment."""
        until = self.now + timedelta(seconds=seconds)
        while self.alert is not None and self.alert.due_at is not None and self.alert.due_at <= until:
            self.now = max(self.now, self.alert.due_at)
            self.decide()
        self.now = until

    def person(self, what: str) -> None:
        live = self._live()
        match what:
            case "acknowledge" if live is not None and live.state in (S.OPEN, S.SNOOZED):
                self.alert = replace(live, state=S.ACKNOWLEDGED, acknowledged_by=ANN)
            case "snooze" if live is not None and live.state in (S.OPEN, S.ACKNOWLEDGED):
                self.hushes.append(Suppression("s", NORTH, Hush.SNOOZE, self.now, self.now + MINUTE, ANN))
                self.alert = replace(live, state=S.SNOOZED)
            case "mute":
                self.hushes.append(Suppression("m", NORTH, Hush.MUTE, self.now, self.now + 2 * MINUTE, ANN))
            case "unmute":
                self.hushes = [replace(each, ended_at=each.ended_at or self.now) for each in self.hushes]
            case "rest" | "work":
                self.resting = what == "rest"
        self.decide()

    def _live(self) -> Alert | None:
        return self.alert if self.alert is not None and self.alert.state is not S.CLOSED else None


RULES = st.builds(
    AlertRules,
    open_after=st.integers(0, 20).map(lambda seconds: timedelta(seconds=seconds)),
    close_after=st.integers(0, 20).map(lambda seconds: timedelta(seconds=seconds)),
    renotify=st.sampled_from([timedelta(0), timedelta(seconds=30)]),
)


@settings(max_examples=examples(300), deadline=None)
@given(rules=RULES, events=EVENTS)
def test_no_sequence_leaves_an_alert_open_whose_condition_is_gone_or_closes_one_whose_condition_holds(
    rules: AlertRules, events: list[tuple[Any, int, int]]
) -> None:
    story = Story(rules)
    for what, seconds, held in events:
        if isinstance(what, Condition):
            story.see(what, held)
        else:
            story.person(what)
        if not story.condition.fine:
            assert story.alert is not None
            assert story.alert.state is not S.CLOSED, "its condition holds"
        story.wait(seconds)
    story.wait(60)
    live = story.alert is not None and story.alert.state is not S.CLOSED
    assert live == (not story.condition.fine)


@settings(max_examples=examples(200), deadline=None)
@given(rules=RULES, events=EVENTS)
def test_a_first_alarm_comes_at_its_moment_whatever_came_before_it(
    rules: AlertRules, events: list[tuple[Any, int, int]]
) -> None:
    story = Story(rules)
    for what, seconds, held in events:
        if isinstance(what, Condition):
            story.see(what, held)
        else:
            story.person(what)
        story.wait(seconds)
    story.person("unmute")
    story.person("work")
    story.see(C.WELL, 0)
    story.wait(60)
    before = len(story.heard)
    began = story.now
    story.see(C.DOWN, 0)
    story.wait(60)
    first = next((at for at, reason in story.heard[before:] if reason is R.FIRST), None)
    assert first == began + rules.open_after
