"""The single pass, as a task scheduler runs it: its flags, its exit codes, and what it does beside others."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.homes import SUPERVISOR, Home, a_home, demo_command
from tests.support.waiting import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with a_home(tmp_path / "home") as made:
        made.inbox.mkdir()
        yield made


def once(home: Home, *words: str) -> int:
    return home.supervisor("once", "--worker-id", "OrionMX", *words).returncode


def test_a_worker_that_should_run_and_does_not_is_1_and_healed_is_0(home: Home) -> None:
    assert once(home) == 1
    assert home.running_copies("OrionMX") == []
    assert once(home, "--heal") == 0
    (pid,) = home.running_copies("OrionMX")
    assert once(home) == 0
    assert home.running_copies("OrionMX") == [pid]


def test_paused_is_0_and_a_paused_worker_is_not_healed(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert once(home) == 0
    assert once(home, "--heal") == 0
    assert home.running_copies("OrionMX") == []


def test_the_module_is_the_same_program(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {"label": "module"})
    program = (sys.executable, "-m", "supervisor_core")
    done = home.supervisor("--worker-id", "OrionMX", "--config", str(home.config), program=program)
    assert done.returncode == 0, done.stderr
    assert [row["action"] for row in home.audit()] == ["PAUSE"]


def test_a_rejected_flag_is_1_with_its_reason_beside_it_and_an_outcome(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    home.drop_flag("supervisor_resume_OrionMX_t7.flag", {"label": "no/slash"})
    assert once(home) == 1
    rejected = home.inbox / "rejected" / "supervisor_resume_OrionMX_t7.flag"
    assert rejected.exists()
    assert "'/'" in rejected.with_name(f"{rejected.name}.reason.txt").read_text()
    result = home.result("resume", "t7")
    assert result is not None
    assert result["success"] is False
    assert [(row["action"], row["outcome"]) for row in home.audit()] == [("REFUSED", "failure"), ("PAUSE", "success")]


def test_a_half_written_flag_has_a_moment_to_be_finished_and_is_then_rejected(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    assert once(home) == 0
    home.drop_flag("supervisor_resume_OrionMX.flag", b'{"label": "half')
    with ThreadPoolExecutor(1) as pool:
        passing = pool.submit(once, home)
        time.sleep(2)
        home.drop_flag("supervisor_resume_OrionMX.flag", {"label": "whole"})
        assert passing.result(30) == 0
    assert [row["action"] for row in home.audit()] == ["PAUSE", "RESUME"]
    home.drop_flag("supervisor_pause_OrionMX.flag", b'{"label": "half')
    assert once(home) == 1
    assert home.audit()[-1]["action"] == "REFUSED"


def test_flags_for_other_workers_are_not_touched(home: Home) -> None:
    home.drop_flag("supervisor_pause_OrionMX.flag", {})
    home.drop_flag("supervisor_pause_OrionMX2.flag", {})
    assert once(home) == 0
    assert [path.name for path in home.inbox.glob("*.flag")] == ["supervisor_pause_OrionMX2.flag"]


def test_beside_a_daemon_it_does_nothing_says_who_and_is_0(home: Home) -> None:
    daemon = home.start_daemon()
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 0
    assert str(daemon.pid) in done.stdout


def test_a_drive_that_is_not_there_is_1_and_never_made(home: Home) -> None:
    home.nas.rename(home.folder / "elsewhere")
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 1
    assert "nas" in done.stderr
    assert not home.nas.exists()


def test_a_command_works_with_the_drive_away_and_its_result_follows(home: Home) -> None:
    home.start_daemon()
    away = home.folder / "elsewhere"
    home.nas.rename(away)
    outcome = home.json("send", "pause drive away", "--wait")
    assert outcome["success"], outcome
    assert home.running_copies("OrionMX") == []
    away.rename(home.nas)
    wait_until(lambda: home.result("pause", outcome["task_id"]), 30, "the result is there")
    flag = home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag"
    wait_until(flag.exists, 30, "the pause flag is there")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("workers: [", "line"), ("workrs: {}", "workers"), ("", "empty"), ("supervisor: {state_dir: 3.5}", "state_dir")],
)
def test_a_configuration_that_cannot_be_used_is_2_in_one_clear_line(home: Home, text: str, expected: str) -> None:
    home.config.write_text(text)
    done = home.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 2
    assert expected in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_without_a_worker_id_the_only_worker_is_meant_and_of_several_none(tmp_path: Path) -> None:
    worker = {"command": demo_command()}
    with a_home(tmp_path / "home", {"North": worker, "South": worker}) as home:
        done = home.supervisor("once")
        assert (done.returncode, "North" in done.stderr) == (2, True)


def test_a_configuration_that_is_right_and_would_not_work_is_said(home: Home) -> None:
    home.nas.rename(home.folder / "elsewhere")
    text = home.config.read_text().replace("'{python}'", "nosuchprogram")
    home.config.write_text(text)
    checked = home.supervisor("config", "check")
    assert checked.returncode == 0
    assert "Warning: nas.root" in checked.stdout
    assert "the program nosuchprogram doesn't exist" in checked.stdout


def test_a_flag_for_what_needs_an_approval_is_rejected(tmp_path: Path) -> None:
    approvals = {"required_for": ["pause"], "doors": ["flag"]}
    with a_home(tmp_path / "home", slack={"approvals": approvals}) as home:
        home.drop_flag("supervisor_pause_OrionMX.flag", {})
        assert once(home) == 1
        reason = home.inbox / "rejected" / "supervisor_pause_OrionMX.flag.reason.txt"
        assert "needs an approval with 1 vote" in reason.read_text()
        assert [row["action"] for row in home.audit()] == ["REFUSED"]


def in_the_background(home: Home, worker_id: str = "OrionMX") -> subprocess.Popen[bytes]:
    """A pass that is under way."""
    words = [*SUPERVISOR, "once", "--worker-id", worker_id]
    return subprocess.Popen(words, cwd=home.folder, env=home.environ, stderr=subprocess.DEVNULL)


def heartbeat(home: Home) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((home.nas / "00_STATE" / "supervisor_heartbeat_OrionMX.json").read_text())
    return found


def logged(home: Home) -> str:
    path = home.state_dir / "supervisor.log"
    return path.read_text() if path.exists() else ""


@pytest.fixture
def slow(tmp_path: Path) -> Iterator[Home]:
    """Two workers; to stop the one takes three seconds."""
    deaf = {
        "command": demo_command("--misbehave", "ignore-term"),
        "start_grace_seconds": 0.2,
        "stop_timeout_seconds": 3,
    }
    with a_home(tmp_path / "home", {"OrionMX": deaf, "West": {"command": demo_command()}}) as made:
        assert once(made, "--heal") == 0
        made.inbox.mkdir(exist_ok=True)
        yield made


def pausing(home: Home, *then: str) -> subprocess.Popen[bytes]:
    """A pass that is stopping the worker, which takes its time, and has these flags to follow after that."""
    home.drop_flag("supervisor_pause_OrionMX_t1.flag", {"label": "slow"})
    for name in then:
        home.drop_flag(name, {})
    running = in_the_background(home)
    wait_until(lambda: "[t1 - slow] pause of OrionMX started" in logged(home), 20, "the pause is under way")
    return running


def test_a_second_pass_for_the_same_worker_does_nothing_and_says_who_is_at_it(slow: Home) -> None:
    running = pausing(slow)
    done = slow.supervisor("once", "--worker-id", "OrionMX")
    assert done.returncode == 0
    assert f"Another pass for OrionMX is running (pid {running.pid}" in done.stdout
    assert running.poll() is None, "it is still at work"
    assert running.wait(30) == 0
    assert [row["action"] for row in slow.audit()] == ["PAUSE"]


def test_passes_for_different_workers_go_side_by_side(slow: Home) -> None:
    running = pausing(slow)
    done = slow.supervisor("once", "--worker-id", "West", "--heal")
    assert done.returncode == 0, done.stderr
    assert len(slow.running_copies("West")) == 1
    assert running.poll() is None, "it is still at work"
    assert running.wait(30) == 0


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT"])
def test_a_signal_lets_the_handler_in_hand_finish_and_the_rest_wait(slow: Home, name: str) -> None:
    running = pausing(slow, "supervisor_restart_watcher_OrionMX_t2.flag")
    running.send_signal(getattr(signal, name))
    assert running.wait(30) == 130
    assert [(row["task_id"], row["outcome"]) for row in slow.audit()] == [("t1", "success")]
    assert slow.running_copies("OrionMX") == []
    result = slow.result("pause", "t1")
    assert result is not None
    assert result["success"]
    said = heartbeat(slow)
    assert (said["success"], said["actions"]) == (False, ["pause"])
    assert f"Received {name}, stopping" in said["error"]
    assert once(slow) == 0, "the next pass does what waited"
    assert [row["task_id"] for row in slow.audit()] == ["t1", "t2"]


def test_the_second_look_decides_and_the_log_tells_of_both(home: Home) -> None:
    home.drop_flag("supervisor_resume_OrionMX.flag", {})
    assert once(home) == 0
    assert "OrionMX was stopped, missing before this pass and is now running, healthy" in logged(home)
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: home.running_copies("OrionMX") == [], message="it is gone")
    assert once(home) == 1
    assert heartbeat(home)["error"] == "OrionMX is missing: not running, but should be"


def test_a_handler_that_failed_is_1_and_in_the_heartbeat(tmp_path: Path) -> None:
    with a_home(tmp_path / "home", {"OrionMX": {"command": ["false"], "start_grace_seconds": 5}}) as home:
        home.drop_flag("supervisor_pause_OrionMX_t1.flag", {})
        home.drop_flag("supervisor_restart_watcher_OrionMX_t2.flag", {})
        assert once(home) == 1, "paused is well, and a failed restart is not"
        said = heartbeat(home)
        assert (said["success"], said["actions"]) == (False, ["pause", "restart_watcher"])
        assert said["error"].startswith("restart failed: OrionMX wasn't running and couldn't be started")


def test_a_stale_heartbeat_is_a_warning_and_1(tmp_path: Path) -> None:
    worker = {
        "command": demo_command("--control", "{worker_id}.control"),
        "start_grace_seconds": 0.2,
        "heartbeat_max_age_seconds": 1,
    }
    with a_home(tmp_path / "home", {"OrionMX": worker}) as home:
        assert once(home, "--heal") == 0
        (home.folder / "OrionMX.control").write_text("stale")
        wait_until(lambda: home.json("status")["workers"][0]["health"] == "stale", 20, "it is stale")
        done = home.supervisor("once")
        assert done.returncode == 1
        assert "[WARNING] OrionMX is stale: last heartbeat" in done.stderr
        assert "[ERROR]" not in done.stderr
        assert "stale" in heartbeat(home)["error"]


def test_a_worker_that_is_stopped_by_a_signal_is_frozen_after_ten_seconds_and_a_pass_waits_for_that(home: Home) -> None:
    assert once(home, "--heal") == 0
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGSTOP)
    begun = time.monotonic()
    done = home.supervisor("once")
    assert done.returncode == 1
    assert "[ERROR] OrionMX is frozen: stopped by a signal for" in done.stderr
    assert time.monotonic() - begun >= 10
    assert home.json("status")["workers"][0]["health"] == "frozen", "what a pass has seen, all know"
    os.kill(pid, signal.SIGCONT)
    assert once(home) == 0


def test_one_that_is_stopped_for_a_moment_is_not_frozen(home: Home) -> None:
    assert once(home, "--heal") == 0
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGSTOP)
    running = in_the_background(home)
    note = home.state_dir / "workers" / "OrionMX.frozen"
    wait_until(note.exists, 20, "the pass has seen it")
    os.kill(pid, signal.SIGCONT)
    assert running.wait(20) == 0
    assert not note.exists()


def test_a_drive_that_is_away_is_1_and_what_the_shell_asked_for_is_done_all_the_same(home: Home) -> None:
    assert home.supervisor("send", "pause away").returncode == 0
    home.nas.rename(home.folder / "elsewhere")
    done = home.supervisor("once")
    assert done.returncode == 1
    assert done.stderr.count("[ERROR] The drive isn't mounted") == 1
    assert [(row["action"], row["outcome"]) for row in home.audit()] == [("PAUSE", "success")]
    (home.folder / "elsewhere").rename(home.nas)
    assert once(home) == 0
    assert heartbeat(home)["success"]
    assert (home.nas / "00_STATE" / "supervisor_pause_OrionMX.flag").exists()


def test_all_is_a_pass_for_every_worker_and_the_worst_outcome_counts(tmp_path: Path) -> None:
    workers = {name: {"command": demo_command(), "start_grace_seconds": 0.2} for name in ("East", "West")}
    with a_home(tmp_path / "two", {**workers, "Broken": {"command": ["false"]}}) as home:
        home.inbox.mkdir()
        for name in ("East", "Broken"):
            home.drop_flag(f"supervisor_pause_{name}.flag", {})
        done = home.supervisor("once", "--all")
        assert done.returncode == 1, "West should run and doesn't"
        assert sorted(row["target_id"] for row in home.audit() if row["action"] == "PAUSE") == ["Broken", "East"]
        assert home.supervisor("once", "--all", "--heal").returncode == 0
        assert len(home.running_copies("West")) == 1
        assert home.supervisor("once", "--all", "--worker-id", "East").returncode == 2
