"""Approvals: request a command, vote on it, and run it once, or not at all.

Slack and the command line call `request`, `vote` and `cancel`. The scheduler, or a shell without a daemon, calls
`carry_on`, `expire_due` and `settle`. All methods block.

The move to `executing` and the jobs are one transaction. After a crash before it, the approval is taken up again; after
a crash behind it, its jobs run like any others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import Connection

from supervisor_core.code.change_plan import STATE_PARAM
from supervisor_core.commands.catalog import CATALOG, definition_objection
from supervisor_core.commands.command import NOTHING, Command, Issuer
from supervisor_core.commands.definitions import Right, Tier
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import CommandText, RefusedError, SupervisorError, UsageError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import random_id, sentence
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.host.logging.log import command_context
from supervisor_core.intake.approvals import rows
from supervisor_core.intake.approvals.observed_state import (
    Document,
    Observe,
    all_so_already,
    fingerprint,
    objections,
    stale,
    states_of,
    with_batches,
)
from supervisor_core.intake.approvals.rights import SHELL, Rights, host_rights, nobody_to_approve, right_to_give
from supervisor_core.intake.approvals.rules import (
    NOT_FILED,
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
from supervisor_core.intake.filing import file_jobs
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import not_begun
from supervisor_core.storage.steps import record, take
from supervisor_core.storage.store import Ledger

RETRY = timedelta(seconds=5)
PATIENCE = timedelta(minutes=2)
"""Time after the decision during which the execution is retried. Then the approval expires."""

US = "supervisor"

log = logging.getLogger(__name__)

_ENDED = {
    Move.CANCEL: LogEvent.APPROVAL_CANCELLED,
    Move.EXPIRE: LogEvent.APPROVAL_EXPIRED,
    Move.OVERTAKE: LogEvent.APPROVAL_OUTDATED,
}

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
        slack = self._config().slack  # which may have people asked in another channel than that of the command
        channel = slack.asks_in(str((card or {}).get("channel") or "")) if slack.enabled else ""

        def file(connection: Connection) -> Approval | None:
            jobs.refuse_taken(connection, command.task_id, None, door)
            if along is not None and not along(connection):
                return None
            return rows.file(connection, approval, {"channel": channel} if channel else None)

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
        late = approval.state is ApprovalState.PENDING and moment >= approval.expires_at
        if late:
            self._expired(approval, moment)
        why = may_vote(approval, votes, voter, moment, self._people)
        own = approval.state is ApprovalState.PENDING and voter.is_same_as(approval.terms.requester_id, self._people)
        if why and not own:
            raise VoteRefused(why, remedy=to_go_on(replace(approval, state=ApprovalState.EXPIRED)) if late else "")
        why = why or self._right_objection(approval, voter, allowed)
        if why:
            self._ledger.audit(rows.refused(approval, voter, choice, door, why, on_call), moment)
            raise VoteRefused(why)
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
        own = by.is_same_as(approval.terms.requester_id, self._people)
        if not own and (why := self._right_objection(approval, by, allowed)):
            self._ledger.audit(rows.refused(approval, by, "cancel", door, why), moment)
            raise VoteRefused(why)
        said = rows.as_reason(f"By {by.name or by.id}{f': {reason}' if reason else '.'}")
        while (
            approval.state in OPEN
        ):  # again where somebody has voted meanwhile: an approved one can be taken back, too
            if self._ledger.step(rows.move(approval, Move.CANCEL, by.id, said, moment, votes), moment):
                log_approval(LogEvent.APPROVAL_CANCELLED, approval, f"cancelled. {said}", reason=said)
                return VoteResult(*self.find(approval.approval_id))
            approval, votes = self.find(approval.approval_id)
        stands = "running" if approval.state is ApprovalState.EXECUTING else approval.state
        raise VoteRefused(f"It's already {stands} and can't be cancelled.")

    def carry_on(self, now: datetime | None = None) -> list[Approval]:
        """Run all approvals that are due; their states afterwards. One that fails doesn't stop the others."""
        return [self.execute(approval.approval_id, now) for approval in self.agreed(now)]

    def agreed(self, now: datetime | None = None) -> list[Approval]:
        """The approvals to run now, oldest first."""
        moment = now or datetime.now(UTC)
        return self._ledger.read(lambda connection: rows.due_to_execute(connection, moment, RETRY))

    def execute(self, approval_id: str, now: datetime | None = None) -> Approval:
        """Run one approval, if it's approved; its state afterwards."""
        approval, votes = self.find(approval_id)
        if approval.state is not ApprovalState.APPROVED:
            return approval
        now = now or datetime.now(UTC)
        try:
            self._go_on(approval, votes, now)
        except SupervisorError as error:
            self._later(approval, str(error), now)
        except Exception as error:  # the edge: one approval that can't be carried out keeps no other from it
            log.exception("approval %s can't run", approval_id)
            self._later(approval, f"Unexpected error: {describe(error)}.", now)
        return self.find(approval.approval_id)[0]

    def settle(self, now: datetime | None = None) -> list[Approval]:
        """Close the approvals whose jobs have all ended, as done or failed; their states afterwards."""
        executing = self._ledger.read(lambda connection: rows.in_states(connection, (ApprovalState.EXECUTING,)))
        moment = now or datetime.now(UTC)
        return [self.find(each.approval_id)[0] for each in executing if self._close(each, moment)]

    def _close(self, approval: Approval, now: datetime) -> bool:
        if not self._ledger.read(lambda connection: jobs.has_ended(connection, approval.task_id)):
            return False
        ended = self._ledger.read(lambda connection: jobs.of_task(connection, approval.task_id))
        left = [job.worker_id for job in ended if not_begun(job)]
        failed = [job.worker_id for job in ended if not (job.outcome and job.outcome.success) and not not_begun(job)]
        why = f"Failed on {', '.join(failed)}." if failed else ""
        why += f" Not started: {', '.join(left)}." if left else ""
        made = Move.FAIL if failed else Move.SUCCEED
        return self._ledger.step(rows.move(approval, made, US, why, now), now)

    def _go_on(self, approval: Approval, votes: Sequence[Vote], now: datetime) -> None:
        if approval.decided_at is not None and now >= approval.decided_at + PATIENCE:
            minutes = PATIENCE / timedelta(minutes=1)
            words = f"It was approved but couldn't run within {minutes:g} minutes. {approval.reason}".rstrip()
            self._end(approval, votes, Move.EXPIRE, f"{words} Nothing was done.", now)
            return
        lost, unverified = self._check_rights(approval, votes)
        if lost:
            self._end(approval, votes, Move.CANCEL, f"{sentence(lost)} Nothing was done.", now)
            return
        vouched = any(vote.voter.id.startswith(SHELL) and vote.choice is Choice.APPROVE for vote in votes)
        if unverified and not vouched:
            if unverified.retryable:
                self._later(approval, unverified.message, now)
            else:
                self._end(approval, votes, Move.CANCEL, f"{sentence(unverified.message)} Nothing was done.", now)
            return
        if why := definition_objection(approval.command.name, approval.command.params):
            self._end(approval, votes, Move.OVERTAKE, f"{why} Nothing was done.", now)
            return
        try:
            seen: tuple[Document, ...] = self._observe(approval.command)
            moved = fingerprint(approval.command, seen) != approval.fingerprint
            why = stale(approval.previews, seen) if moved else ""
        except SupervisorError as error:
            if error.retryable:
                raise
            why = f"It would now be refused: {error}"
        if why:
            self._end(approval, votes, Move.OVERTAKE, f"{why} Nothing was done.", now)
            return
        self._file(approval, seen, now, f"Approved from this host's shell: {unverified.message}" if unverified else "")

    def _check_rights(self, approval: Approval, votes: Sequence[Vote]) -> tuple[str, SupervisorError | None]:
        """Why somebody has lost a right, and why a right can't be verified."""
        people = [(approval.requester, right_to_give(approval.command), "who requested it")]
        people += [(vote.voter, Right.APPROVER, "who approved it") for vote in votes if vote.choice is Choice.APPROVE]
        unverified: SupervisorError | None = None
        for who, right, role in people:
            name = f"{who.name or who.id}, {role}"
            try:
                why = self._rights(who.person, approval.command, right)
            except SupervisorError as error:
                if not error.retryable:
                    unverified = RefusedError(f"The rights of {name}, can't be verified: {error}")
                unverified = unverified or error
                continue
            if why:
                return f"{name}, no longer has the right: {why}", None
        return "", unverified

    def _file(self, approval: Approval, seen: Sequence[Document], now: datetime, why: str) -> None:
        """Move to executing and file the jobs in one transaction, unless somebody else was first."""
        command = with_batches(_bound_to(approval.command, seen), seen)

        def work(connection: Connection) -> bool:
            current = rows.find(connection, approval.approval_id, lock=True)
            votes = rows.votes_of(connection, approval.approval_id)
            if current is None or current.state is not ApprovalState.APPROVED:
                return False
            if tally(current.terms, votes, self._people) is not ApprovalState.APPROVED:
                return False
            if not take(connection, current.supervisor_id, rows.move(current, Move.EXECUTE, US, why, now), now):
                return False
            agreed = [vote.as_json() for vote in votes if vote.choice is Choice.APPROVE]
            file_jobs(connection, current.supervisor_id, command, current.door, now, approvals=agreed)
            return True

        crashpoints.reach("approvals_t.executing:before")
        try:
            filed = self._ledger.write(work)
        except jobs.IdTaken as error:
            self._fail(approval, f"{NOT_FILED} {error}", now)
            return
        if filed:
            by = why or "as approved"
            log_approval(LogEvent.APPROVAL_GRANTED, approval, f"queued, {by}")
        crashpoints.reach("approvals_t.executing:after")

    def _fail(self, approval: Approval, why: str, now: datetime) -> None:
        """Close an approval whose command can't be filed: failed, and a refusal in the audit trail."""

        def work(connection: Connection) -> bool:
            if not take(connection, approval.supervisor_id, rows.move(approval, Move.FAIL, US, why, now), now):
                return False
            entry = rows.refused(approval, Issuer(US, US), "execute", approval.door, why)
            record(connection, approval.supervisor_id, entry, (), now)
            return True

        if self._ledger.write(work):
            log_approval(LogEvent.APPROVAL_FAILED, approval, f"failed: {why}", error=why)

    def _later(self, approval: Approval, why: str, now: datetime) -> None:
        if why != approval.reason:
            log.info("approval %s waits: %s", approval.approval_id, why)
        self._ledger.write(lambda connection: rows.postpone(connection, approval, now + RETRY, why))

    def _end(self, approval: Approval, votes: Sequence[Vote], made: Move, why: str, now: datetime) -> None:
        facts = {"error": why} if made is Move.CANCEL else None
        if self._ledger.step(rows.move(approval, made, US, why, now, votes, facts), now):
            log_approval(_ENDED[made], approval, why, reason=why)

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

    def _right_objection(self, approval: Approval, who: Issuer, allowed: Allowed | None) -> str:
        return allowed(approval) if allowed else self._rights(who, approval.command, Right.APPROVER)

    def _expired(self, approval: Approval, now: datetime) -> bool:
        votes = self._ledger.read(lambda connection: rows.votes_of(connection, approval.approval_id))
        minutes = (approval.expires_at - approval.requested_at) / timedelta(minutes=1)
        why = f"Nobody decided within {minutes:g} minutes."
        expired = self._ledger.step(rows.move(approval, Move.EXPIRE, US, why, now, votes), now)
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
    made, due_at = (Move.APPROVE, vote.at) if judged is ApprovalState.APPROVED else (Move.DENY, None)
    step = rows.move(approval, made, vote.voter.id, vote.reason, vote.at, votes, due_at=due_at)
    if not take(connection, approval.supervisor_id, step, vote.at):  # pragma: no cover (it is locked)
        raise VoteRefused("Somebody else decided at the same moment.")
    return ""


def _bound_to(command: Command, seen: Sequence[Document]) -> Command:
    """The command as its jobs get it: a code change is bound to the state that people saw."""
    if CATALOG.on_record(command.name).tier is not Tier.CODE:
        return command
    states = sorted({state for state in states_of(command.workers, seen).values() if state})
    return replace(command, params={**command.params, STATE_PARAM: ",".join(states)})


def log_approval(event: LogEvent, approval: Approval, words: str, **fields: object) -> None:
    about = event.extra(approval_id=approval.approval_id, command=approval.command.name, **fields)
    with command_context(approval.task_id, approval.command.label):
        level = logging.getLevelNamesMapping()[event.level]
        log.log(level, "approval %s of %s: %s", approval.approval_id, approval.command.name, words, extra=about)
