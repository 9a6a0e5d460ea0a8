"""Hearing that a process has ended: a child or not, many at once, too late, and where there are no descriptors."""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import identify, state
from supervisor_core.processes import exits
from supervisor_core.processes.exits import ExitWatch
from tests.support.homes import ROOT
from tests.support.waiting import wait_until

HEARD_SECONDS = 20.0
MANY = 50

Start = Callable[[], ProcessIdentity]


class Ears:
    """A watch in an event loop, which runs in a thread of its own, and what it has reported."""

    def __init__(self) -> None:
        self.heard: queue.SimpleQueue[ProcessIdentity] = queue.SimpleQueue()
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever).start()
        self.watch = self.run(lambda: ExitWatch(self.heard.put))

    def run(self, work: Callable[[], Any]) -> Any:
        async def run() -> Any:
            return work()

        return asyncio.run_coroutine_threadsafe(run(), self.loop).result(HEARD_SECONDS)

    def next(self) -> ProcessIdentity:
        return self.heard.get(timeout=HEARD_SECONDS)


@pytest.fixture(params=["pidfds", "no pidfds"])
def ears(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ears]:
    if request.param == "no pidfds":
        monkeypatch.setattr(exits, "open_exit_notice", lambda identity: None)
    elif not hasattr(os, "pidfd_open"):
        pytest.fail("this system has no pidfds: only the other way can be tested")
    made = Ears()
    yield made
    made.run(made.watch.close)
    made.loop.call_soon_threadsafe(made.loop.stop)
    wait_until(lambda: not made.loop.is_running())
    made.loop.close()


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


def test_what_a_subscriber_raises_is_logged_and_ends_nothing(
    ears: Ears, start: Start, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear(identity: ProcessIdentity) -> None:
        ears.heard.put(identity)
        raise ValueError("no ears")

    watch = ears.run(lambda: ExitWatch(hear))
    for identity in (start(), start()):
        watch.watch(identity)
        kill(identity)
        assert ears.next() == identity
    ears.run(watch.close)
    assert caplog.text.count("ValueError: no ears") == 2


def test_a_closed_watch_leaves_neither_a_thread_nor_a_descriptor(ears: Ears, start: Start) -> None:
    identity = start()
    threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
    watch = ears.run(lambda: ExitWatch(ears.heard.put))
    for _ in range(2):
        watch.watch(identity)
        ears.run(watch.close)
        assert (threading.active_count(), len(os.listdir("/proc/self/fd"))) == (threads, descriptors)


def test_a_subscriber_may_close_the_watch(ears: Ears, start: Start) -> None:
    def hear(identity: ProcessIdentity) -> None:
        watch.close()
        ears.heard.put(identity)

    watch = ears.run(lambda: ExitWatch(hear))
    identity = start()
    watch.watch(identity)
    kill(identity)
    assert ears.next() == identity
    ears.run(watch.close)


FEW_DESCRIPTORS = """
import asyncio, os, resource, subprocess, sys
from supervisor_core.processes import exits
from supervisor_core.processes.exits import ExitWatch
from supervisor_core.host.process_facts.identity import identify
resource.setrlimit(resource.RLIMIT_NOFILE, (28, 28))
if sys.argv[1] == "all": exits._most_descriptors = lambda: 1000
children = [subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL) for _ in range(40)]
identities = [identify(child.pid) for child in children]

async def main():
    heard, left = set(), []
    watch = ExitWatch(heard.add)
    try:
        for identity in identities:
            watch.watch(identity)
        await asyncio.sleep(0.1)
        try:
            while True: left.append(os.dup(0))
        except OSError:
            pass
        print(len(left))
    finally:
        for one in left: os.close(one)
        for child in children: child.kill()
    async with asyncio.timeout(20):
        while heard != set(identities): await asyncio.sleep(0.01)
    for child in children: child.wait()
    watch.close()

asyncio.run(main())
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
