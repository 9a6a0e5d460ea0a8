"""The card as people see it: golden files of every state, and the longest there can be against the strict checker.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_cards.py`, then look at the difference.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.views.blocks import Color, blocks_of
from bot.views.cards.approval import ApprovalDetails
from bot.views.cards.card import command_card
from bot.views.cards.headlines import WORDS
from bot.views.cards.next_steps import CardContext
from bot.views.cards.notices import approval_requested, preview_pending
from bot.views.cards.thread import outcome_reply
from slack_playground.blockkit.messages import check_message
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.jobs.model import MOST_PROGRESS, Job, JobState, Progress
from tests.unit.intake.test_approvals import an_approval

GOLDEN = Path(__file__).parents[2] / "golden"
NOW = datetime(2026, 2, 5, 14, 30, 15, tzinfo=UTC)
OPERATOR = Issuer("slack:T0TEAM/U0OPER", "operator")
ANNA = Issuer("cli:anna", "anna")
TASK = "task_20260205_143012_ab12cd34e"


def job(
    worker: str = "OrionMX",
    handler: str = "pause",
    state: JobState = JobState.DONE,
    outcome: Outcome | None = None,
    issuer: Issuer = OPERATOR,
    label: str | None = "hotfix test",
    progress: Sequence[str] = (),
    **params: object,
) -> Job:
    return Job(
        job_id=1,
        supervisor_id="Host",
        task_id=TASK,
        worker_id=worker,
        handler=handler,
        params=params,
        label=label,
        issuer=issuer,
        door="slack",
        state=state,
        filed_at=NOW - timedelta(seconds=3),
        outcome=outcome,
        finished_at=NOW if outcome else None,
        progress=tuple(Progress(NOW, words) for words in progress),
    )


PAUSED = Outcome.done(message="OrionMX is paused", ending="terminated")
STUCK = Outcome.failed(
    "OrionMX is stuck: python 4711 can't be killed. A process that ignores SIGKILL is waiting in the kernel.",
    survivors=["python 4711"],
)
HEADS = {"before": "13a071e" + "0" * 33, "after": "d5c6f90" + "0" * 33}
ROLLED_BACK = Outcome.done(
    message="Rolled back OrionMX by 2 commits (13a071e → d5c6f90). OrionMX is running (pid 4712)", **HEADS
)
RESTARTED = Outcome.done(message="Restarted OrionMX (pid 4711 → 4712)")
NOT_BEGUN = Outcome.failed("Skipped: restart failed on South.", not_begun=True, after="South")


def left(worker: str) -> Job:
    return job(worker, "restart_watcher", outcome=NOT_BEGUN)


OVERTAKEN = Outcome.failed(
    "OrionMX was stopped, but not started again. It's paused by anna since 14:30: backup.",
    was_running=True,
    new_pid=None,
    paused_meanwhile=True,
)
CASES: Mapping[str, Sequence[Job]] = {
    "restart_paused": [job(handler="restart_watcher", outcome=OVERTAKEN)],
    "several_restarts_one_paused": [
        job("North", "restart_watcher", outcome=RESTARTED),
        job("South", "restart_watcher", outcome=OVERTAKEN),
    ],
    "accepted": [job(state=JobState.QUEUED)],
    "under_way": [job(state=JobState.STARTED)],
    "paused": [job(outcome=PAUSED)],
    "paused_before": [job(outcome=Outcome.done(message="OrionMX is already paused by anna since 2026-02-05 12:00"))],
    "paused_without_the_drive": [
        job(outcome=Outcome.done(message="OrionMX is paused", drive="The pause holds; its flag is written later."))
    ],
    "failed": [job(outcome=STUCK)],
    "interrupted": [
        job(state=JobState.INTERRUPTED, outcome=Outcome.failed("The supervisor ended while this was under way."))
    ],
    "restarted": [job(handler="restart_watcher", outcome=RESTARTED, label=None)],
    "reported": [
        job(
            handler="diagnostics",
            outcome=Outcome.done(
                message="OrionMX runs as pid 7; healthy", report_path="/mnt/nas/05_LOGS/diagnostics/a.json"
            ),
        )
    ],
    "by_the_shell": [job(handler="resume", issuer=ANNA, outcome=Outcome.done(message="OrionMX is running"))],
    "several_under_way": [
        job("North", outcome=PAUSED),
        job("South", state=JobState.STARTED),
        job("West", state=JobState.QUEUED),
    ],
    "under_way_with_steps": [
        job(handler="rollback_code", state=JobState.STARTED, progress=["stopping OrionMX", "taking 3 commits back"])
    ],
    "under_way_with_more_steps_than_are_kept": [
        job(
            handler="update_code_deps",
            state=JobState.STARTED,
            progress=[f"installing {n}" for n in range(MOST_PROGRESS)],
        )
    ],
    "rolled_back": [job(handler="rollback_code", outcome=ROLLED_BACK, commits_back=2)],
    "rollback_failed": [
        job(handler="rollback_code", outcome=Outcome.failed("/srv/orion has changes."), commits_back=3)
    ],
    "ended_after_steps": [job(handler="rollback_code", outcome=Outcome.done(), progress=["stopping OrionMX"])],
    "several_with_steps": [
        job("North", outcome=PAUSED, progress=["stopping North (pid 4711)"]),
        job("South", state=JobState.STARTED, progress=["stopping South (pid 4712)"]),
        job("West", state=JobState.STARTED, progress=["reverting " + "a commit with a very long first line " * 5]),
    ],
    "hostile_step": [job(state=JobState.STARTED, progress=["<!channel> & <@U0OPER>\n\0 https://evil.example"])],
    "several_one_failed": [job("North", outcome=PAUSED), job("South", outcome=STUCK)],
    "several_stopped": [
        job("North", "restart_watcher", outcome=RESTARTED),
        job("South", "restart_watcher", outcome=STUCK),
        left("West"),
    ],
    "many_stopped": [
        job("North", "restart_watcher", JobState.INTERRUPTED, Outcome.failed("The supervisor ended.")),
        *(left(f"Worker-{n}") for n in range(6)),
    ],
    "kept_going": [
        job("North", "restart_watcher", outcome=STUCK, keep_going=True),
        job("South", "restart_watcher", outcome=RESTARTED, keep_going=True),
    ],
    "hostile_words": [
        job(
            issuer=Issuer("file:<!channel>", "<!channel> *bold*"),
            outcome=Outcome.failed("```<!here> & <@U0OPER> | `rm -rf` \n```"),
        )
    ],
}


@pytest.mark.parametrize("name", CASES)
def test_the_card_is_as_it_was_last_looked_at(name: str) -> None:
    made = command_card(CASES[name], NOW)
    assert check_message(made, update=True) == []
    path = GOLDEN / f"card_{name}.json"
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(json.dumps(made, indent=2, ensure_ascii=False) + "\n")
    assert made == json.loads(path.read_text())


def test_a_message_that_ends_with_a_stop_gets_no_second_one() -> None:
    paused = Outcome.done(message="OrionMX is paused; its flag waits. Mount the drive.")
    assert "Mount the drive.." not in json.dumps(command_card([job(outcome=paused)], NOW))


def test_a_thousand_workers_that_had_no_turn_fit_and_no_error_of_theirs_is_repeated() -> None:
    most = [job("W" * 20, "restart_watcher", outcome=STUCK), *[left("V" * 20)] * 1000]
    made: dict[str, Any] = command_card(most, NOW)
    assert check_message(made, update=True) == []
    assert "failed on 1 of 1,001 workers, not started on 1,000" in made["text"]
    assert str(NOT_BEGUN.error) not in json.dumps(made)


@pytest.mark.parametrize("paused", [job(outcome=PAUSED), job(handler="restart_watcher", outcome=OVERTAKEN)])
def test_a_worker_that_rests_has_resume_until_somebody_has_resumed_it(paused: Job) -> None:
    waiting = command_card([paused], NOW)
    assert list(buttons_of(waiting)) == ["Resume", "Status"]
    assert waiting["attachments"][0]["color"] == Color.QUIET
    by = job(handler="resume", issuer=ANNA, outcome=Outcome.done())
    done = command_card([paused], NOW, CardContext(resumed={"OrionMX": by}))
    assert buttons_of(done) == {}
    assert "; anna (cli) resumed it" in done["text"]
    assert "stays paused" not in json.dumps(done)


def test_a_pause_keeps_its_label_once_somebody_has_resumed_it() -> None:
    paused = job(outcome=PAUSED, label="disk swap")
    assert json.dumps(command_card([paused], NOW)).count("disk swap") == 1
    by = job(handler="resume", issuer=ANNA, outcome=Outcome.done())
    assert "label: disk swap" in json.dumps(command_card([paused], NOW, CardContext(resumed={"OrionMX": by})))


def test_of_several_paused_workers_those_still_paused_keep_their_button() -> None:
    both = [job("North", outcome=PAUSED), job("South", outcome=PAUSED)]
    by = job("North", handler="resume", issuer=ANNA, outcome=Outcome.done())
    made = command_card(both, NOW, CardContext(resumed={"North": by}))
    assert list(buttons_of(made)) == ["Resume South"]
    assert "North resumed by anna (cli)" in json.dumps(made)


def test_every_golden_card_has_its_case() -> None:
    assert {path.stem.removeprefix("card_") for path in GOLDEN.glob("card_*.json")} == set(CASES)


def jobs_of_any_kind() -> st.SearchStrategy[list[Job]]:
    words = st.text(max_size=200) | st.sampled_from(
        ["`" * 4000, "&" * 5000, "<!channel>" * 900, "é\u0301" * 3000, "\n" * 4000]
    )
    details = st.fixed_dictionaries({}, optional={"message": words, "drive": words, "not_begun": st.just(True)})
    outcomes = st.builds(lambda error, more: Outcome.failed(error, **more), words, details) | st.builds(
        lambda more: Outcome.done(**more), details
    )
    issuers = st.builds(Issuer, words.map(lambda text: f"file:{text}"), words)
    ids = st.sampled_from(["OrionMX", "a.b-c", *(f"{number:W>64}" for number in range(30))])
    made = st.builds(
        job,
        ids,
        st.sampled_from(["pause", "resume", "restart_watcher", "update_code"]),
        st.sampled_from([JobState.DONE, JobState.INTERRUPTED, JobState.STARTED]),
        outcomes,
        issuers,
        st.none() | st.just("l" * 100),
        st.lists(words, max_size=3),
    )
    return st.lists(made, min_size=1, max_size=30).map(lambda jobs: list({job.worker_id: job for job in jobs}.values()))


@given(jobs_of_any_kind())
def test_whatever_is_in_it_slack_takes_the_card(jobs: list[Job]) -> None:
    assert check_message(command_card(jobs, NOW), update=True) == []


def test_a_thousand_workers_with_the_longest_of_everything_fit() -> None:
    long = Outcome.failed("`&<>" * 5000, message="m" * 5000, drive="d" * 5000)
    odd = Issuer("file:" + "&" * 100, "&" * 255)
    most = [job(f"{n:W>64}", "update_code", outcome=long, issuer=odd, label="l" * 100) for n in range(1000)]
    made: dict[str, Any] = command_card(most, NOW)
    assert check_message(made, update=True) == []
    assert "and 997 more" in json.dumps(made)


def test_what_eight_workers_are_doing_finds_room_on_one_card() -> None:
    most = [job(f"Worker-{n}", state=JobState.STARTED, progress=["&" * 30 + "x" * 170]) for n in range(8)]
    made: dict[str, Any] = command_card(most, NOW)
    assert check_message(made, update=True) == []
    sections = (block for block in blocks_of(made) if block["type"] == "section")
    lines = [line for each in sections for line in each["text"]["text"].splitlines()]
    assert [line.split()[1] for line in lines] == [f"*Worker-{n}*" for n in range(8)]


@pytest.mark.parametrize("definition", [each for each in CATALOG.values() if each.handler], ids=lambda each: each.name)
def test_every_handler_has_its_words(definition: CommandDefinition) -> None:
    assert definition.handler in WORDS


def test_of_many_workers_those_who_do_not_do_well_have_their_button_first_and_the_others_are_told_how() -> None:
    names = [f"W{number}" for number in range(9)]
    jobs = [job(name, "update_code", outcome=Outcome.done(message="updated", **HEADS)) for name in names]
    unwell = Bake(TASK, "W8", "Host", "W8", NOW, NOW, BakeState.DEGRADED, NOW, "it hangs")
    content = command_card(jobs, NOW, CardContext(bakes=[unwell]))
    assert check_message(content, update=True) == []
    (actions,) = (block for block in blocks_of(content) if block["type"] == "actions")
    assert [each["text"]["text"] for each in actions["elements"]] == ["Undo W8", *(f"Undo W{n}" for n in range(4))]
    assert f"For the other 4: `/supervisor undo WORKER {TASK}`" in json.dumps(blocks_of(content))


def buttons_of(content: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    found = [each for block in blocks_of(content) if block["type"] == "actions" for each in block["elements"]]
    return {each["text"]["text"]: each for each in found}


def test_a_retry_repeats_what_was_requested_and_not_the_preview_that_was_approved() -> None:
    params = {"commits_back": 3, "state": "abc", "keep_going": True}
    failed = replace(job(handler="rollback_code", outcome=Outcome.failed("pip failed.")), params=params)
    retry = buttons_of(command_card([failed], NOW, CardContext(ApprovalDetails(an_approval()))))["Retry"]
    assert retry["value"].split(" ", 1)[1] == "OrionMX 3 hotfix test"
    assert "approval" in retry["confirm"]["text"]["text"]
    assert "Retry" in buttons_of(command_card([failed], NOW))


def test_a_paused_worker_is_resumed_by_the_loudest_button() -> None:
    resume = buttons_of(command_card([job(outcome=PAUSED)], NOW, CardContext(asks={"resume"})))["Resume"]
    assert (resume["style"], resume["action_id"]) == ("primary", "command:resume")
    assert "approval" in resume["confirm"]["text"]["text"]


def test_a_worker_that_is_down_is_restarted_by_the_loudest_button() -> None:
    down = Outcome.failed("OrionMX was stopped, but couldn't be started.", was_running=True, new_pid=None)
    card = command_card([job(handler="restart_watcher", outcome=down)], NOW)
    assert card["attachments"][0]["color"] == Color.CRITICAL
    assert buttons_of(card)["Restart"]["style"] == "primary"
    assert "Retry" not in buttons_of(card)


PAGE = "https://github.com/acme/orion/commit/"
TRACEBACK = (
    "mailer died within 2 s of its start (exit code 1). Traceback (most recent call last):\n  job.py\nNameError: *x*"
)


def reverted(**running: int | None) -> Job:
    turns = {name: {"new_pid": pid, "error": "" if pid else "gone", "rests": None} for name, pid in running.items()}
    details = {
        "before": "a" * 40,
        "after": "a" * 40,
        "tried": "b" * 40,
        "workers": turns,
        "failed": {"mailer": TRACEBACK},
    }
    failed = job("mailer", "update_code", outcome=Outcome.failed(f"mailer fails with it: {TRACEBACK}", **details))
    begun = [("checking origin", 9), ("stopping mailer (pid 7)", 8), ("fast-forwarding to bbbbbbb", 7)]
    return replace(failed, progress=tuple(Progress(NOW - timedelta(seconds=ago), words) for words, ago in begun))


def test_an_update_that_was_reverted_says_first_that_all_is_running() -> None:
    card = command_card([reverted(mailer=1, indexer=2, fetcher=3)], NOW)
    assert card["text"] == ":warning: *Update of mailer failed and was reverted*, all 3 workers running"
    assert card["attachments"][0]["color"] == Color.WARNING
    said = json.dumps(blocks_of(card))
    assert "*Failed*\\nmailer died within 2 s of its start (exit code 1)" in said
    assert "*Down for*\\nat most 7.0 s" in said
    assert "```NameError: *x*```" in said
    assert "Traceback" not in said
    assert list(buttons_of(card)) == ["Show full log", "Retry"]


def test_an_update_that_was_reverted_and_leaves_a_worker_down_is_red() -> None:
    card = command_card([reverted(mailer=None, indexer=2)], NOW)
    assert card["text"] == ":x: *Update of mailer failed and was reverted*, 1 of 2 workers running"
    assert card["attachments"][0]["color"] == Color.CRITICAL
    assert buttons_of(card)["Restart"]["style"] == "primary"


def test_the_workers_that_are_down_are_offered_a_restart_and_no_other() -> None:
    one = buttons_of(command_card([reverted(mailer=1, indexer=None)], NOW))
    assert list(one) == ["Restart indexer", "Show full log", "Retry"]
    assert one["Restart indexer"]["value"].endswith(" indexer")
    several = command_card([reverted(mailer=None, indexer=None, fetcher=2)], NOW)
    assert [each for each in buttons_of(several) if "Restart" in each] == ["Restart mailer", "Restart indexer"]
    assert check_message(several, update=True) == []


def test_commits_link_to_their_pages_and_odd_addresses_do_not() -> None:
    commits = [{"hash": "c" * 40, "subject": "Read *faster*", "author": "Ada"}]
    for page, linked in ((PAGE, True), ("https://evil.example|<!channel>/", False), ("javascript:/", False)):
        done = Outcome.done(**HEADS, commits=commits, commit_page=page)
        said = json.dumps(command_card([job(handler="update_code", outcome=done)], NOW), ensure_ascii=False)
        assert (f"<{PAGE}{'c' * 40}|ccccccc> Read `*faster*` · Ada" in said) is linked
        assert "evil" not in said


@pytest.mark.parametrize("handler", ["restart_watcher", "update_code", "diagnostics"])
def test_nothing_in_the_details_of_an_outcome_is_live(handler: str) -> None:
    """They may come from a host that was taken over."""
    live = "<!channel> <https://evil.example|x>"
    names = "new_pid old_pid pid message push_error packages_said drive checkout before after commit_page report_path"
    for name in f"{names} undone_task_id rests was_running seconds".split():
        for details in ({name: live}, {"workers": {"OrionMX": {name: live}}, **HEADS}):
            for outcome in (Outcome.done(**details), Outcome.failed(live, **details)):
                ended = replace(job(handler=handler, outcome=outcome), task_id=live)
                said = json.dumps([command_card([ended], NOW), outcome_reply([ended], None, "", asked_here=False)])
                shown = re.sub(r'"(value|action_id|block_id)": "[^"]*"', "", said)
                assert "<!channel>" not in shown, name
                assert "<https://evil" not in shown, name


def test_links_to_long_addresses_are_never_cut() -> None:
    page = f"https://gitlab.example.com/{'/'.join(['subgroup'] * 20)}/orion/-/commit/"
    done = Outcome.done(before="a" * 40, after="b" * 40, commit_page=page)
    card = command_card([job(handler="update_code", outcome=done)], NOW)
    shown = f"<{page}{'a' * 40}|aaaaaaa> → <{page}{'b' * 40}|bbbbbbb>"
    assert shown in blocks_of(card)[0]["fields"][0]["text"]


def test_a_note_in_a_quoted_command_is_no_markup() -> None:
    noted = Command.for_worker("update", "OrionMX", {"note": "`*approved*`"})
    for made in (preview_pending(noted), approval_requested(noted)):
        assert "`update OrionMX -- '*approved*'`" in made["text"]


def test_a_step_that_counts_itself_has_no_second_number() -> None:
    words = ("checking the code", "stopping OrionMX (pid 7)", "reverting bbbbbbb Read faster (1 of 4)")
    steps = tuple(Progress(NOW, each) for each in words)
    running = replace(job(handler="rollback_code", state=JobState.STARTED, commits_back=4), progress=steps)
    assert command_card([running], NOW)["text"].endswith("reverting bbbbbbb Read faster (1 of 4)")


def test_the_steps_are_a_checklist_with_those_to_come() -> None:
    begun = [("checking origin for new commits", 20), ("stopping OrionMX (pid 7)", 19.2), ("merging bbbbbbb", 18)]
    steps = tuple(Progress(NOW - timedelta(seconds=ago), words) for words, ago in begun)
    running = replace(job(handler="update_code", state=JobState.STARTED), progress=steps)
    card = command_card([running], NOW)
    assert card["text"] == ":hourglass_flowing_sand: *Updating OrionMX*: merging bbbbbbb (3 of 4)"
    lines = blocks_of(card)[0]["text"]["text"].splitlines()
    assert lines[:2] == [
        ":white_check_mark: Checked origin for new commits · 0.8 s",
        ":white_check_mark: Stopped OrionMX (pid 7) · 1.2 s",
    ]
    assert lines[2].startswith(":hourglass_flowing_sand: *Merging bbbbbbb* · started <!date^")
    assert lines[3:] == [":white_medium_square: Start OrionMX"]


def test_a_note_is_shown_as_it_was_typed() -> None:
    assert "note: see `_this_` &lt;!here&gt; · " in json.dumps(
        command_card([job(outcome=PAUSED, note="see _this_ <!here>")], NOW), ensure_ascii=False
    )


def test_a_worker_that_a_command_for_several_left_alone_is_not_said_to_be_done() -> None:
    alone = Outcome.done(skipped=True, message="parked was left alone. parked is quarantined in the configuration.")
    both = [job(worker, "restart_watcher", outcome=how) for worker, how in (("North", RESTARTED), ("parked", alone))]
    card = command_card(both, NOW)
    assert card["text"] == ":white_check_mark: *North restarted*"
    shown = json.dumps(card)
    assert "parked left alone" in shown
    assert "parked restarted" not in shown
    assert "parked paused" not in json.dumps(command_card([replace(each, handler="pause") for each in both], NOW))
