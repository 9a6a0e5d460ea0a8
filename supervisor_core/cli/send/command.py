"""`supervisor send 'pause OrionMX hotfix' --wait`: a command in the words that Slack uses.

The daemon parses and queues it, so this imports nothing slow. Without a daemon, or for what the daemon leaves to the
shell, `without_daemon` does the same here. Both use one command id, so the command runs once.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.host import caller_fields
from supervisor_core.cli.options import WAIT_SECONDS
from supervisor_core.cli.send.outcome import outcome, queued
from supervisor_core.cli.send.steps import StepPrinter, step_printer
from supervisor_core.cli.status.command import read_quickly
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import ROLLING
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.config.raw import RawConfig, state_dir_of, text_digest
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.jobs.model import new_task_id

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse

LOOK_SECONDS = 0.2
"""How often the ledger is checked while no daemon can report."""

QUEUE_SECONDS = 2.0
"""Longest wait for the daemon to queue a command."""

Look = Callable[[str], tuple[list[dict[str, str]], list[dict[str, Any]] | None]]
"""The steps of a command so far, and its results once it has ended, by the ledger."""


def is_rolling(text: Sequence[str]) -> bool:
    """True for the words of a command that becomes a rolling change."""
    return any(word.partition("=")[0] in _BATCHES for word in " ".join(text).split())


_BATCHES = tuple(each.option for each in ROLLING)


def run(options: argparse.Namespace) -> int:
    """Queue the command, wake the daemon, and wait if requested."""
    text, sent_at = " ".join([*options.text, options.note]), datetime.now(UTC)
    task_id = new_task_id(sent_at)
    config = read_quickly(options.config)
    state_dir, command = state_dir_of(config), None
    if not options.preview and options.if_state is None:
        command = _queue(config, text, task_id)
    if command is None:
        from supervisor_core.cli.send import without_daemon

        return without_daemon.run(text, task_id, options)
    if not options.wait:
        return queued(command, options, rolling=is_rolling(options.text))
    return follow(state_dir, command, options, options.timeout, sent_at, awake=True)


def _queue(config: RawConfig, text: str, task_id: str) -> Command | None:
    """Have the daemon queue the command; None if this program must handle it."""
    known = {**caller_fields(), "config": text_digest(config.text)}
    request = {"do": "send", "text": text, "task_id": task_id, **known}
    try:
        answer = ask(state_dir_of(config), request, QUEUE_SECONDS)
    except (NotRunningError, UnresponsiveError, ControlError):
        return None
    if words := answer.get("refused"):
        raise (UsageError if answer["is_usage"] else RefusedError)(words)
    sent = answer.get("command")
    return Command(sent["name"], sent["target"], tuple(sent["workers"]), task_id=task_id) if sent else None


def follow(
    state_dir: str,
    command: Command,
    options: argparse.Namespace,
    limit: float | None,
    sent_at: datetime,
    *,
    awake: bool,
) -> int:
    """Wait for the outcome, and show the steps on the way there. Without a limit, as long as there are new steps."""
    steps = None if options.json else step_printer(sent_at, several=len(command.workers) > 1)

    def look(task_id: str) -> tuple[list[dict[str, str]], list[dict[str, Any]] | None]:
        from supervisor_core.cli.send.without_daemon import look

        return look(options.config, task_id)

    try:
        known, results = wait_for_outcome(state_dir, command.task_id, limit, steps, look)
    except KeyboardInterrupt:
        still = _still(command.task_id, awake=awake, rolling=is_rolling(options.text))
        print(f"Stopped waiting. {command.task_id} {still}", file=sys.stderr)
        raise
    if steps is not None and results is not None:
        steps.finish([result["worker_id"] for result in results if not result["success"]])
    late = ""
    if results is None:
        late = describe_missing_outcome(state_dir, command.task_id, limit, rolling=is_rolling(options.text))
    return outcome(command, late, results, known, options)


def describe_missing_outcome(state_dir: str, task_id: str, limit: float | None, *, rolling: bool = False) -> str:
    """The error of a command that hasn't ended in time."""
    try:
        ask(state_dir, {"do": "wake"})
        what = _still(task_id, awake=True, rolling=rolling)
    except NotRunningError:
        what = _still(task_id, awake=False, rolling=rolling)
    except UnresponsiveError:
        what = "waits, because the daemon isn't responding. See `supervisor status`. Don't send it again."
    waited = f"No progress for {WAIT_SECONDS} s" if limit is None else f"No outcome after {limit:g} s"
    return f"{waited}. {task_id} {what}"


def _still(task_id: str, *, awake: bool, rolling: bool) -> str:
    """What happens to a command after the wait has ended."""
    if awake:
        shows = f"rolling status {task_id}` shows the progress" if rolling else "audit` shows the outcome"
        return f"hasn't ended yet. `supervisor {shows}. Don't send it again."
    words = "stays queued, because no daemon is running. The next `supervisor once` or `supervisor daemon start`"
    return f"{words} runs or reports it. Don't send it again."


def wait_for_outcome(
    state_dir: str, task_id: str, limit: float | None, steps: StepPrinter | None, look: Look
) -> tuple[Sequence[dict[str, str]], list[dict[str, Any]] | None]:
    """The steps, and the outcomes or None when the time is up. Survives a restart of the daemon.

    Without a limit, the time is up when there's no new step for a while."""
    deadline = time.monotonic() + (WAIT_SECONDS if limit is None else limit)
    known: list[dict[str, str]] = []
    while (left := deadline - time.monotonic()) > 0:
        tick = min(left, steps.tick) if steps and steps.tick else left
        request = {"do": "wait", "task_id": task_id, "seconds": tick, "seen": len(known)}
        try:
            answer = ask(state_dir, request, timeout=tick + 1)
        except (NotRunningError, UnresponsiveError):
            found, results = look(task_id)
            answer = {"progress": found, "done": results is not None, "results": results, "stopping": True}
        is_new = len(answer.get("progress") or ()) > len(known)
        known = answer["progress"] if is_new else known
        if is_new and limit is None:
            deadline = time.monotonic() + WAIT_SECONDS
        if steps is not None and is_new:
            steps.show(known)
        if answer.get("done"):
            return known, answer["results"]
        if answer.get("stopping"):
            time.sleep(min(LOOK_SECONDS, left))
        elif steps is not None and not is_new:
            steps.draw()
    return known, None
