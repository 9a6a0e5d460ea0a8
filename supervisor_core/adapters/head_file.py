"""The newest row of the audit chain, kept in a file beside the ledger, so that rows cut off at its end are missed."""

from __future__ import annotations

import logging
from pathlib import Path

from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.adapters.locks import FileLock, LockedError
from supervisor_core.adapters.open_folder import UnreadableError
from supervisor_core.domain import crashpoints
from supervisor_core.domain.audit import ChainHead

FILE_NAME = "audit_head.json"
LOCK_SECONDS = 10
"""Far longer than anybody holds it; whoever gives up leaves an older head, which is no fault of the trail."""

log = logging.getLogger(__name__)


class HeadFile:
    """The heads of the chains in one ledger (one, unless the supervisor was given another id). They only go forward."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE_NAME
        self._lock = state_dir / f"{FILE_NAME}.lock"

    def read(self, supervisor_id: str) -> ChainHead | None:
        """The head of this chain as it was last kept; None before its first row."""
        return next((head for head in self.all() if head.supervisor_id == supervisor_id), None)

    def all(self) -> list[ChainHead]:
        """The heads of all chains; `UnreadableError` or `OSError` for a file that does not say."""
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
            with FileLock(self._lock, "noting the head").acquire(timeout=LOCK_SECONDS):
                try:
                    heads = {known.supervisor_id: known for known in self.all()}
                except UnreadableError:
                    log.error("%s can't be read: run `supervisor audit verify`", self._path)  # noqa: TRY400
                    return
                known = heads.get(head.supervisor_id)
                if known and known.audit_id >= head.audit_id:
                    return
                heads[head.supervisor_id] = head
                document = {name: {"audit_id": each.audit_id, "hash": each.hash} for name, each in heads.items()}
                write_json(self._path, document, mode=0o600)
        except (OSError, LockedError):
            log.warning("the head of the audit trail could not be noted at %s", self._path, exc_info=True)
        crashpoints.reach("audit.head:after")
