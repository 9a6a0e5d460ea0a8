"""The rows of approvals and votes, moved by steps with their audit rows."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, and_, func, insert, or_, select, update

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.labels import audit_label
from supervisor_core.common.text import canonical_json, one_line, storable
from supervisor_core.intake.approvals.rules import (
    ACTIONS,
    FINAL,
    REQUESTED,
    Approval,
    ApprovalState,
    Choice,
    Move,
    Terms,
    Vote,
    after,
)
from supervisor_core.jobs.rows import CARD, ISSUER_NAME, refresh_undone
from supervisor_core.storage import outbox as replies
from supervisor_core.storage.audit.chain import VOTED_ON_CALL, AuditEntry
from supervisor_core.storage.engine import JsonText, in_bytes
from supervisor_core.storage.steps import Message, Step, record
from supervisor_core.storage.tables import approvals
from supervisor_core.storage.tables import votes as votes_table

ASKED = replies.APPROVAL_REQUEST

REASON = 1000  # characters of why somebody voted so

FAILURES = frozenset({Move.DENY, Move.EXPIRE, Move.OVERTAKE})
"""Moves that keep the command from running against its requester's wish."""

NOT_CARRIED_OUT = frozenset(FINAL) - {ApprovalState.DONE, ApprovalState.FAILED}


def file(connection: Connection, approval: Approval, asked_in: Mapping[str, Any] | None = None) -> Approval:
    """Insert an approval with its audit row and message, or return the one with its command id."""
    known = of_task(connection, approval.task_id)
    if known is not None:
        return known
    command = approval.command
    row = {
        "approval_id": approval.approval_id,
        "task_id": approval.task_id,
        "supervisor_id": approval.supervisor_id,
        "command": command.name,
        "target": command.target,
        "params_json": canonical_json(command.params),
        "workers_json": canonical_json(command.workers),
        "label": command.label,
        "issuer_id": approval.requester.id,
        "issuer_name": approval.requester.name[:ISSUER_NAME],
        "owner_id": approval.requester.owner or None,
        "door": approval.door,
        "card_json": canonical_json(approval.card) if approval.card is not None else None,
        "preview_json": canonical_json(approval.previews),
        "fingerprint": approval.fingerprint,
        "state": approval.state,
        "votes_needed": approval.terms.votes_needed,
        "self_approval": approval.terms.self_approval,
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "due_at": approval.due_at,
    }
    connection.execute(insert(approvals), row)
    entry = _entry(approval, REQUESTED, approval.requester.id)
    places = ((CARD, approval.card), (ASKED, asked_in))
    messages = [Message(kind, approval.task_id, place) for kind, place in places if place is not None]
    messages += [replies.details_reply(replies.PREVIEW, message.kind, approval.task_id) for message in messages]
    record(connection, approval.supervisor_id, entry, messages or refresh_messages(approval), approval.requested_at)
    return approval


def find(connection: Connection, approval_id: str, *, lock: bool = False) -> Approval | None:
    """The approval with this id or command id. `lock` keeps others from moving it until the transaction ends."""
    query = select(approvals).where(or_(approvals.c.approval_id == approval_id, approvals.c.task_id == approval_id))
    return next(_approvals(connection, query.with_for_update() if lock else query), None)


def of_task(connection: Connection, task_id: str) -> Approval | None:
    return next(_approvals(connection, select(approvals).where(approvals.c.task_id == task_id)), None)


def of_button(connection: Connection, button: str) -> Approval | None:
    """The first approval that a press of this button requested."""
    of_one_press = and_(in_bytes(approvals.c.task_id) > f"{button}_", in_bytes(approvals.c.task_id) < f"{button}`")
    query = select(approvals).where(of_one_press)
    return next(_approvals(connection, query.limit(1)), None)


def by_param(connection: Connection, command: str, name: str, value: str, most: int) -> list[Approval]:
    """The newest approvals of a command with this value of a parameter, newest first."""
    where = (approvals.c.command == command, JsonText(approvals.c.params_json, name) == value)
    return list(_approvals(connection, select(approvals).where(*where).limit(most), by=approvals.c.requested_at.desc()))


def due_to_execute(connection: Connection, now: datetime, again: timedelta) -> list[Approval]:
    """The approvals to run now, oldest first. One that seems to wait for longer than `again` is due as well: the clock
    was set back."""
    waits = (approvals.c.due_at > now) & (approvals.c.due_at <= now + again)
    query = select(approvals).where(approvals.c.state == ApprovalState.APPROVED, ~waits)
    return list(_approvals(connection, query))


def in_states(connection: Connection, states: Collection[ApprovalState], due: datetime | None = None) -> list[Approval]:
    """The approvals in these states, oldest first; with `due`, only those to check by then."""
    query = select(approvals).where(approvals.c.state.in_(tuple(states)))
    return list(_approvals(connection, query if due is None else query.where(approvals.c.due_at <= due)))


def _approvals(
    connection: Connection, query: Select[Any], by: ColumnElement[Any] = approvals.c.requested_at
) -> Iterator[Approval]:
    return map(_approval, connection.execute(query.order_by(by, approvals.c.approval_id)).mappings())


def first_due(connection: Connection, states: Collection[ApprovalState]) -> datetime | None:
    """The time of the next check of any approval in these states."""
    query = select(func.min(approvals.c.due_at)).where(approvals.c.state.in_(tuple(states)))
    moment: datetime | None = connection.execute(query).scalar()
    return moment


def votes_on(connection: Connection, approval_ids: Iterable[str]) -> dict[str, list[Vote]]:
    """The votes on each of these approvals, in their order."""
    wanted = tuple(approval_ids)
    query = select(votes_table).where(votes_table.c.approval_id.in_(wanted)).order_by(votes_table.c.place)
    found: dict[str, list[Vote]] = {approval_id: [] for approval_id in wanted}
    for row in connection.execute(query).mappings():
        found[row["approval_id"]].append(_vote(row))
    return found


def votes_of(connection: Connection, approval_id: str) -> list[Vote]:
    return votes_on(connection, (approval_id,))[approval_id]


def cast(
    connection: Connection, approval: Approval, vote: Vote, place: int, on_call: Sequence[Mapping[str, Any]] = ()
) -> None:
    """Insert a vote, once for each person, and order an update of the message. If the right to it depends on who is on
    call, an audit row says who that was and how it was known."""
    row = {
        "approval_id": approval.approval_id,
        "voter_id": vote.voter.id,
        "supervisor_id": approval.supervisor_id,
        "voter_name": vote.voter.name[:ISSUER_NAME],
        "choice": vote.choice,
        "reason": vote.reason or None,
        "door": vote.door,
        "voted_at": vote.at,
        "place": place,
    }
    connection.execute(insert(votes_table), row)
    entry = None
    if on_call:
        facts = {"vote": vote.choice, "on_call": [dict(each) for each in on_call]}
        entry = _entry(approval, VOTED_ON_CALL, vote.voter.id, vote.reason, facts=facts)
        entry = replace(entry, label=audit_label(vote.voter.name, vote.voter.id, None))
    record(connection, approval.supervisor_id, entry, refresh_messages(approval), vote.at)


def move(
    approval: Approval,
    made: Move,
    actor: str,
    reason: str,
    now: datetime,
    votes: Sequence[Vote] = (),
    facts: Mapping[str, Any] | None = None,
    **values: Any,  # noqa: ANN401
) -> Step:
    """The step of a move from the state that was read, with its audit row and an update of the message. `facts` are
    further details of the audit row.

    It does nothing from another state: a decision about a pending approval must not move an approved one.
    """
    to = after(approval.state, made)
    content: dict[str, Any] = {"due_at": None, "reason": storable(reason) or None, **values}
    if to not in (ApprovalState.EXECUTING, ApprovalState.APPROVED):
        content["finished_at"] = now
    if approval.state is ApprovalState.PENDING:
        content["decided_at"] = now
    action = ACTIONS.get(made)
    entry = _entry(approval, action, actor, reason, votes, facts, failure=made in FAILURES) if action else None
    key = {"approval_id": approval.approval_id}
    ends_without_jobs = to in NOT_CARRIED_OUT or (approval.state is ApprovalState.APPROVED and made is Move.FAIL)
    follow = partial(_end_messages, task_id=approval.task_id, by=actor) if ends_without_jobs else None
    return Step(approvals, key, (approval.state,), to, content, entry, refresh_messages(approval), follow=follow)


def _end_messages(connection: Connection, supervisor_id: str, now: datetime, *, task_id: str, by: str) -> None:
    """Order the replies about an approval that ends without jobs."""
    replies.order_replies(connection, supervisor_id, task_id, now, by)


def postpone(connection: Connection, approval: Approval, until: datetime, reason: str) -> None:
    mine = (approvals.c.approval_id == approval.approval_id, approvals.c.state == approval.state)
    connection.execute(update(approvals).where(*mine).values(due_at=until, reason=storable(reason)))


def refused(
    approval: Approval, voter: Issuer, choice: str, door: str, why: str, on_call: Sequence[Mapping[str, Any]] = ()
) -> AuditEntry:
    asked = {"on_call": [dict(each) for each in on_call]} if on_call else {}
    facts = {"refused": choice, "door": door, **asked}
    return _entry(approval, "REFUSED", voter.id, why, facts=facts, failure=True)


def refresh_messages(approval: Approval) -> tuple[Message, ...]:
    own = (Message(CARD, approval.task_id, None), Message(ASKED, approval.task_id, None))
    return (*own, *refresh_undone(approval.command.params))


def _entry(
    approval: Approval,
    action: str,
    actor: str,
    reason: str = "",
    votes: Sequence[Vote] = (),
    facts: Mapping[str, Any] | None = None,
    *,
    failure: bool = False,
) -> AuditEntry:
    command = approval.command
    one = len(command.workers) == 1
    return AuditEntry(
        actor=actor,
        action=action,
        target_type="worker" if one else "workers",
        target_id=command.workers[0] if one else (command.target or ",".join(command.workers)),
        outcome="failure" if failure else "success",
        label=approval.audit_label,
        task_id=approval.task_id,
        details={
            "approval_id": approval.approval_id,
            "command": command.name,
            "params": command.params,
            "workers": list(command.workers),
            "label": command.label,
            "door": approval.door,
            "requester": {"id": approval.requester.id, "name": approval.requester.name},
            **({"owner": approval.requester.owner} if approval.requester.owner else {}),
            "fingerprint": approval.fingerprint,
            "votes": [vote.as_told() for vote in votes],
            "votes_needed": approval.terms.votes_needed,
            "error" if failure else "reason": reason or None,
            **(facts or {}),
        },
    )


def _approval(row: RowMapping) -> Approval:
    issuer = Issuer(row["issuer_id"], row["issuer_name"], row["owner_id"] or "")
    return Approval(
        approval_id=row["approval_id"],
        supervisor_id=row["supervisor_id"],
        command=Command(
            name=row["command"],
            target=row["target"],
            workers=tuple(json.loads(row["workers_json"])),
            params=json.loads(row["params_json"]),
            label=row["label"],
            issuer=issuer,
            task_id=row["task_id"],
        ),
        door=row["door"],
        card=json.loads(row["card_json"]) if row["card_json"] is not None else None,
        previews=tuple(json.loads(row["preview_json"])),
        fingerprint=row["fingerprint"],
        terms=Terms(issuer.person.id, row["votes_needed"], row["self_approval"]),
        state=ApprovalState(row["state"]),
        requested_at=row["requested_at"],
        expires_at=row["expires_at"],
        due_at=row["due_at"],
        decided_at=row["decided_at"],
        finished_at=row["finished_at"],
        reason=row["reason"] or "",
    )


def _vote(row: RowMapping) -> Vote:
    return Vote(
        voter=Issuer(row["voter_id"], row["voter_name"]),
        choice=Choice(row["choice"]),
        at=row["voted_at"],
        reason=row["reason"] or "",
        door=row["door"],
    )


def as_reason(text: str) -> str:
    """A reason as one line, as it's stored."""
    return one_line(storable(text).strip(), REASON)
