"""The table of all processes: threads share a scan, each as fresh as its own, and finds a worker's members."""

from __future__ import annotations

import os
import signal
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
import pytest

from supervisor_core.host.process_facts.facts import Liveness, ProcessIdentity
from supervisor_core.processes import finding
from supervisor_core.processes.finding import ProcessEntry, ProcessTable, scan_processes


def test_each_caller_gets_a_scan_that_began_after_its_call_and_those_who_wait_share_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls, scans, lock = [0], [0], threading.Lock()

    class Counted(ProcessTable):
        def __init__(self) -> None:  # the number of calls is taken where the scan begins
            self.calls = calls[0]
            scans[0] += 1

    monkeypatch.setattr(finding, "ProcessTable", Counted)

    def call(_: int) -> bool:
        with lock:
            calls[0] += 1
            own = calls[0]
        table: Any = scan_processes()
        return bool(table.calls >= own)

    with ThreadPoolExecutor(16) as pool:
        assert all(pool.map(call, range(500)))
    assert scans[0] <= 500


def test_a_fork_in_the_middle_of_a_scan_does_not_keep_the_child_from_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    pids, parent = psutil.pids, os.getpid()
    under_way, go_on = threading.Event(), threading.Event()

    def slow() -> list[int]:
        if os.getpid() == parent:
            under_way.set()
            go_on.wait(20)
        return pids()

    monkeypatch.setattr(psutil, "pids", slow)
    with ThreadPoolExecutor(1) as pool:
        looking = pool.submit(scan_processes)
        under_way.wait(20)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # newer Pythons say what this test is about
            child = os.fork()
        if child == 0:
            signal.alarm(10)  # a child that waits for ever would hold up the test
            os._exit(0 if os.getpid() in scan_processes().entries else 1)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        go_on.set()
        looking.result(20)
    assert code == 0


def entry(pid: int, ppid: int, session: int, generation: str = "") -> ProcessEntry:
    process: Any = None
    identity = ProcessIdentity(pid, 1, "boot")
    return ProcessEntry(identity, ppid, session, generation, Liveness.ALIVE, "sleeping", process, "some")


def table_of(*entries: ProcessEntry) -> ProcessTable:
    table = ProcessTable.__new__(ProcessTable)
    table.entries = {each.pid: each for each in entries}
    table.own_line = {0, 1, os.getpid(), 2001 if os.getpid() in table.entries else 0}
    return table


def members(table: ProcessTable, generation: str, leader: int = 0) -> list[int]:
    identity = ProcessIdentity(leader, 1, "boot") if leader else None
    return [member.pid for member in table.members(generation, identity)]


def test_descendants_and_the_sessions_of_members_belong_to_the_launch_and_the_leader_is_first() -> None:
    table = table_of(
        entry(2002, 1, 2003),  # re-parented, but in the session of the leader
        entry(2003, 1, 2003, "ab1"),  # the leader
        entry(2004, 2002, 2004),  # a child of that one, in a session of its own
        entry(2005, 1, 2004),  # in the session of that child
        entry(2006, 1, 2006, "ab2"),  # of another launch
    )
    assert members(table, "ab1", 2003) == [2003, 2002, 2004, 2005]
    assert members(table, "ab") == [2002, 2003, 2004, 2005, 2006], "all launches of a worker begin alike"
    assert members(table, "") == []


def test_the_session_of_a_leader_that_is_gone_counts_where_a_member_is_still_in_it() -> None:
    table = table_of(entry(2002, 1, 2001, "ab"), entry(2003, 1, 2001), entry(2004, 1, 2009, "cd"))
    assert members(table, "ab", 2001) == [2002, 2003]
    assert members(table, "ab") == [2002]
    assert members(table, "cd", 2001) == [2004]


def test_neither_ourselves_nor_our_ancestors_are_ever_a_member() -> None:
    me = os.getpid()
    table = table_of(entry(me, 2001, 2001, "ab"), entry(2001, 1, 2001, "ab"), entry(2002, me, 2001, "ab"))
    assert members(table, "ab", 2001) == [2002]
