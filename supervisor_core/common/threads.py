"""Daemon threads for calls that may block, and a lock that calls back instead of blocking."""

from __future__ import annotations

import contextvars
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""A thread without a call ends after this time."""


class DaemonThreads:
    """A pool whose threads are daemons: a call that hangs can't keep the program from ending."""

    def __init__(self, name: str, limit: int) -> None:
        self._name = name
        self._limit = limit
        self._calls: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._free = 0

    def widen(self, limit: int) -> None:
        """From now on up to so many; it never gets narrower."""
        with self._lock:
            self._limit = max(self._limit, limit)

    def submit(self, work: Callable[..., T], *arguments: Any) -> Future[T]:  # noqa: ANN401 (whatever `work` takes)
        """Have `work` done in one of the threads, with the caller's context."""
        future: Future[T] = Future()
        context = contextvars.copy_context()
        with self._lock:
            if self._free > 0:
                self._free -= 1
            elif self._threads < self._limit:
                self._add_thread()
            self._calls.put((future, lambda: context.run(work, *arguments)))
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
        while True:
            try:
                future, work = self._calls.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if not self._calls.empty():
                        continue
                    self._threads -= 1
                    self._free = max(self._free - 1, 0)
                return
            if future.set_running_or_notify_cancel():
                try:
                    value = work()
                except BaseException as error:  # noqa: BLE001 (the edge of the thread: whoever asked is told)
                    future.set_exception(error)
                else:
                    future.set_result(value)
                    del value
            with self._lock:
                if self._calls.empty():
                    self._free += 1


class CallbackLock:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: list[Callable[[], None]] = []

    def acquire(self, call: Callable[[], None]) -> bool:
        """Take the lock, or have `call` called once when it's free again; return whether it was taken."""
        if self._taken:
            if call not in self._waiting:
                self._waiting.append(call)
            return False
        self._taken = True
        return True

    def release(self) -> None:
        """Let the others try."""
        self._taken = False
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            call()
