"""The card of a command for many workers: counts, equal results together, and the buttons of a rolling change."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

from bot.views.cards.card import command_card
from bot.views.cards.next_steps import CardContext
from bot.views.cards.preview import IN_A_THREAD, preview_blocks, previews_as_text
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.commands.command import Outcome
from supervisor_core.intake.rolling.rules import RollingChange, RollingTerms
from supervisor_core.jobs.model import Job, JobState, RollingState
from tests.support.golden import are_as_last_seen
from tests.support.intake.approval_states import seen
from tests.unit.bot.views.test_cards import ANNA, HEADS, NOW, TASK, job

OTHER = {"before": "99a071e" + "0" * 33, "after": HEADS["after"]}
DONE, DIFFERENT = Outcome.done(message="updated", **HEADS), Outcome.done(message="updated", **OTHER)
BROKEN = Outcome.failed("It exited with code 1. The update was reverted.")


def fleet(done: int, total: int = 50, different: int = 0, failed: int = 0, at_work: int = 0) -> list[Job]:
    """An update that is so far."""
    names = [f"web-{number}/fetcher" for number in range(1, total + 1)]
    outcomes = [DONE] * (done - different) + [DIFFERENT] * different + [BROKEN] * failed
    ended = [job(name, "update_code", outcome=each) for name, each in zip(names, outcomes, strict=False)]
    begun = [job(name, "update_code", JobState.STARTED) for name in names[len(ended) : len(ended) + at_work]]
    return [*ended, *begun, *(job(name, "update_code", JobState.QUEUED) for name in names[len(ended) + at_work :])]


def rolling(state: RollingState, released: int = 3, /, **failures: str) -> CardContext:
    told = {name.replace("_", "-") + "/fetcher": why for name, why in failures.items()}
    change = RollingChange(
        TASK,
        "hub",
        "team:archive",
        state,
        11,
        released,
        NOW,
        RollingTerms("10%"),
        NOW,
        ANNA,
        told,
    )
    return CardContext(rolling=change, asks={"undo"})


SENT = [replace(each, state=JobState.CLAIMED) for each in fleet(0)]
UNANSWERED = [
    replace(each, batch=3, state=state) for each, state in zip(SENT, (JobState.DONE, JobState.CLAIMED), strict=False)
]
BAKES = [Bake(TASK, f"web-{n}/fetcher", "hub", f"web-{n}/fetcher", NOW, NOW + timedelta(minutes=n)) for n in (1, 2, 3)]
BAKES[0] = replace(BAKES[0], state=BakeState.DEGRADED, reason="it hangs")

CASES = {
    "done": command_card(fleet(50, different=3), NOW),
    "under_way": command_card(fleet(12, failed=1, at_work=4), NOW),
    "sent": command_card(SENT, NOW),
    "watched": command_card(fleet(50), NOW, CardContext(bakes=BAKES)),
    "running": command_card(fleet(12), NOW, replace(rolling(RollingState.RUNNING), bakes=BAKES)),
    "running_unanswered": command_card(UNANSWERED, NOW + timedelta(minutes=1), rolling(RollingState.RUNNING)),
    "paused": command_card(fleet(12), NOW, rolling(RollingState.PAUSED)),
    "halted": command_card(fleet(12), NOW, rolling(RollingState.HALTED, web_11="it hangs", web_12="exited (code 1)")),
    "aborted": command_card(fleet(12), NOW, rolling(RollingState.ABORTED)),
    "finished": command_card(fleet(50), NOW, rolling(RollingState.DONE, 11)),
}


def test_each_card_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("many", CASES)


def test_a_card_for_a_thousand_workers_is_as_long_as_one_for_fifty() -> None:
    few, most = (command_card(fleet(done, total, 3, 2, 4), NOW) for done, total in ((20, 50), (400, 1000)))
    assert len(json.dumps(few)) + 100 > len(json.dumps(most))


def test_a_preview_of_many_checkouts_says_the_same_once_and_problems_first() -> None:
    one = seen("rollback")[0]
    hosts = [
        {**one, "checkout": f"web-{n}:/srv/app", "workers": [{**each, "id": f"web-{n}/a"} for each in one["workers"]]}
        for n in range(1, 51)
    ]
    hosts[6] = {**hosts[6], "conflict": "It conflicts in a.py.", "ok": False}
    card = json.dumps(preview_blocks(hosts), ensure_ascii=False)
    assert card.index("web-7:/srv/app") < card.index("49 checkouts, all the same")
    thread = previews_as_text(hosts, IN_A_THREAD)
    assert len(thread) == 2
    assert thread[1].count("Restarts web-") == 49
