"""Notices immediately that a process has ended, ours or not: a pidfd of each one wakes the event loop.

Where there is no pidfd (another system, an old kernel, too many open already) or no loop, one thread looks at the
processes in short steps instead.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import state
from supervisor_core.host.process_facts.signals import open_exit_notice
from supervisor_core.processes import children

POLL_SECONDS = 0.5
"""The interval for processes without a descriptor: two looks a second cost nearly nothing."""

CLOSE_SECONDS = 5.0
"""The thread ends within microseconds, unless `on_exit` is just running."""

log = logging.getLogger(__name__)


class ExitWatch:
    """Calls `on_exit` once for each watched process that has ended: in the loop in which the watch was created, or in
    the thread. An error of `on_exit` is logged. `watch` may be called from any thread, `close` from the loop's."""

    def __init__(self, on_exit: Callable[[ProcessIdentity], None]) -> None:
        self._on_exit = on_exit
        self._lock = threading.Lock()
        self._watched: dict[ProcessIdentity, int | None] = {}
        """The pidfd of each watched process; None where the thread looks at it."""
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        with suppress(RuntimeError):
            self._loop = asyncio.get_running_loop()

    def watch(self, identity: ProcessIdentity) -> None:
        """Notice its end, also one that has happened already. To watch it again changes nothing."""
        with self._lock:
            if self._closed.is_set() or identity in self._watched:
                return
            descriptor = None
            if len(self._watched) * 2 < _most_descriptors() // 2:  # its exit code may need one more
                children.follow(identity)
                descriptor = open_exit_notice(identity) if self._loop else None
            if descriptor is None:
                self._poll()
            elif self._loop is not None:
                try:
                    self._loop.call_soon_threadsafe(self._add_reader, identity)
                except RuntimeError:  # the loop has ended
                    os.close(descriptor)
                    raise
            self._watched[identity] = descriptor

    def close(self) -> None:
        """Notice nothing more, and end the thread; it isn't waited for beyond a limit."""
        with self._lock:
            self._closed.set()
            descriptors = [descriptor for descriptor in self._watched.values() if descriptor is not None]
            self._watched.clear()
        for descriptor in descriptors:
            self._close_descriptor(descriptor)
        children.stop_following()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)
            if self._thread.is_alive():
                log.warning("the thread that reports exits is still busy after %g s", CLOSE_SECONDS)

    def _add_reader(self, identity: ProcessIdentity) -> None:
        with self._lock:
            descriptor = self._watched.get(identity)
            if descriptor is None or self._loop is None:  # closed meanwhile
                return
            try:
                self._loop.add_reader(descriptor, self._report, identity)
            except OSError as error:  # the system allows no more
                log.warning("the exit of process %d is only polled: %s", identity.pid, error)
                os.close(descriptor)
                self._watched[identity] = None
                self._poll()

    def _poll(self) -> None:
        if self._thread is None:
            thread = threading.Thread(target=self._run, name="exits", daemon=True)
            thread.start()
            self._thread = thread

    def _run(self) -> None:
        while not self._closed.is_set():
            with self._lock:
                polled = [identity for identity, descriptor in self._watched.items() if descriptor is None]
            for identity in polled:
                if state(identity).ended:
                    self._report(identity)
            self._closed.wait(POLL_SECONDS)

    def _report(self, identity: ProcessIdentity) -> None:
        with self._lock:
            if identity not in self._watched:  # closed meanwhile
                return
            descriptor = self._watched.pop(identity)
        if descriptor is not None:
            self._close_descriptor(descriptor)
        try:
            self._on_exit(identity)
        except Exception:
            log.exception("a subscriber to the exit of process %d failed", identity.pid)

    def _close_descriptor(self, descriptor: int) -> None:
        if self._loop is not None and not self._loop.is_closed():
            self._loop.remove_reader(descriptor)
        os.close(descriptor)


def _most_descriptors() -> int:
    """The limit of open files of this program."""
    if sys.platform == "win32":
        return sys.maxsize
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft
