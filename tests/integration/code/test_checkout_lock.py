"""One changer of a checkout at a time: whoever stops or starts a worker that runs from it waits, in every process."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from supervisor_core.host.locks import FileLock
from tests.support.code.checkout_homes import CodeHome, a_code_home, watcher
from tests.support.homes import SUPERVISOR
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=2)

BOTH = ("OrionMX", "Second")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeHome]:
    """Two workers run from one checkout, each looked after by passes of its own."""
    with a_code_home(tmp_path, workers=BOTH) as made:
        for worker in BOTH:
            assert one_pass(made, worker, "--heal") == 0
        yield made


def one_pass(home: CodeHome, worker: str, *words: str) -> int:
    return home.supervisor("once", "--worker-id", worker, *words).returncode


def the_lock(home: CodeHome) -> FileLock:
    """The lock of the one checkout."""
    (path,) = (home.state_dir / "locks").glob("code_*.lock")
    return FileLock(path, "update_code of OrionMX")


class Passes:
    """Passes at once, each of which says what it does."""

    def __init__(self, home: CodeHome) -> None:
        self._home = home
        self._running: list[subprocess.Popen[str]] = []

    def begin(self, worker: str) -> subprocess.Popen[str]:
        begun = subprocess.Popen(
            [*SUPERVISOR, "once", "--worker-id", worker],
            cwd=self._home.folder,
            env=self._home.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(begun)
        return begun

    def end(self) -> None:
        for each in self._running:
            each.kill()
            each.communicate()


@pytest.fixture
def passes(home: CodeHome) -> Iterator[Passes]:
    made = Passes(home)
    yield made
    made.end()


def waits(home: CodeHome) -> bool:
    """Whether a pass says that it waits for the checkout."""
    return "waiting for pid" in (home.state_dir / "supervisor.log").read_text()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("handler", ["restart_watcher", "pause", "resume"])
def test_what_stops_or_starts_a_sibling_waits_while_the_code_is_changed(
    home: CodeHome, passes: Passes, handler: str
) -> None:
    if handler == "resume":
        home.order("pause", "before", worker="Second")
        assert one_pass(home, "Second") == 0
    before = home.running_copies("Second")
    home.order(handler, "t1", worker="Second")
    with the_lock(home).acquire():
        begun = passes.begin("Second")
        wait_until(lambda: waits(home), 20, "the pass waits")
        assert home.states("t1") == ["claimed"]
        assert home.running_copies("Second") == before
    assert begun.wait(30) == 0
    assert home.came(handler, "t1")["success"]
    assert home.running_copies("Second") != before
    assert "waiting for pid" in (home.state_dir / "supervisor.log").read_text()
    assert "update_code of OrionMX" in (home.state_dir / "supervisor.log").read_text()


def test_two_commands_from_two_processes_come_one_after_the_other_and_both_are_right(
    home: CodeHome, passes: Passes
) -> None:
    checkout = home.clones.checkout
    trees = [checkout.tree(commit) for commit in checkout.log()]
    home.order("rollback_code", "t1", worker="OrionMX")
    home.order("rollback_code", "t2", worker="Second")
    lock = the_lock(home).acquire()
    both = [passes.begin(worker) for worker in BOTH]
    wait_until(lambda: home.states("t1") + home.states("t2") == ["claimed", "claimed"], 20, "both wait for it")
    lock.release()
    assert [each.wait(30) for each in both] == [0, 0]
    first, second = sorted(
        (home.came("rollback_code", name)["details"] for name in ("t1", "t2")),
        key=lambda details: details["before"] != checkout.log()[-1 - 2],
    )
    # The second takes back what the first has done: commits count as they stand.
    assert (first["after"], second["after"]) == (second["before"], checkout.head)
    assert checkout.tree(first["after"]) == trees[1]
    assert checkout.tree() == trees[0]
    assert checkout.status() == ""
    for worker in BOTH:
        assert home.runs_what_is_on_disk(worker)
        assert len(home.running_copies(worker)) == 1


def test_one_that_is_told_to_stop_while_it_waits_leaves_the_command_to_the_next_which_does_it_once(
    home: CodeHome, passes: Passes
) -> None:
    before = home.clones.checkout.head
    home.order("rollback_code", "t1")
    with the_lock(home).acquire():
        begun = passes.begin("OrionMX")
        wait_until(lambda: waits(home), 20, "the pass waits")
        begun.send_signal(signal.SIGTERM)
        assert begun.wait(20) == 130
        assert home.states("t1") == ["claimed"]
        assert home.clones.checkout.head == before
    assert one_pass(home, "OrionMX") == 0
    assert one_pass(home, "OrionMX") == 0
    assert [row["outcome"] for row in home.rows("t1")] == ["success"]
    assert home.clones.checkout.log()[1] == before


def test_one_update_of_both_stops_and_starts_both_once(home: CodeHome, passes: Passes) -> None:
    home.clones.comes_in({"watcher.py": watcher(4)})
    old = [home.running_copies(worker) for worker in BOTH]
    for worker in BOTH:
        home.order("update_code", "t1", worker=worker)
    assert [begun.wait(30) for begun in [passes.begin(worker) for worker in BOTH]] == [0, 0]
    rows = home.rows("t1")
    assert sorted(row["target_id"] for row in rows) == list(BOTH)
    assert [row["outcome"] for row in rows] == ["success", "success"]
    for worker, before in zip(BOTH, old, strict=True):
        assert home.runs_what_is_on_disk(worker)
        assert home.running_copies(worker) != before
    log = (home.state_dir / "supervisor.log").read_text()
    assert log.count("git merge in ") == 1


def test_workers_of_other_checkouts_wait_for_nobody(tmp_path: Path) -> None:
    with a_code_home(tmp_path, workers=("OrionMX",)) as home:
        assert one_pass(home, "OrionMX", "--heal") == 0
        (home.state_dir / "locks" / "code_0123456789abcdef.lock").touch()
        other = FileLock(home.state_dir / "locks" / "code_0123456789abcdef.lock")
        with other.acquire():
            home.order("rollback_code", "t1")
            assert one_pass(home, "OrionMX") == 0
