"""One walk through all processes of this host, and how many who look at the same time share it.

A walk answers only who asked before it began. So whoever asks while one is under way waits for the next, together
with all who come meanwhile: a thousand looks at once cost a few walks, and each is as fresh as if it were its own.
"""

from __future__ import annotations

import os
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property

from supervisor_core.adapters.processes_identity import platform
from supervisor_core.adapters.processes_values import Facts


class Scan:
    """What one walk has found. It is shared by threads, and nobody changes it."""

    def __init__(self, table: Mapping[int, Facts], tokens: Mapping[int, str], *, quiet: bool) -> None:
        self.table = table
        """Every process that we may see, by its PID."""
        self.quiet = quiet
        """Whether nothing at all was born on this host from before the walk until after it."""
        self._tokens = sorted((token, pid) for pid, token in tokens.items())

    @cached_property
    def never(self) -> frozenset[int]:
        """Ourselves, all above us, and the system's first process: what no stop may ever touch."""
        return line_of(self.table.get)

    @cached_property
    def children(self) -> Mapping[int, list[int]]:
        """Whose parent is which process."""
        return _grouped((found.ppid, pid) for pid, found in self.table.items())

    @cached_property
    def sessions(self) -> Mapping[int, list[int]]:
        """Who is in which session."""
        return _grouped((found.session, pid) for pid, found in self.table.items())

    def carriers(self, prefix: str) -> Iterator[tuple[str, Facts]]:
        """Every process whose generation begins so, with that generation; ourselves and our ancestors as well."""
        for token, pid in self._tokens[bisect_left(self._tokens, (prefix, 0)) :] if prefix else ():
            if not token.startswith(prefix):
                return
            yield token, self.table[pid]


def walk(on_sight: Callable[[Facts, str], object] | None = None) -> Scan:
    """Walk through all processes, now; each that carries a generation is told at the moment it is seen."""
    newest = platform.newest_pid()
    table: dict[int, Facts] = {}
    tokens: dict[int, str] = {}
    for pid in platform.pids():
        seen = platform.sight(pid)
        if seen is None:
            continue
        table[pid], token = seen
        if token:
            tokens[pid] = token
            if on_sight:
                on_sight(*seen)
    return Scan(table, tokens, quiet=platform.newest_pid() == newest)


def line_of(glance: Callable[[int], Facts | None]) -> frozenset[int]:
    """Ourselves, all above us, and the system's first process."""
    line = {0, 1}
    pid = os.getpid()
    while pid not in line:
        line.add(pid)
        found = glance(pid)
        pid = found.ppid if found else 0
    return frozenset(line)


class SharedWalks:
    """At most one walk at a time, for all threads of this program."""

    def __init__(self, walks: Callable[[], Scan] = walk) -> None:
        self._walks = walks
        self._turn = threading.Condition()
        self._begun = 0
        self._waiting = 0
        self._under_way = False
        self._newest: tuple[int, Scan] | None = None
        """Which walk came last, kept only while somebody waits for it."""

    def scan(self) -> Scan:
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
        """How many wait for a walk that has not begun, or is under way for them."""
        return self._waiting

    def _answers(self, wanted: int) -> bool:
        return self._newest is not None and self._newest[0] >= wanted

    def _walked(self) -> Scan:
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


def _grouped(pairs: Iterable[tuple[int, int]]) -> Mapping[int, list[int]]:
    groups: dict[int, list[int]] = {}
    for key, pid in pairs:
        groups.setdefault(key, []).append(pid)
    return groups


_walks = SharedWalks()


def scan() -> Scan:
    """All processes of this host, by a walk that begins after this call."""
    return _walks.scan()


def _forget_in_child() -> None:
    """After a fork: the walk that was under way goes on in the parent only."""
    global _walks  # noqa: PLW0603 (a condition held across a fork can't be waited for any more)
    _walks = SharedWalks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_in_child)
