"""A rolling update over fifty real hosts that fails on the seventh, step by step as people see it in the page.

The new version needs a setting that web-07 lacks. Nothing is simulated: each host is a daemon with a checkout.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slack_playground import Playground
from tests.support.code.checkout_homes import HISTORY, code_worker, watcher
from tests.support.code.repositories import clone, origin_and_checkout
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.slack.page_story import Shot, act_as, message, press, say

if TYPE_CHECKING:
    from playwright.async_api import Page

NAMES = tuple(f"web-{number:02}" for number in range(1, 51))
LACKS = "web-07"
SETTING = "ARCHIVE_DISK"
NEEDS = f'import os\nif "{SETTING}" not in os.environ:\n    raise SystemExit("{SETTING} is not set")\n'
AT_ONCE = 4  # daemons that start at the same time
PATIENCE_MS = 600_000
OPERATOR, APPROVER = "Operator", "Approver"
UPDATE = "update all"


@asynccontextmanager
async def fifty_hosts(slack: Playground) -> AsyncIterator[FleetHomes]:
    """The hosts, their hub, and a commit that waits in the origin."""
    with tempfile.TemporaryDirectory(prefix="fifty-") as name:
        folder = Path(name)
        clones = origin_and_checkout(folder / "code", HISTORY)
        workers = {}
        for host in NAMES:
            worker = code_worker(clone(clones.origin, folder / "checkouts" / host).folder)
            workers[host] = {"fetcher": {**worker, "env": {} if host == LACKS else {SETTING: "/srv"}}}
        clones.comes_in({"watcher.py": NEEDS + watcher(4)}, "Keep the archive on its own disk", "Ann Lee <ann@x.org>")
        with a_fleet(folder / "fleet", NAMES, workers_of=workers, alert_channel="C0OPS") as fleet:
            places = asyncio.Semaphore(AT_ONCE)

            async def start(host: str) -> None:
                async with places:
                    await asyncio.to_thread(fleet.hosts[host].start_daemon)

            await asyncio.gather(*map(start, NAMES))
            await fleet.start_hub(slack)
            yield fleet


async def tell(page: Page, shot: Shot) -> None:
    """The approval, the canary, the halt, the rollback of those that were updated, and the end."""
    await say(page, f"/supervisor {UPDATE} --batch 5 --healthy 1m archive disk")
    card = message(page, "archive disk")
    await card.get_by_text("Approval needed").wait_for(timeout=PATIENCE_MS)
    await shot("rolling_preview.png")
    await act_as(page, APPROVER)
    await press(page, card, "Approve", "Approve")
    await act_as(page, OPERATOR)
    card = message(page, "Update of all")
    await card.get_by_text("must stay healthy").wait_for(timeout=PATIENCE_MS)
    await shot("rolling_canary.png")
    await card.get_by_text("batch 2 of").first.wait_for(timeout=PATIENCE_MS)
    await shot("rolling_batch.png")
    await card.get_by_text("halted").first.wait_for(timeout=PATIENCE_MS)
    await shot("rolling_halted.png")
    await press(page, card, "Roll back", "Roll back")
    undo = message(page, "Undo a change")
    await undo.get_by_text("Approval needed").wait_for(timeout=PATIENCE_MS)
    await shot("rolling_undo.png")
    await act_as(page, APPROVER)
    await press(page, undo, "Approve", "Approve")
    await act_as(page, OPERATOR)
    done = message(page, "undone")
    await done.get_by_text(re.compile(r"\d+ workers on \d+ hosts undone")).first.wait_for(timeout=PATIENCE_MS)
    await press(page, card, "Abort", "Abort")
    await card.get_by_text("aborted").first.wait_for(timeout=PATIENCE_MS)
    await shot("rolling_undone.png")
