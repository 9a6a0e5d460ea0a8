"""Daemon threads for calls that may block."""

from __future__ import annotations

import contextvars
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""A thread without a call ends after this time, unless its pool says otherwise."""


Call = tuple[Future[Any], Callable[[], Any]]


class DaemonThreads:
    """A pool whose threads are daemons: a call that hangs can't keep the program from ending."""

    def __init__(self, name: str, limit: int, idle_seconds: float | None = None) -> None:
        """A thread without a call ends after `idle_seconds`; a pool that is used once needs none."""
        self._name = name
        self._limit = limit
        self._idle_seconds = idle_seconds
        self._calls: deque[Call] = deque()
        self._lock = threading.Lock()
        self._threads = 0
        # The newest is woken first, so that those beyond need end. A `SimpleQueue` would wake them in turn, and may
        # wait forever if it's woken in vain just when its time is up (CPython 3.11).
        self._idle: list[threading.Condition] = []

    def widen(self, limit: int) -> None:
        """From now on up to so many; it never gets narrower."""
        with self._lock:
            self._limit = max(self._limit, limit)

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:  # noqa: ANN401 (whatever `work` takes)
        """Have `work` done in one of the threads, with the caller's context."""
        future: Future[T] = Future()
        context = contextvars.copy_context()
        with self._lock:
            if not self._idle and self._threads < self._limit:
                self._add_thread()
            self._calls.append((future, lambda: context.run(work, *arguments)))
            if self._idle:
                self._idle.pop().notify()
        return future

    def _add_thread(self) -> None:
        """Start one more thread. If the system refuses, the call waits for another; `RuntimeError` if there is none."""
        try:
            threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        except RuntimeError:
            if self._threads == 0:
                raise
        else:
            self._threads += 1

    def _serve(self) -> None:
        while (call := self._next_call()) is not None:
            _run(*call)
            del call

    def _next_call(self) -> Call | None:
        """Wait for a call; None if none comes, and the thread must end."""
        with self._lock:
            while not self._calls:
                turn = threading.Condition(self._lock)
                self._idle.append(turn)
                turn.wait(IDLE_SECONDS if self._idle_seconds is None else self._idle_seconds)
                if turn in self._idle:  # nobody woke it
                    self._idle.remove(turn)
                    if not self._calls:
                        self._threads -= 1
                        return None
            return self._calls.popleft()


def _run(future: Future[Any], work: Callable[[], Any]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        value = work()
    except BaseException as error:  # noqa: BLE001 (the edge of the thread: the caller gets it)
        future.set_exception(error)
    else:
        future.set_result(value)
