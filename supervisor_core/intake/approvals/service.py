"""Approvals: request a command, vote on it, and run it once, or not at all.

Slack and the command line call `request`, `vote` and `cancel`. The scheduler, or a shell without a daemon, calls
`carry_on`, `expire_due` and `settle`. All methods block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from supervisor_core.commands.command import NOTHING, Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import CommandText, RefusedError, UsageError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import random_id
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.intake.approvals import rows
from supervisor_core.intake.approvals.execution import ApprovalExecution, log_approval
from supervisor_core.intake.approvals.observed_state import Observe, all_so_already, fingerprint, objections
from supervisor_core.intake.approvals.rights import Rights, host_rights, nobody_to_approve
from supervisor_core.intake.approvals.rules import (
    OPEN,
    Approval,
    ApprovalState,
    Choice,
    Move,
    Terms,
    Vote,
    may_vote,
    tally,
    to_go_on,
)
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.store import Ledger

OnCallFacts = Sequence[Mapping[str, Any]]
"""Who was on call by the sources that a right depends on, and how that was known."""

Allowed = Callable[[Approval], str]
"""Why a person can't approve this one now; empty if they can."""


class NoSuchApproval(UsageError):
    """There's no such approval."""


class RequestRefused(RefusedError):
    """The approval can't be requested."""


class NothingToDo(RequestRefused):
    """There's nothing to do."""


class VoteRefused(RefusedError):
    """The vote doesn't count."""


@dataclass(frozen=True, slots=True)
class VoteResult:
    """An approval with its votes, after a vote or a cancellation."""

    approval: Approval
    votes: tuple[Vote, ...]
    counted: bool = True
    """False for a repeated vote, which changes nothing."""


class Approvals:
    """The approvals of one host. Thread-safe, and safe for several processes."""

    def __init__(
        self,
        ledger: Ledger,
        config: Callable[[], SupervisorConfig],
        observe: Observe,
        rights: Rights | None = None,
    ) -> None:
        self._ledger = ledger
        self._config = config
        self._observe = observe
        self._rights = rights or host_rights(config)
        self._carrying = ApprovalExecution(ledger, observe, self._rights, lambda: self._people)

    def request(
        self,
        command: Command,
        door: str,
        card: Mapping[str, Any] | None = None,
        now: datetime | None = None,
        along: Callable[[Connection], bool] | None = None,
    ) -> Approval:
        """Request an approval; durable when this returns. For a known command id, return the existing approval.
        `RequestRefused` if nobody can approve the command or it would fail now, `NothingToDo` if nothing would change.

        `along` runs in the same transaction; if it returns False, nothing is stored and `RequestRefused` is raised."""
        known = self.of_task(command.task_id)
        if known is not None:
            if command.issuer is None or not command.issuer.is_same_as(known.requester.id):
                who = known.requester.name or known.requester.id
                raise RequestRefused(f"{who} has already requested this as {command.task_id}. Nothing more was done.")
            return known
        moment = now or datetime.now(UTC)
        approval = self._new(command, door, card, moment)

        def file(connection: Connection) -> Approval | None:
            jobs.refuse_taken(connection, command.task_id, None, door)
            if along is not None and not along(connection):
                return None
            return rows.file(connection, approval, self._asked_in(card))

        crashpoints.reach("approvals_t.pending:before")
        try:
            filed = self._ledger.write(file)
        except jobs.IdTaken as error:
            raise RequestRefused(error.message, remedy=error.remedy) from None
        crashpoints.reach("approvals_t.pending:after")
        if filed is None:
            raise RequestRefused("Somebody else was first.")
        who = filed.requester.name or filed.requester.id
        log_approval(LogEvent.APPROVAL_REQUESTED, filed, f"requested by {who}", requested_by=who)
        return filed

    def vote(
        self,
        approval_id: str,
        voter: Issuer,
        choice: Choice,
        reason: str = "",
        *,
        door: str = "slack",
        allowed: Allowed | None = None,
        now: datetime | None = None,
        on_call: OnCallFacts = (),
    ) -> VoteResult:
        """Count a vote; `VoteRefused` says why it doesn't count. `allowed` checks the voter's right just before.

        `on_call`: the answers about who is on call that this right was checked by."""
        moment = now or datetime.now(UTC)
        approval, votes = self.find(approval_id)
        if any(vote.voter.is_same_as(voter.id, self._people) and vote.choice is choice for vote in votes):
            return VoteResult(approval, votes, counted=False)
        objection = self._objection(approval, votes, voter, moment, allowed)
        self._refuse(approval, voter, choice, door, objection, moment, on_call)
        vote = Vote(voter, choice, moment, rows.as_reason(reason), door)
        crashpoints.reach("votes_t.cast:before")
        why = self._ledger.write(
            lambda connection: count_vote(connection, approval.approval_id, vote, on_call, self._people)
        )
        crashpoints.reach("votes_t.cast:after")
        if why:
            raise VoteRefused(why)
        result = VoteResult(*self.find(approval.approval_id))
        if result.approval.state is ApprovalState.DENIED:
            who = voter.name or voter.id
            log_approval(LogEvent.APPROVAL_DENIED, result.approval, f"denied by {who}", voter=who)
        return result

    def cancel(
        self,
        approval_id: str,
        by: Issuer,
        reason: str = "",
        *,
        door: str = "slack",
        allowed: Allowed | None = None,
        now: datetime | None = None,
    ) -> VoteResult:
        """Cancel an approval that hasn't run yet, as its requester or an approver."""
        moment = now or datetime.now(UTC)
        approval, votes = self.find(approval_id)
        if approval.state is ApprovalState.CANCELLED:
            return VoteResult(approval, votes, counted=False)
        if not by.is_same_as(approval.terms.requester_id, self._people):
            self._refuse(approval, by, "cancel", door, self._why_not(approval, by, allowed), moment)
        said = rows.as_reason(f"By {by.name or by.id}{f': {reason}' if reason else '.'}")
        while (
            approval.state in OPEN
        ):  # again where somebody has voted meanwhile: an approved one can be taken back, too
            decided = rows.ApprovalDecision(by.id, said, votes)
            if self._ledger.step(rows.move(approval, Move.CANCEL, decided, moment), moment):
                log_approval(LogEvent.APPROVAL_CANCELLED, approval, f"cancelled. {said}", reason=said)
                return VoteResult(*self.find(approval.approval_id))
            approval, votes = self.find(approval.approval_id)
        stands = "running" if approval.state is ApprovalState.EXECUTING else approval.state
        raise VoteRefused(f"It's already {stands} and can't be cancelled.")

    def carry_on(self, now: datetime | None = None) -> list[Approval]:
        """Run the approvals that are due; their states afterwards."""
        return self._carrying.carry_on(now or datetime.now(UTC))

    def agreed(self, now: datetime | None = None) -> list[Approval]:
        """The approvals to run now, oldest first."""
        return self._carrying.agreed(now or datetime.now(UTC))

    def execute(self, approval_id: str, now: datetime | None = None) -> Approval:
        """Run one approval now, if it's approved; its state afterwards."""
        return self._carrying.execute(self.find(approval_id)[0].approval_id, now or datetime.now(UTC))

    def settle(self, now: datetime | None = None) -> list[Approval]:
        """Close the approvals whose commands have ended."""
        return self._carrying.settle(now or datetime.now(UTC))

    def expire_due(self, now: datetime | None = None) -> list[Approval]:
        """Expire the approvals that nobody decided in time, and return them."""
        moment = now or datetime.now(UTC)
        waiting = self._ledger.read(lambda connection: rows.in_states(connection, (ApprovalState.PENDING,), due=moment))
        return [approval for approval in waiting if self._expired(approval, moment)]

    def due_at(self) -> datetime | None:
        """The time of the next check of any approval."""
        return self._ledger.read(lambda connection: rows.first_due(connection, OPEN))

    def find(self, approval_id: str) -> tuple[Approval, tuple[Vote, ...]]:
        def look(connection: Connection) -> tuple[Approval, tuple[Vote, ...]] | None:
            found = rows.find(connection, approval_id)
            return (found, tuple(rows.votes_of(connection, found.approval_id))) if found else None

        found = self._ledger.read(look)
        if found is None:
            raise NoSuchApproval(
                f"There's no approval {approval_id!a}.", remedy=(CommandText("approvals"), " lists the pending ones.")
            )
        return found

    def of_task(self, task_id: str) -> Approval | None:
        """The approval of a command; None if it needed none."""
        return self._ledger.read(lambda connection: rows.of_task(connection, task_id))

    def pressed(self, button: str) -> Approval | None:
        return self._ledger.read(lambda connection: rows.of_button(connection, button))

    def waiting(self) -> list[tuple[Approval, tuple[Vote, ...]]]:
        """All pending, approved and running approvals with their votes, oldest first."""

        def look(connection: Connection) -> list[tuple[Approval, tuple[Vote, ...]]]:
            found = rows.in_states(connection, (*OPEN, ApprovalState.EXECUTING))
            votes = rows.votes_on(connection, [each.approval_id for each in found])
            return [(each, tuple(votes[each.approval_id])) for each in found]

        return self._ledger.read(look)

    @property
    def _people(self) -> Mapping[str, str]:
        return self._config().slack.access.people

    def _new(self, command: Command, door: str, card: Mapping[str, Any] | None, now: datetime) -> Approval:
        config = self._config()
        if why := nobody_to_approve(config, command):
            raise RequestRefused(why)
        previews = self._observe(command)
        if against := objections(previews):
            raise RequestRefused(f"Not requested, because it would fail. {' '.join(against)}")
        if already := all_so_already(previews):
            raise NothingToDo(already)
        if command.issuer is None:
            raise ValueError(f"nobody stands behind {command.name}")
        terms = config.slack.approvals
        expires_at = now + timedelta(minutes=terms.expires_minutes)
        return Approval(
            approval_id=random_id(),
            supervisor_id=self._ledger.supervisor_id,
            command=command,
            door=door,
            card=card,
            previews=previews,
            fingerprint=fingerprint(command, previews),
            terms=Terms(command.issuer.person.id, terms.votes, terms.self_approval),
            state=ApprovalState.PENDING,
            requested_at=now,
            expires_at=expires_at,
            due_at=expires_at,
        )

    def _asked_in(self, card: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The channel in which people are asked, if it isn't that of the command."""
        slack = self._config().slack
        channel = slack.asks_in(str((card or {}).get("channel") or "")) if slack.enabled else ""
        return {"channel": channel} if channel else None

    def _objection(
        self, approval: Approval, votes: Sequence[Vote], voter: Issuer, now: datetime, allowed: Allowed | None
    ) -> str:
        """Why the vote doesn't count and the audit trail has to have it; empty if it counts."""
        late = approval.state is ApprovalState.PENDING and now >= approval.expires_at
        if late:
            self._expired(approval, now)
        why = may_vote(approval, votes, voter, now, self._people)
        own = approval.state is ApprovalState.PENDING and voter.is_same_as(approval.terms.requester_id, self._people)
        if why and not own:
            raise VoteRefused(why, remedy=to_go_on(replace(approval, state=ApprovalState.EXPIRED)) if late else "")
        return why or self._why_not(approval, voter, allowed)

    def _why_not(self, approval: Approval, who: Issuer, allowed: Allowed | None) -> str:
        return allowed(approval) if allowed else self._rights(who, approval.command, Right.APPROVER)

    def _refuse(
        self,
        approval: Approval,
        who: Issuer,
        choice: str,
        door: str,
        why: str,
        now: datetime,
        on_call: OnCallFacts = (),
    ) -> None:
        """Record the refusal in the audit trail and raise it."""
        if why:
            self._ledger.audit(rows.refused(approval, who, choice, door, why, on_call), now)
            raise VoteRefused(why)

    def _expired(self, approval: Approval, now: datetime) -> bool:
        votes = self._ledger.read(lambda connection: rows.votes_of(connection, approval.approval_id))
        minutes = (approval.expires_at - approval.requested_at) / timedelta(minutes=1)
        why = f"Nobody decided within {minutes:g} minutes."
        decided = rows.ApprovalDecision("supervisor", why, votes)
        expired = self._ledger.step(rows.move(approval, Move.EXPIRE, decided, now), now)
        if expired:
            log_approval(LogEvent.APPROVAL_EXPIRED, approval, why, reason=why)
        return expired


def count_vote(
    connection: Connection,
    approval_id: str,
    vote: Vote,
    on_call: OnCallFacts = (),
    people: Mapping[str, str] = NOTHING,
) -> str:
    """Store a vote and the move that it decides, in one transaction; the reason if it no longer counts."""
    approval = rows.find(connection, approval_id, lock=True)
    if approval is None:  # pragma: no cover (nobody deletes approvals)
        raise NoSuchApproval
    votes = rows.votes_of(connection, approval_id)
    if why := may_vote(approval, votes, vote.voter, vote.at, people):
        return why
    rows.cast(connection, approval, vote, place=len(votes) + 1, on_call=on_call)
    votes.append(vote)
    judged = tally(approval.terms, votes, people)
    if judged is ApprovalState.PENDING:
        return ""
    approves = judged is ApprovalState.APPROVED
    decided = rows.ApprovalDecision(vote.voter.id, vote.reason, votes)
    step = rows.move(
        approval, Move.APPROVE if approves else Move.DENY, decided, vote.at, due_at=vote.at if approves else None
    )
    if not rows.take_step(connection, approval, step, vote.at):  # pragma: no cover (it is locked)
        raise VoteRefused("Somebody else decided at the same moment.")
    return ""
