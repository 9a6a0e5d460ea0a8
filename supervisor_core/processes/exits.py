"""Notices at once that a process has ended, ours or not: one thread waits for all of them.

On Linux a pidfd of each process wakes it. Where there is none (another system, an old kernel, too many open already)
the thread looks at those processes in short steps instead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import sys
import threading
import time
from collections.abc import Callable

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import state
from supervisor_core.host.process_facts.signals import open_exit_notice
from supervisor_core.processes import children

LOOK_SECONDS = 0.5  # only for processes without a descriptor: two looks a second cost nearly nothing
CLOSE_SECONDS = 5.0  # the thread ends within microseconds, unless it is just calling somebody

log = logging.getLogger(__name__)


class ExitWatch:
    """Calls `on_exit` once for each watched process that has ended, in a thread of its own.

    The thread starts with the first process that is watched. What `on_exit` raises is logged, and ends nothing.
    """

    def __init__(self, on_exit: Callable[[ProcessIdentity], None]) -> None:
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._watched: dict[ProcessIdentity, int | None] = {}
        """The pidfd of each watched process, or None where it is looked at."""
        self._new: list[ProcessIdentity] = []
        """Those that the thread doesn't wait for yet."""
        self._waker: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = False

    def watch(self, identity: ProcessIdentity) -> None:
        """Notice its end, which is at once where it has ended already. To watch it again changes nothing."""
        with self._lock:
            if self._closed or identity in self._watched:
                return
            if self._thread is None:
                self._start()
            spare = len(self._watched) * 2 < _most_descriptors() // 2  # its exit code may need one more
            self._watched[identity] = open_exit_notice(identity) if spare else None
            if spare:
                children.follow(identity)
            self._new.append(identity)
            if len(self._new) == 1:  # else the thread has been woken, and takes all there is before it sleeps
                self._wake()

    def close(self) -> None:
        """Notice nothing more, and end the thread; it is not waited for beyond a bound."""
        with self._lock:
            self._closed = True
            self._wake()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            log.warning("the thread that reports exits is still busy after %g s; not waiting any longer", CLOSE_SECONDS)

    def _start(self) -> None:
        with contextlib.ExitStack() as unless_started:
            selector = unless_started.enter_context(selectors.DefaultSelector())
            sleeper, waker = socket.socketpair()
            unless_started.enter_context(sleeper)
            unless_started.enter_context(waker)
            selector.register(sleeper, selectors.EVENT_READ)
            thread = threading.Thread(target=self._run, args=(selector, sleeper), name="exits", daemon=True)
            thread.start()
            unless_started.pop_all()
        self._waker, self._thread = waker, thread

    def _wake(self) -> None:
        if self._waker is not None:
            self._waker.send(b"!")

    def _run(self, selector: selectors.BaseSelector, sleeper: socket.socket) -> None:
        with selector, sleeper:
            looked_at: set[ProcessIdentity] = set()
            next_look = time.monotonic()
            while not self._closed:
                seconds = max(0.0, next_look - time.monotonic()) if looked_at else None
                ended = set()
                for key, _ in selector.select(seconds):
                    if key.data is None:
                        sleeper.recv(4096)
                    else:
                        ended.add(key.data)
                with self._lock:
                    new, self._new = self._new, []
                for identity in new:
                    descriptor = self._watched[identity]
                    if descriptor is None:
                        looked_at.add(identity)
                        next_look = time.monotonic()
                        continue
                    try:
                        selector.register(descriptor, selectors.EVENT_READ, identity)
                    except OSError as error:  # no descriptors or watches are left: look at it now and then
                        log.warning("the exit of process %d is only looked for: %s", identity.pid, error)
                        looked_at.add(identity)
                        next_look = time.monotonic()
                if looked_at and time.monotonic() >= next_look:
                    ended |= {identity for identity in looked_at if state(identity).ended}
                    next_look = time.monotonic() + LOOK_SECONDS
                for identity in ended:
                    looked_at.discard(identity)
                    with self._lock:
                        descriptor = self._watched.pop(identity)
                    if descriptor is not None:
                        with contextlib.suppress(KeyError):  # it was only looked at
                            selector.unregister(descriptor)
                        os.close(descriptor)
                    try:
                        self._on_exit(identity)
                    except Exception:
                        log.exception("a subscriber to the exit of process %d failed", identity.pid)
        with self._lock:
            self._closed = True
            for descriptor in self._watched.values():
                if descriptor is not None:
                    os.close(descriptor)
            self._watched.clear()
            waker, self._waker = self._waker, None
        if waker is not None:
            waker.close()
        children.stop_following()


def _most_descriptors() -> int:
    """The limit of open files of this program."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
