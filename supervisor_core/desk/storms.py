"""Alerts that come together: which of them wait for a second, and which become one message. In the caller's
transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import Connection

from supervisor_core.desk.judged import Judged
from supervisor_core.domain import crashpoints
from supervisor_core.domain.alerts import Alert, AlertState, Decision, Reason
from supervisor_core.domain.storms import Gathered, Lately, StormRules, digest, gather, takes_part
from supervisor_core.ledger import parents

NewId = Callable[[], str]
Judge = Callable[[Alert], Judged]


def gathered(
    connection: Connection,
    supervisor_id: str,
    judged: Sequence[Judged],
    now: datetime,
    rules: StormRules,
    new_id: NewId,
    judge: Judge,
) -> list[Judged]:
    """What becomes of these, of which some would be told for the first time: those that wait, wait; those of a storm
    join it, and with them whoever was told lately. A digest that begins comes first; `judge` decides about it."""
    opening = {each.after.alert_id: each for each in judged if _opens(each)}
    if not opening:
        return list(judged)
    since = now - rules.window
    here = {each.after.alert_id for each in judged}
    there = [each for each in parents.may_join(connection, supervisor_id, since) if each.alert_id not in here]
    others = [each for each in there if each.told is not None or judge(each).decision.reason is Reason.FIRST]
    waiting = sum(1 for each in others if each.decided == Reason.GATHERED)
    lately = Lately(parents.told_since(connection, supervisor_id, since), waiting)
    found = gather([each.after for each in opening.values()], lately, now, rules)
    if not found.members:
        waits = {each.alert_id for each in found.waiting}
        return [_waiting(each, found, waits) for each in judged]
    crashpoints.reach("alerts_t.storm:before")
    grown = parents.growing(connection, supervisor_id, since)
    one = grown or digest(new_id(), [*found.members, *others], supervisor_id)
    joined = [
        _joined(each, one) if each.after.alert_id in opening or _was_told_lately(each, since) else each
        for each in judged
    ]
    joined += [_joined(Judged(each, each, Decision(Reason.STORM, each.state)), one) for each in others]
    return joined if grown else [judge(one), *joined]


def _opens(each: Judged) -> bool:
    return each.decision.reason is Reason.FIRST and takes_part(each.after)


def _was_told_lately(each: Judged, since: datetime) -> bool:
    """Whether this one, about which something else is decided now, belongs to a storm that begins."""
    after = each.after
    fresh = after.told_at is not None and after.told_at > since and not after.reminders and not after.escalated
    holds = after.cleared_at is None and each.decision.state is not AlertState.CLOSED
    return takes_part(after) and after.parent_id is None and fresh and holds


def _waiting(each: Judged, found: Gathered, waits: set[str]) -> Judged:
    """To be decided about when the second is over, and not put off by whoever comes after it."""
    if each.after.alert_id not in waits:
        return each
    own = each.after.due_at if each.after.decided == Reason.GATHERED else None
    until = min(own, found.until) if own and found.until else found.until
    return each._replace(decision=Decision(Reason.GATHERED, each.after.state, until))


def _joined(each: Judged, one: Alert) -> Judged:
    state = AlertState.OPEN if each.after.state is AlertState.PENDING else each.after.state
    after = replace(each.after, parent_id=one.alert_id)
    return each._replace(after=after, decision=Decision(Reason.STORM, state))
