"""A worker killed from outside after a code change: nothing blames the change, and nobody is offered an undo for it."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from bot.views.cards.alert import AlertDetails, alert_card
from supervisor_core.alerts.rules import Alert
from supervisor_core.diagnosis.why.evidence import Weight, evidence
from supervisor_core.workers.conditions import Condition, Target
from supervisor_core.workers.restarts.policy import WorkerRun
from tests.support.code.checkout_homes import CodeHome, code_worker, watcher
from tests.support.code.commits import straight
from tests.support.code.repositories import origin_and_checkout
from tests.support.diagnosis.worker_facts import CHANGE, NOW, TRACEBACK, UPDATE, ago, down
from tests.support.homes import a_home
from tests.support.waiting import wait_until

HISTORY = straight({"watcher.py": watcher(1)}, {"watcher.py": watcher(2)})
PROMPT = {"policy": "always", "max_per_hour": 2, "backoff_seconds": 0}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeHome]:
    clones = origin_and_checkout(tmp_path / "code", HISTORY)
    workers = {"Code": code_worker(clones.checkout.folder, restart=PROMPT)}
    with a_home(tmp_path / "home", workers, CodeHome) as made:
        assert isinstance(made, CodeHome)
        made.clones = clones
        yield made


def test_kills_by_hand_after_a_rollback_are_no_evidence_against_it(home: CodeHome) -> None:
    home.start_daemon()
    done = home.supervisor("send", "rollback Code 1", "--wait")
    assert done.returncode == 0, done.stderr
    for kills in range(3):
        wait_until(lambda: home.worker("Code")["state"] == "running", 20, f"it runs after {kills} kills")
        pid = home.worker("Code")["pid"]
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda pid=pid: home.worker("Code")["pid"] != pid, 20, "its end was noticed")  # type: ignore[misc]
    wait_until(lambda: home.worker("Code")["quarantined"], 20, "it is given up")
    (told,) = home.json("send", "why Code")
    assert told["cause"] == "quarantined", told
    assert "crashed (SIGKILL) 3 times (not sent by the supervisor" in told["sentence"]
    assert not any("undo" in command for command in told["commands"])
    words = " ".join(home.supervisor("send", "why Code").stdout.split())
    assert re.search(r"Code last changed [0-9.]+ m?s?(in)? ?.*ago; the exits don't point to it", words), words
    assert "has degraded" not in home.daemon_log()


@pytest.mark.parametrize(
    ("code", "lines", "weight"),
    [
        (-9, TRACEBACK, Weight.NONE),
        (137, TRACEBACK, Weight.NONE),
        (-15, (), Weight.NONE),
        (143, (), Weight.NONE),
        (None, (), Weight.NONE),
        (-11, (), Weight.SOME),
        (1, (), Weight.SOME),
        (1, tuple(line.replace("watcher.py", "other.py") for line in TRACEBACK), Weight.SOME),
        (1, TRACEBACK, Weight.STRONG),
        (1, tuple(line.replace("watcher.py", "/srv/code/watcher.py") for line in TRACEBACK), Weight.STRONG),
        (1, tuple(line.replace("watcher.py", "/srv/notwatcher.py") for line in TRACEBACK), Weight.SOME),
    ],
)
def test_evidence_is_weighed_by_the_exit_and_the_files_of_its_traceback(
    code: int | None, lines: tuple[str, ...], weight: Weight
) -> None:
    facts = down(WorkerRun(ago(140), ago(137), code), change=CHANGE, lines=lines)
    assert evidence(facts, CHANGE).weight is weight


def test_an_alert_about_a_killed_worker_says_that_the_code_before_it_is_not_to_blame() -> None:
    for ended, cleared in (("crashed (SIGKILL)", True), ("crashed (SIGSEGV)", False), ("exited (code 1)", False)):
        alert = Alert("k3f9x2qa", Target("worker", "OrionMX"), Condition.DOWN, f"{ended} after 2 s", ago(60), 7)
        assert (
            "so its code is an unlikely cause" in str(alert_card(AlertDetails(alert, before=UPDATE), NOW))
        ) == cleared
