"""What is said below a card: golden files of every reply, who is mentioned and who is not, and any data at all.

A change that is meant: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_threads.py`, then look at the difference.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bot.views.blocks import Content, blocks_of, text_message
from bot.views.cards.approval import ApprovalDetails
from bot.views.cards.card import COMMITS, FILES
from bot.views.cards.thread import LONG, outcome_reply, preview_reply, report_text
from bot.views.files import UNREADABLE, Attachment, file_text
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Command, Issuer, Outcome
from supervisor_core.intake.approvals.rules import FINAL, Approval, ApprovalState, Choice, Terms, Vote
from supervisor_core.jobs.model import Job, JobState
from tests.support.golden import are_as_last_seen
from tests.unit.bot.views.test_cards import (
    ANNA,
    HEADS,
    NOW,
    OPERATOR,
    PAUSED,
    STUCK,
    TASK,
    job,
)

APPROVER, SECOND = Issuer("slack:T0TEAM/U0APPROVER", "Ada"), Issuer("slack:T0TEAM/U0SECOND", "Ben")
DIAGNOSED = "OrionMX runs as pid 7 since 3.2 h; healthy: it beats; the database responds; 40% of the drive is free"


def commits(number: int) -> list[dict[str, str]]:
    return [{"hash": f"{n:07x}" + "0" * 33, "subject": f"Change number {n}"} for n in range(number)]


def files(number: int) -> list[dict[str, str]]:
    return [{"path": f"scripts/part_{n}.py", "change": "changed"} for n in range(number)]


def changed(number: int, worker: str = "OrionMX", **more: object) -> Job:
    details: dict[str, Any] = {"commits": commits(number), "files": files(number), "message": f"{worker} is updated"}
    return job(worker, "update_code", outcome=Outcome.done(**{**HEADS, **details, **more}))


def after(seconds: float, of: Job) -> Job:
    return replace(of, filed_at=NOW - timedelta(seconds=seconds))


def asking(state: ApprovalState, *votes: Vote, elsewhere: str = "", reason: str = "", **more: Any) -> ApprovalDetails:
    command = Command("rollback", "OrionMX", ("OrionMX",), {"commits_back": 3}, "hotfix", OPERATOR, TASK)
    made = Approval(
        "ab12cd34", "Host", command, "slack", None, (), "f", Terms(OPERATOR.id), state, NOW, NOW, reason=reason
    )
    return ApprovalDetails(replace(made, **more), votes, elsewhere)


def vote(voter: Issuer, choice: Choice = Choice.APPROVE, reason: str = "") -> Vote:
    return Vote(voter, choice, NOW, reason)


ROLLED_BACK = job(handler="rollback_code", outcome=Outcome.done(message="OrionMX is rolled back", **HEADS))
EXECUTING = asking(ApprovalState.EXECUTING, vote(APPROVER), vote(SECOND))
DENIED = asking(
    ApprovalState.DENIED, vote(APPROVER), vote(SECOND, Choice.DENY, "Not on a Friday."), reason="Not on a Friday."
)
PREVIEWED = {
    "command": "rollback",
    "checkout": "/srv/orion",
    "branch": "main",
    "ok": True,
    "commits": commits(8),
    "commit_count": 8,
    "files": files(30),
    "file_count": 30,
    "workers": [{"id": "OrionMX", "pid": 7}],
}

CASES: Mapping[str, Callable[[], Content | None]] = {
    "all_that_changed": lambda: outcome_reply([changed(8)], None),
    "more_than_is_kept": lambda: outcome_reply([changed(150, commit_count=400, file_count=300)], None),
    "of_several": lambda: outcome_reply([changed(2, "North"), changed(1, "South"), job("West", outcome=STUCK)], None),
    "kept_aside": lambda: outcome_reply([changed(1, dropped=commits(2))], None),
    "errors_in_full": lambda: outcome_reply(
        [job("North", outcome=Outcome.failed("It failed. " * 150)), *(job(f"W-{n}", outcome=STUCK) for n in range(3))],
        None,
    ),
    "took_long": lambda: outcome_reply([after(125, job(outcome=PAUSED))], None),
    "took_long_and_failed": lambda: outcome_reply([after(61, job(outcome=STUCK))], None),
    "approved_and_done": lambda: outcome_reply([ROLLED_BACK], EXECUTING),
    "denied": lambda: outcome_reply([], DENIED, SECOND.id),
    "expired": lambda: outcome_reply(
        [], asking(ApprovalState.EXPIRED, reason="Nobody decided within 60 minutes."), "supervisor"
    ),
    "for_those_who_voted_elsewhere": lambda: outcome_reply(
        [ROLLED_BACK], replace(EXECUTING, elsewhere="C0APPROVALS"), asked_here=True
    ),
    "preview": lambda: preview_reply(asking(ApprovalState.PENDING, previews=(PREVIEWED,))),
    "report_without_its_file": lambda: file_text(report(), UNREADABLE),
    "report_as_text": lambda: file_text(report('{\n  "a": 1\n}\n' * 2000), "file_uploads_disabled"),
}


def report(content: str = "") -> Attachment:
    made = job(handler="diagnostics", outcome=Outcome.done(message=DIAGNOSED))
    return Attachment(
        "diagnostics.json", content, rest="`/mnt/nas/diagnostics.json` on Host", comment=report_text(made)
    )


@pytest.mark.parametrize(
    "quick",
    [
        [job(outcome=PAUSED)],
        [job("North", outcome=PAUSED), job("South", outcome=PAUSED)],
        [job(outcome=STUCK)],
        [changed(COMMITS, files=files(FILES))],
        [job(handler="diagnostics", outcome=Outcome.done(message=DIAGNOSED, report_path="/mnt/a.json"))],
    ],
)
def test_where_the_card_says_all_of_it_nothing_is_added(quick: Sequence[Job]) -> None:
    assert outcome_reply(quick, None) is None


def test_while_it_goes_on_nothing_is_said() -> None:
    assert outcome_reply([after(500, job(state=JobState.STARTED))], None) is None
    assert outcome_reply([], asking(ApprovalState.PENDING, vote(APPROVER))) is None


def mentioned(made: Content | None) -> list[str]:
    """Who is told by it, in order."""
    return re.findall(r"<@(\w+)>", str(made["text"])) if made else []


def test_whoever_waited_long_is_mentioned_and_nobody_for_a_command_of_the_shell() -> None:
    long = LONG.total_seconds()
    assert mentioned(outcome_reply([after(long, job(outcome=PAUSED))], None)) == ["U0OPER"]
    assert outcome_reply([after(long - 0.001, job(outcome=PAUSED))], None) is None
    assert outcome_reply([after(long, job(outcome=PAUSED, issuer=ANNA))], None) is None


@pytest.mark.parametrize("state", FINAL)
def test_of_what_needed_an_approval_all_who_had_a_part_in_it_are_told_once(state: ApprovalState) -> None:
    over = asking(state, vote(APPROVER), vote(SECOND), vote(ANNA))
    ran = [ROLLED_BACK] if state in (ApprovalState.DONE, ApprovalState.FAILED) else []
    assert mentioned(outcome_reply(ran, over)) == ["U0OPER", "U0APPROVER", "U0SECOND"]
    assert mentioned(outcome_reply(ran, over, by=SECOND.id)) == ["U0OPER", "U0APPROVER"]


def test_where_people_are_asked_elsewhere_each_is_told_where_they_look_and_only_there() -> None:
    away = replace(EXECUTING, votes=[vote(APPROVER), vote(OPERATOR)], elsewhere="C0APPROVALS")
    assert mentioned(outcome_reply([ROLLED_BACK], away)) == ["U0OPER"]
    assert mentioned(outcome_reply([ROLLED_BACK], away, asked_here=True)) == ["U0APPROVER"]


def test_whoever_cancels_their_own_request_before_anybody_voted_is_not_told_of_it() -> None:
    assert outcome_reply([], asking(ApprovalState.CANCELLED), by=OPERATOR.id) is None


def test_a_preview_is_told_only_where_it_was_cut_and_only_while_it_waits() -> None:
    small = {**PREVIEWED, "commits": commits(1), "commit_count": 1, "files": files(1), "file_count": 1}
    assert preview_reply(asking(ApprovalState.PENDING, previews=(small,))) is None
    assert preview_reply(asking(ApprovalState.DENIED, previews=(PREVIEWED,))) is None
    assert preview_reply(None) is None


def test_a_thousand_workers_with_the_longest_of_everything_fit_and_it_is_said_where_the_rest_is() -> None:
    most = [job("W" * 64, "update_code", outcome=Outcome.failed("`&<>" * 5000), label="l" * 100)] * 1000
    made = outcome_reply(most, None)
    assert made is not None
    assert check_message(made, update=True) == []
    assert "more lines. To see all of them: `supervisor audit --command update --json` on Host" in made["text"]
    assert blocks_of(made)[-1]["elements"][0]["text"] in made["text"]


HOSTILE = [
    "<!channel>",
    "<@U0STRANGER>",
    "<!subteam^S1>",
    "```\n<!here>",
    "`" * 4000,
    "&" * 5000,
    "\n" * 900,
    "é\u0301" * 999,
]
texts = st.text(max_size=200) | st.sampled_from(HOSTILE)


def only_ours(made: Content | None) -> None:
    """Slack takes it, nothing in it comes alive, and nobody is told but those who are concerned."""
    if made is None:
        return
    assert check_message(made, update=True) == []
    said = made["text"] + "".join(re.findall(r'"text": "((?:[^"\\]|\\.)*)"', json.dumps(blocks_of(made))))
    assert "<!" not in said
    assert set(re.findall(r"<([^>]*)", said)) <= {"@U0OPER", "@U0APPROVER", "@U0SECOND"}


@given(texts, texts, texts, st.sampled_from([0, 1, 6, 210]))
def test_whatever_commits_files_and_notes_are_called_the_reply_is_well(
    subject: str, path: str, note: str, number: int
) -> None:
    details: dict[str, Any] = {
        "commits": [{"hash": path, "subject": subject}] * number,
        "files": [{"path": path, "change": subject}] * number,
        "dropped": [{"hash": path, "subject": subject}] * number,
        "notes": [note] * 9,
    }
    only_ours(outcome_reply([changed(1, **details)], None))
    only_ours(outcome_reply([changed(1, "North", message=note, **details), changed(1)], EXECUTING))


@given(st.sampled_from(FINAL), texts, texts, texts)
def test_whatever_people_are_called_and_gave_as_their_reason_the_reply_is_well(
    state: ApprovalState, name: str, reason: str, worker: str
) -> None:
    odd = Issuer("file:<!channel>", name)
    only_ours(outcome_reply([], asking(state, vote(odd, Choice.DENY, reason), vote(APPROVER), reason=reason), by=name))
    only_ours(
        preview_reply(asking(ApprovalState.PENDING, previews=({**PREVIEWED, "branch": name, "notes": [reason]},)))
    )
    only_ours(outcome_reply([replace(ROLLED_BACK, issuer=odd)], EXECUTING))


@given(texts, texts, st.lists(texts, max_size=30))
def test_whatever_a_report_says_its_words_are_well(message: str, path: str, tests: list[str]) -> None:
    found = [{"name": each, "message": each, "passed": True} for each in tests]
    more = {"tests": found} if tests else {}
    made = job(handler="diagnostics", outcome=Outcome.done(message=message, **more))
    only_ours(text_message(report_text(made)))
    only_ours(file_text(Attachment(path, message, rest="`x`", comment=report_text(made)), "file_uploads_disabled"))
    only_ours(file_text(Attachment(path, "x", rest="`x`", comment=report_text(made)), message))


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("thread", CASES)
