"""The printed answer to a command that was sent: queued, nothing to do, or its outcome."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from supervisor_core.cli.table import fit
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import KEEP_GOING
from supervisor_core.jobs.model import NOT_BEGUN

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

NAMED = 8
"""Workers of a queued command that are named."""


def nothing_to_do(command: Command, words: str, options: argparse.Namespace) -> int:
    """Report that there is nothing to do, which is a success."""
    if not options.json:
        print(words)
    elif options.wait:
        told = {"message": words}
        print(json.dumps({"task_id": None, "success": True, "error": None, "details": told, "progress": []}))
    else:
        print(json.dumps({"task_id": None, "queued": False, "workers": list(command.workers), "message": words}))
    return 0


def queued(command: Command, options: argparse.Namespace, *, valid: str = "", rolling: bool = False) -> int:
    """Report that the command is queued. `valid`: how long it waits for a daemon, if none is running."""
    if options.json:
        document = {
            "task_id": command.task_id,
            "queued": True,
            "daemon": not valid,
            "workers": list(command.workers),
        }
        print(json.dumps(document))
        return 0
    workers = f"of {len(command.workers):,} workers" if len(command.workers) > NAMED else ", ".join(command.workers)
    print(f"Queued: {command.name} {workers} as {command.task_id}")
    if rolling:
        print(f"To see its progress: `supervisor rolling status {command.task_id}`")
    if valid:
        print(f"No daemon is running. {valid}")
    return 0


def outcome(
    command: Command,
    error: str,
    results: list[dict[str, Any]] | None,
    progress: Sequence[dict[str, str]],
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
        elsewhere = is_address(result["worker_id"])  # a host calls its worker by its own name
        named = (len(results) > 1 or elsewhere) and result["worker_id"] not in words
        whose = f"{result['worker_id']}: " if named else ""
        lines.append(f"{mark}: {whose}{words}")
        if output := result["details"].get("output"):
            lines += [output["text"], *(["…"] if output["cut"] else [])]
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
