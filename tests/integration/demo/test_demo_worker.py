"""The demo's worker: it does what a good worker does, and no more; tests of stubborn workers have it misbehave."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.signals import KILL, send, wait_ended
from supervisor_core.processes import children
from supervisor_core.processes.finding import scan_processes
from supervisor_core.processes.launch import LaunchSpec
from supervisor_core.processes.manager import HostProcesses
from supervisor_core.processes.records import generation_prefix
from tests.support.waiting import wait_until

ID = "OrionMX"
ROOT = Path(__file__).parents[3]


class Demo:
    """The worker, started through the door, with quick heartbeats."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = folder / "worker.log"
        (folder / "var").mkdir()
        self.door = HostProcesses(folder / "var")

    def start(self, *more: str) -> ProcessIdentity:
        command = [sys.executable, "-m", "supervisor_core.demo.worker", "--worker-id", ID, "--state-dir", "."]
        quick = ["--poll-seconds", "0.05", "--heartbeat-seconds", "0.05"]
        env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        spec = LaunchSpec(ID, (*command, *quick, *more), self.folder, env, self.log)
        identity = self.door.start(spec).identity
        assert identity is not None
        wait_until(lambda: "started" in self.said(), message="the worker's first line")
        return identity

    def working(self) -> ProcessIdentity:
        identity = self.start()
        wait_until(lambda: self.heartbeat().get("items_done", 0) >= 1, message="the first item")
        return identity

    def said(self) -> str:
        return self.log.read_text() if self.log.exists() else ""

    def heartbeat(self) -> dict[str, Any]:
        path = self.folder / f"watcher_heartbeat_{ID}.json"
        document: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return document

    def end(self) -> None:
        left = [member.identity for member in scan_processes().members(generation_prefix(self.folder / "var", ID))]
        for identity in left:
            send(identity, KILL)
        assert wait_ended(left, 10) == ()
        children.reap()


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Demo]:
    made = Demo(tmp_path)
    yield made
    made.end()


def test_it_imports_nothing_of_the_project() -> None:
    code = (
        "import sys, supervisor_core.demo.worker\n"
        "ours = {name for name in sys.modules if name.startswith('supervisor_core')}\n"
        "sys.exit(' '.join(ours - {'supervisor_core', 'supervisor_core.demo', 'supervisor_core.demo.worker'}) or 0)"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert run.returncode == 0, run.stderr


def test_its_heartbeat_says_what_the_contract_asks_for(demo: Demo) -> None:
    identity = demo.working()
    beat = demo.heartbeat()
    asked_for = {"watcher_id", "pid", "hostname", "status", "utc", "poll_seconds"}
    assert set(beat) == asked_for | {"progress_utc", "version", "items_done"}
    assert (beat["watcher_id"], beat["pid"], beat["status"], beat["poll_seconds"]) == (
        ID,
        identity.pid,
        "running",
        0.05,
    )
    assert abs(datetime.now(UTC) - datetime.fromisoformat(beat["utc"])) < timedelta(minutes=1)


@pytest.mark.parametrize("name", ["TERM", "INT"])
def test_asked_to_stop_it_finishes_says_so_and_exits_0(demo: Demo, name: str) -> None:
    demo.working()
    report = demo.door.stop(ID, stop_signal=name, timeout=10)
    assert (report.ending, report.exit_code) == ("graceful", 0)
    beat = demo.heartbeat()
    assert beat["status"] == "stopped"
    assert f"item {beat['items_done']} done" in demo.said()
    assert f"stopped after {beat['items_done']} items" in demo.said()


def test_paused_it_lives_and_does_no_new_work_until_it_may_again(demo: Demo) -> None:
    demo.working()
    flag = demo.folder / f"supervisor_pause_{ID}.flag"
    flag.touch()
    wait_until(lambda: demo.heartbeat()["status"] == "paused", message="a paused heartbeat")
    wait_until(lambda: len({demo.heartbeat()["items_done"] for _ in range(3)}) == 1)
    seen = demo.heartbeat()
    wait_until(lambda: demo.heartbeat()["utc"] > seen["utc"], message="a heartbeat while it is paused")
    done = demo.heartbeat()["items_done"]
    later = demo.heartbeat()["utc"]
    wait_until(lambda: demo.heartbeat()["utc"] > later)
    assert demo.heartbeat()["items_done"] == done
    flag.unlink()
    wait_until(lambda: demo.heartbeat()["items_done"] > done, message="work after the pause")
    wait_until(lambda: demo.heartbeat()["status"] == "running")
