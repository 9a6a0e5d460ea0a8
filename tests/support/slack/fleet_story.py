"""A rolling update over fifty real hosts that fails on the seventh, step by step as people see it in the page.

The new version needs a setting that web-07 lacks. Nothing is simulated: each host is a daemon with a checkout.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from slack_playground import Playground
from tests.support.code.checkout_homes import HISTORY, code_worker, watcher
from tests.support.code.repositories import clone, origin_and_checkout
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.slack.page_story import act_as, message, press, say

if TYPE_CHECKING:
    from playwright.async_api import Locator, Page

NAMES = tuple(f"web-{number:02}" for number in range(1, 51))
LACKS = "web-07"
SETTING = "ARCHIVE_DISK"
NEEDS = f'import os\nif "{SETTING}" not in os.environ:\n    raise SystemExit("{SETTING} is not set")\n'
AT_ONCE = 4  # daemons that start at the same time
PATIENCE_MS = 150_000
"""For any step: the longest is a minute in which a batch must stay healthy."""

OPERATOR, APPROVER = "Operator", "Approver"
UPDATE = "update all"
ENDED = re.compile(r"\d+ workers on \d+ hosts undone")

CardShot = Callable[..., Awaitable[None]]
"""Takes a picture of these messages under a name."""


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


async def tell(page: Page, shot: CardShot) -> None:
    """The approval with a preview of each host, the canary, a batch, the halt, the rollback of those that were updated,
    and the end."""
    await say(page, f"/supervisor {UPDATE} --batch 5 --healthy 1m archive disk")
    card = message(page, "archive disk")
    await _becomes(card, "Approval needed")
    await shot("rolling_preview.png", card)
    await _approve(page, card)
    card = message(page, "Update of all")
    await _becomes(card, "Batch 1 must stay healthy")
    await shot("rolling_canary.png", card)
    await _becomes(card, "Batch 2 must stay healthy")
    await shot("rolling_running.png", card)
    await _becomes(card, "halted")
    await shot("rolling_halted.png", card)
    await press(page, card, "Roll back", "Roll back")
    undo = message(page, "Undo a change")
    await _becomes(undo, "Approval needed")
    await shot("rolling_undo.png", undo)
    await _approve(page, undo)
    undone = message(page, ENDED)
    await _becomes(undone, ENDED)
    await _becomes(card, "10 undone")
    await press(page, card, "Abort", "Abort")
    await _becomes(card, "aborted")
    await shot("rolling_undone.png", card, undone)


async def _approve(page: Page, card: Locator) -> None:
    await act_as(page, APPROVER)
    await press(page, card, "Approve", "Approve")
    await act_as(page, OPERATOR)


async def _becomes(card: Locator, text: str | re.Pattern[str]) -> None:
    """Wait until a message says this; what the page shows instead is in the error."""
    from playwright.async_api import TimeoutError as NotShown

    try:
        await card.get_by_text(text).first.wait_for(timeout=PATIENCE_MS)
    except NotShown:
        shown = await card.page.locator("#timeline").inner_text()
        raise AssertionError(f"No message says {text!r} after {PATIENCE_MS / 1000:.0f} s:\n{shown}") from None
