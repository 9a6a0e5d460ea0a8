"""The card of a command on code, after it: who is watched, what can be undone, who agreed; golden files of each state.

Intended change: `UPDATE_GOLDEN=1 pytest tests/unit/bot/views/test_cards_of_code.py`, then look at the difference.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import timedelta

from bot.views.cards.card import command_card
from bot.views.cards.next_steps import CardContext, UndoState
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.commands.command import Issuer, Outcome
from supervisor_core.intake.approvals.rules import ApprovalState
from supervisor_core.jobs.model import Job, JobState
from tests.support.golden import are_as_last_seen
from tests.support.intake.approval_states import BEN, approval, asking, yes
from tests.unit.bot.views.test_cards import HEADS, NOW, ROLLED_BACK, STUCK, TASK, job

B = BakeState
UNDO_TASK = "task_button_0123456789abcdef"
HOSTILE = "<!channel> & <@U0OPER> `rm -rf`\n*bold* https://evil.example"
CHANGED = {
    **HEADS,
    "commits": [
        {"hash": "a" * 40, "subject": "Read faster"},
        {"hash": "b" * 40, "subject": "Merge <!channel> & the *new* parser"},
    ],
    "commit_count": 7,
    "files": [{"path": "watcher.py"}, {"path": "src/`new`.py"}],
    "file_count": 12,
    "notes": ["bbbbbbb is a merge: all that it brought in is gone."],
}
UPDATED = Outcome.done(
    message="Updated OrionMX by 7 commits (13a071e → d5c6f90). OrionMX is running (pid 4712)", **CHANGED
)
NOTHING_NEW = Outcome.done(message="OrionMX is at the newest commit already", before="a" * 40, after="a" * 40)


def rolled_back(worker: str = "OrionMX", outcome: Outcome = ROLLED_BACK) -> Job:
    return job(worker, "rollback_code", outcome=outcome, commits_back=2)


def updated() -> Job:
    return job(handler="update_code", outcome=UPDATED, label=None)


def bake(state: BakeState = B.WATCHING, worker: str = "OrionMX", reason: str = "", asked_for: str = "") -> Bake:
    decided = None if state is B.WATCHING else NOW + timedelta(minutes=3)
    until = NOW + timedelta(minutes=10)
    return Bake(TASK, worker, "Host", asked_for or worker, NOW, until, state, decided, reason)


def undoing(outcome: Outcome | None = None) -> Job:
    state = JobState.DONE if outcome else JobState.STARTED
    made = job(handler="undo_code", state=state, outcome=outcome, issuer=Issuer("slack:T0TEAM/U0BEN", "ben"))
    return replace(made, task_id=UNDO_TASK)


AGREED = asking(approval(ApprovalState.DONE, needed=2), yes(), yes(BEN, 2))
ERROR = "heartbeat reports an error: no disk"

CASES: Mapping[str, tuple[Sequence[Job], CardContext]] = {
    "updated": ([updated()], CardContext()),
    "nothing_new": ([job(handler="update_code", outcome=NOTHING_NEW)], CardContext()),
    "approved": ([rolled_back()], CardContext(AGREED)),
    "approved_and_under_way": (
        [job(handler="rollback_code", state=JobState.STARTED, commits_back=2)],
        CardContext(AGREED),
    ),
    "approved_and_failed": ([rolled_back(outcome=Outcome.failed("/srv/orion has changes."))], CardContext(AGREED)),
    "undo_asks": ([rolled_back()], CardContext(asks={"undo"})),
    "watching": ([rolled_back()], CardContext(bakes=[bake()])),
    "well": ([rolled_back()], CardContext(bakes=[bake(B.WELL)])),
    "degraded": ([rolled_back()], CardContext(AGREED, bakes=[bake(B.DEGRADED, reason=ERROR)], asks={"undo"})),
    "degraded_and_undone": (
        [rolled_back()],
        CardContext(
            bakes=[bake(B.DEGRADED, reason=ERROR)],
            undone={"OrionMX": UndoState(1, undoing(Outcome.done(message="undone")))},
        ),
    ),
    "overtaken": ([rolled_back()], CardContext(bakes=[bake(B.OVERTAKEN, reason="update has changed its code since")])),
    "several_well": (
        [rolled_back("North"), rolled_back("South")],
        CardContext(bakes=[bake(B.WELL, "North"), bake(B.WELL, "South")]),
    ),
    "several_one_degraded": (
        [rolled_back("North"), rolled_back("South"), rolled_back("West", STUCK)],
        CardContext(
            bakes=[
                bake(B.WELL, "North"),
                bake(B.DEGRADED, "South", "it did not keep running, and was started again by itself"),
                bake(B.WATCHING, "Shared", asked_for="North"),
            ]
        ),
    ),
    "undone": ([rolled_back()], CardContext(undone={"OrionMX": UndoState(1, undoing(Outcome.done(message="undone")))})),
    "undo_under_way": ([rolled_back()], CardContext(undone={"OrionMX": UndoState(0, None, under_way=True)})),
    "undo": ([undoing(Outcome.done(message="OrionMX is as before, at d5c6f90", **HEADS))], CardContext()),
    "hostile": (
        [
            replace(
                rolled_back(outcome=Outcome.done(message=HOSTILE, **HEADS, notes=[HOSTILE], drive=HOSTILE)),
                issuer=Issuer("file:<!here>", HOSTILE),
            )
        ],
        CardContext(
            asking(approval(ApprovalState.DONE), yes(Issuer("cli:<!everyone>", HOSTILE))),
            bakes=[bake(B.DEGRADED, reason=HOSTILE)],
        ),
    ),
}


def test_each_message_is_as_it_was_last_looked_at() -> None:
    are_as_last_seen("code_card", {name: command_card(jobs, NOW, about) for name, (jobs, about) in CASES.items()})
