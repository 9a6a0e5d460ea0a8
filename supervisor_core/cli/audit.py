"""`supervisor audit` searches the audit trail; `verify` checks it, `export` and `archive` write it to files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from supervisor_core.cli.arguments import Subparsers, add_command, number_from
from supervisor_core.cli.host import load_config, parse_since_option, shell_issuer
from supervisor_core.cli.output import AMBER, GREEN, RED, print_json, print_table, terminal_width
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
from supervisor_core.storage.audit.chain import (
    ABOUT_COMMANDS,
    CAUSE,
    CONFIG_APPLIED,
    CONFIG_FINISHED,
    DAMAGED,
    Fault,
    Verdict,
    Walk,
    details_of,
)
from supervisor_core.storage.audit.search import audit_filter, search
from supervisor_core.storage.audit.trail import address_in, cause_in_words, command_in_words, note_in
from supervisor_core.storage.shared_database import first_waiting_audit_row

DEFAULT_ROWS = 50
COLORS = {"success": GREEN, "failure": RED, "damaged": RED}


def add_parser(subparsers: Subparsers) -> None:
    description = "Search the audit trail: who did what, when, and the outcome."
    parser = add_command(subparsers, "audit", run, description, "audit --worker OrionMX --since 2d")
    action = "verify: check that no row was altered or removed. export: write all rows to a file. archive: move old "
    action += "rows to a file. By default: search"
    parser.add_argument("action", nargs="?", choices=["verify", "export", "archive"], help=action)
    parser.add_argument(
        "--worker", metavar="ID", help="only rows about this worker, team:NAME, host:NAME, a pattern or all"
    )
    parser.add_argument("--issuer", metavar="WHO", help="only rows of this person: cli:anna, U0OPER or a display name")
    parser.add_argument("--command", metavar="NAME", help="only this command (rollback) or action (ROLLBACK_CODE)")
    parser.add_argument("--label", metavar="TEXT", help="only commands with exactly this label")
    parser.add_argument("--since", metavar="WHEN", help="from this time on: 2d, 12h or 2026-01-31")
    limit = f"at most N rows (default: {DEFAULT_ROWS})"
    parser.add_argument("--limit", type=number_from(1), default=DEFAULT_ROWS, metavar="N", help=limit)
    parser.add_argument("--out", metavar="FILE", help="with export and archive: the new file")
    parser.add_argument("--before", metavar="WHEN", help="with archive: rows older than 90d or 2026-01-31")
    parser.add_argument("--file", metavar="FILE", action="append", help="with verify: check this file; may be repeated")
    parser.add_argument("--hash", metavar="HASH", help="with verify: check that a row still has this hash")
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="print a JSON list with the column names as keys")
    form.add_argument("--csv", action="store_true", help="print CSV with a header")


OPTIONS = {"export": ("out",), "archive": ("out", "before"), "verify": ("file", "hash")}
"""The options that belong to one action. Those of `export` and `archive` are required."""


def run(arguments: argparse.Namespace) -> int:
    """Search, verify, export or archive."""
    action = arguments.action
    for name, owner in (("out", "export"), ("before", "archive"), ("file", "verify"), ("hash", "verify")):
        is_given, is_own = bool(getattr(arguments, name)), name in OPTIONS.get(action, ())
        if is_given and not is_own:
            raise UsageError(f"--{name} goes with `supervisor audit {owner}`.")
        if is_own and not is_given and action != "verify":
            raise UsageError(f"`supervisor audit {action}` needs --{name}.")
    if arguments.file:
        return _verify_files(arguments)
    config = load_config(arguments.config)
    if action == "export":
        return _export(config, Path(arguments.out))
    if action == "archive":
        return _archive(config, arguments.before, Path(arguments.out).absolute())
    if action == "verify":
        return _verify(config, arguments.hash or "", as_json=arguments.json)
    target = arguments.worker or ""
    # A worker that is gone is still in the trail, and its host may be revoked.
    is_known = target in config.workers or (is_address(target) and config.fleet.role == HUB)
    workers = (target,) if is_known else resolve(target, grammar_context(config)) if target else ()
    params = {
        "by": (arguments.issuer or "").removeprefix("@") or None,
        "command": arguments.command,
        "label": clean_label(arguments.label),
        "since": parse_since_option(arguments.since),
        "limit": arguments.limit,
    }
    return _show(config, Command("audit", target, workers or (), params), as_json=arguments.json, as_csv=arguments.csv)


def show_command(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    return _show(config, command, as_json=as_json)


def _show(config: SupervisorConfig, command: Command, *, as_json: bool, as_csv: bool = False) -> int:
    """Show the rows that an `audit` command means."""
    condition = audit_filter(command, datetime.now(UTC))
    with opened_ledger(config) as ledger:
        rows = ledger.read(lambda connection: search(connection, condition))
    if as_csv:
        print(files.audit_csv(rows), end="")
        return 0
    if as_json:
        print_json([{**row, DAMAGED: row.get(DAMAGED)} for row in rows], indented=True)
        return 0
    if not rows:
        print("No matching rows.")
        return 0
    lines, colors, today = [], [], f"{datetime.now(UTC):%Y-%m-%d}" if terminal_width() else ""
    for row in reversed(rows):
        outcome = "damaged" if row.get(DAMAGED) else row["outcome"]
        day, time = row["created_at"][:10], row["created_at"][11:19]
        details = details_of(row)
        lines.append(
            [
                outcome,
                time if day == today else f"{day} {time}",
                row["actor"],
                _describe_action(row, details),
                address_in(row, config.supervisor.id if config.fleet.role == HUB else ""),
                _describe_details(row, details),
            ]
        )
        colors.append(COLORS.get(outcome, AMBER))
    print_table(("OUTCOME", "TIME (UTC)", "BY", "COMMAND", "TARGET", "DETAILS"), lines, colors)
    return 0


def _describe_action(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    """The command, and what happened to it unless it ran: `update: approval requested`."""
    command = command_in_words(row, details)
    action = str(row["action"]).replace("_", " ").lower()
    return f"{command}: {action}" if row["action"] in ABOUT_COMMANDS and command != action else command


def _describe_details(row: Mapping[str, Any], details: Mapping[str, Any]) -> str:
    facts = [str(details.get("label") or ""), note_in(details)]
    affected: Any = {row["target_id"]: details.get("role")} if CAUSE in details else {}
    if row["action"] in (CONFIG_APPLIED, CONFIG_FINISHED):
        affected = details.get("affected" if row["action"] == CONFIG_APPLIED else "workers")
    if isinstance(affected, Mapping):
        roles = {str(worker_id): str(role) for worker_id, role in affected.items()}
        facts.append(affected_in_words(roles, cause_in_words(row, details)))
    if row.get(DAMAGED):
        facts.append(f"This row was altered: {row[DAMAGED]}.")
    elif row["outcome"] != "success":
        facts.append(" ".join(str(details.get("error") or "").split()))
    text = "; ".join(filter(None, facts))
    return f"{text} ({row['task_id']})".lstrip() if row["task_id"] else text


def _verify(config: SupervisorConfig, noted: str, *, as_json: bool) -> int:
    with opened_ledger(config) as ledger:
        verdict = ledger.read(lambda connection: chain.verify(connection, noted))
    rows, faults = verdict.rows, verdict.faults
    ok = verdict.has_noted and not faults
    if as_json:
        documents = {"faults": list(map(asdict, faults)), "heads": list(map(asdict, verdict.heads))}
        print_json({"ok": ok, "rows": rows, **documents})
        return 0 if ok else 1
    for fault in faults:
        print(f"{printable(fault.place)} {fault.what}")
    if len(faults) == chain.MOST_FAULTS:
        print(f"These are the first {len(faults)}. There may be more.")
    if not verdict.has_noted:
        print(f"No row has the hash {printable(noted)}: its row was removed, rewritten or archived.")
    if ok:
        print(f"The trail is intact: {count(rows, 'row')}, none altered, none missing.")
    else:
        print(f"{count(rows, 'row')} match{'es its hash' if rows == 1 else ' their hashes'}.")
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
        newest = None if waiting is None else waiting - 1
        archived = files.archive(ledger, since_moment(since, now), path, shell_issuer(), now, newest)
    if archived is None:
        print("There are no rows to archive.")
        return 0
    first, last = archived
    print(f"Archived {last.audit_id - first + 1} rows of {name}, {first} to {last.audit_id}, in {path}.")
    print("Keep the file: `supervisor audit verify --file FILE` checks it, and that the trail continues from it.")
    return 0


def _verify_files(arguments: argparse.Namespace) -> int:
    """Check files, in themselves and against the ledger where there is one here."""

    def first_row(path: Path) -> tuple[str, int]:
        """Its chain and its number."""
        walks, _ = files.check([next(read_lines(path), "")])
        return (walks[0].head.supervisor_id, walks[0].first_id) if walks and walks[0].head else ("", 0)

    def all_lines() -> Iterator[str]:
        for path in sorted(map(Path, arguments.file), key=first_row):
            yield from read_lines(path)

    walks, file_faults = files.check(all_lines())
    verdict, missing_ledger = Verdict(0, [], [], has_noted=True), ""
    try:
        config = load_config(arguments.config)
    except ConfigError as error:
        if arguments.config:
            raise
        missing_ledger = error.message
    else:
        with opened_ledger(config) as ledger:
            verdict = ledger.read(lambda connection: chain.verify(connection, arguments.hash or ""))
            verdict.faults.extend(ledger.read(lambda connection: list(_continuation_faults(connection, walks))))
    faults = [*file_faults, *verdict.faults]
    ends = [(walk, walk.head) for walk in walks if walk.head]
    if arguments.json:
        parts = [
            {
                "supervisor_id": end.supervisor_id,
                "first_id": walk.first_id,
                "last_id": end.audit_id,
                "hash": end.hash,
                "rows": walk.whole,
            }
            for walk, end in ends
        ]
        document = {"ok": not faults, "compared_with_ledger": not missing_ledger, "files": parts}
        print_json({**document, "faults": list(map(asdict, faults))})
        return 1 if faults else 0
    for walk, end in ends:
        rows = f"rows {walk.first_id} to {end.audit_id} of {printable(end.supervisor_id)}"
        print(f"The files hold {rows}, ending with {end.hash}.")
    for source, source_faults in (("files", file_faults), ("ledger", verdict.faults)):
        for fault in source_faults:
            print(f"In the {source}, {printable(fault.place)} {fault.what}")
    if missing_ledger:
        print(f"Not compared with a ledger: {missing_ledger}")
    elif not faults:
        intact = f"{count(verdict.rows, 'row')}, none altered, none missing"
        print(f"The ledger continues from there and is intact: {intact}.")
    return 1 if faults else 0


def _continuation_faults(connection: Connection, walks: Sequence[Walk]) -> Iterator[Fault]:
    """The faults where the ledger doesn't know the last row of the files. Those of other hosts aren't compared."""
    for head in [walk.head for walk in walks if walk.head]:
        is_ours = chain.newest_row(connection, head.supervisor_id) is not None
        if is_ours and chain.hash_of(connection, head.supervisor_id, head.audit_id) != head.hash:
            fault = "is the last in the files, and the ledger doesn't continue it"
            yield Fault(head.supervisor_id, head.audit_id, fault)
