"""Notices at once that a process has ended, ours or not: one thread waits for all of them.

On Linux a descriptor of each process wakes it. Where there is none (another system, an old kernel, too many open
already) the thread looks at those processes in short steps instead.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import NamedTuple

from supervisor_core.host.process_facts import signals as pidfd
from supervisor_core.host.process_facts.facts import ProcessIdentity
from supervisor_core.host.process_facts.identity import state
from supervisor_core.processes import children

LOOK_SECONDS = 0.5  # only for processes without a descriptor: two glances a second cost nearly nothing
TOLD_KEPT = 4096  # ends remembered, so that a look which began before one does not have it told again
CLOSE_SECONDS = 5.0  # the thread ends within microseconds, unless it is just telling somebody

log = logging.getLogger(__name__)


class _News(NamedTuple):
    """A request to the thread: wait for the end of a process, by a descriptor or by looking; tell it; forget it."""

    identity: ProcessIdentity
    descriptor: int | None = None
    ended: bool = False
    forgotten: bool = False


class ExitWatch:
    """Calls `heard` once for each watched process that has ended, in a thread of its own.

    The thread starts with the first process that is watched. What `heard` raises is logged, and ends nothing.
    """

    def __init__(self, heard: Callable[[ProcessIdentity], None]) -> None:
        self._heard = heard
        self._lock = threading.Lock()
        self._watched: set[ProcessIdentity] = set()
        self._told: OrderedDict[ProcessIdentity, None] = OrderedDict()
        self._news: deque[_News] = deque()
        self._waker: socket.socket | None = None
        self._thread: threading.Thread | None = None
        self._closed = False
        self._open = 0  # descriptors, those on their way to the thread included
        # What only the thread touches:
        self._descriptors: dict[ProcessIdentity, int] = {}
        self._looked_at: set[ProcessIdentity] = set()

    def watch(self, identity: ProcessIdentity) -> bool:
        """True if its end will be told, which is at once where it has ended already.

        False where it has been told, and once closed. To watch it again changes nothing.
        """
        with self._lock:
            if self._closed or identity in self._told:
                return False
            if identity in self._watched:
                return True
            self._start()
            self._watched.add(identity)
        news = self._opened(identity)
        with self._lock:
            if self._send(news):
                return True
        self._shut(news.descriptor)
        return False

    def forget(self, identity: ProcessIdentity) -> None:
        """Tell nothing of this process any more; if its end is just being told, that is finished."""
        with self._lock:
            self._told.pop(identity, None)
            if identity in self._watched:
                self._watched.discard(identity)
                self._send(_News(identity, forgotten=True))

    def close(self) -> None:
        """Tell nothing more, and end the thread; it is not waited for beyond a bound."""
        with self._lock:
            self._closed = True
            self._watched.clear()
            self._wake()
        thread = self._thread
        if thread is None or thread is threading.current_thread():
            return
        thread.join(CLOSE_SECONDS)
        if thread.is_alive():
            log.warning("the thread that reports exits is still busy after %g s; not waiting any longer", CLOSE_SECONDS)

    def _opened(self, identity: ProcessIdentity) -> _News:
        if not pidfd.has_pidfds():
            return _News(identity)
        spare = pidfd.spare_descriptors()
        with self._lock:
            if self._open + children.followed() >= spare:
                return _News(identity)
            self._open += 1
        descriptor = None
        try:
            descriptor = pidfd.descriptor_of(identity)
        except OSError:  # none is left, or the system does not tell who this is by now
            return _News(identity)
        finally:
            if descriptor is None:
                with self._lock:
                    self._open -= 1
        if descriptor is not None and self._open + children.followed() < spare:  # a copy needs one more
            children.follow(identity, descriptor)
        return _News(identity, descriptor, ended=descriptor is None)

    def _shut(self, descriptor: int | None) -> None:
        """Close what was opened, if anything was. Call it without the lock."""
        if descriptor is not None:
            os.close(descriptor)
            with self._lock:
                self._open -= 1

    def _start(self) -> None:
        """Start the thread, unless it is there. Call it with the lock held."""
        if self._thread is not None:
            return
        with contextlib.ExitStack() as unless_started:
            selector = unless_started.enter_context(selectors.DefaultSelector())
            sleeper, waker = socket.socketpair()
            unless_started.enter_context(sleeper)
            unless_started.enter_context(waker)
            sleeper.setblocking(False)
            waker.setblocking(False)
            selector.register(sleeper, selectors.EVENT_READ)
            thread = threading.Thread(target=self._run, args=(selector, sleeper), name="exits", daemon=True)
            thread.start()
            unless_started.pop_all()
        self._waker, self._thread = waker, thread

    def _send(self, news: _News) -> bool:
        """Give the thread something to do; False where it is over. Call it with the lock held."""
        if not self._closed:
            self._news.append(news)
            if len(self._news) == 1:  # else the thread has been woken, and takes all there is before it sleeps
                self._wake()
        return not self._closed

    def _wake(self) -> None:
        """Call it with the lock held."""
        if self._waker is not None:
            with contextlib.suppress(BlockingIOError):  # full: then the thread has much to read before it sleeps
                self._waker.send(b"!")

    def _run(self, selector: selectors.BaseSelector, sleeper: socket.socket) -> None:
        try:
            next_look = time.monotonic()
            while not self._closed:
                seconds = max(0.0, next_look - time.monotonic()) if self._looked_at else None
                ready = selector.select(seconds)
                for key, _ in ready:
                    if key.data is None:
                        _drain(sleeper)
                    else:
                        self._drop(selector, key.data)
                        self._tell(key.data)
                self._take_news(selector)
                if self._looked_at and time.monotonic() >= next_look:
                    self._look()
                    next_look = time.monotonic() + LOOK_SECONDS
        finally:
            with self._lock:
                self._closed = True
                left = [news.descriptor for news in self._news]
                self._news.clear()
                waker, self._waker = self._waker, None
            for descriptor in (*left, *self._descriptors.values()):
                self._shut(descriptor)
            children.stop_following()
            selector.close()
            sleeper.close()
            if waker is not None:
                waker.close()

    def _take_news(self, selector: selectors.BaseSelector) -> None:
        while True:
            with self._lock:
                if not self._news:
                    return
                news = self._news.popleft()
                wanted = news.identity in self._watched
            if news.forgotten:
                self._drop(selector, news.identity)
            elif not wanted or news.identity in self._descriptors:
                self._shut(news.descriptor)
            elif news.ended:
                self._tell(news.identity)
            elif news.descriptor is None:
                self._looked_at.add(news.identity)
            else:
                selector.register(news.descriptor, selectors.EVENT_READ, news.identity)
                self._descriptors[news.identity] = news.descriptor

    def _drop(self, selector: selectors.BaseSelector, identity: ProcessIdentity) -> None:
        self._looked_at.discard(identity)
        descriptor = self._descriptors.pop(identity, None)
        if descriptor is not None:
            selector.unregister(descriptor)
            self._shut(descriptor)

    def _look(self) -> None:
        for identity in tuple(self._looked_at):
            if state(identity).ended:
                self._looked_at.discard(identity)
                self._tell(identity)

    def _tell(self, identity: ProcessIdentity) -> None:
        with self._lock:
            if identity not in self._watched:
                return
            self._watched.discard(identity)
            self._told[identity] = None
            while len(self._told) > TOLD_KEPT:
                self._told.popitem(last=False)
        try:
            self._heard(identity)
        except Exception:
            log.exception("a subscriber to the exit of process %d failed", identity.pid)


def _drain(sleeper: socket.socket) -> None:
    with contextlib.suppress(BlockingIOError):
        while sleeper.recv(4096):
            pass
