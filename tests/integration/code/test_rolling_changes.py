"""A rolling update on one host with real checkouts: it halts at a version that doesn't run, and is undone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.code.checkout_homes import HISTORY, code_worker, watcher
from tests.support.code.repositories import Clones, origin_and_checkout
from tests.support.homes import Home, a_home
from tests.support.waiting import wait_until

WORKERS = ("W1", "W2", "W3", "W4")
GOOD, BROKEN = {"watcher.py": watcher(4)}, {"watcher.py": "raise SystemExit('broken')\n"}


@pytest.fixture
def sites(tmp_path: Path) -> dict[str, Clones]:
    return {name: origin_and_checkout(tmp_path / name, HISTORY) for name in WORKERS}


@pytest.fixture
def home(tmp_path: Path, sites: dict[str, Clones]) -> Iterator[Home]:
    workers = {name: code_worker(site.checkout.folder) for name, site in sites.items()}
    with a_home(tmp_path / "home", workers) as made:
        yield made


def progress(home: Home, task_id: str) -> dict[str, Any]:
    """The progress of a rolling change as the shell shows it."""
    details: dict[str, Any] = home.json("rolling", "status", task_id)["details"]
    return details


def becomes(home: Home, task_id: str, state: str) -> dict[str, Any]:
    """The progress, once it has this state."""
    words = f"the change is {state}:\n{home.daemon_log()}"
    wait_until(lambda: progress(home, task_id)["state"] == state, 40, words)
    return progress(home, task_id)


def heads(sites: dict[str, Clones]) -> dict[str, str]:
    return {name: site.checkout.head for name, site in sites.items()}


def test_a_version_that_does_not_run_halts_it_and_the_changed_workers_are_undone(
    home: Home, sites: dict[str, Clones]
) -> None:
    before = heads(sites)
    newest = {name: site.comes_in(BROKEN if name == "W3" else GOOD) for name, site in sites.items()}
    daemon = home.start_daemon()
    task_id = home.json("send", "update all --batch 2 --healthy 0m")["task_id"]
    told = becomes(home, task_id, "halted")
    assert told["workers"] == {"done": ["W1"], "watched": ["W2"], "failed": ["W3"], "waiting": ["W4"]}
    assert list(told["failures"]) == ["W3"]
    assert heads(sites) == {**before, "W1": newest["W1"], "W2": newest["W2"]}
    daemon.kill()
    daemon.wait(10)
    home.start_daemon()
    assert progress(home, task_id) == told, "it's still halted after a crash"
    undone = home.json("send", f"rolling undo {task_id}", "--wait")
    assert undone["success"], undone
    assert [each["worker_id"] for each in undone["details"]["workers"]] == ["W1", "W2"]
    assert home.json("rolling", "abort", task_id)["details"]["workers"]["not started"] == ["W4"]
    trees = {name: site.checkout.tree() for name, site in sites.items()}
    assert trees == {name: site.checkout.tree(before[name]) for name, site in sites.items()}
    actions = [row["action"] for row in home.audit(task_id) if row["action"].startswith("ROLLING")]
    assert actions == ["ROLLING_STARTED", "ROLLING_BATCH", "ROLLING_HALTED", "ROLLING_ABORTED"]
