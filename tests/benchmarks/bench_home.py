"""A change on the host, from the `kill -9` of a worker until App Home shows it: with one reader, and with five."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from bot.playground import Playground
from tests.support.homes import ROOT, demo_command
from tests.support.slack_home import SlackHome, a_slack_home, started

ROUNDS = 2
APART_SECONDS = 12.0
"""Between two changes, so that each meets a quiet minute; what comes at once is told by `bot/limits.py`."""

PATIENCE = 30.0
WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": {"policy": "never"}}
SIZES = (1, 40, 400)
FEW = 12  # of many workers that run; the others are configured and not enabled
READERS = ("operator", "approver", "viewer", "anna", "bert")


def measure() -> str:
    """For hosts with so many workers: until the first and the last of five readers sees it."""
    lines = [
        "| workers | first of five pages, ms (median, longest) | all five, ms (median, longest) |",
        "| --- " * 3 + "|",
    ]
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            first, last = asyncio.run(_with(Path(folder), size))
        lines.append(f"| {size} | {_both(first)} | {_both(last)} |")
    return "\n".join(lines)


async def _with(folder: Path, size: int) -> tuple[list[float], list[float]]:
    workers = {f"W{number:03}": {**WORKER, "enabled": number < FEW} for number in range(size)}
    first, last = [], []
    with a_slack_home(folder / "home", workers) as home:
        async with Playground(ROOT / "manifest.yml", patience=PATIENCE) as slack:
            await started(home, slack)
            pages = [await slack.user(name).opens_home() for name in READERS]
            for page in pages:
                await page.shows("all is well")
            for number in range(min(ROUNDS, size, FEW)):
                await asyncio.sleep(APART_SECONDS)
                seen = await _killed(home, slack, f"W{number:03}", number + 1)
                first.append(min(seen))
                last.append(max(seen))
    return first, last


async def _killed(home: SlackHome, slack: Playground, worker_id: str, unwell: int) -> list[float]:
    """How long it takes until each page shows that so many need a look, in milliseconds."""
    homes, readers = slack.server.world.workspace.homes, [slack.user(name).id for name in READERS]
    words = f"{unwell} need{'s' if unwell == 1 else ''} a look"
    (pid,) = home.running_copies(worker_id)
    begun = time.perf_counter()
    os.kill(pid, signal.SIGKILL)
    seen: dict[str, float] = {}

    def all_see_it() -> bool:
        for reader in readers:
            if reader not in seen and words in str(homes[reader]["blocks"][1]):
                seen[reader] = (time.perf_counter() - begun) * 1000
        return len(seen) == len(readers)

    await slack.eventually(all_see_it, f"not all saw that {words}")
    return list(seen.values())


def _both(times: Sequence[float]) -> str:
    return f"{statistics.median(times):.0f}, {max(times):.0f}"
