"""The rows of the fault matrix: what is done to a daemon and its workers, and what is true afterwards."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.daemon.peers import marks
from tests.support.daemon.peers.ours import Ours
from tests.support.daemon.peers.system import Setting, System
from tests.support.waiting import wait_until

WORKER = str(Path(__file__).with_name("worker.py"))

OURS_SECONDS = 30.0
"""A generous bound. Ours calls a worker frozen after 10 s; 4 lives of 2 s are 8 s, and the pauses between them 1 s."""

PEERS_SECONDS = 12.0
"""For so long a peer is watched in a test: as long as ours takes, and two of the slowest looks (circus, each 5 s)."""

STEP_SECONDS = 1.0

CRASHING = ("dies", "short")
"""The modes of workers whose running can't be waited for."""

SECOND_SECONDS = 15.0
ROUNDS = 2
ANSWERS = 40
"""How often the tool is asked after a worker was killed, unless it names another one before."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, in words for the table, and whether it is what the row asks for."""

    right: bool
    words: str


@dataclass(frozen=True, slots=True)
class Row:
    """One fault; each worker is named by its mode. Rows that leave the daemon alone can be tried together."""

    fault: str
    modes: tuple[str, ...]
    """Of the workers that it needs."""
    act: Callable[[System], Finding]


def setting(folder: Path, rows: Sequence[Row]) -> Setting:
    """What a daemon is told when these rows are tried with it; the workers note their starts in that folder."""
    modes = {mode for row in rows for mode in row.modes}
    workers = {mode: (sys.executable, "-I", "-S", WORKER, mode, str(folder / f"{mode}.starts")) for mode in modes}
    return Setting(workers)


def starts(system: System, worker: str) -> int:
    """How often this worker has begun to live."""
    note = Path(system.setting.workers[worker][-1])
    return len(note.read_text().splitlines()) if note.exists() else 0


def _stopped_tree(mode: str) -> Callable[[System], Finding]:
    def act(system: System) -> Finding:
        wait_until(lambda: len(system.living(mode)) == 2, message="the worker and its child")
        system.stop_worker(mode)
        said = wait_until(lambda: system.said(mode), message="a word about it")
        left = system.living(mode)
        what = f"left: {len(left)}" if left else "gone"
        return Finding(said == system.stopped and not left, f"{what}, says {said}")

    return act


def _successor(system: System) -> Finding:
    old = system.living("plain")
    system.kill()
    assert system.living("plain") == old, "the worker outlives its daemon"
    system.start("plain")
    named = wait_until(lambda: system.named("plain"), message="a PID in its status")
    live = system.living("plain")
    return Finding(live == old == named, f"{len(live)} live, {'the old one' if named == old else 'a new one'} named")


def _frozen(system: System) -> Finding:
    before = system.noticed("plain")
    (pid,) = system.living("plain")
    os.kill(pid, signal.SIGSTOP)
    took = _watch(system, lambda: system.noticed("plain") != before)
    now = system.noticed("plain")
    return Finding(now == "frozen", f"{'no' if now == before else 'yes'}: {now} after {took:.0f} s")


def _watch(system: System, over: Callable[[], bool]) -> float:
    """Until it is over, or this system's time is; how long that took."""
    begun = time.monotonic()
    limit = OURS_SECONDS if isinstance(system, Ours) else system.patience
    while not over() and time.monotonic() - begun < limit:
        time.sleep(STEP_SECONDS)
    return time.monotonic() - begun


def _crash_loop(mode: str) -> Callable[[System], Finding]:
    def act(system: System) -> Finding:
        def over() -> bool:
            return system.quarantined(mode) if isinstance(system, Ours) else system.said(mode) == "FATAL"

        took, ended = _watch(system, over), over()
        words = f"{starts(system, mode)} starts in {took:.0f} s, {system.said(mode)}"
        return Finding(ended and not system.living(mode), words if ended else f"{words}, goes on")

    return act


def _second(system: System) -> Finding:
    second = system.launch()

    def settled() -> bool:
        return second.poll() is not None or len(system.living("plain")) > 1

    wait_until(settled, SECOND_SECONDS, "the second daemon to end or to start workers")
    live, code = len(system.living("plain")), second.poll()
    words = "it runs" if code is None else f"exit {code}"
    still = system.said("plain") == system.running
    return Finding(code not in (None, 0) and live == 1 and still, f"{words}, {live} live")


def _dead_pid(system: System) -> Finding:
    named, asked, words = 0, 0, set()
    for _ in range(ROUNDS):
        (pid,) = wait_until(lambda: system.living("killed"), message="the worker")
        os.kill(pid, signal.SIGKILL)
        assert marks.gone(pid)
        for _ in range(ANSWERS):
            told = system.named("killed")
            asked += 1
            named += pid in told
            if told and pid not in told:
                break
            words.add(system.said("killed"))
    times = f"named in {named} of {asked} answers" if named else f"never named in {asked} answers"
    return Finding(not named, f"{times}; said {', '.join(sorted(words)) or 'only the next'}")


TREE = Row("grandchild ignores TERM, after stop", ("tree",), _stopped_tree("tree"))
TREE_OF_ITS_OWN = Row("grandchild left the session, after stop", ("treesid",), _stopped_tree("treesid"))
SUCCESSOR = Row("kill -9 of the supervisor, started again", ("plain",), _successor)
FROZEN = Row("SIGSTOP of a worker: noticed?", ("plain",), _frozen)
DIES_AT_ONCE = Row("crash loop: exit 1 at once", ("dies",), _crash_loop("dies"))
LIVES_SHORTLY = Row("crash loop: exit 1 after 2 s", ("short",), _crash_loop("short"))
SECOND_DAEMON = Row("second daemon, same configuration", ("plain",), _second)
DEAD_PID = Row("status after kill -9 of a worker: dead PID", ("killed",), _dead_pid)

STOPPING = (TREE, TREE_OF_ITS_OWN)
UNATTENDED = (FROZEN, DIES_AT_ONCE, LIVES_SHORTLY, DEAD_PID)
TOGETHER = (STOPPING, (SUCCESSOR,), UNATTENDED, (SECOND_DAEMON,))
"""Which of them are tried with one daemon."""
