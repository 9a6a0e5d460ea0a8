"""The audit trail: one hash chain for each host, appended in the transaction of the change, and verified.

The hash of a row is the SHA-256, in hex, of the canonical JSON of a list: the fields in the order of
`HASHED_FIELDS`, the time as text in UTC with microseconds, `details_json` as the text that is stored. The first
row of a host's chain follows `GENESIS`. Anybody can check a chain with these two facts and nothing of ours.

A worker that a command or a configuration affected beside its target has a row of its own (`AFFECTED`), right after
the first one, whose details have its `role` and the `cause`. So the rows of each worker are found by `target_id` alone,
also in the shared database.

Where old rows were archived, a later row (`ARCHIVED`) records the last of them and its hash. A chain that begins
elsewhere without such a row has lost its beginning. Its end is known by the hash that is posted each week.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Text, cast, func, insert, literal, select

from supervisor_core.commands.catalog import by_handler, find
from supervisor_core.common.text import canonical_json, is_plain, storable
from supervisor_core.common.times import to_text
from supervisor_core.storage.engine import ORDERED, SHARES
from supervisor_core.storage.ledger_file import SHARED_DATABASE
from supervisor_core.storage.tables import audit_log, jobs, outbox

Row = dict[str, Any]

GENESIS = "0" * 64

ARCHIVED = "AUDIT_ARCHIVED"
"""The action of a row that records that older rows were archived. Its details name the last of them and its hash."""

RESTORED = "LEDGER_RESTORED"
"""The action of a row that records that the ledger was restored from a backup."""

AFFECTED = "AFFECTED"
"""The action of a row of a worker that was affected beside the target of another row."""

VOTED_ON_CALL = "VOTED_ON_CALL"
CONFIG_APPLIED, CONFIG_FINISHED, CONFIG_REFUSED = "CONFIG_APPLIED", "CONFIG_FINISHED", "CONFIG_REFUSED"

CONFIGURATION = "configuration"
"""The type of their target, whose id is the supervisor's."""

DECIDING = ("APPROVED", "DENIED", "CANCELLED", "EXPIRED", "STALE")
"""Actions on another person's command: the audit label of such a row has that person's name."""

ABOUT_COMMANDS = ("APPROVAL_REQUESTED", *DECIDING, VOTED_ON_CALL, "REFUSED")
"""Actions on a command other than executions. The details of such a row name the command."""

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
    AFFECTED: "A command or a configuration affected this worker beside its target. The details say how.",
    ARCHIVED: "Old rows of the audit trail were moved to a file.",
    RESTORED: "Somebody restored the ledger from a backup. Rows from after it are in the ledger that was replaced.",
    CONFIG_APPLIED: "The daemon applies a changed configuration. The details name settings, never values.",
    CONFIG_FINISHED: "Each worker that a changed configuration affects has its result, in the details.",
    CONFIG_REFUSED: "A changed configuration has mistakes; the previous one stays in force.",
}
"""The audit actions besides executions, with their meaning."""

CAUSE = "cause"
"""The detail of such a row with the target of the other one; `cause_id` is that one's number, `action` its action."""

HASHED_FIELDS = (
    "supervisor_id",
    "audit_id",
    "outcome",
    "actor",
    "action",
    "target_type",
    "target_id",
    "label",
    "created_at",
    "details_json",
    "task_id",
    "previous_hash",
)
COLUMNS = (*HASHED_FIELDS, "hash")

MOST_AFFECTED = 1000
"""Workers with a row of their own for one entry. A larger fleet on one checkout is found by the named worker alone."""

DAMAGED = "damaged"
"""The key under which a row that was altered says what's wrong with it. Other rows lack the key."""

LARGEST_ID = 2**53 - 1
"""No trail has that many rows: somebody wrote a larger number."""

LONGEST_CELL = 2_000
"""Characters of a cell of a damaged row, which may hold a gigabyte."""

MOST_FAULTS = 1000
"""Faults that are named; a trail that was altered everywhere has one for each row."""

_WIDTHS = {
    name: getattr(audit_log.c[name].type, "length", 0)
    for name in ("actor", "action", "target_type", "target_id", "label")
}


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """An entry for the trail, which adds its id, its time and its hashes."""

    actor: str
    action: str
    target_id: str
    outcome: str = "success"
    label: str | None = None
    task_id: str | None = None
    target_type: str = "worker"
    details: Mapping[str, Any] = field(default_factory=dict)
    affected: Mapping[str, str] = field(default_factory=dict)
    """Workers beside the target that this affected, with their roles."""


@dataclass(frozen=True, slots=True)
class ChainHead:
    """A row of a chain by its hash: the newest, or the last that was archived."""

    supervisor_id: str
    audit_id: int
    hash: str


def append(connection: Connection, supervisor_id: str, entry: AuditEntry, now: datetime) -> ChainHead:
    """Add an entry to this host's chain, in the caller's transaction, which holds the write lock."""
    return append_all(connection, supervisor_id, [entry], now)


def append_all(connection: Connection, supervisor_id: str, entries: Sequence[AuditEntry], now: datetime) -> ChainHead:
    """`append` each of these, at least one, in this order."""
    head = newest_row(connection, supervisor_id, lock=True) or ChainHead(supervisor_id, 0, GENESIS)
    rows: list[Row] = []
    for entry in entries:
        targets = [(entry.action, entry.target_type, entry.target_id, entry.details)]
        cause = {CAUSE: entry.target_id, "cause_id": head.audit_id + 1, "action": entry.action}
        for worker, role in _without_own_row(connection, entry).items():
            targets.append((AFFECTED, "worker", worker, {**cause, "role": role, "label": entry.details.get("label")}))
        for action, target_type, target_id, details in targets:
            row: Row = {
                "supervisor_id": supervisor_id,
                "audit_id": head.audit_id + 1,
                "outcome": entry.outcome,
                "actor": entry.actor,
                "action": action,
                "target_type": target_type,
                "target_id": target_id,
                "label": entry.label,
                "created_at": now,
                "details_json": canonical_json(details),
                "task_id": entry.task_id,
                "previous_hash": head.hash,
            }
            for name, width in _WIDTHS.items():
                row[name] = row[name] and row[name][:width]  # cut before it is hashed: a database must not
            row["hash"] = row_hash(row)
            head = ChainHead(supervisor_id, row["audit_id"], row["hash"])
            rows.append({**row, "command": command_of(action, details)})
    connection.execute(insert(audit_log), rows)
    if connection.get_execution_options().get(SHARES):
        _order_sending(connection, rows)
    return head


def _without_own_row(connection: Connection, entry: AuditEntry) -> Mapping[str, str]:
    """The affected workers that get no row as a target of the same command."""
    if not entry.affected:
        return {}
    named = select(jobs.c.worker_id).where(jobs.c.task_id == entry.task_id)
    own = set(connection.execute(named).scalars()) if entry.task_id else set()
    return dict([each for each in entry.affected.items() if each[0] not in own][:MOST_AFFECTED])


def _order_sending(connection: Connection, rows: Sequence[Row]) -> None:
    """Order that these rows be sent to the shared database."""
    messages = []
    for row in rows:
        # With the hash: in a ledger that somebody altered, two rows may have had one number.
        subject = f"{audit_log.name}/{row['supervisor_id']}/{row['audit_id']}/{row['hash'][:12]}"
        messages.append(
            {
                "kind": SHARED_DATABASE,
                "subject": subject,
                "state": "pending",
                "version": 1,
                "payload_json": canonical_json({name: row[name] for name in ("supervisor_id", "audit_id")}),
                "attempts": 0,
                "created_at": row["created_at"],
                "due_at": row["created_at"],
            }
        )
    connection.execute(insert(outbox), messages)
    connection.info.setdefault(ORDERED, set()).add(SHARED_DATABASE)


def command_of(action: str, details: Mapping[str, Any]) -> str | None:
    """The name of the command that a row of this action is about; None for other rows."""
    action = str(details.get("action")) if action == AFFECTED else action
    definition = by_handler(action.lower())
    if definition is None and action in ABOUT_COMMANDS:
        definition = by_handler(str(details.get("handler") or ""))
        words = str(details.get("command") or "").split()[:3]
        while definition is None and words:
            name = " ".join(words)
            known = find(name)
            definition = known if known is not None and known.name == name else None
            words.pop()
    return definition.name if definition is not None else None


def newest_row(connection: Connection, supervisor_id: str, *, lock: bool = False) -> ChainHead | None:
    """The head of this host's chain, or None before its first row."""
    query = select(audit_log.c.audit_id, audit_log.c.hash).where(
        audit_log.c.supervisor_id == supervisor_id, *has_number(connection.dialect.name)
    )
    query = query.order_by(audit_log.c.audit_id.desc()).limit(1)
    row = connection.execute(query.with_for_update() if lock else query).first()
    return ChainHead(supervisor_id, row.audit_id, storable(as_text(row.hash))[:64]) if row else None


def hash_of(connection: Connection, supervisor_id: str, audit_id: int) -> str | None:
    """The hash of one row, also of the last archived one; None where there is no such row."""
    query = select(audit_log.c.hash).where(audit_log.c.supervisor_id == supervisor_id, audit_log.c.audit_id == audit_id)
    row = connection.execute(query).first()
    if row is None:
        archived = last_archived(connection, supervisor_id)
        return archived.hash if archived and archived.audit_id == audit_id else None
    return storable(as_text(row.hash))[:64]


def last_archived(connection: Connection, supervisor_id: str) -> ChainHead | None:
    """The last archived row of a chain; None if nothing was archived."""
    query = select(audit_log).where(audit_log.c.supervisor_id == supervisor_id, audit_log.c.action == ARCHIVED)
    newest = connection.execute(query.order_by(audit_log.c.created_at.desc(), audit_log.c.audit_id.desc()).limit(20))
    records = (_archiving(row) for row in map(dict, newest.mappings()) if not damage_of(row))
    return max(filter(None, records), key=lambda head: head.audit_id, default=None)


def _archiving(row: Row) -> ChainHead | None:
    """The last archived row, as a row that records an archiving names it."""
    if row["action"] != ARCHIVED:
        return None
    details = details_of(row)
    number, last_hash = details.get("last_id"), details.get("hash")
    known = type(number) is int and isinstance(last_hash, str)
    return ChainHead(row["supervisor_id"], number, last_hash) if known else None  # type: ignore[arg-type]


def targets_of(connection: Connection, task_id: str, action: str) -> list[str]:
    """The targets on which this command has already done this action."""
    query = select(audit_log.c.target_id).where(audit_log.c.task_id == task_id, audit_log.c.action == action)
    return [as_text(target) for target in connection.execute(query.order_by(audit_log.c.audit_id)).scalars()]


def row_hash(row: Mapping[str, Any]) -> str:
    values = [to_text(value) if isinstance(value, datetime) else value for value in map(row.get, HASHED_FIELDS)]
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()


def damage_of(row: Mapping[str, Any]) -> str:
    """The damage of a stored row; empty where its content matches its hash.

    A database file takes any bytes and any type in any cell. A cell of another type never counts as unaltered, even
    where it would give the same hash.
    """
    if all(_has_type(name, row[name]) for name in COLUMNS) and row["hash"] == row_hash(row):
        return ""
    for name in COLUMNS:
        value = row[name]
        if not _has_type(name, value) or (isinstance(value, str) and not is_plain(value)):
            return f"its {name} can't be read"
        if name == "details_json":
            try:
                readable = isinstance(json.loads(value), dict)
            except (ValueError, RecursionError):
                readable = False
            if not readable:
                return f"its {name} can't be read"
    return "its content doesn't match its hash"


def _has_type(name: str, value: object) -> bool:
    if name == "audit_id":
        return type(value) is int
    if name == "created_at":
        return isinstance(value, datetime)
    return isinstance(value, str) or (value is None and name in ("label", "task_id"))


def format_row(row: Mapping[str, Any]) -> Row:
    """A stored row under the names of its columns, with times as text; a damaged one as far as it can be shown."""
    damage = damage_of(row)
    if not damage:
        return {**row, "created_at": to_text(row["created_at"])}
    shown: Row = {}
    for name, value in row.items():
        if (name == "audit_id" and type(value) is int) or (value is None and audit_log.c[name].nullable):
            shown[name] = value
        else:
            text = as_text(value)
            shown[name] = text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
    return {**shown, DAMAGED: damage}


def details_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The details of a row; none where they are no object."""
    try:
        details = json.loads(row["details_json"])
    except (TypeError, ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def as_text(value: object) -> str:
    """The value of a cell as text that every database, file and terminal takes."""
    if isinstance(value, datetime):
        return to_text(value)
    if isinstance(value, str):
        value = value.encode("utf-8", "surrogateescape") if not is_plain(value) else value
    if isinstance(value, bytes):
        value = value.decode("utf-8", "backslashreplace")
    return "" if value is None else str(value)


def as_stored(value: Any) -> Any:  # noqa: ANN401 (whatever a column holds)
    """The value of a cell in a form that a query can compare with: no driver takes text that isn't UTF-8."""
    if isinstance(value, str) and not is_plain(value):
        return cast(literal(value.encode("utf-8", "surrogateescape")), Text)
    return value


def has_number(dialect: str) -> list[ColumnElement[bool]]:
    """The condition for rows that have a number: SQLite takes anything in its place."""
    number = audit_log.c.audit_id
    within = [number >= 1, number <= LARGEST_ID]
    return [*within, func.typeof(number) == "integer"] if dialect == "sqlite" else within


@dataclass(frozen=True, slots=True)
class Fault:
    """A row at which a chain isn't what was written."""

    supervisor_id: str
    """Empty where a line of a file isn't a row."""
    audit_id: int | str
    """The row's number, text where something else stands in its place, or the number of such a line."""
    what: str

    @property
    def place(self) -> str:
        """The row or the line, in words."""
        return f"row {self.audit_id} of {self.supervisor_id}" if self.supervisor_id else f"line {self.audit_id}"


class Verdict(NamedTuple):
    rows: int
    """The rows that match their hashes."""
    faults: list[Fault]
    heads: list[ChainHead]
    """The newest row of each chain."""
    has_noted: bool
    """True if a row has the hash that somebody noted earlier, or none was given."""


def verify(connection: Connection, noted: str = "") -> Verdict:
    """Follow all chains of the ledger. `noted` is the hash of a row, as it was posted or printed earlier."""
    count, faults, heads = 0, list[Fault](), list[ChainHead]()
    has_noted = not noted
    with closing(stored_rows(connection)) as stored:
        for chain, rows in groupby(stored, key=itemgetter("supervisor_id")):
            walk = Walk(as_text(chain))
            for row in rows:
                walk.take(row)
                has_noted = has_noted or row["hash"] == noted
            faults += walk.end()
            count += walk.whole
            heads += [walk.head] if walk.head else []
    return Verdict(count, faults[:MOST_FAULTS], heads, has_noted)


class Walk:
    """Follows one chain from row to row. It names a damaged row and continues after it.

    The chain begins with row 1, or after rows whose archiving a later row records. With `anywhere` it may begin with
    any row, as in an exported file.
    """

    def __init__(self, chain: str, *, anywhere: bool = False) -> None:
        self.whole = 0
        self.faults: list[Fault] = []
        self.first_id = 0
        self.head: ChainHead | None = None
        """The newest row that is in its place."""
        self._chain = chain
        self._anywhere = anywhere
        self._expected = 0
        """The number of the next row; 0 before the first."""
        self._previous: str | None = None
        """The hash of the row before; None where that row is damaged, missing or archived."""
        self._missing: ChainHead | None = None
        """The row before the first one, while no row has recorded its archiving; without a hash if that is unknown."""
        self._archived = 0

    def take(self, row: Row) -> bool:
        """Take the next row, in the order of the numbers; False if it is damaged or out of place."""
        number, damage = row["audit_id"], damage_of(row)
        if not self._expected and type(number) is int and number > 0:
            self.first_id = self._expected = number
            if number == 1:
                self._previous = GENESIS
            elif not self._anywhere:
                self._missing = ChainHead(self._chain, number - 1, "" if damage else row["previous_hash"])
        if damage:
            self._fault(number if type(number) is int else as_text(number)[:64], f"was altered: {damage}")
            if number == self._expected:
                self._expected, self._previous = number + 1, None
            return False
        self.whole += 1
        if number < self._expected:
            self._fault(number, "is out of place: the rows before it have higher numbers")
            return False
        if number > self._expected:
            self._fault(self._expected, f"is missing; the next row is {number}")
        elif self._previous not in (None, row["previous_hash"]):
            # This row matches its hash, so the one before it was written anew, with a hash to match.
            self._fault(max(number - 1, 1), "was altered: the next row has a different hash for it")
        archived, missing = _archiving(row), self._missing
        if archived is not None:
            self._archived = max(self._archived, archived.audit_id)
            if missing and archived.audit_id >= missing.audit_id:
                same = archived.audit_id > missing.audit_id or missing.hash in ("", archived.hash)
                self._missing = None if same else missing
        self._expected, self._previous = number + 1, row["hash"]
        self.head = ChainHead(self._chain, number, row["hash"])
        return True

    def end(self) -> list[Fault]:
        if self._missing and self.whole:  # a row whose supervisor_id was altered makes a chain of its own
            first = min(self._archived, self._missing.audit_id - 1) + 1
            what = f"is missing: the trail begins after row {self._missing.audit_id}, and no row records the archiving"
            self._fault(first, what)
        return self.faults

    def _fault(self, audit_id: int | str, what: str) -> None:
        if len(self.faults) < MOST_FAULTS:
            self.faults.append(Fault(self._chain, audit_id, what))


def stored_rows(connection: Connection) -> Generator[Row, None, None]:
    """All chains one after the other, of any length, a thousand rows at a time."""
    query = select(audit_log).order_by(audit_log.c.supervisor_id, audit_log.c.audit_id)
    with connection.execute(query, execution_options={"yield_per": 1000}) as result:
        for row in result.mappings():
            yield dict(row)
