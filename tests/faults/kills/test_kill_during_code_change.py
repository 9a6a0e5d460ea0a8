"""`kill -9` of the supervisor at every step of a command on code: told once, the state named, and nothing run again."""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from supervisor_core.code.change_plan import short
from supervisor_core.host.locks import FileLock, LockedError
from tests.support.code.checkout_homes import WORKER, CodeHome, a_code_home, watcher
from tests.support.programs.armed import armed
from tests.support.waiting import wait_until

pytestmark = pytest.mark.sampled(of_file=3)

TASK = "task_20260205_001"
EARLIER = "task_20260204_001"
PROGRESS_SECONDS = 2.2
"""After two seconds git tells how far it is, if it is left to itself."""

WITHIN = {"worker.stop": ("ordered",)}
"""Places between the two."""

OWN_CHANGE = "VERSION = 'by hand'\n"


def around(*names: str) -> tuple[str, ...]:
    """The places at each of these steps."""
    return tuple(f"{name}:{when}" for name in names for when in ("before", *WITHIN.get(name, ()), "after"))


def _comes_in(home: CodeHome) -> None:
    home.clones.comes_in({"watcher.py": watcher(4), "data/more.txt": "more\n"})


def _comes_in_beside_own_commits(home: CodeHome) -> None:
    home.clones.checkout.commit({"own.txt": "of this host\n"})
    _comes_in(home)


def _comes_in_over_changes(home: CodeHome) -> None:
    _comes_in_beside_own_commits(home)
    home.clones.checkout.write({"data/new.txt": OWN_CHANGE})


def _rolled_back(home: CodeHome) -> None:
    assert home.one_pass("--heal") == 0
    home.order("rollback_code", EARLIER)
    assert home.one_pass() == 0


@dataclass(frozen=True, slots=True)
class Road:
    """A command, and every place that its handler passes, in their order."""

    name: str
    handler: str
    steps: tuple[str, ...]
    lead_up: Callable[[CodeHome], None] = lambda home: None
    params: Mapping[str, Any] = field(default_factory=dict)

    @property
    def points(self) -> tuple[str, ...]:
        return ("handler:before", *around(*self.steps), "handler:after")

    def nth(self, index: int) -> str:
        """The place, as it is armed; the worker is started once before, when the daemon comes up."""
        point = self.points[index]
        return f"{point}#{self.points[: index + 1].count(point) + point.startswith('worker.start')}"

    def cases(self, *wanted: str) -> list[Any]:
        """Where to kill: after each git operation, and at these places as well."""
        found = [n for n, point in enumerate(self.points) if re.fullmatch(r"git\..*:after", point) or point in wanted]
        return [pytest.param(self, n, id=f"{self.name}, {n} {self.points[n]}") for n in found]


# `test_no_point_is_forgotten` holds these against what the program really passes.
STOP, START = "worker.stop", "worker.start"
KEEP = "git.update-ref"
FORWARD = Road("forward", "update_code", ("git.fetch", STOP, KEEP, "git.merge", START), _comes_in)
MERGE = Road(
    "merge",
    "update_code",
    (
        "git.fetch",
        "git.merge",  # aside
        STOP,
        KEEP,
        "git.merge",  # moves there
        START,
    ),
    _comes_in_beside_own_commits,
)
RESET = Road(
    "reset",
    "update_code",
    ("git.fetch", STOP, KEEP, "git.stash", KEEP, "git.reset", START),
    _comes_in_over_changes,
    {"reset": True},
)
ROLLBACK = Road(
    "rollback",
    "rollback_code",
    ("git.revert", "git.commit", "git.revert", "git.commit", STOP, KEEP, "git.merge", START),
    params={"commits_back": 2},
)
UNDO = Road(
    "undo",
    "undo_code",
    ("git.commit-tree", STOP, KEEP, "git.merge", START),
    _rolled_back,
    {"task_id": EARLIER},
)
ROADS = (FORWARD, MERGE, RESET, ROLLBACK, UNDO)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[CodeHome]:
    with a_code_home(tmp_path) as made:
        yield made


def told(home: CodeHome, road: Road, before: str) -> dict[str, Any]:
    """What is told of the interrupted command: once, and as it is."""
    result = home.came(road.handler, TASK)
    (row,) = home.rows(TASK)
    assert (row["action"], row["outcome"], home.states(TASK)) == (road.handler.upper(), "interrupted", ["interrupted"])
    assert not result["success"]
    assert "It isn't run again automatically" in result["error"]
    now, details = home.clones.checkout.head, result["details"]
    assert (details["before"], details["after"]) == (before, now)
    made = home.clones.checkout.git("rev-list", f"{before}..{now}").split()
    assert sorted(commit["hash"] for commit in details["commits"]) == sorted(made)
    assert short(now) in result["error"]
    assert home.runs_what_is_on_disk()
    return result


def typed(home: CodeHome, result: Mapping[str, Any]) -> None:
    """Type the way back that the error names, and see it work."""
    (words,) = re.findall(r"To restore it: ([^.]*)\. ", result["error"])
    done = home.supervisor("send", words, "--wait")
    assert done.returncode == 0, done.stdout + done.stderr


def see_it_through(home: CodeHome, road: Road, before: str, tree: str, crashed: Callable[[], None]) -> dict[str, Any]:
    """The next start tells it, and it can be taken back."""
    crashed()
    there = home.clones.checkout.head
    own_change = OWN_CHANGE in {path.read_text() for path in (home.top / "data").iterdir()}
    home.start_daemon()
    result = told(home, road, before)
    assert home.clones.checkout.head == there, "nothing is run again"
    checkout = result["details"]["checkout"]
    assert (checkout["clean"], checkout["lock"], checkout["under_way"]) == (not own_change, None, None)
    assert bool(home.clones.checkout.status()) == own_change
    if there == before:
        assert "To restore it" not in result["error"]
        return result
    typed(home, result)
    assert home.clones.checkout.tree() == tree
    assert home.runs_what_is_on_disk()
    assert home.clones.checkout.status() == ""
    return result


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("road", "index"),
    [
        *FORWARD.cases("handler:before", "worker.stop:after", "worker.start:after", "handler:after"),
        *MERGE.cases(),
        *RESET.cases(),
        *ROLLBACK.cases("worker.stop:before"),
        *UNDO.cases(),
    ],
)
def test_a_daemon_killed_at_a_step_is_followed_by_one_that_tells_how_the_code_stands(
    home: CodeHome, road: Road, index: int
) -> None:
    road.lead_up(home)
    before, tree = home.clones.checkout.head, home.clones.checkout.tree()
    crash = lambda: home.crash(road.nth(index), road.handler, TASK, road.params)  # noqa: E731
    result = see_it_through(home, road, before, tree, crash)
    if "git.reset" in road.steps and index > road.points.index("git.reset:before"):
        kept = f"refs/supervisor/{TASK}-changes"
        assert kept in result["error"]
        assert home.clones.checkout.git("show", f"{kept}:data/new.txt") == OWN_CHANGE.strip()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("road", ROADS, ids=lambda road: road.name)
def test_no_point_is_forgotten(home: CodeHome, road: Road, tmp_path: Path) -> None:
    road.lead_up(home)
    assert home.one_pass("--heal") in (0, 1)
    trace = tmp_path / "trace"
    home.order(road.handler, TASK, road.params)
    assert home.one_pass(program=armed(f"trace:{trace}")) == 0
    passed = trace.read_text().splitlines()
    handler = passed[passed.index("handler:before") : passed.index("handler:after") + 1]
    said = "job.progress:after"  # between any two of them; what is killed there has done what came before
    assert tuple(point for point in handler if point != said) == road.points


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("road", "point"),
    [
        (FORWARD, "git.merge:after"),
        (ROLLBACK, "git.update-ref:after"),
        (UNDO, "git.merge:before"),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_a_pass_killed_at_a_step_is_followed_by_one_that_tells_it_and_starts_the_worker(
    home: CodeHome, road: Road, point: str
) -> None:
    road.lead_up(home)
    assert home.one_pass("--heal") == 0
    before, tree = home.clones.checkout.head, home.clones.checkout.tree()
    home.order(road.handler, TASK, road.params)
    assert home.one_pass(program=armed(point)) == -signal.SIGKILL
    there = home.clones.checkout.head
    assert home.running_copies(WORKER) == []
    assert home.one_pass() == 1, "it says that a command was interrupted"
    result = told(home, road, before)
    assert home.one_pass() == 0
    assert home.clones.checkout.head == there, "nothing is run again"
    if there != before:
        home.order("undo_code", "back", {"task_id": TASK})
        assert home.one_pass() == 0
        assert home.came("undo_code", "back")["details"]["undone_task_id"] == TASK
    assert home.clones.checkout.tree() == tree
    assert home.runs_what_is_on_disk()
    assert result["details"]["checkout"]["clean"]


def test_killed_in_a_trial_the_next_trial_finds_nothing_of_it_in_its_way(home: CodeHome) -> None:
    _comes_in_beside_own_commits(home)
    home.crash("git.merge:after", "update_code", TASK)
    assert len(home.clones.checkout.git("worktree", "list").splitlines()) == 2
    home.start_daemon()
    assert "Its code wasn't changed" in home.came("update_code", TASK)["error"]
    home.order("update_code", "again")
    assert home.came("update_code", "again")["success"]
    assert len(home.clones.checkout.git("worktree", "list").splitlines()) == 1
    assert home.runs_what_is_on_disk()


def test_killed_again_while_the_next_one_starts_the_worker_it_is_told_once_and_one_copy_runs(home: CodeHome) -> None:
    _comes_in(home)
    before = home.clones.checkout.head
    home.crash("git.merge:after", "update_code", TASK)
    second = home.start_daemon(program=armed("worker.start:after"), wait=False)
    assert second.wait(30) == -signal.SIGKILL
    home.start_daemon()
    told(home, FORWARD, before)


class Slow:
    """A checkout whose files of one kind are written only when that is allowed: git hangs with it half changed."""

    def __init__(self, home: CodeHome, folder: Path) -> None:
        self._reached, self._go = folder / "reached", folder / "go"
        wait = f"touch {self._reached}; while [ ! -e {self._go} ]; do sleep 0.02; done; cat"
        home.clones.checkout.git("config", "filter.slow.smudge", f"sh -c {shlex.quote(wait)}")
        self._top = str(home.top).encode()

    def reached(self) -> None:
        wait_until(self._reached.exists, 20, "git hangs in the middle")

    def told_how_far_it_is(self) -> bool:
        return time.time() - self._reached.stat().st_mtime > PROGRESS_SECONDS

    def go(self) -> None:
        self._go.touch()

    def end(self) -> None:
        """The power goes: git is ended as well, with all that it started."""
        for pid in self._pids():
            os.killpg(pid, signal.SIGKILL)
        wait_until(lambda: not self._pids(), 5, "git is gone")

    def _pids(self) -> list[int]:
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[0] == b"git" and self._top in words:
                found.append(int(entry.name))
        return found


def hanging(home: CodeHome, slow: Slow, handler: str, params: Mapping[str, Any] | None = None) -> None:
    """Kill the daemon while its git hangs half way."""
    daemon = home.start_daemon()
    home.order(handler, TASK, params)
    slow.reached()
    daemon.kill()
    daemon.wait()


def slowly_comes_in(home: CodeHome) -> None:
    files = {".gitattributes": "*.slow filter=slow\n", "data/more.txt": "more\n", "m.slow": "slow\n"}
    home.clones.comes_in({**files, "watcher.py": watcher(4)})


def test_a_git_that_outlives_its_supervisor_is_waited_for_and_the_worker_is_started_on_its_work(
    home: CodeHome, tmp_path: Path
) -> None:
    slowly_comes_in(home)
    tree = home.clones.checkout.tree()
    before = home.clones.checkout.head
    slow = Slow(home, tmp_path)
    hanging(home, slow, "update_code")
    home.start_daemon(wait=False)
    wait_until(lambda: recovering(home), 20, "the next one looks at the checkout")
    wait_until(slow.told_how_far_it_is, 20, "git would have told how far it is, and died of it")
    slow.go()
    result = told(home, FORWARD, before)
    assert result["details"]["after"] == home.clones.colleague.head
    assert result["details"]["checkout"]["clean"]
    typed(home, result)
    assert home.clones.checkout.tree() == tree


def recovering(home: CodeHome) -> bool:
    """Whether somebody has the checkout."""
    (path,) = (home.state_dir / "locks").glob("code_*.lock")
    try:
        FileLock(path).acquire().release()
    except LockedError:
        return True
    return False


@pytest.mark.sampled(1)
@pytest.mark.parametrize("edited", [False, True])
def test_a_checkout_that_was_left_half_changed_is_named_with_a_way_out_that_works(
    home: CodeHome, tmp_path: Path, edited: bool
) -> None:
    handler = "update_code"
    slowly_comes_in(home)
    if edited:
        home.clones.checkout.write({"data/new.txt": OWN_CHANGE})
    status = home.clones.checkout.status()
    before = home.clones.checkout.head
    slow = Slow(home, tmp_path)
    hanging(home, slow, handler)
    slow.end()
    slow.go()
    home.start_daemon()
    result = told(home, Road("", handler, ()), before)
    checkout = result["details"]["checkout"]
    assert not checkout["clean"]
    assert checkout["lock"] == str(home.top / ".git" / "index.lock")
    (lock, commands) = re.findall(r"delete (\S+), then run: (.*?) Check the worker", result["error"])[0]
    Path(lock).unlink()
    subprocess.run(commands, shell=True, check=True, stdout=subprocess.DEVNULL)
    assert home.clones.checkout.status() == status
    assert home.clones.checkout.head == before
    if edited:
        assert (home.top / "data" / "new.txt").read_text() == OWN_CHANGE
    home.order(handler, "again")
    assert home.came(handler, "again")["success"], "nothing is in its way"
    assert home.runs_what_is_on_disk()
