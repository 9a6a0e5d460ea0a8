"""The audit trail's hash chain, and the file beside the ledger that keeps its newest row.

The hash of a row is the SHA-256, in hex, of the canonical JSON of a list: the fields in the order of
`HASHED_FIELDS`, the time as text in UTC with microseconds, `details_json` as the text that is stored. The first
row of a host's chain follows `GENESIS`. Anybody can check a chain with these two facts and nothing of ours.

The file exposes rows cut off at the end of the chain.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor_core.common import crashpoints
from supervisor_core.common.text import canonical_json, is_plain
from supervisor_core.common.times import to_text
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.files import read_json, write_json
from supervisor_core.host.locks import FileLock, LockedError

GENESIS = "0" * 64

ARCHIVED = "AUDIT_ARCHIVED"
"""The action of a row that records that older rows were archived. Its details name the last of them and its hash."""

RESTORED = "LEDGER_RESTORED"
"""The action of a row that records that the ledger was restored from a backup."""

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
"""The columns of the table; a test compares them."""

_OPTIONAL = ("label", "task_id")


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
    """Workers beside the target that this affected, with their roles: the details say the same, and this finds it."""


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


def damage_of(row: Mapping[str, Any]) -> str:
    """The damage of a stored row; empty where its content matches its hash.

    A database file takes any bytes and any type in any cell. A cell of another type never counts as unaltered, even
    where it would give the same hash.
    """
    fits = all(_fits(name, row[name]) for name in COLUMNS)
    if fits and row["hash"] == row_hash(row):
        return ""
    broken = next((name for name in COLUMNS if not _readable(name, row[name])), None)
    if broken is not None:
        return f"its {broken} can't be read"
    return "its content doesn't match its hash"


def _fits(name: str, value: object) -> bool:
    if name == "audit_id":
        return type(value) is int
    if name == "created_at":
        return isinstance(value, datetime)
    return isinstance(value, str) or (value is None and name in _OPTIONAL)


def _readable(name: str, value: object) -> bool:
    if not _fits(name, value):
        return False
    if name == "details_json":
        try:
            return isinstance(json.loads(str(value)), dict)
        except (ValueError, RecursionError):
            return False
    return not isinstance(value, str) or is_plain(value)


HEAD_FILE = "audit_head.json"
LOCK_SECONDS = 10
"""Far longer than anybody holds the lock. After a timeout the saved head is older, which is no fault of the trail."""

log = logging.getLogger(__name__)


class HeadFile:
    """The heads of the chains in one ledger (one, unless the supervisor was given another id). They only go forward."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / HEAD_FILE
        self._lock = state_dir / f"{HEAD_FILE}.lock"

    def read(self, supervisor_id: str) -> ChainHead | None:
        """The head of this chain as it was last kept; None before its first row."""
        return next((head for head in self.all() if head.supervisor_id == supervisor_id), None)

    def all(self) -> list[ChainHead]:
        """The heads of all chains; `UnreadableFileError` or `OSError` for a file that does not say."""
        found = read_json(self._path) or {}
        heads = []
        for supervisor_id, head in found.items():
            if isinstance(head, dict) and isinstance(head.get("audit_id"), int) and head.get("hash"):
                heads.append(ChainHead(supervisor_id, head["audit_id"], str(head["hash"])))
        return heads

    def keep(self, head: ChainHead) -> None:
        """Note that the chain has come this far. A disk that is full is logged: the row itself is written."""
        crashpoints.reach("audit.head:before")
        try:
            with FileLock(self._lock, "saving the audit head").acquire(timeout=LOCK_SECONDS):
                try:
                    heads = {known.supervisor_id: known for known in self.all()}
                except UnreadableFileError:
                    log.error("%s can't be read: run `supervisor audit verify`", self._path)  # noqa: TRY400
                    return
                known = heads.get(head.supervisor_id)
                if known and known.audit_id >= head.audit_id:
                    return
                heads[head.supervisor_id] = head
                document = {name: {"audit_id": each.audit_id, "hash": each.hash} for name, each in heads.items()}
                write_json(self._path, document)
        except (OSError, LockedError):
            log.warning("the head of the audit trail couldn't be saved to %s", self._path, exc_info=True)
        crashpoints.reach("audit.head:after")
