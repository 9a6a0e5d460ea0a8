"""Exit codes that the daemon learns although it was restarted or killed while its worker ran; no finished job runs
twice."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.daemon_homes import Host
from tests.support.homes import a_home
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=4)

PATIENCE_SECONDS = 30.0
FEW = 8
"""Descriptors that are open only for a moment."""

WORKER = "Job"
RUN_ONCE = "echo run >> runs; until [ -e done ]; do sleep 0.05; done; exit $(cat done)"
"""A job that ends when a file says so, with the exit code in it, and counts its runs."""

KERNEL = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2]) if hasattr(os, "uname") else (0,)


def job(**more: Any) -> dict[str, Any]:
    usual = {"command": ["sh", "-c", RUN_ONCE], "heartbeat_max_age_seconds": 0, "start_grace_seconds": 0.05}
    return {WORKER: {**usual, "stop_timeout_seconds": 10, **more}}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    with a_home(tmp_path / "home", job(), make=Host) as made:
        assert isinstance(made, Host)
        yield made


def runs(home: Host) -> int:
    return (home.folder / "runs").read_text().count("run")


def end_job(home: Host, code: int = 0) -> None:
    temporary = home.folder / "done.new"
    temporary.write_text(str(code))
    temporary.rename(home.folder / "done")


def started(home: Host) -> int:
    home.started()
    wait_until((home.folder / "runs").exists, PATIENCE_SECONDS, "the job runs")
    pid = home.worker(WORKER)["pid"]
    assert isinstance(pid, int)
    return pid


def decided(home: Host) -> str:
    """The reason in `status`, once the end of the job is judged."""

    def is_judged() -> bool:
        return home.worker(WORKER)["pid"] is None and "exited" in home.worker(WORKER)["reason"]

    wait_until(is_judged, PATIENCE_SECONDS, "its end is judged")
    return str(home.worker(WORKER)["reason"])


def stays_ended(home: Host) -> None:
    """A whole round of the reconciler later, the job has still run once."""
    assert home.json("status")["workers"][0]["pid"] is None
    time.sleep(1)
    assert runs(home) == 1


def restarted_in_between(home: Host, act: Callable[[], object]) -> subprocess.CompletedProcess[str]:
    """`daemon restart`, with something that happens when the old program is gone and the new one isn't there yet."""
    with ThreadPoolExecutor(1) as threads, (home.state_dir / "supervisor.log").open() as log:
        log.seek(0, os.SEEK_END)
        restart = threads.submit(home.supervisor, "daemon", "restart")
        wait_until(lambda: "supervisor TestHost stopped" in log.read(), PATIENCE_SECONDS, "the old program has ended")
        act()
        return restart.result(60)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("code", "times"), [(0, 1), (3, 2)])
def test_the_end_of_a_job_while_the_daemon_restarts_is_known(home: Host, code: int, times: int) -> None:
    pid, daemon = started(home), home.daemon()
    done = restarted_in_between(home, lambda: end_job(home, code))
    assert (done.returncode, done.stderr) == (0, "")
    wait_until(lambda: f"{WORKER} (pid {pid}) exited (code {code})" in home.log(), PATIENCE_SECONDS, "its end is known")
    assert f"exited (code {code})" in home.supervisor("why", WORKER).stdout
    if times == 1:
        assert "exited (code 0)" in decided(home)
        stays_ended(home)
    else:
        wait_until(lambda: runs(home) >= times, PATIENCE_SECONDS, "a failure is restarted")
    assert f"Restarted: pid {daemon}." in done.stdout
    assert home.daemon() == daemon, "it's the same process"


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("command", "code"), [("daemon start", 1), ("daemon restart", 0)])
def test_nobody_else_becomes_the_daemon_while_it_restarts(home: Host, command: str, code: int) -> None:
    """It would not be the parent of the workers, and so not learn their exit codes."""
    started(home)
    daemon = home.daemon()
    others: list[subprocess.CompletedProcess[str]] = []
    done = restarted_in_between(home, lambda: others.append(home.supervisor(*command.split())))
    assert (done.returncode, done.stderr) == (0, "")
    assert [other.returncode for other in others] == [code], others
    assert home.daemon() == daemon
    end_job(home)
    assert "exited (code 0)" in decided(home)
    stays_ended(home)


def test_two_who_restart_the_daemon_at_once_both_see_it_restarted(home: Host) -> None:
    started(home)
    daemon = home.daemon()
    with ThreadPoolExecutor(2) as threads:
        both = [threads.submit(home.supervisor, "daemon", "restart") for _ in range(2)]
        assert [(done.result(60).returncode, done.result(60).stderr) for done in both] == [(0, ""), (0, "")]
    assert home.daemon() == daemon
    end_job(home)
    assert "exited (code 0)" in decided(home)


def test_a_restart_keeps_the_workers_and_starts_with_the_new_settings(home: Host) -> None:
    pid, daemon, began = started(home), home.daemon(), home.status()["supervisor"]["started_at"]
    home.configure(job(), logging={"level": "DEBUG"})
    assert home.supervisor("daemon", "restart").returncode == 0
    now = home.status()["supervisor"]
    assert (now["pid"], home.worker(WORKER)["pid"]) == (daemon, pid)
    assert now["started_at"] > began
    assert now["configuration"]["needs_restart"] == []
    open_files = len(list(Path(f"/proc/{daemon}/fd").iterdir()))
    assert home.supervisor("daemon", "restart").returncode == 0
    more = len(list(Path(f"/proc/{daemon}/fd").iterdir())) - open_files
    assert more <= FEW, "no descriptor outlives its program"


def test_systemd_sees_a_reload_of_the_same_process_and_never_a_stop(home: Host) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as heard:
        heard.bind(str(home.folder / "notify"))
        heard.settimeout(PATIENCE_SECONDS)
        home.more_environ |= {"NOTIFY_SOCKET": str(home.folder / "notify"), "WATCHDOG_USEC": "60000000"}
        started(home)
        assert home.supervisor("daemon", "restart").returncode == 0
        told: list[str] = []
        while told.count("READY=1") < 2:
            told.append(heard.recv(4096).decode().partition("\n")[0])
        notices = [each for each in told if not each.startswith("WATCHDOG")]
        assert notices == ["READY=1", "RELOADING=1", "READY=1"]
        assert told[told.index("RELOADING=1") :].count("WATCHDOG=1") >= 1, "the watchdog waits for the new program"


def test_an_invalid_configuration_is_refused_before_anything_stops(home: Host) -> None:
    started(home)
    began = home.status()["supervisor"]["started_at"]
    home.config.write_text(home.config.read_text().replace("heartbeat_max_age_seconds", "heartbeat_max_agge_seconds"))
    done = home.supervisor("daemon", "restart")
    assert done.returncode == 2
    assert "heartbeat_max_agge_seconds" in done.stderr
    assert home.status()["supervisor"]["started_at"] == began


def test_a_new_program_that_fails_at_its_start_is_reported_by_the_command(home: Host) -> None:
    library = home.folder / "library"
    library.mkdir()
    home.more_environ["PYTHONPATH"] = f"{library}:{home.environ['PYTHONPATH']}"
    assert home.quick("start").returncode == 0  # the program from nothing: its output is in a file
    pid = home.worker(WORKER)["pid"]
    (library / "sitecustomize.py").write_text("raise SystemExit('the new version is broken')")
    done = home.supervisor("daemon", "restart")
    assert done.returncode == 1
    assert "the new version is broken" in done.stderr
    assert Path(f"/proc/{pid}").exists(), "its worker keeps running"
    (library / "sitecustomize.py").unlink()
    assert home.supervisor("daemon", "start").returncode == 0
    assert home.worker(WORKER)["pid"] == pid


@pytest.mark.skipif(KERNEL < (6, 15), reason="earlier kernels tell an exit code to the parent only")
def test_after_a_kill_of_the_daemon_the_next_one_learns_the_exit_code(home: Host) -> None:
    pid = started(home)
    home.kill_daemon()
    home.started()
    wait_until(lambda: f"{WORKER} is already running (pid {pid})" in home.log(), PATIENCE_SECONDS, "it's adopted")
    end_job(home)
    assert "exited (code 0)" in decided(home)
    stays_ended(home)


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("setting", "times"), [({}, 2), ({"on_unknown": "restart"}, 2), ({"on_unknown": "leave"}, 1)])
def test_what_follows_an_unknown_exit_code_is_a_setting(home: Host, setting: dict[str, str], times: int) -> None:
    home.configure(job(restart={"backoff_seconds": 0.05, **setting}))
    pid = started(home)
    home.kill_daemon()
    end_job(home)
    wait_until(lambda: home.everybody() == [], PATIENCE_SECONDS, "it has ended while no daemon runs")
    home.started()
    wait_until(lambda: f"{WORKER} (pid {pid}) exited (code unknown)" in home.log(), PATIENCE_SECONDS, "that is said")
    if times == 1:
        assert "exited (code unknown)" in decided(home)
        assert "restart.on_unknown: leave" in home.supervisor("status").stdout
        assert home.supervisor("status").returncode == 1, "nobody knows whether it has done its work"
        stays_ended(home)
    else:
        wait_until(lambda: runs(home) == times, PATIENCE_SECONDS, "it runs again")
        assert "exited (code 0)" in decided(home), "and then its end is known"
