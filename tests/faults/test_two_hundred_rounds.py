"""Two hundred rounds of start, status, restart, status, while four readers look all the time: nobody is told a lie.

In four homes, fifty rounds each. A round ends with a stop, with `kill -9`, or not at all. What a reader was told is
held against what was surely so all the while it asked; where it asked in the middle of a change, both ends are right.
"""

from __future__ import annotations

import bisect
import json
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.ownership import daemon_holder
from tests.support.daemon.daemon_homes import SLEEPER, Host
from tests.support.homes import a_home
from tests.support.sampling import rounds
from tests.support.waiting import wait_until

ROUNDS = rounds(50, sample=4)
ENDS = ("stop", "kill", "go on")
PAUSE_SECONDS = 0.05
"""At least so long a reader rests before it looks again, and twice as long as it looked: the daemons need the cores."""

LOADED_SECONDS = 600
"""The limit for fifty rounds, which take half a minute: on a machine that others work on, it is many times that."""

ANSWER_SECONDS = 2.0
WORKERS = ("North", "South", "Idle")
RUNNING, STOPPED, STALE = "running", "stopped", "stale"


class Truth(NamedTuple):
    """What is surely so from a moment on: one of these states, and one of these daemons where one runs."""

    since: float
    states: frozenset[str]
    pids: frozenset[int]


class Timeline:
    """What the driver of the rounds knows, for whoever looks meanwhile."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._truths = [Truth(time.monotonic(), frozenset({STOPPED}), frozenset())]

    def now(self, state: str, pid: int | None = None) -> None:
        """From here on it is so."""
        self._add(frozenset({state}), frozenset({pid} if pid else ()))

    def changing(self, to: str) -> None:
        """From here on it may be as it was, or as it will be; then somebody runs of whom the driver can't know yet."""
        with self._lock:
            last = self._truths[-1]
        self._add(last.states | {to}, last.pids)

    def held_against(self, state: str, pid: int | None, asked: float, told: float) -> bool:
        """Whether that can have been so at any moment between these two."""
        with self._lock:
            truths = list(self._truths)
        first = bisect.bisect_right(truths, asked, key=lambda truth: truth.since) - 1
        over = [truth for truth in truths[max(first, 0) :] if truth.since <= told]
        if state not in frozenset().union(*(truth.states for truth in over)):
            return False
        sure = all(len(truth.states) == 1 for truth in over)
        return not sure or state != RUNNING or pid in frozenset().union(*(truth.pids for truth in over))

    def _add(self, states: frozenset[str], pids: frozenset[int]) -> None:
        with self._lock:
            self._truths.append(Truth(time.monotonic(), states, pids))


class Readers:
    """Four who look, each in its own way; what was wrong with an answer is kept."""

    def __init__(self, home: Host, timeline: Timeline, workers: dict[str, int]) -> None:
        self.wrong: list[str] = []
        self.looks: Counter[str] = Counter()
        self._home = home
        self._timeline = timeline
        self._workers = workers
        self._over = threading.Event()

    @contextmanager
    def reading(self) -> Iterator[None]:
        ways: tuple[Callable[[], None], ...] = (self._shell_json, self._shell_plain, self._door, self._file)
        threads = [threading.Thread(target=self._careful, args=(way,), name=way.__name__) for way in ways]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._over.set()
            for thread in threads:
                thread.join(60)

    def _careful(self, way: Callable[[], None]) -> None:
        try:
            way()
        except Exception as error:
            self.wrong.append(f"{way.__name__}: {type(error).__name__}: {error}")
            raise

    def _looks(self) -> Iterator[float]:
        name = threading.current_thread().name
        while not self._over.is_set() and len(self.wrong) < 20:
            asked = time.monotonic()
            yield asked
            self.looks[name] += 1
            self._over.wait(max(PAUSE_SECONDS, 2 * (time.monotonic() - asked)))

    def _shell_json(self) -> None:
        for asked in self._looks():
            done = self._home.quick("status", "--json")
            self._judge(done, json.loads(done.stdout), asked)

    def _shell_plain(self) -> None:
        for asked in self._looks():
            done = self._home.quick("status", "--plain")
            said = dict(line.split("=", 1) for line in done.stdout.splitlines())
            pid = said["supervisor.pid"]
            document = {
                "healthy": said["healthy"] == "true",
                "supervisor": {"state": said["supervisor.state"], "pid": int(pid) if pid.isdigit() else None},
                "workers": [
                    {
                        "id": each,
                        "state": said[f"worker.{each}.state"],
                        "pid": int(said[f"worker.{each}.pid"]) if said[f"worker.{each}.pid"].isdigit() else None,
                    }
                    for each in WORKERS
                ],
            }
            self._judge(done, document, asked)

    def _door(self) -> None:
        for asked in self._looks():
            try:
                document = ask(str(self._home.state_dir), {"do": "status"}, 20)
            except NotRunningError:
                pass  # not a lie: nobody is there to answer, or ended while it was asked
            except UnresponsiveError:
                self.wrong.append("the door kept silent for 20 s")
            else:
                self._judge(None, document, asked)

    def _file(self) -> None:
        """What is written says who was there last; whether it lives, the lock says."""
        path = self._home.state_dir / "runtime.json"
        for asked in self._looks():
            document = json.loads(path.read_text())
            told = time.monotonic()
            states = [RUNNING, STALE] if document["running"] else [STOPPED]
            if not any(self._timeline.held_against(each, document["pid"], asked, told) for each in states):
                self.wrong.append(f"runtime.json says {document['running']}, pid {document['pid']}")

    def _judge(self, done: subprocess.CompletedProcess[str] | None, document: dict[str, Any], asked: float) -> None:
        told = time.monotonic()
        state, pid = document["supervisor"]["state"], document["supervisor"]["pid"]
        silent = state == "unresponsive" and told - asked >= ANSWER_SECONDS  # then it is true, on a busy machine
        if not silent and not self._timeline.held_against(state, pid, asked, told):
            self.wrong.append(f"{state}, pid {pid}, after {told - asked:.3f} s: {document['supervisor']}")
        if done is not None and (done.returncode != (0 if document["healthy"] else 1) or done.stderr):
            self.wrong.append(f"exit code {done.returncode} of {document['supervisor']}: {done.stderr}")
        pids = {worker["id"]: worker["pid"] for worker in document["workers"]}
        states = {worker["id"]: worker["state"] for worker in document["workers"]}
        if pids != {**self._workers, "Idle": None}:
            self.wrong.append(f"{state}: the workers are {pids}")
        if states != {"North": "running", "South": "running", "Idle": "stopped"}:
            self.wrong.append(f"{state}: the workers are {states}")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Host]:
    workers = {"North": SLEEPER, "South": SLEEPER, "Idle": SLEEPER}
    with a_home(tmp_path / "home", workers, make=Host) as made:
        assert isinstance(made, Host)
        yield made


def belonging_to(home: Host) -> set[int]:
    """All processes that were started in this home or for it, whatever they are."""
    mine = str(home.folder).encode()
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            there = (entry / "cwd").resolve() == home.folder.resolve()
            if there or mine in (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes():
                found.add(int(entry.name))
        except OSError:
            continue
    return found


@pytest.mark.sampled(1)
@pytest.mark.timeout(LOADED_SECONDS)
@pytest.mark.parametrize("number", range(4))
def test_whoever_looks_is_told_the_truth_and_nothing_is_left_but_the_workers(home: Host, number: int) -> None:
    timeline = Timeline()
    first = home.quick("start")
    assert (first.returncode, first.stderr) == (0, "")
    wait_until(lambda: home.worker("North")["pid"] and home.worker("South")["pid"], 20, "the workers run")
    home.json("send", "pause Idle", "--wait")
    pids = {name: pid for name, pid in home.pids().items() if pid}
    assert set(pids) == {"North", "South"}
    timeline.now(RUNNING, home.daemon())
    readers = Readers(home, timeline, pids)
    with readers.reading():
        for index in range(ROUNDS):
            one_round(home, timeline, ENDS[(index + number) % len(ENDS)])
            assert not readers.wrong, readers.wrong
        timeline.changing(STOPPED)
        assert home.quick("stop").returncode == 0
        timeline.now(STOPPED)
    assert not readers.wrong, readers.wrong
    assert len(readers.looks) == 4
    assert min(readers.looks.values()) >= ROUNDS // 2, readers.looks
    assert belonging_to(home) == set(pids.values())
    log = home.log().splitlines()
    started = Counter(name for name in WORKERS for line in log if f"{name} started (pid" in line)
    assert started == dict.fromkeys(WORKERS, 1), "each was started once"


def one_round(home: Host, timeline: Timeline, end: str) -> None:
    """Start, status, restart, status, and an end."""
    runs = daemon_holder(home.state_dir)
    if not runs:
        timeline.changing(RUNNING)
    started = home.quick("start")
    if runs:
        assert (started.returncode, f"already running (pid {runs})" in started.stderr) == (1, True), started
    else:
        assert (started.returncode, started.stderr) == (0, ""), started
    begun = home.daemon()
    timeline.now(RUNNING, begun)
    assert f"supervisor.pid={begun}\n" in home.quick("status", "--plain").stdout
    timeline.changing(STOPPED)
    timeline.changing(RUNNING)
    restarted = home.quick("daemon", "restart")
    assert (restarted.returncode, restarted.stderr) == (0, ""), restarted
    assert "North, South" in restarted.stdout, "it names the workers that still run"
    assert home.daemon() == begun, "the same process, so that it stays the parent of its workers"
    timeline.now(RUNNING, begun)
    status = home.quick("status", "--plain")
    assert (status.returncode, f"supervisor.pid={begun}\n" in status.stdout) == (0, True), status
    if end == "kill":
        timeline.changing(STALE)
        home.kill_daemon()
        timeline.now(STALE)
    elif end == "stop":
        timeline.changing(STOPPED)
        stopped = home.quick("stop")
        assert (stopped.returncode, stopped.stderr) == (0, ""), stopped
        timeline.now(STOPPED)
