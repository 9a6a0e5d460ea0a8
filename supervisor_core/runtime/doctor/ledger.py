"""The check of the ledger: its tables are of our version, and its file is whole."""

from __future__ import annotations

import sqlite3

from supervisor_core.adapters.head_file import FILE_NAME as HEAD_FILE
from supervisor_core.adapters.head_file import HeadFile
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.ledger import audit_guard, schema
from supervisor_core.ledger.ledger_file import FILE_NAME, file_state
from supervisor_core.ledger.trouble import LedgerDamaged, of_ledger
from supervisor_core.runtime.doctor.checks import Check

NAME = "ledger"
LOOK_SECONDS = 10.0


def look(config: SupervisorConfig) -> Check:
    """The SQLite file in the state folder, looked at without changing it."""
    path = config.state_dir / FILE_NAME
    if not path.exists():
        return Check(NAME, True, f"{path} is not there yet; the first run makes it")
    try:
        seen = file_state(path, LOOK_SECONDS)
    except sqlite3.Error as error:
        trouble = of_ledger(path, error, "read")
        if trouble is None or not isinstance(trouble, LedgerDamaged):  # the disk: the pages weren't even looked at
            remedy = f"Is the disk of {config.state_dir} full, or away? Make room; leave {FILE_NAME} where it is."
            return Check(NAME, False, f"{path} can't be read: {error}", remedy)
        return _damaged(config, str(error))
    if seen.damage:
        return _damaged(config, " ".join(seen.damage.split()))
    if seen.version != schema.HEAD:
        return _of_another_version(seen.version)
    if not seen.triggers >= audit_guard.IN_THE_LEDGER:
        message = f"somebody removed the triggers that protect the audit trail in {path}"
        return Check(
            NAME, False, message, "Run: supervisor audit verify. Then, to protect it again: supervisor db upgrade"
        )
    whole = "and found whole" if seen.whole else f"but too large to be looked through in {LOOK_SECONDS:g} s"
    return Check(NAME, True, f"{path} is at version {schema.HEAD}, {whole}")


def _of_another_version(found: str | None) -> Check:
    if found in schema.NEVER_RELEASED:
        error = schema.unknown(found)
        return Check(NAME, False, error.message, error.remedy)
    if found is not None and found > schema.HEAD:
        message = f"it is at version {found}, and this program knows versions up to {schema.HEAD}"
        return Check(NAME, False, message, "It was made by a newer supervisor: install that one again.")
    message = f"it is at version {found or 'none'}, not {schema.HEAD}"
    return Check(NAME, False, message, "Run: supervisor db upgrade")


def _damaged(config: SupervisorConfig, what: str) -> Check:
    folder = config.state_dir
    remedy = (
        f"Workers go on and pauses hold. 1. supervisor stop. 2. Move {FILE_NAME}, {FILE_NAME}-wal and {FILE_NAME}-shm "
        f"out of {folder}, and keep them. 3. Put a backup in their place, or save what can be read: "
        f"sqlite3 OLD '.recover' | sqlite3 {FILE_NAME}. Without either, the next run begins a new ledger; then move "
        f"{HEAD_FILE} away as well. 4. supervisor start. 5. supervisor audit verify."
    )
    return Check(NAME, False, f"{folder / FILE_NAME} is damaged: {what}. {_heads(config)}", remedy)


def _heads(config: SupervisorConfig) -> str:
    """Where the audit trail had got to, by the file beside the ledger."""
    try:
        heads = HeadFile(config.state_dir).all()
    except (SupervisorError, OSError) as error:
        return f"Where the audit trail ended isn't known: {error}"
    rows = ", ".join(f"{head.supervisor_id} at row {head.audit_id} ({head.hash[:12]})" for head in heads)
    return f"The audit trail ended: {rows} (by {HEAD_FILE})." if rows else "No audit row was ever noted."
