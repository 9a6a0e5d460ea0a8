"""Code as commands see it: commits, the files they touch, and what a command on code would do. Pure.

What a command on code would do, worked out before anything is done: shown to people, then carried out. Pure.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from supervisor_core.common.text import canonical_json, one_line, sentence
from supervisor_core.common.times import to_text

SHORT = 7  # letters of a hash, where people read it
LONGEST_NAME = 200  # characters of a file's path, in a sentence

STATE_PARAM = "state"
"""The parameter that holds a command on code to what a preview showed: its hash, of several checkouts all their hashes.
It follows from the previews, and is no part of what was asked for."""

TASK = "Supervisor-Task"
"""The trailer of every commit that a command made; it names the command."""

_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40}|[0-9a-f]{64})\b", re.MULTILINE)
_TASK = re.compile(rf"^{TASK}: ([A-Za-z0-9_-]{{1,128}})$", re.MULTILINE)

CHANGES = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed", "C": "copied", "T": "retyped"}


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit."""

    hash: str
    tree: str
    parents: tuple[str, ...]
    at: datetime
    author: str
    subject: str
    body: str = ""

    @property
    def is_merge(self) -> bool:
        """Whether it brings several lines of history together."""
        return len(self.parents) > 1

    @property
    def takes_back(self) -> str:
        """The commit that this one reverts, as its message says; empty where it says nothing of the kind."""
        found = _REVERTS.search(self.body)
        return found[1] if found else ""

    @property
    def task_id(self) -> str:
        """The command that made it; empty where a person did."""
        found = _TASK.findall(self.body)
        return found[-1] if found else ""

    def __str__(self) -> str:
        return f"{short(self.hash)} {self.subject}"

    def as_json(self) -> dict[str, Any]:
        """For results, and for programs."""
        return {
            "hash": self.hash,
            "at": to_text(self.at),
            "author": self.author,
            "subject": self.subject,
            "merge": self.is_merge,
        }


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of one file."""

    kind: str
    """Git's letter: A, M, D, R …"""
    path: str
    was: str = ""
    """What it was called before, where it is renamed."""
    submodule: bool = False
    """Whether it is no file but the place of a submodule from now on."""

    def as_json(self) -> dict[str, str]:
        """For results, and for programs."""
        known = {"change": CHANGES.get(self.kind, "changed"), "path": self.path}
        return {**known, "was": self.was} if self.was else known


def new_paths(changes: Iterable[FileChange]) -> list[str]:
    """Where files come to lie that were not there before. A submodule's folder may be there from an earlier time."""
    return [change.path for change in changes if change.kind in "ARC" and not change.submodule]


def short(commit: str) -> str:
    """A hash as people read it."""
    return commit[:SHORT]


def revert_message(commit: Commit, who: str, task_id: str) -> str:
    """The message of the commit that takes this one back: in git's own words first, so that every tool knows it."""
    towards = f", reversing\nchanges made to {commit.parents[0]}" if commit.is_merge else ""
    return (
        f'Revert "{commit.subject}"\n\nThis reverts commit {commit.hash}{towards}.\n\n'
        f"Requested by {who}.\n\n{TASK}: {task_id}\n"
    )


def merge_message(branch: str, kept: int, who: str, task_id: str) -> str:
    """The message of the merge that an update makes where the branch has commits of its own."""
    return f"Merge {branch}\n\nKeeps {count(kept, 'local commit')}.\n\nRequested by {who}.\n\n{TASK}: {task_id}\n"


def undo_message(what: str, undone_task_id: str, before: str, who: str, task_id: str) -> str:
    """The message of the commit that takes a rollback or an update back."""
    return (
        f"Undo {what} ({undone_task_id})\n\nRestores every file to {before}.\n\n"
        f"Requested by {who}.\n\n{TASK}: {task_id}\n"
    )


def state_hash(facts: Mapping[str, Any]) -> str:
    """The same as long as nothing has moved on that somebody relied on when they said yes."""
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


def count(number: int, noun: str) -> str:
    """`1 commit`, `3 commits`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_names(things: Sequence[str], most: int) -> str:
    """The first of them, and how many there are beside."""
    said = ", ".join(one_line(thing, LONGEST_NAME) for thing in things[:most])
    return f"{said} and {len(things) - most} more" if len(things) > most else said


def followed_by(text: str, more: str) -> str:
    """Both texts as sentences. What follows the output of a program starts a new line."""
    return f"{text}\n{more}" if "\n" in text else f"{sentence(text)} {more}"


def describe_move(what: str, before: str, after: str) -> str:
    """`Updated OrionMX (1a2b3c4 → 5d6e7f8)`."""
    return f"{what} ({short(before)} → {short(after)})"


LISTED_COMMITS, LISTED_FILES = 50, 200
"""So many are named, in a preview and in an outcome; the others are counted."""


@dataclass(frozen=True, slots=True)
class CodePlan:
    """One command on one checkout."""

    command: str
    """Its name in the catalog."""
    head: Commit
    """What is checked out now."""
    target: str
    """The commit whose state is gone to; of a merge, the one that is merged."""
    commits: tuple[Commit, ...] = ()
    """Those that come in, or are taken back; newest first."""
    commit_count: int = 0
    skipped: tuple[Commit, ...] = ()
    """Those that change nothing, so that there is nothing to take back."""
    kept: tuple[Commit, ...] = ()
    """Commits of this checkout that the remote has not, and that stay in force."""
    dropped: tuple[Commit, ...] = ()
    """Those that go."""
    changes: tuple[str, ...] = ()
    """Files with changes that no commit has, and that go."""
    files: tuple[FileChange, ...] = ()
    on_the_way: tuple[FileChange, ...] = ()
    """Files that come and go between its steps; nothing may lie in their places either."""
    undone_task_id: str = ""
    undone: str = ""
    """What that was: `the rollback`."""
    packages: tuple[Mapping[str, Any], ...] = ()
    """What it had installed, by environment; that goes as well."""
    installs: tuple[str, ...] = ()
    """What is installed into which Python, in words; also where no code is to be brought."""
    notes: tuple[str, ...] = ()
    """What is worth knowing beside all that, a sentence each."""

    @property
    def leaves_code(self) -> bool:
        """Whether the code is already as it would be."""
        return not (self.commits or self.dropped or self.changes or self.undone_task_id)

    @property
    def does_nothing(self) -> bool:
        """Whether nobody needs to be stopped: nothing changes, and nothing is installed."""
        return self.leaves_code and not self.installs

    @property
    def merges(self) -> bool:
        """Whether two lines of history come together: then they may not fit."""
        return bool(self.commits and self.kept)

    @property
    def is_tried(self) -> bool:
        """Whether it may turn out not to fit, so that a trial tells something."""
        return self.merges or bool(self.commits and self.command == "rollback")

    def facts(self) -> dict[str, Any]:
        """What somebody relied on who saw this plan."""
        installs = {"installs": list(self.installs)} if self.installs else {}
        return {"head": self.head.hash, "target": self.target, "changes": sorted(self.changes), **installs}

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "head": self.head.as_json(),
            "target": self.target,
            "commits": commits_json(self.commits),
            "commit_count": self.commit_count,
            "skipped": commits_json(self.skipped),
            "kept": commits_json(self.kept),
            "dropped": commits_json(self.dropped),
            "changes": list(self.changes[:LISTED_FILES]),
            "files": [change.as_json() for change in self.files[:LISTED_FILES]],
            "file_count": len(self.files),
            "undone_task_id": self.undone_task_id or None,
            "installs": list(self.installs),
            "notes": list(self.notes),
        }


def commits_json(commits: Sequence[Commit]) -> list[dict[str, Any]]:
    """Commits for results, the first of them."""
    return [commit.as_json() for commit in commits[:LISTED_COMMITS]]
