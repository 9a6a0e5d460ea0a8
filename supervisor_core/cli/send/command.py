"""`supervisor send 'pause OrionMX hotfix' --wait`: a command in the words that Slack uses."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.host import approvals_of, load_config, shell_issuer, wake
from supervisor_core.cli.options import WAIT_SECONDS
from supervisor_core.cli.send.steps import StepPrinter, step_printer
from supervisor_core.cli.table import fit
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import KEEP_GOING
from supervisor_core.commands.grammar import parse
from supervisor_core.common.errors import UsageError
from supervisor_core.config.load import SupervisorConfig, grammar_context
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.approvals.service import NothingToDo
from supervisor_core.intake.filing import LocalCarrier
from supervisor_core.intake.submission import Gateway
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import FINAL, NOT_BEGUN
from supervisor_core.jobs.results import progress_document, result_document
from supervisor_core.storage.store import Ledger

LOOK_SECONDS = 0.2
"""How often the ledger is checked while no daemon can report."""


def run(options: argparse.Namespace) -> int:
    """Parse the command, queue it, wake the daemon, and wait if requested."""
    config = load_config(options.config)
    command = parse(" ".join([*options.text, options.note]), grammar_context(config))
    if options.preview:
        if options.if_state is not None:
            raise UsageError("Use --preview or --if-state, not both.")
        from supervisor_core.cli.send.waiting import show

        return show(config, command, as_json=options.json)
    if CATALOG[command.name].handler is None:
        return _inform(config, command, options)
    if options.if_state is not None:  # an empty one is a mistake, and never no condition
        command = _only_if(command, options.if_state)
    with opened_ledger(config) as ledger:
        return _send(config, ledger, command, options)


def _send(config: SupervisorConfig, ledger: Ledger, command: Command, options: argparse.Namespace) -> int:
    """Submit the command, and wait as long as requested."""
    sent_at, approvals = datetime.now(UTC), approvals_of(config, ledger)
    try:
        submitted = Gateway(config, LocalCarrier(ledger), approvals).submit(command, shell_issuer(), "cli")
    except NothingToDo as nothing:
        return _nothing(command, str(nothing), options)
    issued, awake, left = submitted.command, wake(config), options.timeout
    if submitted.approval is not None:
        from supervisor_core.cli.send import waiting as approval_wait

        if not options.wait:
            return approval_wait.asked(submitted.approval, as_json=options.json)
        refused, left = approval_wait.wait(approvals, submitted.approval, options.timeout, quiet=options.json)
        if refused:
            return _outcome(issued, refused, None, [], options)
    if not options.wait:
        return _queued(issued, options, awake=awake)
    if not awake and not options.json:
        what = "No daemon is running. Queued for the next `supervisor once` or `supervisor daemon start`. Waiting …"
        print(what, flush=True)
    return _follow(config, ledger, issued, options, left or float(WAIT_SECONDS), sent_at, awake=awake)


def _follow(
    config: SupervisorConfig,
    ledger: Ledger,
    issued: Command,
    options: argparse.Namespace,
    seconds: float,
    sent_at: datetime,
    *,
    awake: bool,
) -> int:
    """Wait for the outcome, and show the steps on the way there."""
    steps = None if options.json else step_printer(sent_at, several=len(issued.workers) > 1)
    try:
        results = _wait(config, ledger, issued.task_id, seconds, steps)
    except KeyboardInterrupt:
        print(f"Stopped waiting. {issued.task_id} {_still(awake=awake)}", file=sys.stderr)
        raise
    known = _progress(ledger, issued.task_id)
    if steps is not None:
        steps.show(known)  # the last ones come together with the outcome
        if results is not None:
            steps.finish([result["worker_id"] for result in results if not result["success"]])
    late = ""
    if results is None:
        late = f"No outcome after {seconds:g} s. {issued.task_id} {_still(awake=wake(config))}"
    return _outcome(issued, late, results, known, options)


def _still(*, awake: bool) -> str:
    """What happens to a command after the wait has ended."""
    if awake:
        return "is still running. `supervisor audit` shows the outcome. Don't send it again."
    words = "stays queued, because no daemon is running. The next `supervisor once` or `supervisor daemon start`"
    return f"{words} runs or reports it. Don't send it again."


def _only_if(command: Command, state: str) -> Command:
    from supervisor_core.cli.send.waiting import check_has_one

    check_has_one(command, "--if-state")
    return replace(command, params=check_params(CATALOG[command.name], {**command.params, "state": state}))


def _inform(config: SupervisorConfig, command: Command, options: argparse.Namespace) -> int:
    """Answer a command that changes nothing about workers."""
    from supervisor_core.cli.send.answers import inform

    return inform(command, config, as_json=options.json)


def _nothing(command: Command, words: str, options: argparse.Namespace) -> int:
    """Report that there is nothing to do, which is a success."""
    if not options.json:
        print(words)
    elif options.wait:
        told = {"message": words}
        print(json.dumps({"task_id": None, "success": True, "error": None, "details": told, "progress": []}))
    else:
        print(json.dumps({"task_id": None, "queued": False, "workers": list(command.workers), "message": words}))
    return 0


def _queued(command: Command, options: argparse.Namespace, *, awake: bool) -> int:
    if options.json:
        document = {
            "task_id": command.task_id,
            "queued": True,
            "daemon": awake,
            "workers": list(command.workers),
        }
        print(json.dumps(document))
        return 0
    print(f"Queued: {command.name} {', '.join(command.workers)} as {command.task_id}")
    if not awake:
        print("No daemon is running. The next pass (`supervisor once`) runs it.")
    return 0


def _wait(
    config: SupervisorConfig, ledger: Ledger, task_id: str, seconds: float, steps: StepPrinter | None
) -> list[dict[str, Any]] | None:
    """The outcomes, or None when the time is up. Survives a restart of the daemon. `steps` are shown as they come."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        try:
            tick = min(left, steps.tick) if steps and steps.tick else left
            request = {"do": "wait", "task_id": task_id, "seconds": tick}
            if steps is not None:
                request["seen"] = steps.seen
            answer = ask(str(config.state_dir), request, timeout=tick + 1)
            if steps is not None and answer.get("progress"):
                steps.show(answer["progress"])
                continue
            if answer.get("done"):
                results: list[dict[str, Any]] = answer["results"]
                return results
            if not answer.get("stopping"):
                if steps is None or tick == left:
                    return None
                steps.draw()
                continue
        except (NotRunningError, UnresponsiveError):
            found = ledger.read(lambda connection: jobs.of_task(connection, task_id))
            if steps is not None:
                steps.show(progress_document(found))
            if all(job.state in FINAL for job in found):
                return [result_document(job) for job in found]
        time.sleep(min(LOOK_SECONDS, left))
    return None


def _progress(ledger: Ledger, task_id: str) -> list[dict[str, str]]:
    """The steps that its handlers have reported so far."""
    return progress_document(ledger.read(lambda connection: jobs.of_task(connection, task_id)))


def _outcome(
    command: Command,
    error: str,
    results: list[dict[str, Any]] | None,
    progress: list[dict[str, str]],
    options: argparse.Namespace,
) -> int:
    """Print the outcome; `error` says why there are no results."""
    if results is None:
        document: dict[str, Any] = {
            "task_id": command.task_id,
            "success": False,
            "error": error,
            "details": {},
        }
    else:
        document = _document(command, results)
    if len(command.workers) == 1:  # whose each step is goes without saying
        progress = [{key: step[key] for key in ("at", "words")} for step in progress]
    document["progress"] = progress
    if options.json:
        print(json.dumps(document))
    else:
        print(fit("\n".join(_words(command, document, results or []))))
    return 0 if document["success"] else 1


def _document(command: Command, results: list[dict[str, Any]]) -> dict[str, Any]:
    if len(results) == 1:
        return {
            "task_id": command.task_id,
            **{key: results[0][key] for key in ("success", "error", "details")},
        }
    left = [result["worker_id"] for result in results if _not_begun(result)]
    failed = [result["worker_id"] for result in results if not (result["success"] or _not_begun(result))]
    said = [f"failed on {', '.join(failed)}"] if failed else []
    said += [f"not started on {', '.join(left)}"] if left else []
    workers = [{key: result[key] for key in ("worker_id", "success", "error", "details")} for result in results]
    return {
        "task_id": command.task_id,
        "success": not said,
        "error": "; ".join(said) or None,
        "details": {"workers": workers},
    }


def _words(command: Command, document: dict[str, Any], results: list[dict[str, Any]]) -> list[str]:
    if not results:
        return [document["error"]]
    lines = []
    for result in results:
        if _not_begun(result):
            lines.append(f"not started: {result['worker_id']}")
            continue
        mark = "ok" if result["success"] else "failed"
        said = result["details"].get("message") or f"{command.name} {result['worker_id']}"
        words = str(said if result["success"] else result["error"])
        whose = f"{result['worker_id']}: " if len(results) > 1 and result["worker_id"] not in words else ""
        lines.append(f"{mark}: {whose}{words}")
        if report := result["details"].get("report_path"):
            lines.append(f"Report: {report}")
        lines += [note for note in result["details"].get("notes", ()) if note not in lines]
    who = command.target or command.workers[0]
    undo = f"; to undo it: supervisor undo {who} {command.task_id}" if any(map(_moved, results)) else ""
    if again := _again(results):
        lines.append(again)
    return [*lines, f"({command.task_id}{undo})"]


def _again(results: list[dict[str, Any]]) -> str:
    """How to continue when some workers weren't reached."""
    if not any(map(_not_begun, results)):
        return ""
    left = [result["worker_id"] for result in results if not result["success"]]
    return (
        f"Fix the error above, then run it again for {', '.join(left)}. "
        f"With {KEEP_GOING.word}, a failure doesn't stop the others."
    )


def _not_begun(result: dict[str, Any]) -> bool:
    return result["details"].get(NOT_BEGUN) is True


def _moved(result: dict[str, Any]) -> bool:
    """True if a command that can be undone changed this worker's code."""
    before, after = (result["details"].get(name) for name in ("before", "after"))
    return bool(before and after and before != after and result["handler"] != "undo_code")
