"""Many looks at once share a walk through all processes, and each is still as fresh as a look of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from supervisor_core.host.process_facts import linux as platform
from supervisor_core.host.process_facts.facts import ProcessFacts
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.processes import finding as processes_scan
from supervisor_core.processes.finding import ProcessScan, related, walk
from supervisor_core.processes.records import WorkerRecord, new_generation, write_record
from supervisor_core.processes.shared_scans import SharedScans
from tests.support.waiting import wait_until


class Walks:
    """Walks that take as long as the test wants."""

    def __init__(self) -> None:
        self.begun: list[Future[ProcessScan]] = []
        self.shared = SharedScans(self._walk)

    def _walk(self) -> ProcessScan:
        end: Future[ProcessScan] = Future()
        self.begun.append(end)
        return end.result(20)

    def has_begun(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.begun) == count


def empty() -> ProcessScan:
    return ProcessScan({}, {}, quiet=True)


def test_whoever_asks_while_a_walk_is_under_way_gets_the_next_and_all_who_wait_share_it() -> None:
    walks, first, second = Walks(), empty(), empty()
    with ThreadPoolExecutor(9) as pool:
        early = pool.submit(walks.shared.scan)
        wait_until(walks.has_begun(1), message="the first walk")
        late = [pool.submit(walks.shared.scan) for _ in range(8)]
        wait_until(lambda: walks.shared.waiting == 8, message="all of them to wait")
        walks.begun[0].set_result(first)
        wait_until(walks.has_begun(2), message="the second walk")
        assert early.result(20) is first
        assert not any(each.done() for each in late), "the first walk had begun before they asked"
        walks.begun[1].set_result(second)
        assert [each.result(20) for each in late] == [second] * 8
    assert len(walks.begun) == 2


def test_one_look_at_many_workers_without_a_process_makes_one_walk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ProcessScan] = []

    def counted() -> ProcessScan:
        made.append(walk())
        return made[-1]

    monkeypatch.setattr(processes_scan, "_walks", SharedScans(counted))
    with processes_scan.one_scan():
        assert not any(processes_scan.find(tmp_path, f"W{number}") for number in range(20))
    assert len(made) == 1
    assert not processes_scan.find(tmp_path, "W1"), "outside of a look, each search walks"
    assert len(made) == 2


def test_nothing_is_searched_twice_for_the_leftovers_of_a_worker_that_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[ProcessScan] = []

    def counted() -> ProcessScan:
        made.append(walk())
        return made[-1]

    monkeypatch.setattr(processes_scan, "_walks", SharedScans(counted))
    child = subprocess.Popen(["true"])
    identity = identify(child.pid)
    child.wait()
    record = WorkerRecord("W1", new_generation(tmp_path, "W1"), "running", identity=identity)
    write_record(tmp_path, record)
    with processes_scan.one_scan():
        assert processes_scan.find(tmp_path, "W1").record == record
    assert not made, "who only looks needn't know of leftovers"
    looked = processes_scan.find(tmp_path, "W1")
    assert len(made) == 1
    assert processes_scan.find(tmp_path, "W1", looked=looked) == looked
    assert len(made) == 1, "the record is the same, so nobody has launched it since"
    write_record(tmp_path, record._replace(generation=new_generation(tmp_path, "W1")))
    assert processes_scan.find(tmp_path, "W1", looked=looked) != looked
    assert len(made) == 2


def test_a_walk_that_is_over_answers_nobody_who_asks_later() -> None:
    walks = SharedScans(empty)
    assert walks.scan() is not walks.scan()


def test_a_walk_that_fails_is_an_error_for_who_made_it_and_the_next_one_is_made_all_the_same() -> None:
    walks, second = Walks(), empty()
    with ThreadPoolExecutor(2) as pool:
        early = pool.submit(walks.shared.scan)
        wait_until(walks.has_begun(1), message="the first walk")
        late = pool.submit(walks.shared.scan)
        wait_until(lambda: walks.shared.waiting == 1, message="the other to wait")
        walks.begun[0].set_exception(OSError("too many open files"))
        with pytest.raises(OSError, match="too many open files"):
            early.result(20)
        wait_until(walks.has_begun(2), message="the second walk")
        walks.begun[1].set_result(second)
        assert late.result(20) is second


def test_every_answer_comes_from_a_walk_that_began_after_the_question() -> None:
    """Each walk says how many questions had been asked when it began; nobody's own may be missing."""
    asked, lock = [0], threading.Lock()

    class Counted(ProcessScan):
        def __init__(self) -> None:
            self.seen = asked[0]
            super().__init__({}, {}, quiet=True)

    walks = SharedScans(Counted)

    def ask(_: int) -> bool:
        with lock:
            asked[0] += 1
            mine = asked[0]
        answer = walks.scan()
        assert isinstance(answer, Counted)
        return answer.seen >= mine

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(ask, range(2000)))


def test_a_fork_in_the_middle_of_a_walk_does_not_keep_the_child_from_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    pids, parent = platform.pids, os.getpid()
    under_way, go_on = threading.Event(), threading.Event()

    def slow() -> list[int]:
        if os.getpid() == parent:
            under_way.set()
            go_on.wait(20)
        return pids()

    monkeypatch.setattr(platform, "pids", slow)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(processes_scan.scan)
        under_way.wait(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons say what this test is about
            child = os.fork()
        if child == 0:
            signal.alarm(10)  # a child that waits for ever would hold up the test
            os._exit(0 if os.getpid() in processes_scan.scan().table else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go_on.set()
        looking.result(20)
    assert code == 0


def test_a_walk_sees_ourselves_and_what_is_above_us() -> None:
    found = walk()
    assert {os.getpid(), os.getppid()} <= found.table.keys() & found.never


def facts(pid: int, ppid: int, session: int) -> ProcessFacts:
    return ProcessFacts(pid, "some", "S", ppid, session, 1)


def test_who_carries_a_generation_is_found_by_its_beginning() -> None:
    table = {pid: facts(pid, 1, pid) for pid in (2001, 2002, 2003, 2004)}
    scan = ProcessScan(table, {2001: "ab1", 2002: "ab2", 2003: "ac1", 2004: "aa9"}, quiet=True)
    assert [(token, found.pid) for token, found in scan.carriers("ab")] == [("ab1", 2001), ("ab2", 2002)]
    assert list(scan.carriers("ad")) == []
    assert list(scan.carriers("")) == []


def test_descendants_and_the_sessions_of_members_hang_on_the_seeds() -> None:
    found = (
        facts(2001, 1, 2001),  # the seed, which leads its session
        facts(2002, 1, 2001),  # re-parented, but in that session
        facts(2003, 2002, 2003),  # a child of that one, in a session of its own
        facts(2004, 1, 2003),  # in the session of that child
        facts(2005, 1, 2005),  # a stranger
    )
    scan = ProcessScan({each.pid: each for each in found}, {}, quiet=True)
    assert related(scan, {2001}, session=2001) == {2001, 2002, 2003, 2004}


def test_the_session_of_a_leader_that_is_gone_counts_where_a_member_is_still_in_it() -> None:
    table = {each.pid: each for each in (facts(2002, 1, 2001), facts(2003, 1, 2001), facts(2004, 1, 2009))}
    scan = ProcessScan(table, {}, quiet=True)
    assert related(scan, {2002}, session=2001) == {2002, 2003}
    assert related(scan, {2002}, session=0) == {2002}
    assert related(scan, {2004}, session=2001) == {2004}


def test_neither_ourselves_nor_our_ancestors_are_ever_a_member() -> None:
    me = os.getpid()
    table = {me: facts(me, 2001, 2001), 2001: facts(2001, 1, 2001), 2002: facts(2002, me, 2001)}
    scan = ProcessScan(table, {}, quiet=True)
    assert related(scan, {me, 2001}, session=2001) == set()
    assert related(scan, {2002}, session=2001) == {2002}
