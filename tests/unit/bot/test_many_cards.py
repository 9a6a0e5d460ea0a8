"""The card of a command for many workers: counts, equal results together, and the buttons of a rolling change."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from bot.views.blocks import Color, blocks_of
from bot.views.cards.card import command_card
from bot.views.cards.next_steps import CardContext, UndoState
from bot.views.cards.preview import IN_A_THREAD, preview_blocks, previews_as_text
from slack_playground.blockkit.messages import check_message
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.commands.command import Outcome
from supervisor_core.intake.rolling.rules import RollingChange, RollingTerms
from supervisor_core.jobs.model import Job, JobState, RollingState
from tests.support.intake.approval_states import seen
from tests.unit.bot.views.test_cards import ANNA, HEADS, NOW, TASK, buttons_of, job

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


def shown(made: dict[str, Any]) -> str:
    assert check_message(made, update=True) == []
    return "\n".join(block["text"]["text"] for block in blocks_of(made) if block["type"] == "section")


def test_a_command_for_many_counts_its_workers_and_puts_equal_results_together() -> None:
    made = command_card(fleet(50, different=3), NOW)
    assert shown(made).splitlines() == [
        ":white_check_mark: *50 done* on 50 hosts",
        "• 47 the same: updated, `13a071e` → `d5c6f90`",
        "• 3 different:",
        "    ◦ web-48/fetcher, web-49/fetcher, web-50/fetcher: updated, `99a071e` → `d5c6f90`",
        "Each worker is listed in the thread.",
    ]


def test_while_it_goes_on_there_is_a_bar() -> None:
    made = command_card(fleet(12, failed=1, at_work=4), NOW)
    assert shown(made).splitlines()[:6] == [
        f"`{'█' * 2}{'░' * 8}` 13 of 50",
        ":x: *1 failed*: web-13/fetcher",
        "• It exited with code 1",
        ":hourglass_flowing_sand: *4 at work* on 4 hosts: web-14/fetcher, web-15/fetcher, web-16/fetcher and 1 more",
        ":white_medium_square: *33 waiting* on 33 hosts",
        ":white_check_mark: *12 done* on 12 hosts",
    ]


def test_a_card_for_a_thousand_workers_is_as_long_as_one_for_fifty() -> None:
    few, most = (shown(command_card(fleet(done, total, 3, 2, 4), NOW)) for done, total in ((20, 50), (400, 1000)))
    assert len(few.splitlines()) == len(most.splitlines()) < 12


@pytest.mark.parametrize(
    ("state", "buttons", "headline", "color"),
    [
        (RollingState.RUNNING, ["Pause", "Abort"], "Update of team:archive*: 12 of 50 done", Color.ACTIVE),
        (RollingState.PAUSED, ["Continue", "Abort"], "Update of team:archive paused*: 12 of 50 done", Color.QUIET),
        (RollingState.HALTED, ["Roll back", "Continue", "Abort"], "team:archive halted*: 12 of 50", Color.WARNING),
        (RollingState.ABORTED, ["Roll back"], "Update of team:archive aborted*: 12 of 50 done", Color.QUIET),
    ],
)
def test_a_rolling_change_has_the_buttons_of_its_state(
    state: RollingState, buttons: list[str], headline: str, color: Color
) -> None:
    made = command_card(fleet(12), NOW, rolling(state))
    assert list(buttons_of(made)) == buttons
    assert headline in made["text"]
    assert "batch 3 of 11" in made["text"]
    assert made["attachments"][0]["color"] == color
    assert "8 batches to go" in shown(made)


def test_a_finished_one_looks_like_any_other_command_and_can_be_undone() -> None:
    made = command_card(fleet(50), NOW, rolling(RollingState.DONE, 11))
    assert made["text"] == ":white_check_mark: *50 workers on 50 hosts updated*"
    back = buttons_of(made)["Undo"]
    assert back["confirm"]["title"]["text"] == "Undo the change of 50 workers on 50 hosts?"
    assert "50 of 50 workers" in back["confirm"]["text"]["text"]
    assert "needs an approval" in back["confirm"]["text"]["text"]


def test_a_halted_one_says_why() -> None:
    made = command_card(fleet(12, failed=1), NOW, rolling(RollingState.HALTED, web_13="It exited with code 1."))
    assert ":x: *1 failed*: web-13/fetcher\n• It exited with code 1." in shown(made)
    assert "halted*: web-13/fetcher failed, 12 of 50 done, batch 3 of 11" in made["text"]


def test_many_that_failed_are_counted_in_the_headline_and_their_reasons_are_told_apart() -> None:
    two = rolling(RollingState.HALTED, web_11="it hangs", web_12="exited (code 1)")
    made = command_card(fleet(12), NOW, two)
    assert "web-11/fetcher, web-12/fetcher failed, 10 of 50 done" in made["text"]
    assert "• web-11/fetcher: it hangs\n• web-12/fetcher: exited (code 1)" in shown(made)
    many = rolling(RollingState.HALTED, 3, **{f"web_{number}": "it hangs" for number in range(1, 13)})
    assert "12 workers on 12 hosts failed, 0 of 50 done" in command_card(fleet(12), NOW, many)["text"]


def test_an_aborted_one_says_that_its_changes_were_undone() -> None:
    jobs = fleet(2, total=50)
    by = job("web-1/fetcher", "undo_code", outcome=DONE)
    about = replace(rolling(RollingState.ABORTED), undone={each.worker_id: UndoState(1, by) for each in jobs})
    assert "aborted*: 2 of 50 done and undone, batch 3 of 11" in command_card(jobs, NOW, about)["text"]


def test_a_rollback_is_the_same_on_each_host_although_its_commit_has_another_id() -> None:
    undone = [
        job(f"web-{number}/fetcher", "undo_code", outcome=Outcome.done(**{**HEADS, "after": f"{number:040}"}))
        for number in range(1, 11)
    ]
    assert " undone from `13a071e`" in shown(command_card(undone, NOW))


def test_a_rollback_of_many_names_their_number_and_not_each() -> None:
    about = rolling(RollingState.RUNNING)
    assert about.rolling is not None
    listed = replace(about.rolling, target=",".join(each.worker_id for each in fleet(12)))
    assert "*Update of 50 workers on 50 hosts*" in command_card(fleet(12), NOW, replace(about, rolling=listed))["text"]


def test_hosts_that_do_not_answer_are_named_after_a_while() -> None:
    found = [replace(each, batch=3) for each in fleet(1)]
    found[1] = replace(found[1], state=JobState.CLAIMED)
    about = rolling(RollingState.RUNNING)
    assert "No answer" not in shown(command_card(found, NOW, about))
    late = shown(command_card(found, NOW + timedelta(minutes=1), about))
    assert ":warning: *No answer from web-2* since <!date^" in late
    assert list(buttons_of(command_card(found, NOW, about))) == ["Pause", "Abort"]


def test_a_command_waits_for_a_host_until_that_host_has_started_it() -> None:
    sent = job("web-2/fetcher", "pause", JobState.CLAIMED)
    assert "*Pausing web-2/fetcher*: waiting for web-2" in command_card([sent], NOW + timedelta(minutes=1))["text"]
    there = replace(sent, worker_id="fetcher")
    assert "*Pausing fetcher*: running" in command_card([there], NOW + timedelta(minutes=1))["text"]
    many = [replace(each, state=JobState.CLAIMED) for each in fleet(0)]
    assert "*50 waiting* on 50 hosts" in shown(command_card(many, NOW))


def test_watches_of_many_are_counted_and_trouble_has_a_line_of_its_own() -> None:
    bakes = [
        Bake(TASK, f"web-{n}/fetcher", "hub", f"web-{n}/fetcher", NOW, NOW + timedelta(minutes=n)) for n in (1, 2, 3)
    ]
    bakes[0] = replace(bakes[0], state=BakeState.DEGRADED, reason="it hangs")
    told = shown(command_card(fleet(50), NOW, CardContext(bakes=bakes))).splitlines()
    assert told[-2].startswith(":warning: *web-1/fetcher degraded*: It hangs") or "web-1/fetcher degraded" in told[-2]
    assert told[-1].startswith(":eyes: 2 watched until <!date^")
    going_on = replace(rolling(RollingState.RUNNING), bakes=bakes)
    assert "watched" not in shown(command_card(fleet(50), NOW, going_on)), "the batch's own watch matters then"


def test_a_worker_that_did_not_stay_healthy_is_one_of_the_failed() -> None:
    made = command_card(fleet(12), NOW, rolling(RollingState.HALTED, web_12="not healthy after 2 min: down"))
    assert "web-12/fetcher failed, 11 of 50 done" in made["text"]
    assert ":x: *1 failed*: web-12/fetcher\n• Not healthy after 2 min: down" in shown(made)


def test_what_can_not_be_undone_has_no_button_for_it() -> None:
    restarts = [replace(each, handler="restart_watcher") for each in fleet(12)]
    assert list(buttons_of(command_card(restarts, NOW, rolling(RollingState.HALTED)))) == ["Continue", "Abort"]


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
