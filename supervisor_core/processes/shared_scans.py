"""Scans that the threads of a program share.

A scan of all processes answers only callers who asked before it began. So a caller that asks during a scan waits for
the next, together with all who come meanwhile: a thousand searches cost a few scans, each as fresh as its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedScans(Generic[T]):
    """At most one walk at a time, for all threads of this program."""

    def __init__(self, walks: Callable[[], T]) -> None:
        self._walks = walks
        self._turn = threading.Condition()
        self._begun = 0
        self._waiting = 0
        self._under_way = False
        self._newest: tuple[int, T] | None = None
        """Which walk came last, kept only while somebody waits for it."""

    def scan(self) -> T:
        """A walk that begins after this call. Where one fails, its error goes to one who asked, and the next tries."""
        with self._turn:
            wanted = self._begun + 1
            self._waiting += 1
            try:
                while self._under_way and not self._answers(wanted):
                    self._turn.wait()
                if self._newest is not None and self._answers(wanted):
                    return self._newest[1]
                self._begun += 1
                self._under_way = True
            finally:
                self._waiting -= 1
                if not self._waiting:
                    self._newest = None
        return self._walked()

    @property
    def waiting(self) -> int:
        """The number of callers that wait for a scan."""
        return self._waiting

    def _answers(self, wanted: int) -> bool:
        return self._newest is not None and self._newest[0] >= wanted

    def _walked(self) -> T:
        """Walk for all who wait. Only one thread is here at a time."""
        scan = None
        try:
            scan = self._walks()
            return scan
        finally:
            with self._turn:
                self._under_way = False
                if scan is not None and self._waiting:
                    self._newest = self._begun, scan
                self._turn.notify_all()
