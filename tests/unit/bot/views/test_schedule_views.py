"""Schedules as people see them in Slack: golden files of every message, and the longest there can be.

Intended change: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_schedule_views.py`, then look at the difference.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bot.views.answers.schedules import listed, schedule_card, schedule_refused
from bot.views.blocks import Content
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.parameters import MAX_SCHEDULED
from supervisor_core.intake.schedules.rules import LastRun, RunState, Schedule, ScheduleState
from supervisor_core.intake.schedules.service import MOST, schedule_status
from tests.support.golden import are_as_last_seen

NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
ANNA = Issuer("slack:T0TEAM/U0ANNA", "anna")
SHELL = Issuer("cli:dora", "dora")
NONCE = "ab12cd34ef56"
HOSTILE = "<!channel> & <@U0OPER> `*x*` https://evil.example "


def schedule(name: str = "nightly", cron: str = "0 3 * * 1-5", **fields: Any) -> Schedule:
    at = NOW + timedelta(hours=11, minutes=30)
    usual: dict[str, Any] = {
        "schedule_id": "abcdefgh",
        "supervisor_id": "Host",
        "zone": "Europe/Berlin",
        "command": "restart OrionMX nightly",
        "target": "OrionMX",
        "owner": ANNA,
        "card": {"channel": "C0OPS", "user": "U0ANNA"},
        "task_id": "task_1",
        "added_at": NOW,
        "next_at": at,
        "due_at": at,
    }
    return Schedule(name=name, cron=cron, **{**usual, **fields})


def note(**fields: Any) -> dict[str, Any]:
    return {
        "name": "nightly",
        "command": "restart OrionMX nightly",
        "owner": {"id": ANNA.id, "name": ANNA.name},
        "why": "anna, whose schedule it is, may not any more: restart is limited to operators.",
        "at": "2026-02-05T02:00:00.000000Z",
        "since": "2026-02-03T02:00:00.000000Z",
        "count": 1,
        "next_at": "2026-02-06T02:00:00.000000Z",
        **fields,
    }


RAN = schedule(last=LastRun(NOW - timedelta(hours=12, minutes=30), RunState.FILED))
GONE = schedule(state=ScheduleState.REMOVED, removed_at=NOW, removed_by=SHELL)
MISSED = schedule(
    "early",
    "*/5 * * * *",
    owner=SHELL,
    last=LastRun(NOW, RunState.MISSED),
    waiting_since=NOW,
    waiting_for="Slack is not connected.",
    command="status all",
)
LONGEST = schedule(
    "n" * 64,
    "1,2,3,4,5,6,7,8,9,10,11,12,13,14 1,2,3,4,5,6,7,8,9,10,11,12 1,2,3,4,5,6,7,8,9,10 1,2,3,4,5,6 *",
    zone="America/Argentina/ComodRivadavia",
    command="mute all 1h " + HOSTILE * 9 + "x" * (MAX_SCHEDULED - 12 - len(HOSTILE) * 9),
    owner=Issuer("cli:x", HOSTILE * 5),
    last=LastRun(NOW, RunState.REFUSED),
    waiting_since=NOW,
    waiting_for=HOSTILE * 10,
)

CASES: Mapping[str, Content] = {
    "added": schedule_card(schedule_status(schedule())),
    "added_without_words": schedule_card(schedule_status(schedule(cron="7,23 */5 * * *"))),
    "removed": schedule_card(schedule_status(GONE)),
    "listed_nothing": listed([], NONCE, removes=True),
    "listed": listed(
        [schedule_status(RAN, "succeeded"), schedule_status(MISSED, "missed: No supervisor was running.")],
        NONCE,
        removes=True,
    ),
    "listed_for_a_reader": listed([schedule_status(schedule())], NONCE, removes=False),
    "listed_many": listed([schedule_status(schedule(f"n{number}")) for number in range(MOST)], NONCE, removes=True),
    "refused": schedule_refused(note()),
    "refused_again": schedule_refused(note(count=3)),
    "refused_hostile": schedule_refused(note(command=HOSTILE, why=HOSTILE, owner={"id": "cli:x", "name": HOSTILE})),
}


def test_the_longest_there_can_be_fits_and_nothing_in_it_comes_alive() -> None:
    long = [replace(LONGEST, name=f"{number:03}{'n' * 61}") for number in range(MOST)]
    why = HOSTILE * 60
    messages = [
        schedule_card(schedule_status(LONGEST)),
        schedule_card(schedule_status(replace(LONGEST, removed_at=NOW, removed_by=LONGEST.owner))),
        listed([schedule_status(each, why) for each in long], NONCE, removes=True),
        schedule_refused(
            note(name="n" * 64, command=LONGEST.command, why=why, count=9999, owner={"id": "cli:x", "name": why})
        ),
    ]
    for message in messages:
        assert check_message(message, update=True) == []
        said = json.dumps(message)
        assert "<!channel>" not in said
        assert "<@U0OPER>" not in said


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("schedule", CASES)
