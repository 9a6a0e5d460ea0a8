"""Restart: gone before it is started, alive before it is a success; what may not or could not start is left alone.

A person's restart starts a paused worker once, and the pause stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.commands.command import Outcome
from supervisor_core.common import crashpoints
from supervisor_core.daemon.control.client import ask
from supervisor_core.jobs import handlers as restart
from supervisor_core.workers.pauses import Pause
from tests.support.homes import Home, a_home, demo_command
from tests.support.intake.handler_hosts import FakeHost
from tests.support.waiting import wait_until

BETWEEN_SECONDS = restart.BETWEEN_SECONDS
HANG = ("ignore-term", "hang", "freeze")


class Place(FakeHost):
    """A host whose processes are the fake ones, and whose drive can be taken away."""

    def restart(self, issuer: str = "cli:anna") -> Outcome:
        return self.carry_out("restart_watcher", issuer)

    def running(self) -> int:
        """Start it as somebody who restarts what does not run; its PID."""
        assert self.restart().success
        assert self.pid is not None
        return self.pid


@pytest.fixture(autouse=True)
def _no_moment_between(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the processes are fake, nothing has to be let go of. The real programs wait all the same."""
    monkeypatch.setattr(restart, "BETWEEN_SECONDS", 0)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    worker = {
        "command": demo_command("--control", "{worker_id}.control", "--poll-seconds", "0.05"),
        "start_grace_seconds": 0.2,
        "stop_timeout_seconds": 1,
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}) as made:
        yield made


@pytest.fixture
def after_the_stop(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], object]], None]:
    """Has something happen when the worker is stopped and not yet started."""

    def arrange(happen: Callable[[], object]) -> None:
        monkeypatch.setattr(crashpoints, "reach", lambda point: happen() if point == "worker.stop:after" else None)

    return arrange


def test_a_command_from_the_shell_puts_a_new_process_in_the_place_of_the_old(home: Home) -> None:
    home.start_daemon()
    wait_until(lambda: beat_of(home), 20, "it heeds its stop signal")
    (old,) = home.running_copies("OrionMX")

    sent = home.supervisor("send", "restart hangs on a scan", "--wait")

    assert (sent.returncode, sent.stderr) == (0, "")
    (new,) = home.running_copies("OrionMX")
    assert new != old
    assert f"\nok: Restarted OrionMX (pid {old} → {new})\n" in sent.stdout
    (row,) = home.audit()
    assert (row["action"], row["target_id"], row["outcome"]) == ("RESTART_WATCHER", "OrionMX", "success")
    said = json.loads(row["details_json"])
    assert said["label"] == "hangs on a scan"
    details = said["result"]
    assert (details["old_pid"], details["new_pid"]) == (old, new)
    assert (details["was_running"], details["ending"], details["exit_code"]) == (True, "graceful", 0)
    assert details["seconds"] >= BETWEEN_SECONDS, "a moment passed"
    worker = home.worker("OrionMX")
    assert (worker["pid"], worker["state"], worker["health"]) == (new, "running", "healthy")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("word", HANG)
def test_a_worker_that_hangs_is_killed_and_a_new_one_works(home: Home, word: str) -> None:
    home.start_daemon()
    (old,) = home.running_copies("OrionMX")
    misbehave(home, word)
    (home.folder / "OrionMX.control").unlink()  # the next one behaves
    outcome = home.json("send", "restart", "--wait")
    assert outcome["success"], outcome
    assert home.running_copies("OrionMX") == [outcome["details"]["new_pid"]] != [old]
    wait_until(lambda: home.worker("OrionMX")["health"] == "healthy", 10, "the new one is healthy")


def test_a_daemon_that_is_told_to_stop_finishes_the_restart_in_hand(tmp_path: Path) -> None:
    times = {"stop_timeout_seconds": 20, "start_grace_seconds": 0.5}
    worker = {"command": demo_command("--misbehave", "ignore-term"), **times}
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        daemon = home.start_daemon()
        (old,) = home.running_copies("OrionMX")
        wait_until(lambda: beat_of(home), 20, "it beats, and so ignores TERM")
        assert home.supervisor("send", "restart").returncode == 0
        wait_until(lambda: home.worker("OrionMX")["state"] == "stopping", 10, "it is under way")
        told = ask(str(home.state_dir), {"do": "stop"})
        assert told["bound_seconds"] >= sum(times.values()), "time for both halves"
        os.kill(old, signal.SIGKILL)
        assert daemon.wait(20) == 0, home.daemon_log()
        (row,) = home.audit()
        assert row["outcome"] == "success", row["details_json"]
        assert home.running_copies("OrionMX") == [json.loads(row["details_json"])["result"]["new_pid"]]


def test_a_person_starts_a_paused_worker_once_and_it_comes_up_paused(home: Home) -> None:
    home.start_daemon()
    assert home.json("send", "pause hotfix", "--wait")["success"]
    (flag,) = (home.nas / "00_STATE").glob("supervisor_pause_*")
    words = flag.read_text()
    outcome = home.json("send", "restart", "--wait")
    assert outcome["success"], outcome
    details = outcome["details"]
    assert (details["paused"], details["was_running"]) == (True, False)
    assert "It's still paused by" in details["message"]
    assert home.running_copies("OrionMX") == [details["new_pid"]]
    assert flag.read_text() == words, "the flag is left as it was"
    wait_until(lambda: beat_of(home).get("pid") == details["new_pid"], 10, "the new one beats")
    assert (beat_of(home)["status"], beat_of(home)["items_done"]) == ("paused", 0)
    worker = home.worker("OrionMX")
    assert (worker["state"], worker["health"], worker["paused"], worker["fine"]) == ("running", "healthy", True, True)
    shown = home.supervisor("status").stdout
    assert "running" in shown
    assert "paused by" in shown
    (home.nas / "00_STATE" / flag.name).unlink()
    wait_until(lambda: beat_of(home)["status"] == "running", 10, "it works again")


def test_nothing_else_starts_or_stops_a_paused_worker_that_a_restart_has_started(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    home.drop_flag("supervisor_restart_watcher_OrionMX.flag", {})
    assert home.supervisor("once").returncode == 0
    (pid,) = home.running_copies("OrionMX")
    assert home.supervisor("once", "--heal").returncode == 0
    home.start_daemon()
    assert home.running_copies("OrionMX") == [pid]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: home.worker("OrionMX")["state"] == "stopped", 10, "it is gone")
    assert home.supervisor("stop").returncode == 0
    assert home.supervisor("once", "--heal").returncode == 0, "paused, so nobody brings it up"
    assert home.running_copies("OrionMX") == []


def test_a_worker_that_dies_at_its_start_is_said_to_be_down_with_its_last_words(tmp_path: Path) -> None:
    """Whatever a worker reads may have been broken since it was started: only its next start shows."""
    command = ["sh", "-c", "cat settings && exec sleep 100"]
    with a_home(tmp_path / "home", {"OrionMX": {"command": command, "start_grace_seconds": 1}}) as home:
        (home.folder / "settings").write_text("fine")
        home.start_daemon()
        old = home.worker("OrionMX")["pid"]
        (home.folder / "settings").unlink()
        sent = home.json("send", "restart", "--wait")
        assert not sent["success"]
        error = sent["error"]
        assert error.startswith("OrionMX was stopped, but couldn't be started: it's down.")
        assert "then: restart OrionMX" in error
        assert "settings" in error
        wait_until(
            lambda: home.worker("OrionMX")["state"] == "backing_off", 10, "the daemon waits before it tries again"
        )
        (home.folder / "settings").write_text("fine again")
        again = home.json("send", "restart", "--wait")
        assert (again["success"], again["details"]["was_running"]) == (True, False)
        assert home.worker("OrionMX")["pid"] == again["details"]["new_pid"] != old


def test_what_was_stuck_may_be_restarted_when_it_is_no_longer(place: Place) -> None:
    place.running()
    place.processes.unkillable("OrionMX")
    assert "is stuck" in str(place.restart().error)
    assert len(place.processes.started) == 1
    place.processes.unkillable("OrionMX", is_so=False)
    assert place.restart().success


@pytest.mark.parametrize(
    ("setting", "words"),
    [({"enabled": False}, "workers.OrionMX.enabled"), ({"quarantined": True}, "workers.OrionMX.quarantined")],
    ids=["not enabled", "quarantined"],
)
def test_one_that_is_not_to_run_is_not_started_and_the_key_is_named(
    tmp_path: Path, setting: dict[str, bool], words: str
) -> None:
    place = Place(tmp_path, **setting)
    outcome = place.restart()
    assert (outcome.success, str(outcome.error).startswith("OrionMX wasn't restarted.")) == (False, True)
    assert words in str(outcome.error)
    assert place.processes.started == []


@pytest.mark.parametrize("issuer", ["schedule:nightly", "supervisor"])
def test_who_is_no_person_neither_starts_nor_stops_a_paused_worker(place: Place, issuer: str) -> None:
    pid = place.running()
    place.host.pauses.set("OrionMX", Pause("cli:bob", label="bob - wait"))
    outcome = place.restart(issuer)
    assert (outcome.success, outcome.details["pid"], place.pid) == (False, pid, pid)
    assert "OrionMX wasn't restarted. OrionMX is paused by bob" in str(outcome.error)
    assert "resume OrionMX" in str(outcome.error)
    place.host.pauses.set("OrionMX", None)
    assert place.restart(issuer).success, "one that is not paused it may restart"


def test_one_that_is_paused_while_it_stops_is_not_started(
    place: Place, after_the_stop: Callable[[Callable[[], object]], None]
) -> None:
    place.running()
    after_the_stop(lambda: place.host.pauses.set("OrionMX", Pause("cli:bob", label="bob - wait")))
    outcome = place.restart()
    assert (outcome.success, place.pid) == (False, None)
    assert "OrionMX was stopped, but not started again. OrionMX is paused by bob" in str(outcome.error)
    assert outcome.details["paused_meanwhile"] is True


def test_a_drive_that_goes_while_it_stops_keeps_no_worker_down(
    place: Place, after_the_stop: Callable[[Callable[[], object]], None]
) -> None:
    place.running()
    after_the_stop(lambda: place.nas.rename(place.nas.with_name("away")))
    outcome = place.restart()
    assert (outcome.success, place.pid) == (True, outcome.details["new_pid"])


@pytest.mark.parametrize(
    ("worker", "spoil", "words"),
    [
        ({"cwd": "bin"}, lambda folder: (folder / "bin").rename(folder / "gone"), "workers.OrionMX.cwd"),
        ({"command": ["bin/run"]}, lambda folder: (folder / "bin/run").unlink(), "isn't executable: bin/run"),
        ({"command": ["bin/run"]}, lambda folder: (folder / "bin/run").chmod(0o600), "isn't executable: bin/run"),
        (
            {"command": ["run"], "env": {"PATH": "bin"}},
            lambda folder: (folder / "bin/run").unlink(),
            "isn't executable: run",
        ),
        ({}, lambda folder: in_the_way(folder / "var/output/OrionMX.log"), "isn't a regular file"),
        ({}, lambda folder: (folder / "var/output").write_text("in the way"), "var/output"),
        ({"cwd": "nas"}, lambda folder: (folder / "nas").rename(folder / "away"), "The drive isn't mounted"),
    ],
    ids=[
        "no folder",
        "no program",
        "not executable",
        "not in the PATH",
        "no log file",
        "no log folder",
        "no drive",
    ],
)
def test_one_that_could_not_be_started_again_is_not_stopped(
    tmp_path: Path, worker: dict[str, Any], spoil: Callable[[Path], object], words: str
) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/run").write_text("#!/bin/sh\n")
    (tmp_path / "bin/run").chmod(0o700)
    place = Place(tmp_path, **worker)
    pid = place.running()
    shutil.rmtree(tmp_path / "var/output")
    spoil(tmp_path)
    outcome = place.restart()
    assert (outcome.success, place.pid) == (False, pid)
    assert "wasn't restarted, because it couldn't be started" in str(outcome.error)
    assert words in str(outcome.error)
    assert f"It's still running (pid {pid})" in str(outcome.error)


def misbehave(home: Home, word: str) -> None:
    """Have the demo worker misbehave, and see that it heard."""
    (home.folder / "OrionMX.control").write_text(word)
    output = home.output("OrionMX")
    wait_until(lambda: f"told to misbehave: {word}" in output.read_text(), 10, "the worker took the word")


def beat_of(home: Home) -> dict[str, Any]:
    """What the worker last said of itself."""
    path = home.nas / "00_STATE" / "watcher_heartbeat_OrionMX.json"
    beat: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return beat


def in_the_way(path: Path) -> None:
    """A folder where a file should be."""
    path.mkdir(parents=True)
