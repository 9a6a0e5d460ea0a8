"""The files of the structured log, read backwards from their end or as they grow, across rotations.

On the path of `supervisor logs`, which is as quick as `status`: no logging, dataclasses or pathlib here.
A file is open only while it is read: Windows can't rotate an open file.
"""

# ruff: noqa: PTH118, PTH123
# Importing pathlib alone would cost a tenth of the time that the command has.

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO, TypeAlias

    _Position: TypeAlias = "tuple[tuple[int, int], bytes, int, int]"
    """The newest file: its identity, its first bytes, the position up to which it was read, and the time of its last
    write by the clock of its file system."""

EVENTS_FILE = "events.jsonl"
HEAD_BYTES = 64
"""The start of a file, which identifies it: inode numbers are reused."""

BLOCK_BYTES = 64 * 1024
"""The bytes of one read, from the end: some two hundred lines, so that one read has the newest fifty."""


class EventFiles:
    """The current file and the rotated ones, of which `events.jsonl.1` is the newest."""

    def __init__(self, folder: str) -> None:
        self.path = os.path.join(folder, EVENTS_FILE)
        """The file with the newest lines."""
        self._folder = folder
        self.begun = False
        """True if the file existed when the newest lines were requested."""
        self._last: _Position = ((0, 0), b"", 0, 0)

    def newest_first(self, *, unfinished: bool) -> Iterator[bytes]:
        """All lines, newest first; with `unfinished`, also the text after the last line end.

        Lines that are written after the first one was taken are left to `new_lines`, so that none is lost.
        """
        self.begun = False
        for file, facts in self._from_the_newest():
            lines = _backwards(file, facts.st_size)
            if not self.begun:
                self.begun, last = True, next(lines)
                self._last = _position(file, facts, facts.st_size - len(last))
                if unfinished and last:
                    yield last
            yield from filter(None, lines)

    def new_lines(self) -> list[bytes]:
        """The whole lines that are new since the last look, oldest first, also of files rotated away meanwhile."""
        known, head, read_to, changed_ns = self._last
        parts: list[bytes] = []
        for file, facts in self._from_the_newest():
            is_known = _identity(facts) == known and _head(file).startswith(head)
            if not is_known and facts.st_mtime_ns < changed_ns:
                break  # ours is gone, and this one is older
            start = read_to if is_known and read_to <= facts.st_size else 0  # less: somebody emptied it
            file.seek(start)
            data = file.read()
            if not parts:
                data = data[: data.rfind(b"\n") + 1]  # the rest of the last line is still to come
                self._last = _position(file, facts, start + len(data))
            parts.append(data)
            if is_known:
                break
        return [line for data in reversed(parts) for line in data.split(b"\n") if line]

    def _from_the_newest(self) -> Iterator[tuple[BinaryIO, os.stat_result]]:
        """Each file once, open. A file that is rotated meanwhile is found at its next number, so none is left out."""
        visited: set[tuple[int, int]] = set()
        for path in self._paths():
            try:
                file = open(path, "rb")  # noqa: SIM115 (closed below; what reads it raises its own errors)
            except FileNotFoundError:
                continue  # it is just being renamed, to the next number
            with file:
                facts = os.fstat(file.fileno())
                if _identity(facts) not in visited:
                    visited.add(_identity(facts))
                    yield file, facts

    def _paths(self) -> Iterator[str]:
        try:
            names = os.listdir(self._folder)
        except FileNotFoundError:
            return
        suffixes = [name.removeprefix(f"{EVENTS_FILE}.") for name in names if name.startswith(f"{EVENTS_FILE}.")]
        numbers = {int(end) for end in suffixes if end.isascii() and end.isdigit()}
        yield self.path
        for number in sorted({1} | numbers | {number + 1 for number in numbers}):  # the next one: a rotation may come
            yield f"{self.path}.{number}"


def _position(file: BinaryIO, facts: os.stat_result, read_to: int) -> _Position:
    return _identity(facts), _head(file), read_to, facts.st_mtime_ns


def _identity(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_dev, facts.st_ino


def _head(file: BinaryIO) -> bytes:
    file.seek(0)
    return file.read(HEAD_BYTES)


def _backwards(file: BinaryIO, end: int) -> Iterator[bytes]:
    """The text after the last line end, then the lines before it, last line first, read block by block."""
    parts: list[bytes] = []  # of the line whose beginning isn't read yet, the last part first
    while end > 0:
        start = max(end - BLOCK_BYTES, 0)
        file.seek(start)
        head, *lines = file.read(end - start).split(b"\n")
        end = start
        if lines:
            parts.append(lines.pop())
            yield b"".join(reversed(parts))
            yield from reversed(lines)
            parts = []
        parts.append(head)
    yield b"".join(reversed(parts))
