"""Hearing that a process has ended: a child or not, many at once, too late, and where there are no descriptors."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state
from supervisor_core.processes import exits
from supervisor_core.processes.exits import ExitWatch
from tests.support.homes import ROOT
from tests.support.waiting import wait_until

HEARD_SECONDS = 20.0
MANY = 200

Start = Callable[[], ProcessIdentity]


class Ears:
    """A watch and what it has told."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[ProcessIdentity] = queue.SimpleQueue()
        self.watch = ExitWatch(self.heard.put)

    def next(self) -> ProcessIdentity:
        return self.heard.get(timeout=HEARD_SECONDS)


@pytest.fixture(params=["descriptors", "looking"])
def ears(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ears]:
    if request.param == "looking":
        monkeypatch.setattr(exits, "open_exit_notice", lambda identity: None)
    elif not hasattr(os, "pidfd_open"):
        pytest.fail("this system has no pidfds: only the other way can be tested")
    made = Ears()
    yield made
    made.watch.close()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts children that sleep; ends them in the end."""
    children: list[subprocess.Popen[bytes]] = []

    def started() -> ProcessIdentity:
        child = subprocess.Popen(["sleep", "1000"])
        children.append(child)
        identity = identify(child.pid)
        assert identity is not None
        return identity

    yield started
    for child in children:
        child.kill()
    for child in children:
        child.wait()


def kill(identity: ProcessIdentity) -> None:
    os.kill(identity.pid, signal.SIGKILL)


def test_the_exit_of_a_child_is_told_once(ears: Ears, start: Start) -> None:
    identity, other = start(), start()
    for each in (identity, identity, other):
        ears.watch.watch(each)
    kill(identity)
    assert ears.next() == identity
    kill(other)
    assert ears.next() == other
    assert ears.heard.empty()


def test_the_exit_of_somebody_elses_child_is_told(ears: Ears) -> None:
    """The parent has not reaped it by then, and does not have to."""
    code = "import subprocess; print(subprocess.Popen(['sleep', '1000']).pid, flush=True); input()"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        identity = identify(int(parent.stdout.readline()))
        assert identity is not None
        ears.watch.watch(identity)
        kill(identity)
        assert ears.next() == identity
        parent.kill()


def test_one_that_had_ended_before_is_told_at_once(ears: Ears) -> None:
    child = subprocess.Popen(["sleep", "1000"])
    gone = identify(child.pid)
    assert gone is not None
    child.kill()
    wait_until(lambda: state(gone).ended)
    ears.watch.watch(gone)
    assert ears.next() == gone
    child.wait()
    never = gone._replace(start=gone.start + 1)
    ears.watch.watch(never)
    assert ears.next() == never


def test_another_process_with_the_same_number_is_not_taken_for_it(ears: Ears, start: Start) -> None:
    alive = start()
    before = alive._replace(start=alive.start - 1)
    ears.watch.watch(alive)
    ears.watch.watch(before)
    assert ears.next() == before
    assert state(alive).running
    assert ears.heard.empty()


def test_the_exits_of_many_at_once_are_all_told_once(ears: Ears, start: Start) -> None:
    identities = [start() for _ in range(MANY)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(ears.watch.watch, identities * 2))
    for identity in identities:
        kill(identity)
    assert {ears.next() for _ in identities} == set(identities)
    assert ears.heard.empty()


def test_what_the_hearer_raises_is_logged_and_ends_nothing(start: Start, caplog: pytest.LogCaptureFixture) -> None:
    heard: queue.SimpleQueue[ProcessIdentity] = queue.SimpleQueue()

    def hear(identity: ProcessIdentity) -> None:
        heard.put(identity)
        raise ValueError("no ears")

    watch = ExitWatch(hear)
    for identity in (start(), start()):
        watch.watch(identity)
        kill(identity)
        assert heard.get(timeout=HEARD_SECONDS) == identity
    watch.close()
    assert caplog.text.count("ValueError: no ears") == 2


def test_the_thread_starts_with_the_first_one_and_ends_with_the_watch(ears: Ears, start: Start) -> None:
    before = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    identity = start()
    ears.watch.watch(identity)
    assert threading.active_count() == before + 1
    ears.watch.close()
    ears.watch.close()
    assert threading.active_count() == before
    assert len(os.listdir("/proc/self/fd")) == descriptors
    ears.watch.watch(identity)
    assert threading.active_count() == before


def test_the_hearer_may_close_the_watch(start: Start) -> None:
    closed = threading.Event()

    def hear(identity: ProcessIdentity) -> None:
        watch.close()
        closed.set()

    watch = ExitWatch(hear)
    identity = start()
    watch.watch(identity)
    kill(identity)
    assert closed.wait(HEARD_SECONDS)
    watch.close()


FEW_DESCRIPTORS = """
import os, queue, resource, subprocess, sys
from supervisor_core.processes import exits
from supervisor_core.processes.exits import ExitWatch
from supervisor_core.host.process_facts.identity import identify
resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))
if sys.argv[1] == "all": exits._most_descriptors = lambda: 1000
heard = queue.SimpleQueue()
watch = ExitWatch(heard.put)
children = [subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) for _ in range(40)]
identities = [identify(child.pid) for child in children]
left = []
try:
    for identity in identities:
        watch.watch(identity)
    try:
        while True: left.append(os.dup(0))
    except OSError:
        pass
    print(len(left))
finally:
    for one in left: os.close(one)
    for child in children: child.kill()
assert {heard.get(timeout=20) for _ in identities} == set(identities)
for child in children: child.wait()
watch.close()
"""


@pytest.mark.parametrize("which", ["half", "all"])
def test_with_few_descriptors_every_exit_is_told_and_half_of_them_are_left_for_the_rest(which: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", FEW_DESCRIPTORS, which],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert (int(done.stdout) > 3) == (which == "half"), done.stdout
