"""`kill -9` of the daemon with workers in every state: the next one takes exactly them over, and does nothing twice."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.daemon import ownership as runtime_file
from tests.support.code.checkout_homes import WORKER, CodeHome, a_code_home, watcher
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.programs.armed import armed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

TASK = "task_20260205_001"
PATIENCE_SECONDS = 30.0
CRASHES = {"command": ["sh", "-c", "exit 3"], "heartbeat_max_age_seconds": 0, "start_grace_seconds": 0.05}
GIVEN_UP = {**CRASHES, "restart": {"max_per_hour": 1, "backoff_seconds": 0.05}}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    never = {**SLEEPER, "restart": {"policy": "never"}}
    workers = {"North": SLEEPER, "South": SLEEPER, "Once": never, "Paused": SLEEPER, "Broken": GIVEN_UP}
    with a_home(tmp_path / "home", workers, make=Host) as made:
        assert isinstance(made, Host)
        yield made


def settled(home: Host) -> dict[str, int | None]:
    """The daemon is up, one worker is paused and one given up; the PIDs."""
    home.started()
    assert home.json("send", "pause Paused", "--wait")["success"]
    wait_until(lambda: home.worker("Broken")["quarantined"], PATIENCE_SECONDS, "one is given up")
    pids = home.pids()
    assert {name for name, pid in pids.items() if pid} == {"North", "South", "Once"}
    return pids


def worker_starts(home: Host) -> int:
    return len(re.findall(r"\] \w+ started \(pid ", home.log()))


def as_before(home: Host, pids: dict[str, int | None]) -> None:
    """All is as it was: the same processes, the same rest, nobody twice."""
    starts = worker_starts(home)
    already = home.json("send", "resume South", "--wait")  # the whole road of a command, and the round that follows it
    assert (already["success"], already["details"]["already_running"]) == (True, True)
    assert home.pids() == pids
    assert sorted(home.everybody()) == sorted(pid for pid in pids.values() if pid)
    assert home.worker("Paused")["paused"]
    assert home.worker("Broken")["quarantined"]
    assert (home.worker("Paused")["state"], home.worker("Broken")["state"]) == ("stopped", "quarantined")
    assert worker_starts(home) == starts


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", ["start", "daemon restart"])
def test_the_next_one_says_that_it_took_over_and_adopts_exactly_the_same(home: Host, command: str) -> None:
    pids = settled(home)
    starts = worker_starts(home)
    killed = home.kill_daemon()
    said = runtime_file.read(home.state_dir)
    assert (said["running"], said["pid"]) == (True, killed)
    done = home.supervisor(*command.split())
    assert (done.returncode, done.stderr) == (0, "")
    assert f"The previous daemon (pid {killed}) crashed. The new one takes over its workers." in done.stdout
    as_before(home, pids)
    assert worker_starts(home) == starts
    said = runtime_file.read(home.state_dir)
    assert (said["running"], said["pid"]) == (True, home.daemon())
    again = home.supervisor("daemon", "restart")
    assert "crashed" not in again.stdout, "it is said once"
    as_before(home, pids)


def test_one_that_died_meanwhile_is_started_by_its_policy_and_no_other(home: Host) -> None:
    pids = settled(home)
    home.kill_daemon()
    for name in ("North", "Once"):
        pid = pids[name]
        assert pid
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: home.everybody() == [pids["South"]], 10, "they are dead")
    home.started()
    wait_until(lambda: home.worker("North")["state"] == "running", PATIENCE_SECONDS, "the one that should run does")
    new = home.pids()["North"]
    assert new != pids["North"]
    once = home.worker("Once")
    assert (once["pid"], once["state"]) == (None, "stopped"), "its policy is never"
    as_before(home, {**pids, "North": new, "Once": None})


def test_one_that_was_removed_meanwhile_is_ended_and_one_that_is_new_is_started(home: Host) -> None:
    pids = settled(home)
    home.kill_daemon()
    workers = {"South": SLEEPER, "Once": {**SLEEPER, "restart": {"policy": "never"}}, "New": SLEEPER}
    home.configure({**workers, "Paused": SLEEPER, "Broken": GIVEN_UP})
    home.started()
    wait_until(lambda: home.pids().get("New"), PATIENCE_SECONDS, "the new one runs")
    wait_until(lambda: pids["North"] not in home.everybody(), PATIENCE_SECONDS, "the removed one is ended")
    now = home.pids()
    assert {name: now[name] for name in ("South", "Once")} == {name: pids[name] for name in ("South", "Once")}
    assert home.worker("Paused")["paused"]
    assert home.worker("Broken")["quarantined"]


def test_what_is_wanted_survives_a_stop_as_well(home: Host) -> None:
    pids = settled(home)
    assert home.supervisor("stop").returncode == 0
    said = runtime_file.read(home.state_dir)
    assert said["running"] is False
    assert said["stopped_at"] >= said["started_at"]
    workers = said["workers"]
    assert {name: worker["actual"]["pid"] for name, worker in workers.items()} == pids
    assert (workers["Paused"]["desired"]["paused"], workers["Broken"]["desired"]["quarantined"]) == (True, True)
    home.started()
    as_before(home, pids)
    assert home.json("send", "resume Paused", "--wait")["success"], "a person ends it"


@pytest.fixture
def code(tmp_path: Path) -> Iterator[CodeHome]:
    with a_code_home(tmp_path) as made:
        yield made


PAUSED, RUNS = True, False


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("handler", "point", "paused"),
    [
        ("update_code", "git.merge:after", RUNS),
        ("rollback_code", "git.revert:after", RUNS),
        ("pause", "worker.stop:after", PAUSED),
        ("pause", "handler:before", RUNS),
    ],
)
def test_killed_in_the_middle_of_a_command_it_is_interrupted_and_the_worker_is_as_it_is_wanted(
    code: CodeHome, handler: str, point: str, paused: bool
) -> None:
    code.clones.comes_in({"watcher.py": watcher(4)})
    code.crash(point, handler, TASK)
    there = code.clones.checkout.head
    started = code.supervisor("start")
    try:
        assert (started.returncode, started.stderr) == (0, "")
        assert ") crashed." in started.stdout
        result = code.came(handler, TASK)
        assert not result["success"]
        assert "It isn't run again automatically" in result["error"]
        (row,) = code.rows(TASK)
        assert (row["outcome"], code.states(TASK)) == ("interrupted", ["interrupted"])
        assert result["details"]["paused"] is paused
        wait_until(lambda: code.worker(WORKER)["state"] != "starting", PATIENCE_SECONDS, "a plan is made")
        assert code.worker(WORKER)["paused"] is paused
        if paused:
            wait_until(lambda: code.running_copies(WORKER) == [], PATIENCE_SECONDS, "who is paused rests")
            assert code.worker(WORKER)["state"] == "stopped"
        else:
            wait_until(lambda: code.worker(WORKER)["state"] == "running", PATIENCE_SECONDS, "who is not runs")
            assert code.running_copies(WORKER) == [code.worker(WORKER)["pid"]]
            assert code.runs_what_is_on_disk()
        assert code.clones.checkout.head == there, "nothing is run again"
        again = code.supervisor("daemon", "restart")
        assert again.returncode == 0
        assert [row["outcome"] for row in code.rows(TASK)] == ["interrupted"], "told once"
        assert len(code.running_copies(WORKER)) == (0 if paused else 1)
    finally:
        code.supervisor("stop")


def test_killed_between_the_pause_and_the_stop_it_says_that_it_runs_all_the_same_until_it_is_asked_again(
    code: CodeHome,
) -> None:
    code.crash("worker.stop:before", "pause", TASK)
    (pid,) = code.running_copies(WORKER)
    code.start_daemon()
    result = code.came("pause", TASK)
    assert (result["success"], result["details"]["paused"], result["details"]["pid"]) == (False, True, pid)
    assert f"{WORKER} is running (pid {pid}) and paused" in result["error"]
    assert (code.worker(WORKER)["state"], code.worker(WORKER)["pid"]) == ("running", pid)
    assert code.running_copies(WORKER) == [pid], "one that runs though it is paused is for a person to decide about"
    code.order("pause", "again")
    assert code.came("pause", "again")["success"]
    assert code.running_copies(WORKER) == []


def test_killed_again_while_it_comes_up_the_third_one_says_it_all_once(code: CodeHome) -> None:
    code.crash("worker.stop:after", "pause", TASK)
    second = code.start_daemon(program=armed("jobs_t.interrupted:after"), wait=False)
    assert second.wait(30) == -signal.SIGKILL
    code.start_daemon()
    assert not code.came("pause", TASK)["success"]
    assert [row["outcome"] for row in code.rows(TASK)] == ["interrupted"]
    assert code.worker(WORKER)["paused"]
    assert code.running_copies(WORKER) == []
