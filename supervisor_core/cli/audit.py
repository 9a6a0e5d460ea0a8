"""`supervisor audit` searches the audit trail; `verify` checks it, `export` and `archive` write it to files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from supervisor_core.cli.host import load_config, shell_issuer, since_option
from supervisor_core.cli.table import AMBER, GREEN, RED, print_table, terminal_width
from supervisor_core.code.change_plan import count
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import affected_in_words, clean_label
from supervisor_core.commands.targets import resolve
from supervisor_core.common.errors import ConfigError, UsageError
from supervisor_core.common.text import printable
from supervisor_core.common.times import EXPECTED, parse_since, since_moment
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.config.problems import HUB
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.files import read_lines, write_lines
from supervisor_core.storage.audit import chain, files
from supervisor_core.storage.audit.chain import CAUSE, DAMAGED, Fault, Verdict, Walk, details_of
from supervisor_core.storage.audit.search import audit_filter, search
from supervisor_core.storage.audit.trail import address_in, cause_in_words, command_in_words, note_in
from supervisor_core.storage.shared_database import first_waiting_audit_row

COLOURS = {"success": GREEN, "failure": RED, "damaged": RED}


def run(options: argparse.Namespace) -> int:
    """Search, verify, export or archive."""
    needed = {"export": ("out",), "archive": ("out", "before")}.get(options.what, ())
    for name in ("out", "before"):
        if name in needed and not getattr(options, name):
            raise UsageError(f"`supervisor audit {options.what}` needs --{name}.")
        if getattr(options, name) and name not in needed:
            raise UsageError(f"--{name} goes with `supervisor audit {'archive' if name == 'before' else 'export'}`.")
    for name in ("file", "hash"):
        if getattr(options, name) and options.what != "verify":
            raise UsageError(f"--{name} goes with `supervisor audit verify`.")
    if options.file:
        return _verify_files(options)
    config = load_config(options.config)
    if options.what == "export":
        return _export(config, Path(options.out))
    if options.what == "archive":
        return _archive(config, options.before, Path(options.out).absolute())
    if options.what == "verify":
        return _verify(config, options.hash or "", as_json=options.json)
    target = options.worker or ""
    # A worker that is gone is still in the trail, and its host may be revoked.
    is_known = target in config.workers or (is_address(target) and config.fleet.role == HUB)
    workers = (target,) if is_known else resolve(target, grammar_context(config)) if target else ()
    params = {
        "by": (options.issuer or "").removeprefix("@") or None,
        "command": options.command,
        "label": clean_label(options.label),
        "since": since_option(options.since),
        "limit": options.limit,
    }
    form = "json" if options.json else "csv" if options.csv else ""
    return show(config, Command("audit", target, workers or (), params), form)


def show(config: SupervisorConfig, command: Command, form: str = "") -> int:
    """Show the rows that an `audit` command means, as `json`, as `csv`, or for people."""
    wanted = audit_filter(command, datetime.now(UTC))
    with opened_ledger(config) as ledger:
        rows = ledger.read(lambda connection: search(connection, wanted))
    if form == "json":
        print(json.dumps(rows, indent=2))
    elif form == "csv":
        print(files.audit_csv(rows), end="")
    else:
        _print_rows(rows, config.supervisor.id if config.fleet.role == HUB else "")
    return 0


def _print_rows(rows: Sequence[dict[str, Any]], hub: str) -> None:
    if not rows:
        print("No matching rows.")
        return
    lines, colours, today = [], [], f"{datetime.now(UTC):%Y-%m-%d}" if terminal_width() else ""
    for row in reversed(rows):
        details = details_of(row)
        outcome = "damaged" if DAMAGED in row else row["outcome"]
        facts = [str(details.get("label") or ""), note_in(details)]
        if CAUSE in details:
            facts.append(affected_in_words({row["target_id"]: str(details.get("role"))}, cause_in_words(row, details)))
        if DAMAGED in row:
            facts.append(f"This row was altered: {row[DAMAGED]}.")
        elif row["outcome"] != "success":
            facts.append(" ".join(str(details.get("error") or "").split()))
        text = "; ".join(filter(None, facts))
        if row["task_id"]:
            text = f"{text} ({row['task_id']})".lstrip()
        day, time = row["created_at"][:10], row["created_at"][11:19]
        when = time if day == today else f"{day} {time}"
        lines.append([outcome, when, row["actor"], command_in_words(row, details), address_in(row, hub), text])
        colours.append(COLOURS.get(outcome, AMBER))
    head = ("OUTCOME", "TIME (UTC)", "BY", "COMMAND", "TARGET", "DETAILS")
    print_table(head, lines, colours)


def _verify(config: SupervisorConfig, noted: str, *, as_json: bool) -> int:
    with opened_ledger(config) as ledger:
        verdict = ledger.read(lambda connection: chain.verify(connection, noted))
    whole, faults = verdict.rows, verdict.faults
    ok = verdict.has_noted and not faults
    if as_json:
        document = {"ok": ok, "rows": whole, "faults": list(map(asdict, faults))}
        print(json.dumps({**document, "heads": list(map(asdict, verdict.heads))}))
        return 0 if ok else 1
    for fault in faults:
        print(f"{printable(fault.place)} {fault.what}")
    if len(faults) == chain.MOST_FAULTS:
        print(f"These are the first {len(faults)}. There may be more.")
    if not verdict.has_noted:
        print(f"No row has the hash {printable(noted)}: its row was removed, rewritten or archived.")
    if ok:
        print(f"The trail is intact: {count(whole, 'row')}, none altered, none missing.")
    else:
        print(f"{count(whole, 'row')} match{'es its hash' if whole == 1 else ' their hashes'}.")
    for head in verdict.heads:
        print(f"It ends with row {head.audit_id} of {printable(head.supervisor_id)}, hash {head.hash}.")
    return 0 if ok else 1


def _export(config: SupervisorConfig, path: Path) -> int:
    """Write all rows to a new file."""
    with opened_ledger(config) as ledger:
        digest = ledger.read(lambda connection: write_lines(path, files.lines(connection)))
    rows = sum(1 for _ in read_lines(path))
    _, faults = files.check(read_lines(path))
    print(f"Exported {count(rows, 'row')} to {path} (SHA-256 {digest}).")
    if faults:
        print(f"The trail has {count(len(faults), 'problem')}: `supervisor audit verify --file {path}` names the rows.")
    return 0


def _archive(config: SupervisorConfig, before: str, path: Path) -> int:
    """Move the rows from before a moment to a new file."""
    now, since = datetime.now(UTC), parse_since(before)
    if since is None:
        raise UsageError(f"--before {before!a} isn't a time. Try 2026-01-31, or {EXPECTED} back from now.")
    name = config.supervisor.id
    with opened_ledger(config) as ledger:
        if left := files.remove_archived(ledger):
            print(f"Removed {left} rows that an earlier run had archived.")
        waiting = None
        if not config.shared_database_disabled:
            waiting = ledger.read(lambda connection: first_waiting_audit_row(connection, name))
        most = None if waiting is None else waiting - 1
        archived = files.archive(ledger, since_moment(since, now), path, shell_issuer(), now, most)
    if archived is None:
        print("There are no rows to archive.")
        return 0
    first, last = archived
    print(f"Archived {last.audit_id - first + 1} rows of {name}, {first} to {last.audit_id}, in {path}.")
    print("Keep the file: `supervisor audit verify --file FILE` checks it, and that the trail continues from it.")
    return 0


def _verify_files(options: argparse.Namespace) -> int:
    """Check files, in themselves and against the ledger where there is one here."""

    def begin(path: Path) -> tuple[str, int]:
        """The first row of a file: its chain and its number."""
        walks, _ = files.check([next(read_lines(path), "")])
        return (walks[0].head.supervisor_id, walks[0].first_id) if walks and walks[0].head else ("", 0)

    def all_lines() -> Iterator[str]:
        yield from (line for path in sorted(map(Path, options.file), key=begin) for line in read_lines(path))

    walks, file_faults = files.check(all_lines())
    verdict, alone = Verdict(0, [], [], has_noted=True), ""
    try:
        config = load_config(options.config)
    except ConfigError as error:
        if options.config:
            raise
        alone = error.message
    else:
        with opened_ledger(config) as ledger:
            verdict = ledger.read(lambda connection: chain.verify(connection, options.hash or ""))
            continued = ledger.read(lambda connection: [_continuation_fault(connection, walk) for walk in walks])
        verdict.faults.extend(fault for fault in continued if fault)
    faults = [*file_faults, *verdict.faults]
    if options.json:
        parts = [
            {
                "supervisor_id": walk.head.supervisor_id,
                "first_id": walk.first_id,
                "last_id": walk.head.audit_id,
                "hash": walk.head.hash,
                "rows": walk.whole,
            }
            for walk in walks
            if walk.head
        ]
        document = {"ok": not faults, "compared_with_ledger": not alone, "files": parts}
        print(json.dumps({**document, "faults": list(map(asdict, faults))}))
        return 1 if faults else 0
    for walk in walks:
        if last := walk.head:
            rows = f"rows {walk.first_id} to {last.audit_id} of {printable(last.supervisor_id)}"
            print(f"The files hold {rows}, ending with {last.hash}.")
    for place, found in (("files", file_faults), ("ledger", verdict.faults)):
        for fault in found:
            print(f"In the {place}, {printable(fault.place)} {fault.what}")
    if alone:
        print(f"Not compared with a ledger: {alone}")
    elif not faults:
        intact = f"{count(verdict.rows, 'row')}, none altered, none missing"
        print(f"The ledger continues from there and is intact: {intact}.")
    return 1 if faults else 0


def _continuation_fault(connection: Any, walk: Walk) -> Fault | None:  # noqa: ANN401
    """The fault where the ledger doesn't know the last row of the files."""
    last = walk.head
    if last is None or chain.newest_row(connection, last.supervisor_id) is None:
        return None  # another host's
    if chain.hash_of(connection, last.supervisor_id, last.audit_id) == last.hash:
        return None
    return Fault(last.supervisor_id, last.audit_id, "is the last in the files, and the ledger doesn't continue it")
