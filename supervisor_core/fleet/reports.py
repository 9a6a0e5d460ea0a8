"""The fields that a host may send to its hub: the type, length and range of each, checked on receipt.

What isn't declared here is dropped. A report with a field that doesn't fit is refused as a whole, and the hub sets its
host aside by name; no other host waits for that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import Boolean, Column, Integer, String, Table

from supervisor_core.commands.parameters import TASK_ID
from supervisor_core.commands.targets import WORKER_ID
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import canonical_json, is_plain
from supervisor_core.common.times import from_text
from supervisor_core.jobs.model import MOST_PROGRESS, JobState
from supervisor_core.storage.engine import LongText, StoredMoment, UtcDateTime
from supervisor_core.storage.tables import audit_log, flips, jobs
from supervisor_core.workers.conditions import Condition, Severity
from supervisor_core.workers.health import Health, WorkerState

MOST_ROWS_OF_A_TABLE = 5_000
MOST_WORKERS = 2_000
MOST_READINGS = 2 * MOST_WORKERS
LONGEST_TEXT = 1_000_000
"""Characters of a long text, which a message limits anyway."""
LONGEST_REASON = 20_000
LARGEST_NUMBER = 2**53 - 1
"""JSON has no larger whole number, and each database holds it."""
FIRST_YEAR = 2000

Document = dict[str, Any]


class InvalidReport(SupervisorError):
    """A host's report that isn't one of this program's: the host was changed, or isn't of this version."""


class Field(NamedTuple):
    expected: str
    accepts: Callable[[Any], bool]
    optional: bool = False
    """True if it may be missing or null; then it's null."""


def text(longest: int, pattern: re.Pattern[str] | None = None, *, optional: bool = False) -> Field:
    """Valid Unicode without NUL, which a database may refuse."""

    def accepts(value: Any) -> bool:  # noqa: ANN401 (JSON)
        if not isinstance(value, str) or len(value) > longest or "\0" in value or not is_plain(value):
            return False
        return pattern is None or pattern.fullmatch(value) is not None

    return Field(f"text of at most {longest:,} characters" if pattern is None else "a valid name", accepts, optional)


def number(low: float = 0, high: float = LARGEST_NUMBER, *, whole: bool = True, optional: bool = False) -> Field:
    def accepts(value: Any) -> bool:  # noqa: ANN401 (JSON)
        if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)):
            return False
        return low <= value <= high  # not a NaN

    return Field(f"a number from {low} to {high}", accepts, optional)


def truth(*, optional: bool = False) -> Field:
    return Field("true or false", lambda value: isinstance(value, bool), optional)


def moment(*, optional: bool = False) -> Field:
    return Field("a time", lambda value: isinstance(value, str) and _is_moment(value), optional)


def one_of(*values: str, optional: bool = False) -> Field:
    return Field("one of the known words", lambda value: isinstance(value, str) and value in values, optional)


def list_of(accepts: Callable[[Any], bool], most: int, what: str, *, optional: bool = False) -> Field:
    return Field(
        f"a list of at most {most:,} {what}",
        lambda value: isinstance(value, list) and len(value) <= most and all(map(accepts, value)),
        optional,
    )


def json_of(content: Callable[[Any], bool], *, optional: bool = False) -> Field:
    def accepts(value: Any) -> bool:  # noqa: ANN401 (JSON)
        if not LONG.accepts(value):
            return False
        try:
            return content(json.loads(value, parse_constant=_refuse_constant))
        except (ValueError, RecursionError):
            return False

    return Field("JSON of a known kind", accepts, optional)


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} isn't JSON")


def _is_moment(value: str) -> bool:
    try:
        return from_text(value).year >= FIRST_YEAR
    except ValueError:
        return False


def _fits(document: Any, fields: Mapping[str, Field]) -> bool:  # noqa: ANN401 (JSON)
    return isinstance(document, Mapping) and not any(True for _ in _misfits(document, fields))


def _misfits(document: Mapping[str, Any], fields: Mapping[str, Field]) -> list[str]:
    return [
        name
        for name, field in fields.items()
        if not (field.optional if document.get(name) is None else field.accepts(document[name]))
    ]


def decode(kind: str, document: Any, fields: Mapping[str, Field]) -> Document:  # noqa: ANN401 (JSON)
    """The declared fields of a document; `InvalidReport` names one that doesn't fit."""
    if not isinstance(document, Mapping):
        raise InvalidReport(f"Its {kind} isn't a document.")
    for name in _misfits(document, fields):
        raise InvalidReport(f"Its {kind} has a {name} that isn't {fields[name].expected}.")
    return {name: document.get(name) for name in fields}


LONG = text(LONGEST_TEXT)
COMMIT = text(64, re.compile("[0-9a-f]*"), optional=True)

_PID = number(1, 2**32, optional=True)
_COMMIT = {
    "hash": text(64, re.compile("[0-9a-f]+")),
    "at": moment(),
    "author": text(LONGEST_REASON),
    "subject": text(LONGEST_REASON),
}
_COMMITS = list_of(lambda value: _fits(value, _COMMIT), 1_000, "documents", optional=True)
_FOLDER = text(4_096)
_TURN = {"new_pid": _PID, "error": text(LONGEST_TEXT, optional=True), "rests": text(LONGEST_TEXT, optional=True)}

DETAILS: Mapping[str, Field] = {
    "pid": _PID,
    "old_pid": _PID,
    "new_pid": _PID,
    "message": text(LONGEST_TEXT, optional=True),
    "push_error": text(LONGEST_TEXT, optional=True),
    "packages_said": text(LONGEST_TEXT, optional=True),
    "drive": text(LONGEST_TEXT, optional=True),
    "checkout": Field(  # a document in the outcome of an interrupted change
        "a folder", lambda value: _FOLDER.accepts(value) or _fits(value, {"folder": _FOLDER}), optional=True
    ),
    "before": COMMIT,
    "after": text(64, re.compile(rf"|{WORKER_ID.pattern}"), optional=True),  # or the worker whose failure skipped this
    "commit_page": text(2_048, re.compile(r"https?://[^\s<>|]*"), optional=True),
    "commit_count": number(optional=True),
    "file_count": number(optional=True),
    "commits_reverted": number(optional=True),
    "commits": _COMMITS,
    "dropped": _COMMITS,
    "files": list_of(lambda value: _fits(value, {"path": _FOLDER}), 10_000, "documents", optional=True),
    "notes": list_of(LONG.accepts, 1_000, "texts", optional=True),
    "undone_task_id": text(128, TASK_ID, optional=True),
    "report_path": text(4_096, optional=True),
    "report_sha256": text(64, optional=True),
}
"""The fields of an outcome that the hub reads. A handler may add others, which are only shown as data."""


def fitting_details(details: str | None) -> str | None:
    """An outcome's details without the fields that the hub wouldn't take: a plug-in's handler may use their names."""
    if details is None or ROWS[jobs]["details_json"].accepts(details):
        return details
    known = json.loads(details, parse_constant=lambda _: None)
    kept = {
        name: value
        for name, value in known.items()
        if _is_outcome({name: value}) and LONG.accepts(canonical_json(value))
    }
    text = canonical_json(kept)
    return text if ROWS[jobs]["details_json"].accepts(text) else "{}"


def _is_outcome(value: Any) -> bool:  # noqa: ANN401 (JSON)
    if not _fits(value, DETAILS):
        return False
    turns = value.get("workers") or {}
    if not isinstance(turns, Mapping):  # a list of ids, of a command that isn't about code
        return list_of(text(64).accepts, MOST_WORKERS, "texts").accepts(turns)
    return all(
        WORKER_ID.fullmatch(name) and (not isinstance(turn, Mapping) or _fits(turn, _TURN))
        for name, turn in turns.items()
    )


_STEP = {"at": moment(), "words": text(LONGEST_REASON)}

_EXACT: Mapping[Table, Mapping[str, Field]] = {
    jobs: {
        "task_id": text(128, TASK_ID),
        "worker_id": text(128, re.compile(r"[^/\s]+")),  # one that the hub can't name is left out later
        "handler": text(64, re.compile(r"[A-Za-z0-9_.:-]+")),
        "door": text(16, re.compile(r"[a-z_]+")),
        "state": one_of(*JobState),
        "params_json": json_of(lambda value: isinstance(value, Mapping)),
        "approvals_json": json_of(lambda value: isinstance(value, list)),
        "details_json": json_of(_is_outcome, optional=True),
        "progress_json": json_of(
            list_of(lambda value: _fits(value, _STEP), MOST_PROGRESS, "steps").accepts, optional=True
        ),
    },
    audit_log: {
        "created_at": text(64),  # somebody may have altered the trail, and its hash shows it
        "label": text(1_000, optional=True),
        "command": text(64, optional=True),  # the hub finds out by itself
    },
    flips: {"old": one_of(*Condition), "new": one_of(*Condition), "reason": text(LONGEST_REASON)},
}
"""Where a column's own type and length say too little."""


def _of_column(column: Column[Any]) -> Field:
    kind, optional = column.type, bool(column.nullable)
    if isinstance(kind, UtcDateTime):
        return moment(optional=optional)
    if isinstance(kind, Boolean):
        return truth(optional=optional)
    if isinstance(kind, LongText):
        return text(LONGEST_TEXT, optional=optional)
    if isinstance(kind, String):
        return text(kind.length or LONGEST_REASON, optional=optional)
    if isinstance(kind, Integer):
        return number(optional=optional)
    raise TypeError(f"a host can't send a {kind}")


ROWS: Mapping[Table, Mapping[str, Field]] = {
    table: {column.name: _EXACT.get(table, {}).get(column.name) or _of_column(column) for column in table.columns}
    for table in (jobs, audit_log, flips)
}
"""The rows that a host may report, by table."""


def decode_rows(table: Table, report: Mapping[str, Any], now: datetime) -> list[Document]:
    """The rows of a table in a host's report, with their times. No time is later than now: clocks may be wrong."""
    rows = report.get(table.name)
    if not isinstance(rows, list) or len(rows) > MOST_ROWS_OF_A_TABLE:
        raise InvalidReport(f"Its rows of {table.name} aren't a list of at most {MOST_ROWS_OF_A_TABLE:,}.")
    return [_with_times(table, decode(f"row of {table.name}", row, ROWS[table]), now) for row in rows]


def _with_times(table: Table, row: Document, now: datetime) -> Document:
    for column in table.columns:
        value = row[column.name]
        if isinstance(column.type, StoredMoment):
            row[column.name] = from_text(value) if _is_moment(value) else datetime.now(UTC)
        elif isinstance(column.type, UtcDateTime) and value is not None:
            row[column.name] = min(from_text(value), now)
    return row


_REASON = text(LONGEST_REASON)
_MAYBE = text(LONGEST_REASON, optional=True)

WORKER: Mapping[str, Field] = {
    "id": text(128, re.compile(r"[^/\s]+")),
    "state": one_of(*WorkerState),
    "health": one_of(*Health),
    "reason": _REASON,
    "fine": truth(),
    "pid": _PID,
    "paused": truth(),
    "quarantined": truth(),
    "muted_until": moment(optional=True),
    "muted_for": text(64, optional=True),
    "team": text(255, optional=True),
    "enabled": truth(optional=True),
    "started_at": moment(optional=True),
    "last_health_at": moment(optional=True),
    "last_error": _MAYBE,
    "start_error": _MAYBE,
    "heartbeat_file": text(4_096, optional=True),
    "due_at": moment(optional=True),
    "restarts_last_hour": number(0, 1_000_000, optional=True),
    "commit": COMMIT,
    "memory_bytes": number(0, 2**60, optional=True),
    "cpu_seconds": number(0, 2**40, whole=False, optional=True),
    "cpu_percent": number(0, 1_000_000, whole=False, optional=True),
}
"""The status of a worker."""

USAGE: Mapping[str, Field] = {name: WORKER[name] for name in ("id", "commit", "memory_bytes", "cpu_seconds")}
"""The part of it that changes all the time, and is asked for when somebody looks."""

READING: Mapping[str, Field] = {
    "kind": text(16),
    "id": text(128),
    "condition": one_of(*Condition),
    "reason": text(LONGEST_TEXT),
    "since": moment(),
    "held_until": moment(optional=True),
    "healing": truth(),
    "restarts_at": moment(optional=True),
    "severity": one_of(*Severity, optional=True),
}
"""The condition of a worker, or of a part of the host."""

POSITION: Mapping[str, Field] = {name: number() for name in ("jobs", "audit", "flips")}

PRESENCE: Mapping[str, Field] = {
    "host": text(64),
    "at": moment(),
    "ledger": text(64),
    "position": Field("a position", lambda value: _fits(value, POSITION)),
    "snapshot": number(),
    "life": text(64),
    "version": text(64),
    "every": number(0, 1e9, whole=False, optional=True),
}
"""A host's announcement of itself."""

SNAPSHOT: Mapping[str, Field] = {
    "life": text(128),
    "number": number(),
    "workers": list_of(lambda _: True, MOST_WORKERS, "workers"),
    "readings": list_of(lambda _: True, MOST_READINGS, "readings"),
}


def decode_snapshot(document: Any) -> Document:  # noqa: ANN401 (JSON)
    snapshot = decode("snapshot", document, SNAPSHOT)
    snapshot["workers"] = [decode("worker", each, WORKER) for each in snapshot["workers"]]
    snapshot["readings"] = [decode("condition", each, READING) for each in snapshot["readings"]]
    return snapshot
