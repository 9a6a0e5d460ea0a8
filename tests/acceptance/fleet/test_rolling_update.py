"""A rolling update over three hosts: it halts where the new version doesn't run, and is rolled back from its card."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from slack_playground.testing.cards import Card
from tests.support.code.checkout_homes import HISTORY, code_worker, watcher
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.programs.armed import armed
from tests.support.slack.slack_home import started

HOSTS = ("web-1", "web-2", "web-3")
GOOD, BROKEN = {"watcher.py": watcher(4)}, {"watcher.py": "raise SystemExit('broken')\n"}


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, Clones]:
    return {name: origin_and_checkout(tmp_path / "code" / name, HISTORY) for name in HOSTS}


@pytest.fixture
def fleet(tmp_path: Path, sites: dict[str, Clones]) -> Iterator[FleetHomes]:
    grace = {"start_grace_seconds": 1.0}  # on a busy machine, a Python that fails takes longer than the usual 0.1 s
    workers = {name: {"fetcher": code_worker(site.checkout.folder, **grace)} for name, site in sites.items()}
    with a_fleet(tmp_path / "fleet", HOSTS, workers_of=workers) as made:
        yield made


@pytest.mark.playground(patience=40)
async def test_an_update_halts_at_the_host_where_it_fails_and_is_rolled_back_after_a_crash_of_the_hub(
    fleet: FleetHomes, sites: dict[str, Clones], slack: Playground
) -> None:
    before = {name: site.checkout.head for name, site in sites.items()}
    newest = {name: site.comes_in(BROKEN if name == "web-2" else GOOD) for name, site in sites.items()}
    hub = await fleet.start(slack, program=armed("rolling_changes_t.running:after"))
    operator, approver = slack.user("operator"), slack.user("approver")
    await operator.slash("/supervisor update all --batch 1 --healthy 0m hotfix")
    card = await slack.channel("ops").shows("3 batches")
    await card.button("Approve").click(as_=approver, confirm=True)
    assert await asyncio.to_thread(hub.wait, 40) == -signal.SIGKILL, "the hub dies as it releases the second batch"
    await started(fleet.hub, slack)
    await card.becomes("Update of all halted")
    await card.shows("web-2/fetcher failed, 1 of 3 done, batch 2 of 3")
    await card.shows("broken. It runs the previous version again.")
    heads = {name: site.checkout.head for name, site in sites.items()}
    assert heads == {**before, "web-1": newest["web-1"]}, "the third host was never asked"

    mark = slack.mark()
    await card.button("Roll back").click(as_=operator, confirm=True)
    undo = Card(slack, operator.user, slack.channel("ops").channel, mark)
    await undo.shows("Undo a change to web-1/fetcher?")
    await undo.button("Approve").click(as_=approver, confirm=True)
    await undo.becomes("undone")
    assert sites["web-1"].checkout.tree() == sites["web-1"].checkout.tree(before["web-1"])
    await card.button("Abort").click(as_=operator, confirm=True)
    await card.becomes("Update of all aborted")
    rows = await asyncio.to_thread(fleet.hub.trail)
    decided = [(row["action"], row["outcome"]) for row in rows if row["action"].startswith("ROLLING")]
    assert decided == [
        ("ROLLING_STARTED", "success"),
        ("ROLLING_BATCH", "success"),
        ("ROLLING_HALTED", "failure"),
        ("ROLLING_ABORTED", "success"),
    ]
