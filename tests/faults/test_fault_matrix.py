"""The state of the workers after a fault that a process supervisor is expected to survive."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tests.support.daemon.peers import marks
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.system import Setting
from tests.support.waiting import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="living processes are found through /proc")

WORKER = str(Path(__file__).parents[1] / "support" / "daemon" / "peers" / "worker.py")
CRASHING = ("dies", "short")
"""The modes of workers that never run for long."""

SECONDS = 30.0
"""Three times as long as a frozen worker takes to be noticed, and as 4 lives of 2 s take."""


@contextmanager
def daemon(folder: Path, *modes: str) -> Iterator[Ours]:
    """A daemon with a worker for each mode, all of them running."""
    workers = {mode: (sys.executable, "-I", "-S", WORKER, mode, str(folder / f"{mode}.starts")) for mode in modes}
    ours = Ours(folder / "d", Setting(workers))
    try:
        ours.start(*(mode for mode in modes if mode not in CRASHING))
        yield ours
    finally:
        ours.end()


@pytest.fixture(scope="module")
def unattended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ours]:
    """One daemon for the faults that are watched at the same time."""
    with daemon(tmp_path_factory.mktemp("p"), "plain", "killed", *CRASHING) as ours:
        yield ours


def has_child(ours: Ours, mode: str) -> bool:
    return len(ours.living(mode)) == 2


def wait(condition: Callable[[], object], message: str) -> None:
    wait_until(condition, SECONDS, message)


def test_grandchildren_that_ignore_term_or_left_the_session_are_gone_when_we_say_stopped(tmp_path: Path) -> None:
    with daemon(tmp_path, "tree", "treesid") as ours:
        for mode in ours.setting.workers:
            wait(partial(has_child, ours, mode), "the worker and its child run")
            ours.stop_worker(mode)
            assert (ours.said(mode), ours.living(mode)) == ("stopped", [])


def test_a_killed_supervisor_leaves_one_copy_and_its_successor_adopts_it(tmp_path: Path) -> None:
    with daemon(tmp_path, "plain") as ours:
        old = ours.living("plain")
        ours.kill()
        assert ours.living("plain") == old
        ours.start("plain")
        assert ours.living("plain") == old == ours.named("plain")


def test_a_second_daemon_is_refused_and_harms_nothing(tmp_path: Path) -> None:
    with daemon(tmp_path, "plain") as ours:
        second = ours.launch()
        assert second.wait(SECONDS) > 0
        assert len(ours.living("plain")) == 1
        assert ours.said("plain") == "running"


def test_a_frozen_worker_is_noticed(unattended: Ours) -> None:
    (pid,) = unattended.living("plain")
    os.kill(pid, signal.SIGSTOP)
    wait(lambda: unattended.noticed("plain") == "frozen", "it is called frozen")


@pytest.mark.parametrize("mode", CRASHING)
def test_a_worker_that_dies_again_and_again_ends_in_quarantine(unattended: Ours, mode: str) -> None:
    wait(lambda: unattended.quarantined(mode), "it is quarantined")
    assert unattended.living(mode) == []


def test_status_never_names_a_dead_pid(unattended: Ours) -> None:
    for _ in range(2):
        (pid,) = wait_until(lambda: unattended.living("killed"), SECONDS, "the worker runs")
        os.kill(pid, signal.SIGKILL)
        assert marks.gone(pid)
        named: list[int] = []
        while not named:
            named = unattended.named("killed")
            assert pid not in named
