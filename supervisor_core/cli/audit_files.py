"""`supervisor audit export`, `archive` and `verify --file`: the audit trail in files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.cli.host import load_config, shell_issuer
from supervisor_core.code.change_plan import count
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import ConfigError, UsageError
from supervisor_core.common.text import printable
from supervisor_core.common.times import EXPECTED, parse_since, since_moment, to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.files import digest_of, read_lines, write_lines
from supervisor_core.storage.audit import files as audit_archive
from supervisor_core.storage.audit import files as audit_files
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.chain import HeadFile
from supervisor_core.storage.audit.files import Archiving, ArchivingRefused, ChainPart, FileCheck
from supervisor_core.storage.shared_database import first_waiting_audit_row
from supervisor_core.storage.store import Ledger


def export(config: SupervisorConfig, out: str) -> int:
    """Write all rows to a new file."""
    path = Path(out)
    with opened_ledger(config) as ledger:
        digest = ledger.read(lambda connection: write_lines(path, audit_files.lines(connection)))
    rows = sum(1 for _ in read_lines(path))
    found = audit_files.check(read_lines(path))
    print(f"Exported {count(rows, 'row')} to {path} (SHA-256 {digest}).")
    if found.faults:
        problems = count(len(found.faults), "problem")
        print(f"The trail has {problems}: `supervisor audit verify --file {path}` names the rows.")
    return 0


def archive(config: SupervisorConfig, before: str, out: str) -> int:
    """Move the rows from before a moment to a new file."""
    now, path = datetime.now(UTC), Path(out).absolute()
    since = parse_since(before)
    if since is None:
        raise UsageError(f"--before {before!a} isn't a time. Try 2026-01-31, or {EXPECTED} back from now.")
    with opened_ledger(config) as ledger:
        left = _remove(config, ledger)
        if left:
            print(f"Removed {left} rows that an earlier run had archived.")
        archiving = ledger.read(lambda connection: _plan(connection, config, since_moment(since, now)))
        if archiving is None:
            print("There are no rows to archive.")
            return 0
        digest = _write(ledger, archiving, path)
        details = {"file": str(path), "sha256": digest, "before": to_text(since_moment(since, now))}
        audit_archive.archive(ledger, archiving, shell_issuer(), details, now)
        removed = _remove(config, ledger)
    last = archiving.last
    print(f"Archived {removed} rows of {last.supervisor_id}, {archiving.after + 1} to {last.audit_id}, in {path}.")
    print("Keep the file: `supervisor audit verify --file FILE` checks it, and that the trail continues from it.")
    return 0


def verify(options: argparse.Namespace) -> int:
    """Check files, in themselves and against the ledger where there is one here."""
    found = audit_files.check(_all_lines(options.file))
    of_ledger: list[audit.Fault] = []
    alone = ""
    try:
        config = load_config(options.config)
    except ConfigError as error:
        if options.config:
            raise
        alone = error.message
    else:
        with opened_ledger(config) as ledger:
            heads = HeadFile(config.state_dir).all()
            whole, of_ledger = ledger.read(lambda connection: audit.verify(connection, heads))
            continued = ledger.read(lambda connection: [_continues(connection, part) for part in found.parts])
        of_ledger = [*of_ledger, *(fault for fault in continued if fault)]
    faults = [*found.faults, *of_ledger]
    if options.json:
        print(json.dumps(_document(found, faults, compared=not alone)))
        return 1 if faults else 0
    for part in found.parts:
        first, last = part.first_id, part.last
        print(
            f"The files hold rows {first} to {last.audit_id} of {printable(last.supervisor_id)}, "
            f"ending with {last.hash}."
        )
    for place, its in (("files", found.faults), ("ledger", of_ledger)):
        for fault in its:
            print(f"In the {place}, {printable(fault.place)} {fault.what}")
    if alone:
        print(f"Not compared with a ledger: {alone}")
    elif not faults:
        print(f"The ledger continues from there and is intact: {count(whole, 'row')}, none altered, none missing.")
    return 1 if faults else 0


def _plan(connection: Any, config: SupervisorConfig, before: datetime) -> Archiving | None:  # noqa: ANN401
    name = config.supervisor.id
    waiting = None if config.shared_database_disabled else first_waiting_audit_row(connection, name)
    most = None if waiting is None else waiting - 1
    return audit_archive.plan_archiving(connection, name, before, most)


def _write(ledger: Ledger, archiving: Archiving, path: Path) -> str:
    """Write the file, read it back from the disk, and compare; its SHA-256."""
    after, last = archiving.after, archiving.last

    def write(connection: Any) -> str:  # noqa: ANN401
        rows = audit_files.lines_between(connection, last.supervisor_id, after, last.audit_id)
        return write_lines(path, rows)

    crashpoints.reach("audit.archive:before")
    digest = ledger.read(write)
    crashpoints.reach("audit.archive:after")
    found = audit_files.check(read_lines(path))
    expected = (ChainPart(last.supervisor_id, after + 1, last.audit_id - after, last),)
    if found.faults or found.parts != expected or digest_of(path) != digest:
        first = f": {printable(found.faults[0].place)} {found.faults[0].what}" if found.faults else ""
        path.unlink(missing_ok=True)
        raise ArchivingRefused(
            f"These rows aren't what was written{first}. Nothing was archived.",
            remedy="`supervisor audit verify` names every such row. Archive only rows before the first of them.",
        )
    return digest


def _remove(config: SupervisorConfig, ledger: Ledger) -> int:
    """Remove the rows that are archived. The head outside the ledger must be behind them, or their absence would look
    like a loss."""
    name = config.supervisor.id
    anchor = ledger.read(lambda connection: audit.anchor_of(connection, name))
    head = HeadFile(config.state_dir).read(name)
    if anchor and (head is None or head.audit_id <= anchor.audit_id):
        raise ArchivingRefused(
            "Archived rows can't be removed: the newest row isn't noted outside the ledger.",
            remedy="`supervisor audit verify` says what is wrong. After that, run `supervisor audit archive` again.",
        )
    return audit_archive.remove_archived(ledger)


def _all_lines(paths: Sequence[str]) -> Iterator[str]:
    """The lines of all files, those that begin earlier in the trail first."""
    yield from (line for path in sorted(map(Path, paths), key=_begin) for line in read_lines(path))


def _begin(path: Path) -> tuple[str, int]:
    """The first row of a file: its chain and its number."""
    parts = audit_files.check([next(read_lines(path), "")]).parts
    return (parts[0].supervisor_id, parts[0].first_id) if parts else ("", 0)


def _continues(connection: Any, part: ChainPart) -> audit.Fault | None:  # noqa: ANN401
    """The fault where the ledger doesn't know the last row of the files."""
    last = part.last
    if audit.newest_row(connection, last.supervisor_id) is None:
        return None  # another host's
    if audit.hash_of(connection, last.supervisor_id, last.audit_id) == last.hash:
        return None
    return audit.Fault(
        last.supervisor_id, last.audit_id, "is the last in the files, and the ledger doesn't continue it"
    )


def _document(found: FileCheck, faults: Sequence[audit.Fault], *, compared: bool) -> dict[str, Any]:
    return {
        "ok": not faults,
        "compared_with_ledger": compared,
        "files": [
            {
                "supervisor_id": part.supervisor_id,
                "first_id": part.first_id,
                "last_id": part.last.audit_id,
                "hash": part.last.hash,
                "rows": part.rows,
            }
            for part in found.parts
        ],
        "faults": [
            {"supervisor_id": fault.supervisor_id, "audit_id": fault.audit_id, "what": fault.what} for fault in faults
        ],
    }
