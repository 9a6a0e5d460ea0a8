"""`supervisor send 'pause OrionMX hotfix' --wait`, and each command of the catalog: `supervisor pause OrionMX hotfix`.

The daemon parses and queues the command, so this imports nothing slow. Without a daemon, or for what the daemon leaves
to the shell, `submit` does the same here. Both use one command id, so the command runs once.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

from supervisor_core.cli.arguments import JSON, MAX_NUMBER, Parser, Subparsers, add_command
from supervisor_core.cli.host import caller_fields, read_config
from supervisor_core.cli.output import Steps, fit, print_json
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.catalog import CATALOG, FAMILIES
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import KEEP_GOING, ROLLING, TargetRule, Tier
from supervisor_core.commands.manual import argument_rows
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.commands.words import escape_entities, quote
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.config.raw import state_dir_of, text_digest
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.jobs.model import NOT_BEGUN, new_task_id

WAIT_SECONDS = 60
POLL_SECONDS = 0.2
"""How often the ledger is checked while no daemon can report."""

REDRAW_SECONDS = 0.5
"""How often the checklist of steps is drawn while nothing happens."""

QUEUE_SECONDS = 2.0
"""The time limit for the daemon to queue a command."""

HELP_WIDTH = 78
MAX_NAMED = 8
"""Workers of a queued command that are named."""

Progress = Sequence[dict[str, str]]
Results = list[dict[str, Any]]


def add_parser(subparsers: Subparsers) -> None:
    description = "Send a command, in the words that Slack uses."
    parser = add_command(subparsers, "send", run, description, "send 'rollback OrionMX 3 hotfix' --wait")
    parser.note_from = 1  # before the text, `--` ends the options
    text = "the command, such as 'pause OrionMX hotfix'; `supervisor send help` lists all"
    parser.add_argument("text", nargs="+", metavar="'COMMAND …'", help=text)
    parser.add_argument("--wait", action="store_true", help="wait for the outcome")
    _add_timeout(parser)
    _add_preview(parser)
    parser.add_argument("--json", action="store_true", help=JSON)


def add_catalog_parser(subparsers: Subparsers, name: str) -> None:
    """The parser of a command of the catalog, or of the first word of several, such as `schedule`."""
    definitions = FAMILIES.get(name) or (CATALOG[name],)
    lines = [
        f"{definition.name}: {definition.summary}" if len(definitions) > 1 else definition.summary
        for definition in definitions
    ]
    lines = [textwrap.fill(line) for line in lines]
    options = {option.usage.strip("[]") for definition in definitions for option in definition.options}
    if rows := dict(row for definition in definitions for row in argument_rows(definition) if row[0] not in options):
        width = max(map(len, rows))
        indent = " " * (width + 4)
        rows_of_help = (f"  {argument.ljust(width)}  {text}" for argument, text in rows.items())
        lines += ["", "arguments:", *(textwrap.fill(row, HELP_WIDTH, subsequent_indent=indent) for row in rows_of_help)]
    examples = []
    for definition in definitions:
        with_target = [
            text for text in definition.examples if " " in text or definition.target is not TargetRule.WORKERS
        ]
        examples.append((with_target or definition.examples)[0])
    parser = add_command(subparsers, name, partial(run_catalog, name), "\n".join(lines), *examples)
    parser.note_from = 0
    usages = [f"supervisor {definition.usage}" for definition in definitions]
    parser.usage = "\n  ".join([f"{usages[0]} [options]", *usages[1:]])
    parser.add_argument("words", nargs="*", metavar="WORD", help=argparse.SUPPRESS)
    is_queued = any(definition.handler is not None for definition in definitions)
    if is_queued:
        wait = "wait for the outcome (the default, but for batches), or return once the command is queued"
        parser.add_argument("--wait", action=argparse.BooleanOptionalAction, help=wait)
        _add_timeout(parser)
    for option in definitions[0].options:
        text = option.description.replace("%", "%%")
        if option.kind is ParameterKind.FLAG:
            parser.add_argument(option.word, action="append_const", const=option.word, dest="flags", help=text)
        else:
            add = partial(parser.add_argument, metavar=option.word, action="append", dest="flags", help=text)
            add(option.option, type=partial(_option_text, option))
    if any(definition.tier is Tier.CODE for definition in definitions):
        _add_preview(parser)
    parser.add_argument("--json", action="store_true", help=JSON)
    parser.set_defaults(wait=None if is_queued else False, timeout=None, preview=False, if_state=None, flags=None)


def _add_timeout(parser: Parser) -> None:
    limit = f"wait at most S seconds (default: until there is no progress for {WAIT_SECONDS}, approvals aside)"
    parser.add_argument("--timeout", type=_seconds, metavar="S", help=limit)


def _add_preview(parser: Parser) -> None:
    parser.add_argument("--preview", action="store_true", help="show what a code change would do, and do nothing")
    parser.add_argument("--if-state", metavar="STATE", help="refuse unless everything is as this preview showed it")


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < MAX_NUMBER:
        raise argparse.ArgumentTypeError(f"must be a number of seconds above 0, not {text!a}")
    return number


def _option_text(option: Parameter, value: str) -> str:
    """An option with its value as a part of the command's text."""
    quoted = quote(value) if " " in value and not value.startswith('"') else escape_entities(value)
    return f"{option.option} {quoted}"


def run_catalog(name: str, arguments: argparse.Namespace) -> int:
    """Send the command `name`, or show the answer."""
    arguments.text = [command_text(name, arguments.words, arguments.flags or ())]
    if arguments.wait is None:  # batches take longer than anybody waits at a prompt
        arguments.wait = arguments.timeout is not None or not is_rolling(arguments)
    return run(arguments)


def command_text(name: str, words: Sequence[str], flags: Sequence[str] = ()) -> str:
    """The arguments as one text. One with spaces is text, as in quotes; the first may be the whole rest."""
    if any(not word.strip() for word in words):
        raise UsageError(f"An argument of `supervisor {name}` is empty.", remedy="Is a variable not set?")
    quoted = [quote(word) if " " in word and '"' not in word else escape_entities(word) for word in words[1:]]
    return " ".join([name, *flags, *map(escape_entities, words[:1]), *quoted])


def is_rolling(arguments: argparse.Namespace) -> bool:
    """True for a command that becomes a rolling change."""
    batches = [parameter.option for parameter in ROLLING]
    return any(word.partition("=")[0] in batches for word in " ".join(arguments.text).split())


def run(arguments: argparse.Namespace) -> int:
    """Queue the command, wake the daemon, and wait if requested."""
    text, sent_at = " ".join([*arguments.text, arguments.note]), datetime.now(UTC)
    task_id = new_task_id(sent_at)
    raw = read_config(arguments.config)
    state_dir, answer = state_dir_of(raw), dict[str, Any]()
    if not arguments.preview and arguments.if_state is None:
        request = {"do": "send", "text": text, "task_id": task_id, "config": text_digest(raw.text), **caller_fields()}
        with suppress(NotRunningError, UnresponsiveError, ControlError):
            answer = ask(state_dir, request, QUEUE_SECONDS)
    if refusal := answer.get("refused"):
        raise (UsageError if answer["is_usage"] else RefusedError)(refusal)
    queued = answer.get("command")
    if not queued:
        from supervisor_core.cli import submit

        return submit.run(text, task_id, arguments)
    command = Command(queued["name"], queued["target"], tuple(queued["workers"]), task_id=task_id)
    if not arguments.wait:
        return report_queued(command, arguments)
    return follow(state_dir, command, arguments, arguments.timeout, sent_at, is_running=True)


def report_queued(command: Command, arguments: argparse.Namespace, without_daemon: str = "") -> int:
    """Print that the command is queued. `without_daemon`: what runs it and until when, if no daemon is running."""
    if arguments.json:
        facts = {"queued": True, "daemon": not without_daemon, "workers": list(command.workers)}
        print_json({"task_id": command.task_id, **facts})
        return 0
    count = len(command.workers)
    names = f"of {count:,} workers" if count > MAX_NAMED else ", ".join(command.workers)
    print(f"Queued: {command.name} {names} as {command.task_id}")
    if is_rolling(arguments):
        print(f"To see its progress: `supervisor rolling status {command.task_id}`")
    if without_daemon:
        print(f"No daemon is running. {without_daemon}")
    return 0


def follow(
    state_dir: str,
    command: Command,
    arguments: argparse.Namespace,
    limit: float | None,
    sent_at: datetime,
    *,
    is_running: bool,
) -> int:
    """Wait for the outcome, and show the steps on the way there. Without a limit, as long as there are new steps."""
    from_ledger = partial(_read_outcome, arguments.config)
    steps = None if arguments.json else Steps(sent_at, with_names=len(command.workers) > 1)
    try:
        progress, results = wait_for_outcome(state_dir, command.task_id, limit, steps, from_ledger)
    except KeyboardInterrupt:
        state = _describe_waiting(command.task_id, is_running=is_running, rolling=is_rolling(arguments))
        print(f"Stopped waiting. {command.task_id} {state}", file=sys.stderr)
        raise
    error = ""
    if results is None:
        error = describe_missing_outcome(state_dir, command.task_id, limit, rolling=is_rolling(arguments))
    elif steps is not None:
        steps.finish([result["worker_id"] for result in results if not result["success"]], datetime.now(UTC))
    return report_outcome(command, error, results, progress, as_json=arguments.json)


def _read_outcome(config: str | None, task_id: str) -> tuple[Progress, Results | None]:
    from supervisor_core.cli.submit import read_outcome

    return read_outcome(config, task_id)


def wait_for_outcome(
    state_dir: str,
    task_id: str,
    limit: float | None,
    steps: Steps | None,
    from_ledger: Callable[[str], tuple[Progress, Results | None]],
) -> tuple[Progress, Results | None]:
    """The steps, and the outcomes or None when the time is up. Survives a restart of the daemon.

    Without a limit, the time is up when there's no new step for a while. `from_ledger` reads both without a daemon."""
    deadline = time.monotonic() + (WAIT_SECONDS if limit is None else limit)
    progress: Progress = []
    while (left := deadline - time.monotonic()) > 0:
        seconds = min(left, REDRAW_SECONDS) if steps and steps.is_checklist else left
        request = {"do": "wait", "task_id": task_id, "seconds": seconds, "seen": len(progress)}
        try:
            answer = ask(state_dir, request, timeout=seconds + 1)
        except (NotRunningError, UnresponsiveError):
            known, results = from_ledger(task_id)
            answer = {"progress": known, "done": results is not None, "results": results, "stopping": True}
        is_new = len(answer.get("progress") or ()) > len(progress)
        if is_new:
            progress = answer["progress"]
            deadline = time.monotonic() + WAIT_SECONDS if limit is None else deadline
        if steps is not None and (is_new or steps.is_checklist):
            steps.show(progress, datetime.now(UTC))
        if answer.get("done"):
            return progress, answer["results"]
        if answer.get("stopping"):
            time.sleep(min(POLL_SECONDS, left))
    return progress, None


def describe_missing_outcome(state_dir: str, task_id: str, limit: float | None, *, rolling: bool = False) -> str:
    """The error of a command that hasn't ended in time."""
    try:
        ask(state_dir, {"do": "wake"})
        state = _describe_waiting(task_id, is_running=True, rolling=rolling)
    except NotRunningError:
        state = _describe_waiting(task_id, is_running=False, rolling=rolling)
    except UnresponsiveError:
        state = "waits, because the daemon isn't responding. See `supervisor status`. Don't send it again."
    waited = f"No progress for {WAIT_SECONDS} s" if limit is None else f"No outcome after {limit:g} s"
    return f"{waited}. {task_id} {state}"


def _describe_waiting(task_id: str, *, is_running: bool, rolling: bool) -> str:
    if is_running:
        remedy = f"rolling status {task_id}` shows the progress" if rolling else "audit` shows the outcome"
        return f"hasn't ended yet. `supervisor {remedy}. Don't send it again."
    queued = "stays queued, because no daemon is running. The next `supervisor once` or `supervisor daemon start`"
    return f"{queued} runs or reports it. Don't send it again."


def report_outcome(command: Command, error: str, results: Results | None, progress: Progress, *, as_json: bool) -> int:
    """Print the outcome; `error` is the reason why there are no results. Returns the exit code."""
    keys, unstarted, failed = ("success", "error", "details"), list[str](), list[str]()
    for result in results or ():
        if not result["success"]:
            (unstarted if result["details"].get(NOT_BEGUN) is True else failed).append(result["worker_id"])
    document: dict[str, Any] = {"task_id": command.task_id, "success": False, "error": error, "details": {}}
    if results is not None and len(results) == 1:
        document |= {key: results[0][key] for key in keys}
    elif results is not None:
        errors = [f"failed on {', '.join(failed)}"] if failed else []
        errors += [f"not started on {', '.join(unstarted)}"] if unstarted else []
        workers = [{key: result[key] for key in ("worker_id", *keys)} for result in results]
        document |= {"success": not errors, "error": "; ".join(errors) or None, "details": {"workers": workers}}
    if len(command.workers) == 1:  # each step is about this worker
        progress = [{key: step[key] for key in ("at", "words")} for step in progress]
    if as_json:
        print_json({**document, "progress": progress})
        return 0 if document["success"] else 1
    lines, undo = [], ""
    for result in results or ():
        worker_id, details = result["worker_id"], result["details"]
        if details.get(NOT_BEGUN) is True:
            lines.append(f"not started: {worker_id}")
            continue
        before, after = details.get("before"), details.get("after")
        if before and after and before != after and result["handler"] != "undo_code":
            undo = f"; to undo it: supervisor undo {command.target or command.workers[0]} {command.task_id}"
        message = str(
            (details.get("message") or f"{command.name} {worker_id}") if result["success"] else result["error"]
        )
        # A host calls its worker by its own name.
        is_named = (len(results or ()) > 1 or is_address(worker_id)) and worker_id not in message
        name = f"{worker_id}: " if is_named else ""
        lines.append(f"{'ok' if result['success'] else 'failed'}: {name}{message}")
        if output := details.get("output"):
            lines += [output["text"], *(["…"] if output["cut"] else [])]
        if report := details.get("report_path"):
            lines.append(f"Report: {report}")
        lines += [note for note in details.get("notes", ()) if note not in lines]
    if unstarted:
        rest = ", ".join(result["worker_id"] for result in results or () if not result["success"])
        lines.append(
            f"Fix the error above, then run it again for {rest}. "
            f"With {KEEP_GOING.word}, a failure doesn't stop the others."
        )
    print(fit("\n".join([*lines, f"({command.task_id}{undo})"] if lines else [str(document["error"])])))
    return 0 if document["success"] else 1
