"""Rules of approvals: the states in one table, and the result of the votes. Pure.

    pending ─ approve ─→ approved ─ execute ─→ executing ─ succeed ─→ done
       │                    │                      └─ fail ─→ failed
       ├─ deny ─→ denied    ├─ fail ─→ failed (its command could not be filed)
       └────── cancel, expire, overtake ──→ cancelled, expired, stale

Overtaken is an approval whose command would not do any more what people saw when they said yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from supervisor_core.commands.command import NOTHING, Command, Issuer, person_of
from supervisor_core.commands.grammar import render
from supervisor_core.commands.labels import audit_label
from supervisor_core.common.errors import CommandText, MarkedText, SupervisorError
from supervisor_core.common.times import to_text


class ApprovalState(StrEnum):
    PENDING = "pending"
    APPROVED = "approved"
    EXECUTING = "executing"
    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"
    CANCELLED = "cancelled"
    EXPIRED = "expired"
    STALE = "stale"


class Move(StrEnum):
    """A change of an approval's state."""

    APPROVE = "approve"
    DENY = "deny"
    CANCEL = "cancel"
    EXPIRE = "expire"
    OVERTAKE = "overtake"
    EXECUTE = "execute"
    SUCCEED = "succeed"
    FAIL = "fail"


class Choice(StrEnum):
    APPROVE = "approve"
    DENY = "deny"


class IllegalApprovalMove(SupervisorError):
    """The approval's state doesn't allow this move."""


_S, _M = ApprovalState, Move

# Where a move leads. What is not here is illegal.
MOVES: Mapping[ApprovalState, Mapping[Move, ApprovalState]] = {
    _S.PENDING: {
        _M.APPROVE: _S.APPROVED,
        _M.DENY: _S.DENIED,
        _M.CANCEL: _S.CANCELLED,
        _M.EXPIRE: _S.EXPIRED,
        _M.OVERTAKE: _S.STALE,
    },
    _S.APPROVED: {
        _M.EXECUTE: _S.EXECUTING,
        _M.FAIL: _S.FAILED,
        _M.CANCEL: _S.CANCELLED,
        _M.EXPIRE: _S.EXPIRED,
        _M.OVERTAKE: _S.STALE,
    },
    _S.EXECUTING: {_M.SUCCEED: _S.DONE, _M.FAIL: _S.FAILED},
}

FINAL = tuple(state for state in ApprovalState if state not in MOVES)
OPEN = (ApprovalState.PENDING, ApprovalState.APPROVED)
"""The states in which nothing has run yet and the approval can still be cancelled."""

ACTIONS: Mapping[Move, str] = {
    _M.APPROVE: "APPROVED",
    _M.DENY: "DENIED",
    _M.CANCEL: "CANCELLED",
    _M.EXPIRE: "EXPIRED",
    _M.OVERTAKE: "STALE",
}
"""The audit action of each move. The other moves have the audit rows of the command itself."""

REQUESTED = "APPROVAL_REQUESTED"

NOT_FILED = "Not run:"
"""The start of the reason of an approval that failed before it had a job."""


def after(state: ApprovalState, move: Move) -> ApprovalState:
    """The state after a move; `IllegalApprovalMove` if the move isn't allowed."""
    try:
        return MOVES[state][move]
    except KeyError:
        raise IllegalApprovalMove(f"An approval that is {state} can't {move}.") from None


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's vote on one approval."""

    voter: Issuer
    choice: Choice
    at: datetime
    reason: str = ""
    door: str = ""

    def as_json(self) -> dict[str, str]:
        """The vote in the approvals of a job."""
        return {"id": self.voter.id, "name": self.voter.name, "at": to_text(self.at)}

    def as_told(self) -> dict[str, Any]:
        """All fields, for the audit trail and for programs."""
        return {**self.as_json(), "choice": str(self.choice), "reason": self.reason or None, "door": self.door}


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of an approval, as they were when it was requested and shown to people."""

    requester_id: str
    votes_needed: int = 1
    self_approval: bool = False


@dataclass(frozen=True, slots=True)
class Approval:
    """One row of `approvals_t`."""

    approval_id: str
    supervisor_id: str
    command: Command
    """The command with its issuer and id. Each approval has a command id of its own."""
    door: str
    card: Mapping[str, Any] | None
    previews: tuple[Mapping[str, Any], ...]
    """The previews at the time of the request, one for each checkout or worker."""
    fingerprint: str
    terms: Terms
    state: ApprovalState
    requested_at: datetime
    expires_at: datetime
    due_at: datetime | None = None
    """The time of the next check."""
    decided_at: datetime | None = None
    finished_at: datetime | None = None
    reason: str = ""
    """The reason for its state."""

    @property
    def task_id(self) -> str:
        return self.command.task_id

    @property
    def requester(self) -> Issuer:
        """The person or program that requested it."""
        if self.command.issuer is None:
            raise ValueError(f"nobody asked for {self.approval_id}")
        return self.command.issuer

    @property
    def was_filed(self) -> bool:
        """True once its jobs are filed."""
        filed = self.state in (ApprovalState.EXECUTING, ApprovalState.DONE, ApprovalState.FAILED)
        return filed and not self.reason.startswith(NOT_FILED)

    @property
    def audit_label(self) -> str:
        return audit_label(self.requester.name, self.requester.id, self.command.label)

    @property
    def again(self) -> str:
        """The text that requests the same command again."""
        return render(self.command)


def tally(terms: Terms, votes: Iterable[Vote], people: Mapping[str, str] = NOTHING) -> ApprovalState:
    """The state after these votes, in their order. Votes after the decisive one don't count.

    Each person's first vote counts; the requester's only if the terms allow it.
    """
    said: set[str] = set()
    for vote in votes:
        person = person_of(vote.voter.id, people)
        if person in said or (person == person_of(terms.requester_id, people) and not terms.self_approval):
            continue
        if vote.choice is Choice.DENY:
            return ApprovalState.DENIED
        said.add(person)
        if len(said) >= terms.votes_needed:
            return ApprovalState.APPROVED
    return ApprovalState.PENDING


def may_vote(
    approval: Approval, votes: Sequence[Vote], voter: Issuer, now: datetime, people: Mapping[str, str] = NOTHING
) -> str:
    """Why this person's vote doesn't count; empty if it does.

    The caller checks whether they are an approver: each source knows its own people.
    """
    if approval.state is not ApprovalState.PENDING:
        return f"{_decided_text(approval, votes)}. Nothing changed."
    if now >= approval.expires_at:
        return f"It expired at {approval.expires_at:%H:%M} UTC. Nothing changed."
    if voter.is_same_as(approval.terms.requester_id, people) and not approval.terms.self_approval:
        return "You requested it, so somebody else must decide. You can cancel it."
    mine = next((vote for vote in votes if vote.voter.is_same_as(voter.id, people)), None)
    if mine is not None:
        return f"You have already voted to {mine.choice}. An approver can still cancel it."
    return ""


def count_of(approval: Approval, votes: Iterable[Vote]) -> str:
    """`1 of 2`."""
    agreed = sum(1 for vote in votes if vote.choice is Choice.APPROVE)
    return f"{agreed} of {approval.terms.votes_needed}"


def to_go_on(approval: Approval) -> MarkedText:
    """The next step for the requester of an expired or outdated approval; empty in other states."""
    again = {
        ApprovalState.EXPIRED: "To request it again: ",
        ApprovalState.STALE: "To request it again, with a new preview: ",
    }.get(approval.state)
    return (again, CommandText(approval.again)) if again else ()


def _decided_text(approval: Approval, votes: Sequence[Vote]) -> str:
    """`It was already denied by anna`."""
    word = approval.state
    if word is ApprovalState.EXPIRED:
        return "It has already expired"
    if word is ApprovalState.STALE:
        return "It's already outdated"
    deciding = Choice.DENY if word is ApprovalState.DENIED else Choice.APPROVE
    names = [vote.voter.name or vote.voter.id for vote in votes if vote.choice is deciding]
    by = f" by {' and '.join(names)}" if names and word is not ApprovalState.CANCELLED else ""
    said = word if word in (ApprovalState.DENIED, ApprovalState.CANCELLED) else ApprovalState.APPROVED
    return f"It was already {said}{by}"
