"""Rows of the audit trail as a table for other programs: a head, then a line each, times in UTC."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from typing import Any

from supervisor_core.domain.audit import COLUMNS

AFFECTED = "affected"
"""After them the workers that a row affected beside its target: `fetcher=restarted reporter=restarted`."""
DAMAGED = "damaged"
"""The last column: what is wrong with a row that was altered."""

_RUN = ("=", "+", "-", "@", "\t", "\r")
"""How a cell begins that a spreadsheet would run as a formula."""


def audit_csv(rows: Iterable[Mapping[str, Any]]) -> str:
    """The rows in the order in which they come."""
    text = io.StringIO()
    columns = (*COLUMNS, AFFECTED, DAMAGED)
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        others = " ".join(f"{worker}={role}" for worker, role in sorted(row.get(AFFECTED, {}).items()))
        writer.writerow({name: _harmless({**row, AFFECTED: others}.get(name, "")) for name in columns})
    return text.getvalue()


def _harmless(value: object) -> object:
    """What a spreadsheet would run is shown instead."""
    return f"'{value}" if isinstance(value, str) and value[:1] in _RUN else value
