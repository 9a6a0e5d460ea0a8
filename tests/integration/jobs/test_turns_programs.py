"""A command for several workers as its asker sees it: with the daemon, with passes, in the shell and in the trail."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.daemon.single_passes import log_of
from tests.support.homes import a_home
from tests.support.waiting import wait_until

WORKERS = ("West", "North", "South")
RESTS: dict[str, Any] = {**SLEEPER, "enabled": False}
"""A worker that can't be restarted, and says so at once."""

ONE_AT_A_TIME = {"id": "TestHost", "state_dir": "var", "inbox_poll_seconds": 0.5, "parallel": 1}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    workers = dict.fromkeys(WORKERS, SLEEPER)
    with a_home(tmp_path / "home", workers, make=Host, supervisor=ONE_AT_A_TIME) as made:
        assert isinstance(made, Host)
        yield made


@pytest.fixture
def failing(tmp_path: Path) -> Iterator[Host]:
    """The second of its workers rests."""
    workers = {"West": SLEEPER, "North": RESTS, "South": SLEEPER}
    with a_home(tmp_path / "home", workers, make=Host, supervisor=ONE_AT_A_TIME) as made:
        assert isinstance(made, Host)
        yield made


def test_for_programs_those_not_begun_are_told_apart_from_those_that_failed(failing: Host) -> None:
    failing.start_daemon()
    failing.supervisor("send", "pause", "all", "--wait")
    said = failing.json("send", "restart", "all", "--wait")
    assert (said["success"], said["error"]) == (False, "failed on North; not started on South")
    kinds = [each["details"].get("not_begun", False) for each in said["details"]["workers"]]
    assert kinds == [False, False, True]
    rows = failing.audit(said["task_id"])
    assert [(row["target_id"], row["outcome"]) for row in rows] == [
        ("West", "success"),
        ("North", "failure"),
        ("South", "failure"),
    ]
    path = failing.outbox / f"supervisor_result_restart_watcher_{said['task_id']}_South.json"
    wait_until(path.exists, 20, "its result file")
    assert yaml.safe_load(path.read_text())["details"] == {"not_begun": True, "after": "North"}


def test_a_pass_leaves_its_worker_alone_until_its_turn_has_come(home: Host) -> None:
    task = home.json("send", "restart", "all")["task_id"]

    def one_pass(worker: str) -> int:
        return home.supervisor("once", "--worker-id", worker).returncode

    assert home.supervisor("once", "--worker-id", "North", "--heal").returncode == 0, "that it waits is no failure"
    assert "of North is waiting for West" in log_of(home)
    assert home.audit(task) == []
    assert one_pass("West") == one_pass("North") == 0
    assert [row["target_id"] for row in home.audit(task)] == ["West", "North"]
    assert one_pass("South") == 0
    assert [row["target_id"] for row in home.audit(task)] == list(WORKERS)


@pytest.mark.parametrize("words", ["restart all", "restart all --keep-going"])
def test_for_a_pass_a_worker_that_was_removed_keeps_nobody_waiting(home: Host, words: str) -> None:
    task = home.json("send", words)["task_id"]
    home.configure({"North": SLEEPER, "South": SLEEPER})
    assert home.supervisor("once", "--worker-id", "North", "--heal").returncode == 0
    goes_on = "keep" in words
    told = [("West", "failure"), ("North", "success" if goes_on else "failure")]
    assert [(row["target_id"], row["outcome"]) for row in home.audit(task)][:2] == told
    assert len(home.audit(task)) == (2 if goes_on else len(WORKERS))


def test_a_restart_of_all_goes_on_where_the_daemon_was_stopped_and_started_again(home: Host) -> None:
    home.start_daemon()
    task = home.json("send", "restart", "all")["task_id"]
    wait_until(lambda: home.audit(task), 20, "the first is done")
    assert home.supervisor("stop").returncode == 0
    done = len(home.audit(task))
    assert done < len(WORKERS), "the command in hand is finished, and no other is begun"
    home.start_daemon()
    wait_until(lambda: len(home.audit(task)) == len(WORKERS), 20, "all have had their turn")
    assert [(row["target_id"], row["outcome"]) for row in home.audit(task)] == [(each, "success") for each in WORKERS]


def test_one_that_is_quarantined_in_the_configuration_is_neither_started_nor_stopped_by_anything(home: Host) -> None:
    home.start_daemon()
    pid = home.pids()["North"]
    version = home.version()
    alone = {**SLEEPER, "quarantined": True}
    home.configure({"West": SLEEPER, "North": {**alone, "enabled": False}, "South": SLEEPER, "East": alone})
    wait_until(lambda: home.version() > version, 20, "the configuration was read again")
    for command in ("pause", "resume", "restart"):
        several = home.supervisor(command, "all")
        assert several.returncode == 0, several.stdout
        assert several.stdout.count("quarantined in the configuration") == 2, several.stdout
        for worker in ("North", "East"):
            one = home.supervisor(command, worker)
            if (command, worker) != ("resume", "North"):  # it runs
                assert one.returncode == 1, one.stdout
                assert "is quarantined in the configuration" in one.stdout
    assert (home.pids()["North"], home.pids()["East"]) == (pid, None)
    stopped = home.supervisor("stop", "--workers")
    assert "North was left alone" in stopped.stdout
    assert home.everybody() == [pid]
