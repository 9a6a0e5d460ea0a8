"""The life of an approval, what votes come to, and what it is bound to."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.intake.approvals.observed_state import fingerprint, objections, stale
from supervisor_core.intake.approvals.rules import (
    FINAL,
    MOVES,
    Approval,
    ApprovalState,
    Choice,
    IllegalApprovalMove,
    Move,
    Terms,
    Vote,
    after,
    may_vote,
    tally,
)

S, M = ApprovalState, Move
NOW = datetime(2026, 2, 5, 14, 30, tzinfo=UTC)
ASKER = Issuer("slack:T0/U0ANNA", "anna")
PEOPLE = [ASKER, *(Issuer(f"slack:T0/U{number}", f"person {number}") for number in range(5))]


def vote(who: Issuer, choice: Choice = Choice.APPROVE, minutes: int = 1) -> Vote:
    return Vote(who, choice, NOW + timedelta(minutes=minutes))


YES, NO = Choice.APPROVE, Choice.DENY
ONE, TWO, THREE = PEOPLE[1:4]
ASKER_ELSEWHERE, ONE_ELSEWHERE = (Issuer(who.id.replace("T0", "T1"), who.name) for who in (ASKER, ONE))


@pytest.mark.parametrize(
    ("needed", "own", "votes", "comes_to"),
    [
        (1, False, [], S.PENDING),
        (1, False, [vote(ONE)], S.APPROVED),
        (2, False, [vote(ONE)], S.PENDING),
        (2, False, [vote(ONE), vote(ONE)], S.PENDING),
        (2, False, [vote(ONE), vote(TWO)], S.APPROVED),
        (2, False, [vote(ONE), vote(TWO, NO)], S.DENIED),
        (1, False, [vote(ONE, NO), vote(TWO)], S.DENIED),
        (1, False, [vote(ONE), vote(TWO, NO)], S.APPROVED),
        (1, False, [vote(ASKER)], S.PENDING),
        (1, False, [vote(ASKER, NO)], S.PENDING),
        (1, True, [vote(ASKER)], S.APPROVED),
        (2, False, [vote(ASKER), vote(ONE)], S.PENDING),
        (1, False, [vote(ASKER_ELSEWHERE)], S.PENDING),
        (2, False, [vote(ONE), vote(ONE_ELSEWHERE)], S.PENDING),
        (3, True, [vote(ASKER), vote(ONE), vote(TWO)], S.APPROVED),
    ],
)
def test_votes_come_to(needed: int, own: bool, votes: list[Vote], comes_to: ApprovalState) -> None:
    assert tally(Terms(ASKER.id, needed, own), votes) is comes_to


@given(
    st.lists(st.tuples(st.sampled_from(PEOPLE), st.sampled_from(Choice)), max_size=12),
    st.integers(1, 4),
    st.booleans(),
)
def test_no_order_of_votes_lets_too_few_people_decide(
    said: list[tuple[Issuer, Choice]], needed: int, own: bool
) -> None:
    votes = [vote(who, choice) for who, choice in said]
    judged = tally(Terms(ASKER.id, needed, own), votes)
    voters = {who.id for who, choice in said if choice is YES and (own or who is not ASKER)}
    if judged is S.APPROVED:
        assert len(voters) >= needed
    if judged is S.PENDING:
        first = {who.id: choice for who, choice in reversed(said) if own or who is not ASKER}
        assert NO not in first.values()


def an_approval(state: ApprovalState = S.PENDING, needed: int = 1, own: bool = False) -> Approval:
    command = Command("rollback", "OrionMX", ("OrionMX",), {"commits_back": 3}, "hotfix", ASKER, "task_1")
    return Approval(
        approval_id="abc12345",
        supervisor_id="TestHost",
        command=command,
        door="slack",
        card=None,
        previews=(),
        fingerprint="",
        terms=Terms(ASKER.id, needed, own),
        state=state,
        requested_at=NOW,
        expires_at=NOW + timedelta(minutes=15),
    )


@pytest.mark.parametrize(
    ("state", "votes", "who", "minutes", "says"),
    [
        (S.PENDING, [], ONE, 1, ""),
        (S.PENDING, [vote(TWO)], ONE, 1, ""),
        (S.PENDING, [], ASKER, 1, "You requested it"),
        (S.PENDING, [], ASKER_ELSEWHERE, 1, "You requested it"),
        (S.PENDING, [vote(ONE)], ONE, 2, "You have already voted to approve"),
        (S.PENDING, [vote(ONE)], ONE_ELSEWHERE, 2, "You have already voted to approve"),
        (S.PENDING, [], ONE, 15, "It expired at 14:45 UTC"),
        (S.APPROVED, [vote(ONE)], TWO, 1, "It was already approved by person 0"),
        (S.EXECUTING, [vote(ONE), vote(TWO)], THREE, 1, "It was already approved by person 0 and person 1"),
        (S.FAILED, [vote(ONE)], TWO, 1, "It was already approved by person 0"),
        (S.DENIED, [vote(ONE, NO)], TWO, 1, "It was already denied by person 0"),
        (S.CANCELLED, [], ONE, 1, "It was already cancelled. Nothing changed"),
        (S.EXPIRED, [vote(ONE)], TWO, 1, "It has already expired. Nothing"),
        (S.STALE, [vote(ONE)], TWO, 1, "It's already outdated. Nothing"),
    ],
)
def test_who_may_not_vote_is_told_why(
    state: ApprovalState, votes: list[Vote], who: Issuer, minutes: int, says: str
) -> None:
    words = may_vote(an_approval(state), votes, who, NOW + timedelta(minutes=minutes))
    assert words.startswith(says)
    assert bool(words) == bool(says)


class Voting(RuleBasedStateMachine):
    """Anybody says anything in any order; time goes on; and it is decided once, by enough people, or not at all."""

    @initialize(needed=st.integers(1, 3), own=st.booleans())
    def ask(self, needed: int, own: bool) -> None:
        self.approval = an_approval(needed=needed, own=own)
        self.votes: list[Vote] = []
        self.now = NOW
        self.path: list[ApprovalState] = [S.PENDING]

    def go(self, move: Move) -> None:
        state = self.approval.state
        if move in MOVES.get(state, {}):
            self.approval = replace(self.approval, state=after(state, move))
            self.path.append(self.approval.state)
        else:
            with pytest.raises(IllegalApprovalMove):
                after(state, move)

    @rule(who=st.sampled_from(PEOPLE), choice=st.sampled_from(Choice))
    def say(self, who: Issuer, choice: Choice) -> None:
        if may_vote(self.approval, self.votes, who, self.now):
            return
        self.votes.append(Vote(who, choice, self.now))
        judged = tally(self.approval.terms, self.votes)
        if judged is not S.PENDING:
            self.go(M.APPROVE if judged is S.APPROVED else M.DENY)

    @rule(minutes=st.integers(1, 20))
    def wait(self, minutes: int) -> None:
        self.now += timedelta(minutes=minutes)

    @rule(move=st.sampled_from([move for move in Move if move not in (M.APPROVE, M.DENY)]))
    def happen(self, move: Move) -> None:
        self.go(move)

    @invariant()
    def it_is_decided_by_enough_people_or_not_at_all(self) -> None:
        yes = {vote.voter.id for vote in self.votes if vote.choice is YES}
        assert len({vote.voter.id for vote in self.votes}) == len(self.votes), "nobody votes twice"
        assert self.approval.terms.self_approval or ASKER.id not in {vote.voter.id for vote in self.votes}
        if S.APPROVED in self.path:
            assert len(yes) == self.approval.terms.votes_needed
            assert all(vote.choice is YES for vote in self.votes)
        assert all(vote.at < self.approval.expires_at for vote in self.votes)

    @invariant()
    def it_is_carried_out_once_and_only_after_it_was_approved(self) -> None:
        assert self.path.count(S.EXECUTING) <= 1
        if S.EXECUTING in self.path:
            assert self.path[:3] == [S.PENDING, S.APPROVED, S.EXECUTING]
        assert all(state not in FINAL for state in self.path[:-1])


TestVoting = Voting.TestCase


def a_preview(**facts: Any) -> dict[str, Any]:
    worker = {"id": "OrionMX", "pid": 4711, "running": True, "paused": False, "rests": None, "busy": None}
    return {
        "command": "rollback",
        "checkout": "/srv/archive",
        "refused": None,
        "conflict": None,
        "workers": [worker],
        "state": "a" * 64,
        "head": {"hash": "1" * 40},
        "target": "2" * 40,
        "commit_count": 3,
        "file_count": 5,
        "changes": [],
        "dropped": [],
        "installs": [],
        **facts,
    }


def test_the_fingerprint_is_of_the_exact_command_and_of_what_was_seen() -> None:
    command, seen = an_approval().command, (a_preview(),)
    same = replace(command, issuer=None, task_id="other")
    assert fingerprint(command, seen) == fingerprint(same, seen)
    assert fingerprint(command, seen) == fingerprint(command, (a_preview(head={"hash": "9" * 40}),)), "the state counts"
    others = {
        fingerprint(replace(command, name="undo"), seen),
        fingerprint(replace(command, params={"commits_back": 4}), seen),
        fingerprint(replace(command, label="other"), seen),
        fingerprint(replace(command, workers=("OrionMX", "South")), seen),
        fingerprint(command, (a_preview(state="b" * 64),)),
        fingerprint(command, ()),
    }
    assert len(others | {fingerprint(command, seen)}) == 7


WORKER = a_preview()["workers"][0]


@pytest.mark.parametrize(
    ("now", "says"),
    [
        ({"head": {"hash": "9" * 40}}, "/srv/archive was at 1111111 and is now at 9999999."),
        ({"target": "9" * 40}, "It would now lead to 9999999 instead of 2222222."),
        ({"changes": ["a.py"]}, "Files in /srv/archive have changed: a.py."),
        ({"installs": ["x"]}, "The packages to install have changed."),
        ({"workers": [{**WORKER, "paused": True, "rests": "paused"}]}, "OrionMX is now paused."),
        ({"workers": [{**WORKER, "rests": "off"}]}, "OrionMX can no longer be started."),
        ({"workers": [WORKER, {**WORKER, "id": "South"}]}, "South now runs from it."),
        ({"workers": []}, "OrionMX no longer runs from it."),
        ({"refused": "There is no commit to take back."}, "It would now be refused: There is no commit to take back."),
        ({"conflict": "It does not fit."}, "It would now fail: It does not fit."),
        ({"checkout": "/srv/new"}, "/srv/archive no longer exists; /srv/new is new."),
        ({"state": "b" * 64}, "Something that it depends on has changed."),
    ],
)
def test_what_has_moved_on_is_said(now: dict[str, Any], says: str) -> None:
    assert stale([a_preview()], [a_preview(**now)]) == says


def test_what_speaks_against_it_is_said() -> None:
    assert objections([a_preview(refused="No.")]) == ["No."]
    elsewhere = a_preview(conflict="Not", workers=[{"id": "North"}])
    assert objections([a_preview(), elsewhere, {**elsewhere, "workers": [{"id": "South"}]}]) == ["North, South: Not."]
