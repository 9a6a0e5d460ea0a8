"""One worker, one process: whoever started it, and whatever its heartbeat says, no second copy is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from supervisor_core.host.process_facts.facts import GENERATION_VARIABLE
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.processes.records import generation_prefix
from tests.support.homes import Home, a_home
from tests.support.skips import skip_or_fail
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=5)

NOBODY = 65534
SLEEP = "import time; time.sleep(100)"
FORKS = "import os, time; os.fork(); time.sleep(100)"


class Shell:
    """A home, and a shell beside it in which somebody starts programs by hand."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.folder = home.folder
        self.python = home.folder / "venv" / "bin" / "python3"
        self.python.parent.mkdir(parents=True)
        self.python.symlink_to(sys.executable)
        self._started: list[subprocess.Popen[bytes]] = []

    def configure(self, *command: str, settings: Mapping[str, Any] | None = None, twin: bool = False) -> None:
        """The worker's command, further settings, and on demand a second worker with the very same ones."""
        document = yaml.safe_load(self.home.config.read_text())
        worker = document["workers"]["OrionMX"] | {"command": list(command), **(settings or {})}
        document["workers"] = {"OrionMX": worker} | ({"Twin": worker} if twin else {})
        self.home.config.write_text(yaml.safe_dump(document))
        self.home.worker_ids = tuple(document["workers"])

    def start(self, *command: str, user: int | None = None, **environ: str) -> int:
        """A program in the worker's folder, found by the PATH of this shell; its PID."""
        env = {**self.home.environ, "PATH": f"{self.python.parent}:{os.environ['PATH']}", **environ}
        started = subprocess.Popen(command, cwd=self.folder, env=env, user=user)
        self._started.append(started)
        wait_until(lambda: self.words(started.pid)[-1:] == list(command[-1:]), 10, "it is the program")
        return started.pid

    def words(self, pid: int) -> list[str]:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")[:-1]

    def beat(self, pid: int, worker_id: str = "OrionMX", age: float = 0.0) -> None:
        """Write a heartbeat that names this process."""
        state = self.home.nas / "00_STATE"
        state.mkdir(exist_ok=True)
        at = datetime.now(UTC) - timedelta(seconds=age)
        beat = {"pid": pid, "hostname": os.uname().nodename, "status": "running", "utc": at.isoformat()}
        (state / f"watcher_heartbeat_{worker_id}.json").write_text(json.dumps(beat))

    def copies(self) -> list[int]:
        """Every live process that works in the folder."""
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                here = (entry / "cwd").readlink() == self.folder.resolve()
                ended = (entry / "stat").read_text().rpartition(") ")[2].startswith("Z")
                words = self.words(int(entry.name))
            except OSError:
                continue
            is_ours = "supervisor_core.cli" in words or any("forkserver" in word for word in words)
            if here and not ended and not is_ours:
                found.append(int(entry.name))  # no command of the supervisor that is just ending
        return sorted(found)

    def worker(self, worker_id: str = "OrionMX") -> Mapping[str, Any]:
        found: list[dict[str, Any]] = self.home.json("status")["workers"]
        return next(each for each in found if each["id"] == worker_id)

    def why(self) -> str:
        return self.home.supervisor("send", "why OrionMX").stdout

    def check(self) -> Mapping[str, Any]:
        """What `doctor` says of the workers."""
        checks: list[dict[str, Any]] = self.home.json("doctor")["checks"]
        return next(each for each in checks if each["name"] == "workers")

    def told(self, handler: str, task_id: str) -> Mapping[str, Any]:
        """What came of a command that a pass carried out."""
        self.home.drop_flag(f"supervisor_{handler}_OrionMX_{task_id}.flag", {})
        self.home.supervisor("once", "--worker-id", "OrionMX")
        result = self.home.result(handler, task_id)
        assert result is not None
        return result

    def lives(self, pid: int) -> bool:
        return next(each for each in self._started if each.pid == pid).poll() is None

    def end(self) -> None:
        for each in self._started:
            each.kill()
            each.wait()


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with a_home(tmp_path / "home") as home:
        made = Shell(home)
        try:
            yield made
        finally:
            made.end()


@pytest.mark.parametrize("beats", [True, False], ids=["with a heartbeat", "without one"])
def test_a_worker_started_through_the_path_is_adopted_and_no_second_one_started(shell: Shell, beats: bool) -> None:
    shell.configure(str(shell.python), "-c", SLEEP)
    pid = shell.start("python3", "-c", SLEEP)
    assert shell.words(pid)[0] == "python3", "not what the configuration says"
    if beats:
        shell.beat(pid)
    done = shell.home.supervisor("once", "--heal")
    assert shell.copies() == [pid], done.stderr
    assert (shell.worker()["state"], shell.worker()["pid"]) == ("running", pid)
    assert shell.told("pause", "t1")["success"]
    assert not shell.lives(pid)


def test_a_daemon_adopts_it_without_a_heartbeat_and_its_pause_ends_it(shell: Shell) -> None:
    shell.configure(str(shell.python), "-c", SLEEP)
    pid = shell.start("python3", "-c", SLEEP)
    shell.home.start_daemon()
    assert shell.home.worker("OrionMX")["pid"] == pid
    assert shell.home.supervisor("send", "pause", "--wait").returncode == 0
    assert not shell.lives(pid)


def test_a_script_is_recognized_by_its_first_line(shell: Shell) -> None:
    script = shell.folder / "worker.py"
    script.write_text("#!/usr/bin/env python3\nimport time\ntime.sleep(100)\n")
    script.chmod(0o755)
    path = f"{shell.python.parent}:{os.environ['PATH']}"
    shell.configure(str(script), "--fast", settings={"env": {"PATH": path}})
    pid = shell.start("./worker.py", "--fast")
    wait_until(lambda: shell.words(pid)[0] == "python3", 10, "the interpreter runs it")
    shell.home.supervisor("once", "--heal")
    assert (shell.copies(), shell.worker()["pid"]) == ([pid], pid)


def test_a_process_of_another_user_is_neither_adopted_nor_stopped_nor_doubled(shell: Shell) -> None:
    if os.geteuid() != 0:
        skip_or_fail("only root can start a process of another user")
    shell.configure("sleep", "100")
    pid = shell.start("sleep", "100", user=NOBODY)
    identity = identify(pid)
    shell.beat(pid)
    done = shell.home.supervisor("once", "--heal")
    assert (done.returncode, shell.copies()) == (1, [pid])
    worker = shell.worker()
    assert (worker["fine"], worker["pid"]) == (False, None)
    assert f"pid {pid} (sleep)" in worker["reason"]
    assert "runs as nobody, not as root" in worker["reason"]
    assert f"pid {pid}" in shell.why()
    assert (shell.check()["ok"], f"pid {pid}" in shell.check()["message"]) == (False, True)
    result = shell.told("pause", "t1")
    assert (result["success"], result["details"]["may_run"]) == (False, [pid])
    assert shell.home.supervisor("stop", "--workers").returncode == 1
    assert identify(pid) == identity
    assert shell.lives(pid)


def test_a_daemon_names_who_blocks_a_start_and_starts_the_worker_once_that_ended(shell: Shell) -> None:
    if os.geteuid() != 0:
        skip_or_fail("only root can start a process of another user")
    shell.configure("sleep", "100")
    document = yaml.safe_load(shell.home.config.read_text())
    document["supervisor"]["reconcile_seconds"] = 0.5
    shell.home.config.write_text(yaml.safe_dump(document))
    pid = shell.start("sleep", "100", user=NOBODY)
    shell.home.start_daemon(wait=False)

    def is_blocked() -> bool:  # between two tries, which begin anew every half second
        worker = shell.worker()
        named = f"pid {pid} (sleep) looks like OrionMX, but can't be adopted" in worker["reason"]
        return named and (worker["state"], worker["pid"]) == ("stuck", None)

    wait_until(is_blocked, 20, "it is named")
    assert f"pid {pid}" in shell.why()
    assert shell.lives(pid)
    shell.end()
    wait_until(lambda: shell.worker()["pid"], 20, "its own one runs")
    assert len(shell.copies()) == 1


def test_a_forged_launch_of_another_user_is_not_taken_for_a_lost_worker(shell: Shell) -> None:
    if os.geteuid() != 0:
        skip_or_fail("only root can start a process of another user")
    shell.home.state_dir.mkdir(mode=0o700)
    forged = generation_prefix(shell.home.state_dir, "OrionMX") + "0" * 32
    pid = shell.start("sleep", "100", user=NOBODY, **{GENERATION_VARIABLE: forged})
    assert shell.worker()["pid"] is None
    assert shell.told("pause", "t1")["success"]
    assert shell.lives(pid)


def test_a_fresh_heartbeat_that_names_a_live_process_blocks_the_start_until_it_is_stale(shell: Shell) -> None:
    shell.configure(str(shell.python), "-c", SLEEP)
    pid = shell.start("sleep", "100")
    shell.beat(pid)
    done = shell.home.supervisor("once", "--heal")
    assert (done.returncode, shell.copies()) == (1, [pid])
    assert f"The heartbeat of OrionMX names pid {pid} (sleep)" in shell.worker()["reason"]
    result = shell.told("pause", "t1")
    assert (result["success"], result["details"]["may_run"]) == (False, [pid])
    assert not shell.told("resume", "t2")["success"]
    assert shell.lives(pid), "a heartbeat alone never has anybody signaled"
    shell.beat(pid, age=301)
    assert shell.told("resume", "t3")["success"]
    assert len(shell.copies()) == 2
    assert shell.lives(pid)


def test_a_copy_beside_the_running_worker_blocks_its_restart_and_ends_with_a_pause(shell: Shell) -> None:
    shell.configure(str(shell.python), "-c", SLEEP)
    shell.home.supervisor("once", "--heal")
    (ours,) = shell.copies()
    other = shell.start("python3", "-c", SLEEP)
    result = shell.told("restart_watcher", "t1")
    assert (result["success"], f"(pids {ours}, {other})" in result["error"]) == (False, True)
    assert shell.copies() == sorted([ours, other]), "it goes on"
    assert f"running more than once (also pid {other})" in " ".join(shell.why().split())
    assert shell.told("pause", "t2")["success"]
    assert shell.copies() == []


def test_a_child_with_the_same_command_line_is_no_second_copy(shell: Shell) -> None:
    shell.configure(str(shell.python), "-c", FORKS)
    pid = shell.start("python3", "-c", FORKS)
    wait_until(lambda: len(shell.copies()) == 2, 10, "it has forked")
    shell.home.supervisor("once", "--heal")
    assert len(shell.copies()) == 2
    assert shell.worker()["pid"] == pid
    assert shell.check()["ok"], shell.check()
    assert shell.told("pause", "t1")["success"]
    assert shell.copies() == []


def test_of_two_workers_with_the_same_command_one_adopts_the_process_and_the_other_starts_its_own(
    shell: Shell,
) -> None:
    shell.configure(str(shell.python), "-c", SLEEP, twin=True)
    pid = shell.start("python3", "-c", SLEEP)
    for worker_id in ("Twin", "OrionMX"):
        shell.home.supervisor("once", "--heal", "--worker-id", worker_id)
    assert shell.worker("Twin")["pid"] == pid
    assert shell.worker()["pid"] not in (None, pid)
    assert len(shell.copies()) == 2


def test_two_processes_that_look_like_it_are_named_and_neither_adopted_nor_joined_by_a_third(shell: Shell) -> None:
    shell.configure(str(shell.python), "-c", SLEEP)
    pids = sorted(shell.start("python3", "-c", SLEEP) for _ in range(2))
    done = shell.home.supervisor("once", "--heal")
    assert (done.returncode, shell.copies()) == (1, pids)
    worker = shell.worker()
    assert worker["pid"] is None
    assert all(f"pid {pid}" in worker["reason"] for pid in pids)
    assert not shell.told("resume", "t1")["success"]
    result = shell.told("pause", "t2")
    assert (result["success"], result["details"]["may_run"], shell.copies()) == (False, pids, pids)
