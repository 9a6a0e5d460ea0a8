"""`supervisor audit` searches the audit trail; `verify` checks it, `export` and `archive` write it to files."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from supervisor_core.cli.arguments import Subparsers, add_command, number_from
from supervisor_core.cli.host import load_config, parse_since_option, shell_issuer
from supervisor_core.cli.output import AMBER, GREEN, RED, fields_of, print_json, print_table, terminal_width
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
    ChainHead,
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


def run(arguments: argparse.Namespace) -> int:
    """Search, verify, export or archive."""
    action = arguments.action
    owners = {"out": ("export", "archive"), "before": ("archive",), "file": ("verify",), "hash": ("verify",)}
    for name, actions in owners.items():
        if getattr(arguments, name) and action not in actions:
            raise UsageError(f"--{name} goes with `supervisor audit {actions[0]}`.")
        if not getattr(arguments, name) and action in actions and action != "verify":
            raise UsageError(f"`supervisor audit {action}` needs --{name}.")
    if action == "verify":
        return _verify(arguments)
    config = load_config(arguments.config)
    if action == "export":
        return _export(config, Path(arguments.out))
    if action == "archive":
        return _archive(config, arguments.before, Path(arguments.out).absolute())
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


def _verify(arguments: argparse.Namespace) -> int:
    """Check the trail, or files of it: these in themselves, and against the ledger where there is one here."""
    paths = sorted(map(Path, arguments.file or ()), key=_first_row)
    noted = "" if paths else arguments.hash or ""  # files may have the row that the ledger no longer has
    walks, file_faults = files.check(line for path in paths for line in read_lines(path))
    heads = [(walk, walk.head) for walk in walks if walk.head]
    verdict, missing_ledger = Verdict(0, [], [], has_noted=True), ""
    try:
        config = load_config(arguments.config)
    except ConfigError as error:
        if arguments.config or not paths:
            raise
        missing_ledger = error.message
    else:
        with opened_ledger(config) as ledger:
            verdict = ledger.read(lambda connection: chain.verify(connection, noted))
            for _, head in heads:
                verdict.faults.extend(ledger.read(partial(_continuation_faults, head=head)))
    faults = [*file_faults, *verdict.faults]
    ok = verdict.has_noted and not faults
    if arguments.json:
        document: dict[str, Any] = {"ok": ok, "faults": faults}
        if paths:
            parts = [
                {**fields_of(head), "last_id": head.audit_id, "first_id": walk.first_id, "rows": walk.whole}
                for walk, head in heads
            ]
            document |= {"compared_with_ledger": not missing_ledger, "files": parts}
        if not missing_ledger:
            document |= {"rows": verdict.rows, "heads": verdict.heads}
        print_json(document)
        return 0 if ok else 1
    for line in _describe_verdict(heads, file_faults, verdict, noted, missing_ledger):
        print(line)
    return 0 if ok else 1


def _first_row(path: Path) -> tuple[str, int]:
    """The chain and the number of a file's first row."""
    walks, _ = files.check([next(read_lines(path), "")])
    return (walks[0].head.supervisor_id, walks[0].first_id) if walks and walks[0].head else ("", 0)


def _describe_verdict(
    heads: Sequence[tuple[Walk, ChainHead]],
    file_faults: Sequence[Fault],
    verdict: Verdict,
    noted: str,
    missing_ledger: str,
) -> Iterator[str]:
    for walk, head in heads:
        rows = f"rows {walk.first_id} to {head.audit_id} of {printable(head.supervisor_id)}"
        yield f"The files hold {rows}, ending with {head.hash}."
    for source, source_faults in (("files", file_faults), ("ledger", verdict.faults)):
        for fault in source_faults:
            yield f"{f'In the {source}, ' if heads else ''}{printable(fault.place)} {fault.what}"
    if len(verdict.faults) == chain.MOST_FAULTS:
        yield f"These are the first {len(verdict.faults)}. There may be more."
    if not verdict.has_noted:
        yield f"No row has the hash {printable(noted)}: its row was removed, rewritten or archived."
    rows = count(verdict.rows, "row")
    if missing_ledger:
        yield f"Not compared with a ledger: {missing_ledger}"
    elif verdict.has_noted and not file_faults and not verdict.faults:
        subject = "The ledger continues from there and is" if heads else "The trail is"
        yield f"{subject} intact: {rows}, none altered, none missing."
    else:
        yield f"{rows} match{'es its hash' if verdict.rows == 1 else ' their hashes'}."
    for head in verdict.heads:
        yield f"It ends with row {head.audit_id} of {printable(head.supervisor_id)}, hash {head.hash}."


def _continuation_faults(connection: Connection, head: ChainHead) -> list[Fault]:
    """The fault where the ledger doesn't know the last row of the files. That of another host isn't compared."""
    if chain.newest_row(connection, head.supervisor_id) is None:
        return []
    if chain.hash_of(connection, head.supervisor_id, head.audit_id) == head.hash:
        return []
    return [Fault(head.supervisor_id, head.audit_id, "is the last in the files, and the ledger doesn't continue it")]


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
        if removed := files.remove_archived(ledger):
            print(f"Removed {removed} rows that an earlier run had archived.")
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
