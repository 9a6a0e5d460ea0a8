"""One daemon on a drive full of traps: in place of each file lies what blocks, never ends, or leads elsewhere.

The daemon is watched all the time: what it opens, lists or changes by a path on the drive is a failure.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.programs.drive_traps import a_fifo, a_folder, a_giant, a_hard_link, a_link_to_a_device, a_socket
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

WORKER, DYING = "West", "Dying"
SECRET = "-----BEGIN PRIVATE KEY-----"
SECONDS = 20.0
"""For a command that takes a second on a free machine; in a trap it never ended."""

LOG_OF_DYING = f"nas/05_LOGS/workers/{DYING}.log"
SWAPS_ITS_LOG = f"if [ -e trap ]; then rm -f {LOG_OF_DYING}; mv trap {LOG_OF_DYING}; exit 3; fi; exec sleep 100000"
"""A worker that dies at its start, after somebody has swapped its log on the drive."""

FOLDERS = ("00_STATE", "05_LOGS", "Worker_Inbox", "Worker_Outbox")


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("traps") / "home"
    dying = {**SLEEPER, "command": ["sh", "-c", SWAPS_ITS_LOG], "start_grace_seconds": 10}
    with a_home(folder, {WORKER: SLEEPER, DYING: dying}, Host) as home:
        assert isinstance(home, Host)
        (home.nas / "01_RAW").symlink_to(folder)  # workers use it alone, so it may be a link
        home.start_daemon(program=watched(home))
        home.all_run()
        yield home


def watched(host: Host) -> tuple[str, ...]:
    """`supervisor`, reporting what it names on the drive by its path."""
    return (sys.executable, "-m", "tests.support.programs.watched_drive", str(host.nas), str(host.folder / "report"))


def set_traps(host: Host, trap: Callable[[Path, Path], None]) -> None:
    """Put the trap in place of every file on the drive that the daemon reads or writes for this worker."""
    logs, state = host.nas / "05_LOGS", host.nas / "00_STATE"
    places = [
        *(logs / name for name in ("supervisor.log", f"workers/{WORKER}.log")),
        *(state / f"{name}_heartbeat_{WORKER}.json" for name in ("watcher", "supervisor")),
        state / f"supervisor_pause_{WORKER}.flag",
        host.inbox / f"supervisor_pause_{WORKER}_t1_{trap.__name__}.flag",
    ]
    for place in places:
        place.parent.mkdir(exist_ok=True)
        if place.is_dir() and not place.is_symlink():
            place.rmdir()
        place.unlink(missing_ok=True)
        trap(place, Path("/dev/zero"))


def carry_out(host: Host, text: str) -> tuple[int, str]:
    """A command's exit code and answer; it ends in time, whatever lies on the drive."""
    begun = time.monotonic()
    done = host.supervisor("send", text, "--wait")
    assert time.monotonic() - begun < SECONDS, (text, done.stdout, done.stderr)
    return done.returncode, done.stdout


def answer(host: Host, handler: str, task_id: str) -> dict[str, Any]:
    """The result of a flag."""
    return wait_until(lambda: host.result(handler, task_id) or {}, SECONDS, f"{task_id} is answered")


def failure(host: Host, handler: str, task_id: str) -> str:
    """The error of a flag, which may come after its answer: the worker died within its start grace."""
    words = f"the answer to {task_id} is corrected"
    found: str = wait_until(lambda: answer(host, handler, task_id)["error"] or "", SECONDS, words)
    return found


@pytest.mark.sampled(1)
@pytest.mark.parametrize("trap", [a_socket, a_folder, a_link_to_a_device, a_giant, a_fifo])
def test_no_trap_on_the_drive_keeps_a_worker_from_being_paused_and_resumed(
    host: Host, trap: Callable[[Path, Path], None]
) -> None:
    set_traps(host, trap)
    assert carry_out(host, f"pause {WORKER}")[0] == 0
    assert (host.worker(WORKER)["paused"], host.pids()[WORKER]) == (True, None)
    assert carry_out(host, f"resume {WORKER}")[0] == 0
    assert host.pids()[WORKER]
    reason = host.inbox / "rejected" / f"supervisor_pause_{WORKER}_t1_{trap.__name__}.flag.reason.txt"
    wait_until(reason.exists, SECONDS, "the trap in the inbox is rejected")


def test_a_fifo_in_place_of_the_log_of_a_worker_that_dies_holds_nothing_up(host: Host) -> None:
    a_fifo(host.folder / "trap", Path("/dev/zero"))
    host.drop_flag(f"supervisor_restart_watcher_{DYING}.flag", {"task_id": "t1"})
    assert "exited (code 3)" in failure(host, "restart_watcher", "t1")
    assert carry_out(host, f"pause {DYING}")[0] == 0


def test_a_private_file_in_place_of_a_log_gets_into_no_result(host: Host, tmp_path: Path) -> None:
    secret = tmp_path / "id_ed25519"
    secret.write_text(SECRET)
    a_hard_link(host.folder / "trap", secret)
    host.drop_flag(f"supervisor_resume_{DYING}.flag", {"task_id": "t2"})
    assert "exited (code 3)" in failure(host, "resume", "t2")
    assert SECRET not in json.dumps(answer(host, "resume", "t2"))
    assert SECRET not in host.log()


def test_folders_swapped_for_links_get_nothing_and_a_pause_holds(host: Host, tmp_path: Path) -> None:
    for name in FOLDERS:
        (host.nas / name).rename(host.nas / f"{name}.aside")
        (host.nas / name).symlink_to(tmp_path)
    carry_out(host, f"pause {WORKER}")
    assert (host.worker(WORKER)["paused"], host.pids()[WORKER]) == (True, None)
    carry_out(host, f"diagnostics {WORKER}")
    assert list(tmp_path.iterdir()) == []
    for name in FOLDERS:
        (host.nas / name).unlink()
        (host.nas / f"{name}.aside").rename(host.nas / name)


def test_after_all_that_the_daemon_stops_and_has_named_nothing_on_the_drive_by_its_path(host: Host) -> None:
    """Whoever opens a path can be led elsewhere; the door names everything relative to an open folder."""
    assert carry_out(host, f"restart {WORKER}")[0] == 0
    host.drop_flag(f"supervisor_diagnostics_{WORKER}.flag", {"task_id": "t3"})
    assert answer(host, "diagnostics", "t3")["success"]
    begun = time.monotonic()
    assert host.supervisor("stop").returncode == 0
    assert time.monotonic() - begun < SECONDS
    assert (host.folder / "report").read_text() == ""


def test_nor_do_a_pass_the_doctor_and_the_logs(host: Host) -> None:
    host.drop_flag(f"supervisor_pause_{WORKER}.flag", {"task_id": "t4"})
    passed = host.supervisor("once", "--worker-id", WORKER, program=watched(host))
    assert (passed.returncode, answer(host, "pause", "t4")["success"]) == (0, True), passed.stderr
    host.supervisor("doctor", program=watched(host))
    host.supervisor("send", f"logs {WORKER}", program=watched(host))
    assert (host.folder / "report").read_text() == ""
