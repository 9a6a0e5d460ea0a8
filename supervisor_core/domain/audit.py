"""The audit trail as a chain: what one row says, and how its hash is made.

The hash of a row is the SHA-256, in hex, of the canonical JSON of a list: the fields in the order of
`HASHED_FIELDS`, the time as text in UTC with microseconds, `details_json` as the text that is stored. The first
row of a host's chain follows `GENESIS`. Anybody can check a chain with these two facts and nothing of ours.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from supervisor_core.domain.canonical import canonical_json
from supervisor_core.domain.times import to_text

GENESIS = "0" * 64
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


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What happened, as it is handed to the trail; the trail adds its id, its time and its hashes."""

    actor: str
    action: str
    target_id: str
    outcome: str = "success"
    label: str | None = None
    task_id: str | None = None
    target_type: str = "worker"
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ChainHead:
    """The newest row of a chain: kept outside the ledger as well, so that missing newest rows are seen."""

    supervisor_id: str
    audit_id: int
    hash: str


def row_hash(row: Mapping[str, Any]) -> str:
    """The hash that this row must carry."""
    values = [to_text(value) if isinstance(value, datetime) else value for value in map(row.get, HASHED_FIELDS)]
    return hashlib.sha256(canonical_json(values).encode()).hexdigest()
