"""Commits, changed files, and the plan of a code change, which is shown to people and then carried out. Pure."""

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
"""The parameter that binds a command to its previews: their hashes. The requester doesn't type it."""

TASK = "Supervisor-Task"
"""The trailer with the command id in every commit that a command made."""

_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40}|[0-9a-f]{64})\b", re.MULTILINE)
_TASK = re.compile(rf"^{TASK}: ([A-Za-z0-9_-]{{1,128}})$", re.MULTILINE)

CHANGES = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed", "C": "copied", "T": "retyped"}


@dataclass(frozen=True, slots=True)
class Commit:
    hash: str
    tree: str
    parents: tuple[str, ...]
    at: datetime
    author: str
    subject: str
    body: str = ""

    @property
    def is_merge(self) -> bool:
        return len(self.parents) > 1

    @property
    def takes_back(self) -> str:
        """The commit that this one reverts, by its message; empty if it isn't a revert."""
        found = _REVERTS.search(self.body)
        return found[1] if found else ""

    @property
    def task_id(self) -> str:
        """The id of the command that made it; empty if a person did."""
        found = _TASK.findall(self.body)
        return found[-1] if found else ""

    def __str__(self) -> str:
        return f"{short(self.hash)} {self.subject}"

    def as_json(self) -> dict[str, Any]:
        return {
            "hash": self.hash,
            "at": to_text(self.at),
            "author": self.author,
            "subject": self.subject,
            "merge": self.is_merge,
        }


@dataclass(frozen=True, slots=True)
class FileChange:
    kind: str
    """Git's letter: A, M, D, R …"""
    path: str
    was: str = ""
    """The earlier name of a renamed file."""
    submodule: bool = False
    """True if it becomes a submodule."""
    added: int | None = None
    removed: int | None = None
    """Lines; None for a binary file, or if they weren't counted."""

    def as_json(self) -> dict[str, Any]:
        known: dict[str, Any] = {"change": CHANGES.get(self.kind, "changed"), "path": self.path}
        known |= {"was": self.was} if self.was else {}
        return known | ({} if self.added is None else {"added": self.added, "removed": self.removed})


def new_paths(changes: Iterable[FileChange]) -> list[str]:
    """The paths of new files. Submodules don't count, because their folders may already exist."""
    return [change.path for change in changes if change.kind in "ARC" and not change.submodule]


def touched_paths(changes: Iterable[FileChange]) -> set[str]:
    """The paths whose files are written or removed."""
    return {path for change in changes for path in (change.path, change.was) if path}


def short(commit: str) -> str:
    return commit[:SHORT]


def revert_message(commit: Commit, who: str, task_id: str) -> str:
    """The message of a revert. It begins with git's own words, so that every tool recognizes it."""
    towards = f", reversing\nchanges made to {commit.parents[0]}" if commit.is_merge else ""
    return (
        f'Revert "{commit.subject}"\n\nThis reverts commit {commit.hash}{towards}.\n\n'
        f"Requested by {who}.\n\n{TASK}: {task_id}\n"
    )


def merge_message(branch: str, kept: int, who: str, task_id: str) -> str:
    return f"Merge {branch}\n\nKeeps {count(kept, 'local commit')}.\n\nRequested by {who}.\n\n{TASK}: {task_id}\n"


def undo_message(what: str, undone_task_id: str, before: str, who: str, task_id: str) -> str:
    return (
        f"Undo {what} ({undone_task_id})\n\nRestores every file to {before}.\n\n"
        f"Requested by {who}.\n\n{TASK}: {task_id}\n"
    )


def state_hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


def count(number: int, noun: str) -> str:
    """`1 commit`, `3 commits`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_names(things: Sequence[str], most: int) -> str:
    """The first names, and the number of the others."""
    said = ", ".join(one_line(thing, LONGEST_NAME) for thing in things[:most])
    return f"{said} and {len(things) - most} more" if len(things) > most else said


def followed_by(text: str, more: str) -> str:
    """Both texts as sentences. What follows the output of a program starts a new line."""
    return f"{text}\n{more}" if "\n" in text else f"{sentence(text)} {more}"


def describe_move(what: str, before: str, after: str) -> str:
    """`Updated OrionMX (1a2b3c4 → 5d6e7f8)`."""
    return f"{what} ({short(before)} → {short(after)})"


LISTED_COMMITS, LISTED_FILES = 50, 200
"""The most that are named in a preview or an outcome; the others are counted."""


@dataclass(frozen=True, slots=True)
class CodePlan:
    command: str
    """Its name in the catalog."""
    head: Commit
    """The current commit."""
    target: str
    """The commit to reach; for a merge, the one to merge."""
    commits: tuple[Commit, ...] = ()
    """The commits to add or to revert, newest first."""
    commit_count: int = 0
    skipped: tuple[Commit, ...] = ()
    """Commits without changes, which aren't reverted."""
    kept: tuple[Commit, ...] = ()
    """Local commits that stay."""
    dropped: tuple[Commit, ...] = ()
    """Local commits that are dropped."""
    changes: tuple[str, ...] = ()
    """Files whose uncommitted changes are discarded."""
    drops_changes: bool = False
    """True if all uncommitted changes are to be discarded, as `update --reset` does."""
    files: tuple[FileChange, ...] = ()
    on_the_way: tuple[FileChange, ...] = ()
    """The changes of each revert. Nothing may lie in the places of these new files either."""
    undone_task_id: str = ""
    undone: str = ""
    """The undone command in words: `the rollback`."""
    packages: tuple[Mapping[str, Any], ...] = ()
    """The packages that the undone command installed, by environment. They are restored too."""
    installs: tuple[str, ...] = ()
    """The requirements to install and their Python, in words."""
    notes: tuple[str, ...] = ()
    """Further sentences for people."""

    @property
    def own_reverts(self) -> tuple[Commit, ...]:
        """Reverts by the supervisor that a rollback would itself revert, so that what they removed comes back."""
        if self.command != "rollback":
            return ()
        return tuple(commit for commit in self.commits if commit.takes_back and commit.task_id)

    @property
    def leaves_code(self) -> bool:
        """True if the code doesn't change."""
        return not (self.commits or self.dropped or self.changes or self.undone_task_id)

    @property
    def does_nothing(self) -> bool:
        """True if nothing changes and nothing is installed, so that no worker is stopped."""
        return self.leaves_code and not self.installs

    @property
    def merges(self) -> bool:
        return bool(self.commits and self.kept)

    @property
    def is_tried(self) -> bool:
        """True if a dry run is useful, because the change may fail."""
        return self.merges or bool(self.commits and self.command == "rollback")

    @property
    def trial_paths(self) -> set[str]:
        """The files that a temporary worktree needs for this plan."""
        return {change.path for change in (*self.files, *self.on_the_way)}

    def facts(self) -> dict[str, Any]:
        """The facts that an approval of this plan relies on."""
        installs = {"installs": list(self.installs)} if self.installs else {}
        return {"head": self.head.hash, "target": self.target, "changes": sorted(self.changes), **installs}

    def as_json(self) -> dict[str, Any]:
        return {
            "head": self.head.as_json(),
            "target": self.target,
            "commits": commits_json(self.commits),
            "commit_count": self.commit_count,
            "skipped": commits_json(self.skipped),
            "own_reverts": commits_json(self.own_reverts),
            "kept": commits_json(self.kept),
            "dropped": commits_json(self.dropped),
            "changes": list(self.changes[:LISTED_FILES]),
            "files": [change.as_json() for change in self.files[:LISTED_FILES]],
            "file_count": len(self.files),
            "undone_task_id": self.undone_task_id or None,
            "installs": list(self.installs),
            "notes": list(self.notes),
        }


def describe_own_reverts(number: int) -> str:
    """The warning that a rollback would revert earlier rollbacks."""
    if number == 1:
        return "Reverts an earlier rollback: the commit that it removed comes back."
    return f"Reverts {number} commits of earlier rollbacks: what they removed comes back."


def commits_json(commits: Sequence[Commit]) -> list[dict[str, Any]]:
    """Commits for results, the first of them."""
    return [commit.as_json() for commit in commits[:LISTED_COMMITS]]
