"""The cells of audit rows: as text that everything takes, and as they are stored, whatever somebody wrote into them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Text, cast, func, literal

from supervisor_core.common.text import is_plain
from supervisor_core.common.times import to_text
from supervisor_core.storage.audit.chain import damage_of
from supervisor_core.storage.tables import audit_log

Row = dict[str, Any]

DAMAGED = "damaged"
"""The key under which a row that was altered says what's wrong with it. Other rows lack the key."""

LARGEST_ID = 2**53 - 1
"""No trail has that many rows: somebody wrote a larger number."""

LONGEST_CELL = 2_000
"""Characters of a cell of a damaged row, which may hold a gigabyte."""


def format_row(row: Mapping[str, Any]) -> Row:
    """A stored row under the names of its columns, with times as text."""
    damage = damage_of(row)
    if not damage:
        return {**row, "created_at": to_text(row["created_at"])}
    return {**{name: _cell_text(name, value) for name, value in row.items()}, DAMAGED: damage}


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


def details_of(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """The details of a row; none where they are no object."""
    try:
        details = json.loads(row["details_json"])
    except (TypeError, ValueError, RecursionError):
        return {}
    return details if isinstance(details, dict) else {}


def has_number(dialect: str) -> list[ColumnElement[bool]]:
    """The rows that have a number: SQLite takes anything in its place."""
    number = audit_log.c.audit_id
    within = [number >= 1, number <= LARGEST_ID]
    return [*within, func.typeof(number) == "integer"] if dialect == "sqlite" else within


def _cell_text(name: str, value: object) -> Any:  # noqa: ANN401
    if (name == "audit_id" and type(value) is int) or (value is None and audit_log.c[name].nullable):
        return value
    text = as_text(value)
    return text if len(text) <= LONGEST_CELL else f"{text[: LONGEST_CELL - 1]}…"
