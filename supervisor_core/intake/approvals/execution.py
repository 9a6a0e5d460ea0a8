"""Runs what people approved: checks rights and state once more, then files the jobs exactly once.

The move to `executing` and the jobs are one transaction. After a crash before it, the approval is taken up again; after
a crash behind it, its jobs run like any others.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.code.change_plan import STATE_PARAM
from supervisor_core.commands.catalog import CATALOG, definition_objection
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right, Tier
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import RefusedError, SupervisorError, describe
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.text import sentence
from supervisor_core.host.logging.log import command_context
from supervisor_core.intake.approvals import rows
from supervisor_core.intake.approvals.observed_state import (
    Document,
    Observe,
    fingerprint,
    stale,
    states_of,
    with_batches,
)
from supervisor_core.intake.approvals.rights import SHELL, Rights, right_to_give
from supervisor_core.intake.approvals.rules import NOT_FILED, Approval, ApprovalState, Choice, Move, Vote, tally
from supervisor_core.intake.filing import file_jobs
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import not_begun
from supervisor_core.storage.steps import record
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


class ApprovalExecution:
    """Runs approvals after people have decided."""

    def __init__(
        self, ledger: Ledger, observe: Observe, rights: Rights, people: Callable[[], Mapping[str, str]]
    ) -> None:
        """`people`: the Slack user ids of users of this host."""
        self._ledger = ledger
        self._observe = observe
        self._rights = rights
        self._people = people

    def carry_on(self, now: datetime) -> list[Approval]:
        """Run all approvals that are due. One that fails doesn't stop the others."""
        return [self.execute(approval.approval_id, now) for approval in self.agreed(now)]

    def agreed(self, now: datetime) -> list[Approval]:
        """The approvals to run now, oldest first."""
        return self._ledger.read(lambda connection: rows.due_to_execute(connection, now, RETRY))

    def execute(self, approval_id: str, now: datetime) -> Approval:
        """Run one approval, if it's approved; its state afterwards."""
        approval, votes = self._read(approval_id)
        if approval.state is not ApprovalState.APPROVED:
            return approval
        try:
            self._go_on(approval, votes, now)
        except SupervisorError as error:
            self._later(approval, str(error), now)
        except Exception as error:  # the edge: one approval that can't be carried out keeps no other from it
            log.exception("approval %s can't run", approval_id)
            self._later(approval, f"Unexpected error: {describe(error)}.", now)
        return self._read(approval_id)[0]

    def settle(self, now: datetime) -> list[Approval]:
        """Close the approvals whose jobs have all ended; their states afterwards."""
        found = self._ledger.read(lambda connection: rows.in_states(connection, (ApprovalState.EXECUTING,)))
        return [self._read(each.approval_id)[0] for each in found if self.settle_one(each, now)]

    def settle_one(self, approval: Approval, now: datetime) -> bool:
        """Close an approval as done or failed once all its jobs have ended."""
        if approval.state is not ApprovalState.EXECUTING:
            return False
        if not self._ledger.read(lambda connection: jobs.has_ended(connection, approval.task_id)):
            return False
        ended = self._ledger.read(lambda connection: jobs.of_task(connection, approval.task_id))
        left = [job.worker_id for job in ended if not_begun(job)]
        failed = [job.worker_id for job in ended if not (job.outcome and job.outcome.success) and not not_begun(job)]
        why = f"Failed on {', '.join(failed)}." if failed else ""
        why += f" Not started: {', '.join(left)}." if left else ""
        made = Move.FAIL if failed else Move.SUCCEED
        return self._ledger.step(rows.move(approval, made, rows.ApprovalDecision(US, why), now), now)

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
            if tally(current.terms, votes, self._people()) is not ApprovalState.APPROVED:
                return False
            if not rows.take_step(
                connection, current, rows.move(current, Move.EXECUTE, rows.ApprovalDecision(US, why), now), now
            ):
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
            if not rows.take_step(
                connection, approval, rows.move(approval, Move.FAIL, rows.ApprovalDecision(US, why), now), now
            ):
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
        if self._ledger.step(rows.move(approval, made, rows.ApprovalDecision(US, why, votes, facts), now), now):
            log_approval(_ENDED[made], approval, why, reason=why)

    def _read(self, approval_id: str) -> tuple[Approval, list[Vote]]:
        def look(connection: Connection) -> tuple[Approval, list[Vote]]:
            found = rows.find(connection, approval_id)
            if found is None:
                raise LookupError(f"there is no approval {approval_id}")
            return found, rows.votes_of(connection, approval_id)

        return self._ledger.read(look)


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
