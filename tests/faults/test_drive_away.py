"""With the shared drive away, or hanging, workers are started, restarted and paused, and their output comes later."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supervisor_core.processes.output.files import read_output_end
from tests.support.homes import Home, a_home
from tests.support.processes.worker_outputs import counting, everything
from tests.support.programs.hanging_drive import hanging_drive
from tests.support.waiting import wait_until

PROMPTLY_SECONDS = 10.0
"""From the kill to the next process; a restart policy that waits 0.2 s, on a busy machine."""

MOST_REPEATS = 3


@contextmanager
def a_host(folder: Path) -> Iterator[Home]:
    restart = {"policy": "always", "backoff_seconds": 0.2, "max_per_hour": 20}
    workers: dict[str, Any] = {"Local": counting(2e3, 1e6, restart=restart)}
    workers["There"] = counting(1, 1e6, restart=restart, cwd="nas/work")
    supervisor = {
        "id": "TestHost",
        "state_dir": "var",
        "inbox_poll_seconds": 0.3,
        "default_worker": "Local",
        "reconcile_seconds": 1,
    }
    with a_home(folder, workers, supervisor=supervisor) as home:
        (home.nas / "work").mkdir()
        yield home


def running(home: Home, worker_id: str) -> list[int]:
    """The PID of a worker that runs, whatever folder it runs in."""
    pid = home.worker(worker_id)["pid"]
    return [pid] if pid else []


def works(home: Home) -> None:
    """Kill the worker and see it back; then restart, pause and resume it from the shell."""
    (pid,) = wait_until(lambda: home.running_copies("Local"), 10, "it runs")
    os.kill(pid, signal.SIGKILL)
    killed_at = time.monotonic()
    (again,) = wait_until(lambda: [each for each in home.running_copies("Local") if each != pid], 30, "it is back")
    assert time.monotonic() - killed_at < PROMPTLY_SECONDS
    wait_until(lambda: home.worker("Local")["state"] == "running", 10, "it counts as running")
    for command in ("restart", "pause", "resume"):
        told = home.json("send", command, "--wait")
        assert told["success"], told
        expected = 0 if command == "pause" else 1
        wait_until(lambda: len(home.running_copies("Local")) == expected, 10, f"{command} is seen")  # noqa: B023
    assert again not in home.running_copies("Local")


def all_is_delivered(home: Home) -> None:
    """The drive has what was captured, in order and once. The worker is paused for that, so that it is quiet."""
    assert home.json("send", "pause", "--wait")["success"]
    captured, there = home.output("Local"), home.nas / "05_LOGS" / "workers" / "Local.log"
    wait_until(lambda: there.exists() and everything(there) == everything(captured), 20, "the drive has all output")
    assert home.json("send", "resume", "--wait")["success"]


def says_nothing_again_and_again(home: Home) -> None:
    lines = (home.state_dir / "supervisor.log").read_text().splitlines()
    said = Counter(
        line.partition("] [SUPERVISOR] ")[2] for line in lines if "a result file is waiting" not in line
    )  # one each
    assert [line for line, count in said.items() if count > MOST_REPEATS] == []


def test_with_the_drive_away_from_the_start_or_later_workers_run_and_their_output_follows(tmp_path: Path) -> None:
    with a_host(tmp_path / "home") as home:
        away = home.folder / "elsewhere"
        home.nas.rename(away)
        home.start_daemon()
        works(home)
        assert not home.nas.exists()
        away.rename(home.nas)
        all_is_delivered(home)
        (there,) = wait_until(lambda: running(home, "There"), 20, "the one that needs the drive has come up")
        home.nas.rename(away)
        os.kill(there, signal.SIGKILL)
        works(home)
        wait_until(lambda: "nas isn't a folder" in str(home.worker("There")["last_error"]), 10, "why it's down is told")
        away.rename(home.nas)
        wait_until(lambda: running(home, "There"), 20, "it has come up again")
        all_is_delivered(home)
        says_nothing_again_and_again(home)
        home.nas.rename(away)
        (pid,) = home.running_copies("Local")
        os.kill(pid, signal.SIGKILL)
        assert home.supervisor("stop").returncode == 0
        assert home.supervisor("once", "--worker-id", "Local", "--heal").returncode == 1, "the drive is a finding"
        assert len(home.running_copies("Local")) == 1, "and the worker runs"


def test_with_a_drive_that_hangs_workers_run_and_their_output_follows(tmp_path: Path) -> None:
    with a_host(tmp_path / "home") as home:
        hangs = home.folder / "hangs"
        home.start_daemon(program=hanging_drive(hangs, home.nas))
        all_is_delivered(home)
        hangs.touch()
        works(home)
        says_nothing_again_and_again(home)
        hangs.unlink()
        all_is_delivered(home)
        assert home.supervisor("stop").returncode == 0


def test_output_stays_small_while_the_drive_hangs(tmp_path: Path) -> None:
    now, limits = tmp_path / "now", {"max_bytes": 200_000, "backups": 1}
    with a_home(tmp_path / "home", {"Local": counting(2e6, 3.0, str(now))}, logging=limits) as home:
        hangs = home.folder / "hangs"
        home.start_daemon(program=hanging_drive(hangs, home.nas))
        hangs.touch()
        now.touch()
        largest, captured = 0, home.output("Local")

        def has_finished() -> bool:
            nonlocal largest
            largest = max(largest, captured.stat().st_size)
            return read_output_end(captured, 5).data == b"done\n"

        wait_until(has_finished, 30, "it has printed all")
        assert largest < 2e6, "a call to the drive takes a second to fail"
        hangs.unlink()


NEEDS_THE_DRIVE = """
import pathlib, sys, time
while pathlib.Path(sys.argv[1]).is_dir():
    time.sleep(0.05)
sys.exit("the drive is away")
"""


def test_a_worker_that_exits_because_the_drive_is_away_is_not_quarantined_and_comes_back(tmp_path: Path) -> None:
    """The restart after the drive is back is the first one that counts."""
    nas = tmp_path / "home" / "nas"
    command = ["{python}", "-c", NEEDS_THE_DRIVE, str(nas), "--worker-id", "{worker_id}"]
    restart = {"policy": "on-failure", "backoff_seconds": 0.1, "max_per_hour": 2}
    worker = {"command": command, "start_grace_seconds": 0.1, "heartbeat_max_age_seconds": 0, "restart": restart}
    with a_home(tmp_path / "home", {"North": worker}) as home:
        away = home.folder / "elsewhere"
        home.start_daemon()
        wait_until(lambda: home.running_copies("North"), 10, "it runs")
        home.nas.rename(away)

        def exits() -> int:
            return home.daemon_log().count("not counted while the shared drive is away")

        wait_until(lambda: exits() >= 3, 30, "it has been restarted more often than an hour allows")
        assert home.worker("North")["restarts_last_hour"] == 0
        away.rename(home.nas)
        wait_until(lambda: home.running_copies("North"), 30, "it runs again")
        wait_until(lambda: home.worker("North")["restarts_last_hour"] == 1, 10, "this one counts")
        assert "quarantined" not in home.daemon_log()
