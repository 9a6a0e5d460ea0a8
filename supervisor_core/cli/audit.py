"""`supervisor audit` searches the audit trail; `verify` checks it, `export` and `archive` write it to files."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli import audit_files
from supervisor_core.cli.host import load_config, since_option
from supervisor_core.cli.table import AMBER, GREEN, RED, folded_table, terminal_width, wants_colour
from supervisor_core.code import change_plan as code
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.labels import affected_in_words, clean_label
from supervisor_core.commands.targets import resolve
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import printable
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.config.problems import HUB
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.storage.audit import rows as audit
from supervisor_core.storage.audit.cells import DAMAGED
from supervisor_core.storage.audit.chain import ChainHead, HeadFile
from supervisor_core.storage.audit.files import audit_csv
from supervisor_core.storage.audit.search import ADDRESS, AFFECTED, audit_filter
from supervisor_core.storage.audit.trail import cause_of, command_in_words, note_in


def run(options: argparse.Namespace) -> int:
    """Search, verify, export or archive."""
    _must_fit_together(options)
    if options.file:
        return audit_files.verify(options)
    config = load_config(options.config)
    if options.what == "export":
        return audit_files.export(config, options.out)
    if options.what == "archive":
        return audit_files.archive(config, options.before, options.out)
    if options.what == "verify":
        return _verify(config, as_json=options.json)
    form = "json" if options.json else "csv" if options.csv else ""
    return show(config, _command(config, options), form)


def show(config: SupervisorConfig, command: Command, form: str = "") -> int:
    """Show the rows that an `audit` command means, as `json`, as `csv`, or for people."""
    wanted = audit_filter(command, datetime.now(UTC))
    with opened_ledger(config) as ledger:
        rows = ledger.read(lambda connection: audit.search(connection, wanted))
    if form == "json":
        print(json.dumps(rows, indent=2))
    elif form == "csv":
        print(audit_csv(rows), end="")
    else:
        print(_for_people(rows, wanted.about))
    return 0


def _command(config: SupervisorConfig, options: argparse.Namespace) -> Command:
    """The command that these options mean. A worker that is gone is still in the trail."""
    target = options.worker or ""
    is_known = target in config.workers or (is_address(target) and config.fleet.role == HUB)  # it may be revoked
    workers = (target,) if is_known else resolve(target, grammar_context(config)) if target else ()
    params = {
        "by": (options.issuer or "").removeprefix("@") or None,
        "command": options.command,
        "label": clean_label(options.label),
        "since": since_option(options.since),
        "limit": options.limit,
    }
    return Command("audit", target, workers or (), params)


def _must_fit_together(options: argparse.Namespace) -> None:
    """Refuse options that the action doesn't have, and ask for those that it needs."""
    needed = {"export": ("out",), "archive": ("out", "before")}.get(options.what, ())
    for name in ("out", "before"):
        if name in needed and not getattr(options, name):
            raise UsageError(f"`supervisor audit {options.what}` needs --{name}.")
        if getattr(options, name) and name not in needed:
            raise UsageError(f"--{name} goes with `supervisor audit {'archive' if name == 'before' else 'export'}`.")
    if options.file and options.what != "verify":
        raise UsageError("--file goes with `supervisor audit verify`.")


def _verify(config: SupervisorConfig, *, as_json: bool) -> int:
    from supervisor_core.storage.replication_progress import copied_heads

    heads = _heads(config)
    with opened_ledger(config) as ledger:
        whole, faults = ledger.read(
            lambda connection: audit.verify(connection, [*heads, *copied_heads(connection, config.supervisor.id)])
        )
    if as_json:
        print(json.dumps(_verdict(whole, faults)))
    else:
        _say(whole, faults)
    return 1 if faults else 0


def _verdict(whole: int, faults: list[audit.Fault]) -> dict[str, Any]:
    found = [{"supervisor_id": f.supervisor_id, "audit_id": f.audit_id, "what": f.what} for f in faults]
    return {"ok": not faults, "rows": whole, "faults": found}


def _say(whole: int, faults: list[audit.Fault]) -> None:
    if not faults:
        print(f"The trail is intact: {code.count(whole, 'row')}, none altered, none missing.")
        return
    for fault in faults:
        print(f"{printable(fault.place)} {fault.what}")
    if len(faults) == audit.MOST_FAULTS:
        print(f"These are the first {len(faults)}. There may be more.")
    print(
        f"{code.count(whole, 'row')} match{'es' if whole == 1 else ''} {'its hash' if whole == 1 else 'their hashes'}."
    )


def _heads(config: SupervisorConfig) -> list[ChainHead]:
    try:
        return HeadFile(config.state_dir).all()
    except UnreadableFileError:
        return []  # verify then says what that means


def _for_people(rows: list[dict[str, Any]], about: Sequence[str]) -> str:
    if not rows:
        return "No matching rows."
    lines, colours, today = [], [], f"{datetime.now(UTC):%Y-%m-%d}" if terminal_width() else ""
    for row in reversed(rows):
        details = _details(row)
        outcome = "damaged" if DAMAGED in row else row["outcome"]
        more = (
            str(details.get("label") or ""),
            note_in(details),
            affected_in_words(row[AFFECTED], cause_of(row), about),
            _why(row),
        )
        words = "; ".join(filter(None, more))
        if row["task_id"]:
            words = f"{words} ({row['task_id']})".lstrip()
        what = command_in_words(row, details)
        lines.append(
            [outcome, _time(row["created_at"], today), row["actor"], what, row.get(ADDRESS, row["target_id"]), words]
        )
        colours.append(_COLOURS.get(outcome, AMBER))
    head = ("OUTCOME", "TIME (UTC)", "BY", "COMMAND", "TARGET", "DETAILS")
    return folded_table(head, lines, terminal_width(), colours if wants_colour() else ())


def _time(moment: str, today: str) -> str:
    """The time of day on the day `today`, else the date with it."""
    day, time = moment[:10], moment[11:19]
    return time if day == today else f"{day} {time}"


_COLOURS = {"success": GREEN, "failure": RED, "damaged": RED}


def _details(row: dict[str, Any]) -> dict[str, Any]:
    """The details of a row; empty where a damaged row has none."""
    try:
        details = json.loads(row["details_json"])
    except (TypeError, ValueError):
        return {}
    return details if isinstance(details, dict) else {}


def _why(row: dict[str, Any]) -> str:
    """The reason why something failed, in one line; for an altered row, the damage."""
    if DAMAGED in row:
        return f"This row was altered: {row[DAMAGED]}."
    error = _details(row).get("error")
    return " ".join(str(error).split()) if error and row["outcome"] != "success" else ""
