"""A pool of daemon threads: where the system refuses another one, and when one ends."""

from __future__ import annotations

import threading
from typing import NoReturn

import pytest

from supervisor_core.common import threads
from supervisor_core.common.threads import DaemonThreads
from tests.support.waiting import wait_until

SOON = 5.0


def _refuse(_: threading.Thread) -> NoReturn:
    raise RuntimeError("can't start new thread")


def test_a_call_without_a_thread_is_refused_and_never_runs_later(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, ran = DaemonThreads("pool", 1), threading.Event()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            pool.submit(ran.set)
    assert pool.submit(lambda: 7).result(SOON) == 7, "the next call gets a thread"
    assert not ran.is_set(), "the caller was told that it doesn't run"


def test_without_another_thread_a_call_waits_for_those_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, go = DaemonThreads("pool", 2), threading.Event()
    first = pool.submit(go.wait, SOON)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", _refuse)
        second = pool.submit(lambda: 7)
    go.set()
    assert first.result(SOON)
    assert second.result(SOON) == 7


def test_threads_beyond_what_is_needed_end_although_calls_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.3)
    pool, together = DaemonThreads("few", 4), threading.Barrier(4)
    for future in [pool.submit(together.wait) for _ in range(4)]:
        future.result()

    def remaining() -> int:
        pool.submit(int).result()
        return sum(thread.name == "few" for thread in threading.enumerate())

    wait_until(lambda: remaining() == 1, 10, "three of the four ended")
