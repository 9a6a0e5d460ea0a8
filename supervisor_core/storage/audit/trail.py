"""The audit trail as people ask for it: one entry for each command, made of the rows that share its task id."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from supervisor_core.commands.catalog import CATALOG, by_handler, find
from supervisor_core.commands.command import NOTE_KEY, Issuer
from supervisor_core.commands.labels import SEPARATOR, Affected, affected_in_words
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import nearest
from supervisor_core.storage.audit.chain import ARCHIVED, RESTORED

VOTED_ON_CALL = "VOTED_ON_CALL"
CONFIG_APPLIED, CONFIG_FINISHED, CONFIG_REFUSED = "CONFIG_APPLIED", "CONFIG_FINISHED", "CONFIG_REFUSED"

CONFIGURATION = "configuration"
"""The type of their target, whose id is the supervisor's."""

OTHER_ACTIONS: Mapping[str, str] = {
    "APPROVAL_REQUESTED": "An approval was requested.",
    "APPROVED": "Enough people approved a command.",
    "DENIED": "Somebody denied a command.",
    "CANCELLED": "The requester or an approver cancelled a command before it ran, or a right was lost.",
    VOTED_ON_CALL: "Somebody voted as the person on call. The details say who was on call, and by which source.",
    "EXPIRED": "Nobody decided in time, or the approved command couldn't start in time.",
    "STALE": "The code or the workers changed after the preview, so the approval can't be used.",
    "REFUSED": "A command, a flag, a vote, a scheduled run or a host that joins was refused. The details say why.",
    "ALERT_ACKNOWLEDGED": "Somebody acknowledged an alert.",
    "ALERT_SNOOZED": "Somebody snoozed an alert.",
    "MUTED": "Somebody muted alerts or paused monitoring.",
    "UNMUTED": "Somebody unmuted alerts or resumed monitoring.",
    "SCHEDULE_ADDED": "Somebody added a schedule.",
    "SCHEDULE_REMOVED": "Somebody removed a schedule.",
    "ROLLING_STARTED": "A rolling change began. The details have the sizes of its batches.",
    "ROLLING_BATCH": "A batch of a rolling change was healthy, so the next one was released.",
    "ROLLING_HALTED": "A rolling change halted after too many failures. The details name them.",
    "ROLLING_DONE": "A rolling change has reached all its workers.",
    "ROLLING_PAUSED": "Somebody paused a rolling change.",
    "ROLLING_CONTINUED": "Somebody continued a rolling change, and accepted its failures so far.",
    "ROLLING_ABORTED": "Somebody aborted a rolling change.",
    "HOST_INVITED": "Somebody invited a host to the fleet.",
    "HOST_JOINED": "A host joined the fleet. The actor is the person who invited it.",
    "HUB_TAKEN_OVER": "Another machine became the hub: the one before it was unresponsive. The details name both.",
    "HOST_REVOKED": "Somebody revoked a host of the fleet.",
    ARCHIVED: "Old rows of the audit trail were moved to a file.",
    RESTORED: "Somebody restored the ledger from a backup. Rows from after it are in the ledger that was replaced.",
    CONFIG_APPLIED: "The daemon applies a changed configuration. The details name settings, never values.",
    CONFIG_FINISHED: "Each worker that a changed configuration affects has its result, in the details.",
    CONFIG_REFUSED: "A changed configuration has mistakes; the previous one stays in force.",
}
"""The audit actions besides executions, with their meaning."""

DECIDING = ("APPROVED", "DENIED", "CANCELLED", "EXPIRED", "STALE")
"""Actions on another person's command: the audit label of such a row has that person's name."""

TELLING = ("APPROVAL_REQUESTED", *DECIDING, VOTED_ON_CALL, "REFUSED")
"""Actions on a command other than executions. The details of such a row name the command."""

_ENDED: Mapping[str, str] = {
    "DENIED": "denied",
    "CANCELLED": "cancelled",
    "EXPIRED": "expired before it was approved",
    "STALE": "not run: the approved change was outdated",
    "REFUSED": "refused",
    "APPROVED": "approved, not run yet",
    "APPROVAL_REQUESTED": "waiting for approval",
}
"""The outcome of a command that was not executed, by action; the final one first."""

_ASKING = ("APPROVAL_REQUESTED",)
_SCHEDULING = {"SCHEDULE_ADDED": "schedule add", "SCHEDULE_REMOVED": "schedule remove"}
"""The details of these rows name the scheduled command, which wasn't executed."""

_NAMED = 3
_WORD = {"success": "succeeded", "failure": "failed", "interrupted": "was interrupted"}


@dataclass(frozen=True, slots=True)
class TrailEntry:
    """One command, or one thing that somebody did."""

    supervisor_id: str
    audit_id: int | None
    """The number of its newest matching row; None if a damaged row doesn't have it."""
    at: datetime | None
    """None if a damaged row doesn't have it."""
    command: str
    """The name of the command, else the action in words."""
    about: str
    """The target; empty if the command names it."""
    asked: Issuer
    label: str
    approved: tuple[Issuer, ...]
    outcome: str
    """The outcome in a word or two."""
    well: bool | None
    """True if the outcome is good; None while it is unknown."""
    error: str
    task_id: str
    note: str = ""
    """The free text of the command."""
    affected: str = ""
    """The other workers that it affected, and how; only the requested ones if it affected any of them."""
    damaged: str = ""
    """The damage of an altered row. The other fields then repeat its content."""


def entry_of(
    row: Mapping[str, Any],
    details: Mapping[str, Any],
    siblings: Sequence[Mapping[str, Any]],
    affected: Affected | None = None,
    about: Sequence[str] = (),
) -> TrailEntry:
    """The entry of this row, which has these details, and of all rows of its command, the newest first. `about`: the
    workers that somebody asks about."""
    rows = siblings or (row,)
    executed = [each for each in rows if by_handler(str(each["action"]).lower()) is not None]
    asking = executed or [each for each in rows if each["action"] in _ASKING] or [row]
    first = asking[-1]
    outcome, well = _outcome(row, rows, executed)
    return TrailEntry(
        supervisor_id=str(row["supervisor_id"]),
        audit_id=int(row["audit_id"]),
        at=row["created_at"],
        command=command_in_words(first, details),
        about=_about(executed or [first]) + _scheduled_command(first, details),
        asked=issuer_of(first),
        label=str(details.get("label") or "") or _label(first),
        approved=_approvers(rows, details),
        outcome=outcome,
        well=well,
        error=" ".join(str(details.get("error") or "").split()) if well is False else "",
        task_id=str(row["task_id"] or ""),
        note=note_in(details),
        affected=affected_in_words(affected, cause_of(first), about) if affected else "",
    )


def damaged_entry(row: Mapping[str, Any], place: int | None, at: object) -> TrailEntry:
    """The entry of a row that was altered, as it can be shown."""
    return TrailEntry(
        supervisor_id=str(row["supervisor_id"]),
        audit_id=place,
        at=at if isinstance(at, datetime) else None,
        command=f"row {row['audit_id']}",
        about=" ".join(str(row[name]) for name in ("action", "target_id", "actor")),
        asked=Issuer(str(row["actor"]), ""),
        label="",
        approved=(),
        outcome="damaged",
        well=False,
        error="",
        task_id="",
        damaged=str(row["damaged"]),
    )


def cause_of(row: Mapping[str, Any]) -> str:
    """The cause for the workers that a row affected beside its target."""
    return "the configuration" if row["target_type"] == CONFIGURATION else str(row["target_id"])


def issuer_of(row: Mapping[str, Any]) -> Issuer:
    """The actor of a row, with the name from its audit label, except in a decision about somebody else's command."""
    name = "" if row["action"] in DECIDING else str(row["label"] or "").partition(SEPARATOR)[0]
    return Issuer(str(row["actor"]), name)


def names_in(details: Mapping[str, Any]) -> dict[str, str]:
    """The names of those who decided about a command, by their ids, as the details of one of its rows have them."""
    known = [*_mappings_in(details, "approvals"), *_mappings_in(details, "votes")]
    return {str(each.get("id")): str(each.get("name") or "") for each in known}


TRY = "Try a command, such as rollback, or an action, such as CONFIG_APPLIED."


def action_of(command: str) -> tuple[str, str]:
    """The action that a command's executions are recorded under, and its name; or this action itself, and no name."""
    definition = find(command)
    if definition is not None and definition.audit_action:
        return definition.audit_action, definition.name
    known = {*OTHER_ACTIONS, *(each.audit_action for each in CATALOG.values() if each.audit_action)}
    if command.upper() in known:
        return command.upper(), ""
    near = nearest(command, [*CATALOG, *known])
    raise UsageError(
        f"{command!a} isn't a command in the audit trail.", remedy=f"Did you mean {near}?" if near else TRY
    )


def note_in(details: Mapping[str, Any]) -> str:
    """The note of the command in the details of one of its rows."""
    params = details.get("params")
    return str(params.get(NOTE_KEY) or "") if isinstance(params, Mapping) else ""


def command_in_words(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The name of a row's command, or its action in words: people never see the stored name of an action."""
    if row["action"] in _SCHEDULING:
        return _SCHEDULING[str(row["action"])]
    definition = by_handler(str(row["action"]).lower())
    if definition is None:
        return str(details.get("command") or "") or str(row["action"]).replace("_", " ").lower()
    params = details.get("params")
    number = params.get("commits_back") if isinstance(params, Mapping) else None
    return f"{definition.name} {number}" if isinstance(number, int) and number > 1 else definition.name


def _about(rows: Sequence[Mapping[str, Any]]) -> str:
    names = list(dict.fromkeys(str(row["target_id"]) for row in reversed(rows) if row["target_id"] != "-"))
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _scheduled_command(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The scheduled command, in a row about a schedule."""
    command = str(details.get("command") or "") if row["action"] in _SCHEDULING else ""
    return f" ({command})" if command else ""


def _approvers(rows: Sequence[Mapping[str, Any]], details: Mapping[str, Any]) -> tuple[Issuer, ...]:
    names = names_in(details)
    voted = [str(each["actor"]) for each in reversed(rows) if each["action"] == "APPROVED"]
    noted = [str(each.get("id")) for each in _mappings_in(details, "approvals")]
    return tuple(Issuer(actor, names.get(actor, "")) for actor in dict.fromkeys([*noted, *voted]))


def _mappings_in(details: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    found = details.get(name)
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _label(row: Mapping[str, Any]) -> str:
    return str(row["label"] or "").partition(SEPARATOR)[2]


def _outcome(
    row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], executed: Sequence[Mapping[str, Any]]
) -> tuple[str, bool | None]:
    if not executed:
        there = {str(each["action"]) for each in rows}
        ended = next((action for action in _ENDED if action in there), None)
        if ended is None:
            return ("done", True) if row["outcome"] == "success" else (_word(row), False)
        return _ENDED[ended], None if ended in ("APPROVED", "APPROVAL_REQUESTED") else False
    counted = Counter(_word(each) for each in executed)
    if len(executed) == 1:
        return _word(executed[0]), executed[0]["outcome"] == "success"
    words = [f"{word} on {number} of {len(executed)}" for word, number in sorted(counted.items())]
    well = set(counted) == {_WORD["success"]}
    return (f"succeeded on all {len(executed)}" if well else ", ".join(words)), well


def _word(row: Mapping[str, Any]) -> str:
    return _WORD.get(str(row["outcome"]), str(row["outcome"]))
