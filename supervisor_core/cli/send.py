"""`supervisor send 'pause OrionMX hotfix' --wait`: a command in the words that Slack uses.

The daemon parses and queues it, so this imports nothing slow. Without a daemon, or for what the daemon leaves to the
shell, `without_daemon` does the same here. Both use one command id, so the command runs once.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from supervisor_core.cli.host import caller_fields
from supervisor_core.cli.options import WAIT_SECONDS
from supervisor_core.cli.status import read_quickly
from supervisor_core.cli.table import (
    AMBER,
    DIM,
    GREEN,
    MAX_WIDTH,
    RED,
    fit,
    paint,
    printable,
    terminal_width,
    wants_colour,
)
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import KEEP_GOING, ROLLING
from supervisor_core.common.errors import RefusedError, UsageError
from supervisor_core.common.text import capitalize
from supervisor_core.common.times import format_span, from_text
from supervisor_core.config.raw import RawConfig, state_dir_of, text_digest
from supervisor_core.daemon.control.client import ControlError, NotRunningError, UnresponsiveError, ask
from supervisor_core.jobs.model import NOT_BEGUN, new_task_id

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
    batches = [each.option for each in ROLLING]
    return any(word.partition("=")[0] in batches for word in " ".join(text).split())


def run(options: argparse.Namespace) -> int:
    """Queue the command, wake the daemon, and wait if requested."""
    text, sent_at = " ".join([*options.text, options.note]), datetime.now(UTC)
    task_id = new_task_id(sent_at)
    config = read_quickly(options.config)
    state_dir, command = state_dir_of(config), None
    if not options.preview and options.if_state is None:
        command = _queue(config, text, task_id)
    if command is None:
        from supervisor_core.cli import send_without_daemon

        return send_without_daemon.run(text, task_id, options)
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
        from supervisor_core.cli.send_without_daemon import look

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


NAMED = 8
"""Workers of a queued command that are named."""


def nothing_to_do(command: Command, words: str, options: argparse.Namespace) -> int:
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
        workers = list(command.workers)
        print(json.dumps({"task_id": command.task_id, "queued": True, "daemon": not valid, "workers": workers}))
        return 0
    named = f"of {len(command.workers):,} workers" if len(command.workers) > NAMED else ", ".join(command.workers)
    print(f"Queued: {command.name} {named} as {command.task_id}")
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
        document: dict[str, Any] = {"task_id": command.task_id, "success": False, "error": error, "details": {}}
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
        return {"task_id": command.task_id, **{key: results[0][key] for key in ("success", "error", "details")}}
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
    undo = ""
    for result in results:
        before, after = (result["details"].get(name) for name in ("before", "after"))
        if before and after and before != after and result["handler"] != "undo_code":
            undo = f"; to undo it: supervisor undo {command.target or command.workers[0]} {command.task_id}"
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
    if any(map(_not_begun, results)):
        left = ", ".join(result["worker_id"] for result in results if not result["success"])
        lines.append(
            f"Fix the error above, then run it again for {left}. "
            f"With {KEEP_GOING.word}, a failure doesn't stop the others."
        )
    return [*lines, f"({command.task_id}{undo})"]


def _not_begun(result: dict[str, Any]) -> bool:
    return result["details"].get(NOT_BEGUN) is True


Steps = Sequence[Mapping[str, str]]

DONE, CURRENT, FAILED = ("✓", GREEN), ("•", AMBER), ("✗", RED)
SHORTEST_ELAPSED = 1.0
"""Seconds: a step that takes less shows no time."""


class StepPrinter:
    """Prints each step once, as soon as it's known, with the seconds since the command was sent."""

    tick: float | None = None
    """How often it wants to be drawn while nothing happens; None for never."""

    def __init__(self, since: datetime, *, several: bool) -> None:
        self._since = since
        self._several = several
        self._printed: Counter[str] = Counter()

    @property
    def seen(self) -> int:
        """The number of steps that were shown."""
        return self._printed.total()

    def show(self, known: Steps) -> None:
        """Print the new steps. Each worker's are in their order, whichever worker's was written first."""
        met: Counter[str] = Counter()
        for step in known:
            worker = step["worker_id"]
            met[worker] += 1
            if met[worker] > self._printed[worker]:
                self._printed[worker] += 1
                seconds = max((from_text(step["at"]) - self._since).total_seconds(), 0.0)
                who = f"{worker}: " if self._several else ""
                print(f"{seconds:6.1f} s  {who}{step['words']}", flush=True)

    def draw(self) -> None:
        """Show how long the current step takes by now; lines that were printed stay."""

    def finish(self, failed: Sequence[str]) -> None:
        """Show that the last step of each worker has ended, or `failed`."""


class StepList(StepPrinter):
    """Draws the steps as a checklist: done, current with its time so far, failed."""

    tick = 0.5

    def __init__(self, since: datetime, *, several: bool) -> None:
        super().__init__(since, several=several)
        self._known: Steps = ()
        self._drawn = 0

    @property
    def seen(self) -> int:
        return len(self._known)

    def show(self, known: Steps) -> None:
        if len(known) >= len(self._known):
            self._known = known
        self.draw()

    def draw(self) -> None:
        self._draw(datetime.now(UTC), ended=False, failed=())

    def finish(self, failed: Sequence[str]) -> None:
        self._draw(datetime.now(UTC), ended=True, failed=failed)
        self._drawn = 0

    def _draw(self, now: datetime, *, ended: bool, failed: Sequence[str]) -> None:
        lines = self.lines(now, ended=ended, failed=failed)
        if not ended:
            lines = lines[-(os.get_terminal_size().lines - 1) :]  # what has left the screen can't be drawn again
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        sys.stdout.write(up + "".join(f"{line}\x1b[K\n" for line in lines) + "\x1b[J")
        sys.stdout.flush()
        self._drawn = len(lines)

    def lines(self, now: datetime, *, ended: bool, failed: Sequence[str]) -> list[str]:
        last = {step["worker_id"]: place for place, step in enumerate(self._known)}
        return [
            self._entry(place, step, now, last=place == last[step["worker_id"]], ended=ended, failed=failed)
            for place, step in enumerate(self._known)
        ]

    def _entry(
        self, place: int, step: Mapping[str, str], now: datetime, *, last: bool, ended: bool, failed: Sequence[str]
    ) -> str:
        worker = step["worker_id"]
        following = (each["at"] for each in self._known[place + 1 :] if each["worker_id"] == worker)
        until = now if last else from_text(next(following))
        seconds = (until - from_text(step["at"])).total_seconds()
        mark, colour = CURRENT if last and not ended else FAILED if last and worker in failed else DONE
        who = f"{worker}: " if self._several and worker not in step["words"] else ""
        elapsed = f"  {format_span(seconds)}" if seconds >= SHORTEST_ELAPSED else ""
        room = (terminal_width() or MAX_WIDTH) - len(f"{mark} {who}{elapsed}") - 1
        words = printable(who + capitalize(step["words"], worker))
        words = words if len(words) <= room else f"{words[: room - 1]}…"
        if not wants_colour():
            return f"{mark} {words}{elapsed}"
        return f"{paint(mark, colour)} {words}{paint(elapsed, DIM)}"


def step_printer(since: datetime, *, several: bool) -> StepPrinter:
    """The way of showing steps that the output can take."""
    live = sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and sys.platform != "win32"
    return (StepList if live else StepPrinter)(since, several=several)
