"""Two paths through a real daemon: `python -m tests.paths` prints the functions on each, and counts them.

The rule: a function of `supervisor_core` or `bot` is on a path if it is on the stack when an effect happens between the
first event of the path and the last. `tests/support/programs/traced.py` lists the effects: rows, files, programs,
signals, messages, and work handed to another thread or task. Each function counts once; nested functions, special
methods and the command line don't count. Neither does an effect with the same stack as one of the idle seconds before.
A function that only reads or computes isn't on a path: it leads nowhere.

The main lines in docs/explanation/architecture.md come from such a run.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from slack_playground import Playground
from tests.support.code.checkout_homes import WORKER, code_worker, watcher
from tests.support.code.commits import straight
from tests.support.code.repositories import origin_and_checkout
from tests.support.homes import a_home
from tests.support.slack.code_homes import CodeInSlack
from tests.support.slack.slack_home import ACCESS, settled, started

IDLE_SECONDS = 2.0
PATIENCE_SECONDS = 30.0
HISTORY = straight(*({"watcher.py": watcher(version)} for version in range(1, 6)))

ROLLBACK = "`/supervisor rollback 3 hotfix` with an approval, from the Slack envelope to the edited card"
CRASH = "`kill -9` of a worker, from the notice of its exit to the alert in Slack"

MAIN_LINES: Mapping[str, Sequence[tuple[str, str]]] = {
    ROLLBACK: (
        ("Store the envelope", "INSERT envelopes_t"),
        ("Acknowledge it", "send "),
        ("Ask Slack about the person", "call users.info"),
        ("Preview the rollback in a temporary worktree", "start git revert "),
        ("File the approval", "INSERT approvals_t"),
        ("Post the card", "call chat.postMessage"),
        ("Store the envelope of the vote", "INSERT envelopes_t"),
        ("Count the vote", "INSERT votes_t"),
        ("File the job", "INSERT jobs_t"),
        ("Claim the job", "UPDATE jobs_t"),
        ("Stop the worker", "signal"),
        ("Keep a reference to the head", "start git update-ref "),
        ("Revert the commits", "start git revert "),
        ("Start the worker", "start .*watcher.py"),
        ("Record the outcome", "INSERT audit_log_t"),
        ("Edit the card", "call chat.update"),
    ),
    CRASH: (
        ("Notice the exit", "hand over to the loop"),
        ("Record the change of condition", "INSERT flips_t"),
        ("Open the alert", "INSERT alerts_t"),
        ("Order its message", "INSERT outbox_t"),
        ("Post the message", "call chat.postMessage"),
    ),
}
"""The steps of each path and their effects, in order. Effects outlive renamed functions: tables, Slack methods, git."""

SLACK_CALL = "call "


@dataclass(frozen=True)
class Effect:
    """Something that the daemon did, and its functions on the stack, outermost first."""

    moment: float
    words: str
    stack: tuple[str, ...]


@dataclass(frozen=True)
class TracedPath:
    """The effects between two events."""

    name: str
    effects: Sequence[Effect]

    @property
    def functions(self) -> list[str]:
        """Each once, as `module:name`, in the order of their first effects."""
        return list(dict.fromkeys(name for effect in self.effects for name in effect.stack))

    @property
    def counts(self) -> tuple[int, int]:
        """The functions and their modules."""
        return len(self.functions), len({name.partition(":")[0] for name in self.functions})

    def main_line(self) -> list[tuple[str, list[str]]]:
        """Each step, and the functions that no step before it has."""
        steps: list[tuple[str, list[str]]] = []
        known = set[str]()
        following = iter(self.effects)
        for step, pattern in MAIN_LINES[self.name]:
            found = next((effect for effect in following if re.match(pattern, effect.words)), None)
            if found is None:
                raise AssertionError(f"{self.name}: no {pattern!r} ({step}) after the step before")
            steps.append((step, [name for name in found.stack if name not in known]))
            known.update(found.stack)
        return steps


def trace_paths() -> list[TracedPath]:
    """Take both paths, in one daemon."""
    with tempfile.TemporaryDirectory(prefix="paths-") as folder:
        return asyncio.run(_take_paths(Path(folder)))


async def _take_paths(folder: Path) -> list[TracedPath]:
    file = folder / "effects"
    async with Playground(patience=PATIENCE_SECONDS) as slack:
        with _quiet_home(folder) as home:
            await started(home, slack, (sys.executable, "-m", "tests.support.programs.traced", str(file)))
            operator, approver = slack.user("operator"), slack.user("approver")
            await settled(home)
            await asyncio.sleep(IDLE_SECONDS)
            rollback = time.monotonic()
            await operator.slash("/supervisor rollback 3 hotfix")
            card = await slack.channel("ops").shows("0 of 1 vote")
            await card.button("Approve").click(as_=approver, confirm=True)
            await card.becomes("rolled back")
            rolled_back = time.monotonic()
            await settled(home)
            await asyncio.sleep(IDLE_SECONDS)
            (pid,) = home.running_copies(WORKER)
            crash = time.monotonic()
            os.kill(pid, signal.SIGKILL)
            await slack.channel("ops").shows(f"{WORKER} is down")
            alerted = time.monotonic()
    effects = [Effect(at, words, tuple(stack)) for at, words, stack in map(json.loads, file.read_text().splitlines())]
    return [_between(ROLLBACK, effects, rollback, rolled_back), _between(CRASH, effects, crash, alerted)]


def _between(name: str, effects: Sequence[Effect], begin: float, end: float) -> TracedPath:
    """The effects from the first event to the last call of Slack, without those of the idle seconds before."""
    idle = {effect.stack for effect in effects if begin - IDLE_SECONDS <= effect.moment < begin}
    found = [effect for effect in effects if begin <= effect.moment < end]
    while not found[-1].words.startswith(SLACK_CALL):
        found.pop()
    return TracedPath(name, [effect for effect in found if effect.stack not in idle])


@contextmanager
def _quiet_home(folder: Path) -> Iterator[CodeInSlack]:
    """A home whose daemon does next to nothing on its own."""
    clones = origin_and_checkout(folder / "code", HISTORY)
    worker = code_worker(clones.checkout.folder, restart={"policy": "never"})
    settings = {
        "slack": {"enabled": True, "access": ACCESS, "alert_channel": "C0OPS"},
        "supervisor": {"id": "TestHost", "state_dir": "var", "inbox_poll_seconds": 60, "heartbeat_seconds": 0},
        "alerts": {"start_grace_seconds": 0, "check_seconds": 60},
    }
    with a_home(folder / "home", {WORKER: worker}, make=CodeInSlack, **settings) as home:
        assert isinstance(home, CodeInSlack)
        home.clones = clones
        yield home


def section(paths: Sequence[TracedPath]) -> str:
    """The main lines and the counts, as Markdown."""
    lines: list[str] = []
    for path in paths:
        functions, modules = path.counts
        lines += ["", f"**{path.name}**: {functions} functions in {modules} modules.", "", "```"]
        for number, (step, names) in enumerate(path.main_line(), start=1):
            lines += [f"{number:2}  {step}", *(f"      {line}" for line in _by_module(names))]
        lines.append("```")
    return "\n".join([*lines, ""])


def _by_module(functions: Sequence[str]) -> Iterator[str]:
    """`bot.inbound.intake: Intake.receive, Intake.keep`."""
    for module, names in groupby(functions, key=lambda name: name.partition(":")[0]):
        yield f"{module}: {', '.join(name.partition(':')[2] for name in names)}"


def main() -> int:
    for path in trace_paths():
        functions, modules = path.counts
        sys.stdout.write(f"{path.name}: {functions} functions in {modules} modules\n")
        sys.stdout.write("".join(f"  {name}\n" for name in path.functions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
