"""A repository's history as plain values: files, commits and their hashes, worked out as git does but without it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

FIRST_AT = 1_767_225_600
"""The first commit is of 2026-01-01T00:00:00Z."""

MINUTE = 60  # seconds from one commit to the next
AUTHOR = "Ada Lovelace <ada@example.org>"

PLAIN = "100644"
PROGRAM = "100755"
LINK = "120000"


@dataclass(frozen=True, slots=True)
class Entry:
    """One file: what is in it, or where it points to if it is a symbolic link."""

    content: bytes
    mode: str = PLAIN

    @property
    def text(self) -> bool:
        """Whether it has lines that could be edited."""
        return self.mode != LINK and b"\0" not in self.content


Files: TypeAlias = dict[str, Entry]
Given: TypeAlias = str | bytes | Entry | None
"""A file as tests write it down; None is one that is deleted."""


def entry(given: str | bytes | Entry) -> Entry:
    """A file as it is kept."""
    if isinstance(given, Entry):
        return given
    return Entry(given.encode() if isinstance(given, str) else given)


def put(files: Files, path: str, new: Entry | None) -> None:
    """Put a file there, or delete it. What is in the way, a file for a folder or a folder for a file, goes."""
    if new is None:
        files.pop(path, None)
        return
    parts = path.split("/")
    above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
    for other in [other for other in files if other in above or other.startswith(f"{path}/")]:
        del files[other]
    files[path] = new


def differing(old: Mapping[str, Entry], new: Mapping[str, Entry]) -> list[str]:
    """The paths that are not the same in both, in their order."""
    return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))


def carry(files: Files, old: Mapping[str, Entry], new: Mapping[str, Entry]) -> Files:
    """These files with the changes that lead from old to new, whole files at a time; deletions come first."""
    made = dict(files)
    for path in sorted(differing(old, new), key=lambda path: (path in new, path)):
        put(made, path, new.get(path))
    return made


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit with all of its files."""

    kind: str
    """What sort of a change it is: `edit`, `rename`, `merge` …"""
    parents: tuple[int, ...]
    """Their places in the history."""
    files: Mapping[str, Entry]
    message: str
    author: str
    at: int
    """When, in seconds since 1970."""
    tree: str
    hash: str

    @property
    def subject(self) -> str:
        """The first line of its message."""
        return self.message.partition("\n")[0]


@dataclass(frozen=True, slots=True)
class History:
    """Commits, each after its parents; the last one is the head."""

    commits: tuple[Commit, ...] = field(repr=False)
    steps: tuple[object, ...] = ()
    """What it was grown from."""

    @property
    def line(self) -> tuple[Commit, ...]:
        """From the head along the first parents, newest first."""
        line = [self.commits[-1]]
        while line[-1].parents:
            line.append(self.commits[line[-1].parents[0]])
        return tuple(line)

    @property
    def head(self) -> Commit:
        """The newest commit."""
        return self.commits[-1]

    @property
    def depth(self) -> int:
        """How many commits can be taken back: all but the first one."""
        return len(self.line) - 1

    def back(self, count: int) -> Commit:
        """The commit so many first-parent steps behind the head."""
        return self.line[count]

    def stream(self, branch: str) -> Iterator[bytes]:
        """All of it in the words of `git fast-import`."""
        for mark, commit in enumerate(self.commits, 1):
            who = f"{commit.author} {commit.at} +0000"
            yield f"commit refs/heads/{branch}\nmark :{mark}\nauthor {who}\ncommitter {who}\n".encode()
            yield _data(commit.message.encode())
            for word, parent in zip(["from", *["merge"] * len(commit.parents)], commit.parents, strict=False):
                yield f"{word} :{parent + 1}\n".encode()
            yield b"deleteall\n"
            for path, file in commit.files.items():
                yield b"M %s inline %s\n" % (file.mode.encode(), quoted(path)) + _data(file.content)


class Growing:
    """A history that is being written."""

    def __init__(self) -> None:
        self.commits: list[Commit] = []

    def add(
        self, kind: str, parents: Sequence[int], files: Mapping[str, Entry], message: str, author: str = AUTHOR
    ) -> int:
        """Add a commit; its place."""
        at = FIRST_AT + MINUTE * len(self.commits)
        tree = tree_hash(files)
        lines = [f"tree {tree}", *(f"parent {self.commits[parent].hash}" for parent in parents)]
        lines += [f"{role} {author} {at} +0000" for role in ("author", "committer")]
        named = _hash("commit", "\n".join([*lines, "", message]).encode())
        self.commits.append(Commit(kind, tuple(parents), dict(files), message, author, at, tree, named))
        return len(self.commits) - 1


def straight(*changes: Mapping[str, Given]) -> History:
    """A history without branches: a commit for each of these changes, each on top of the one before."""
    growing = Growing()
    files: Files = {}
    parents: list[int] = []
    for number, change in enumerate(changes, 1):
        for path, given in change.items():
            put(files, path, None if given is None else entry(given))
        parents = [growing.add("change", parents, files, f"Change {number}\n")]
    return History(tuple(growing.commits))


def tree_hash(files: Mapping[str, Entry]) -> str:
    """The hash of a tree of these files."""
    rows: list[tuple[bytes, bytes, str]] = []
    folders: dict[str, Files] = {}
    for path, file in files.items():
        name, within, rest = path.partition("/")
        if within:
            folders.setdefault(name, {})[rest] = file
        else:
            rows.append((name.encode(), file.mode.encode(), _hash("blob", file.content)))
    rows += [(name.encode() + b"/", b"40000", tree_hash(inner)) for name, inner in folders.items()]
    rows.sort()  # a folder is sorted as if its name ended with a slash
    return _hash(
        "tree", b"".join(b"%s %s\0" % (mode, name.rstrip(b"/")) + bytes.fromhex(of) for name, mode, of in rows)
    )


def quoted(path: str) -> bytes:
    """A path as `git fast-import` takes any."""
    return b'"%s"' % b"".join(b"%c" % byte if _harmless(byte) else b"\\%03o" % byte for byte in path.encode())


def _harmless(byte: int) -> bool:
    return 32 <= byte < 127 and byte not in b'"\\'


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def _hash(kind: str, body: bytes) -> str:
    return hashlib.sha1(b"%s %d\0" % (kind.encode(), len(body)) + body, usedforsecurity=False).hexdigest()
