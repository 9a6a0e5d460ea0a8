"""The card as people see it: golden files of every state, and the longest there can be against the strict checker.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_cards.py`, then look at the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from bot.views.blocks import Color, blocks_of
from bot.views.cards.approval import ApprovalDetails
from bot.views.cards.card import command_card
from bot.views.cards.next_steps import CardContext
from bot.views.cards.thread import outcome_reply
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.jobs.model import MOST_PROGRESS, Job, JobState, Progress
from tests.support.golden import are_as_last_seen
from tests.unit.intake.test_approvals import an_approval

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
    "hostile_step": [job(state=JobState.STARTED, progress=["<!channel> & <@U0OPER>\n\0 https://evil.example"])],
    "several_one_failed": [job("North", outcome=PAUSED), job("South", outcome=STUCK)],
    "several_stopped": [
        job("North", "restart_watcher", outcome=RESTARTED),
        job("South", "restart_watcher", outcome=STUCK),
        left("West"),
    ],
    "hostile_words": [
        job(
            issuer=Issuer("file:<!channel>", "<!channel> *bold*"),
            outcome=Outcome.failed("```<!here> & <@U0OPER> | `rm -rf` \n```"),
        )
    ],
}


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


def test_a_thousand_workers_with_the_longest_of_everything_fit() -> None:
    long = Outcome.failed("`&<>" * 5000, message="m" * 5000, drive="d" * 5000)
    odd = Issuer("file:" + "&" * 100, "&" * 255)
    most = [job(f"{n:W>64}", "update_code", outcome=long, issuer=odd, label="l" * 100) for n in range(1000)]
    made: dict[str, Any] = command_card(most, NOW)
    assert check_message(made, update=True) == []
    assert "and 997 more" in json.dumps(made)


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


def test_a_worker_that_a_command_for_several_left_alone_is_not_said_to_be_done() -> None:
    alone = Outcome.done(skipped=True, message="parked was left alone. parked is quarantined in the configuration.")
    both = [job(worker, "restart_watcher", outcome=how) for worker, how in (("North", RESTARTED), ("parked", alone))]
    card = command_card(both, NOW)
    assert card["text"] == ":white_check_mark: *North restarted*"
    shown = json.dumps(card)
    assert "parked left alone" in shown
    assert "parked restarted" not in shown
    assert "parked paused" not in json.dumps(command_card([replace(each, handler="pause") for each in both], NOW))


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("card", {name: command_card(jobs, NOW) for name, jobs in CASES.items()})
