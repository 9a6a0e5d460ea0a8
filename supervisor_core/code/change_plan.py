"""Commits, changed files, and the plan of a code change: shown to people, approved, and then carried out. Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from supervisor_core.common.text import canonical_json, one_line, sentence
from supervisor_core.common.times import DAY, HOUR, MINUTE, to_text

SHORT = 7  # letters of a hash, where people read it
LONGEST_NAME = 200  # characters of a file's path, in a sentence

STATE_PARAM = "state"
"""The parameter that binds a command to its previews: their hashes. The requester doesn't type it."""

TASK = "Supervisor-Task"
"""The trailer with the command id in every commit that a command made."""

LISTED_COMMITS, LISTED_FILES = 50, 200
"""The most that are named in a preview or an outcome; the others are counted."""

SHOWN_COMMITS, SHOWN_FILES = 20, 20
"""The most that people see of them."""

LONGEST_LINE = 1000
"""Characters. Unprintable ones in a file name are escaped, because the line goes to a terminal."""

CHANGES = {"A": "added", "M": "changed", "D": "deleted", "R": "renamed", "C": "copied", "T": "retyped"}

COMMIT_LISTS = ("commits", "skipped", "own_reverts", "kept", "dropped")

VERBS = {"rollback": "Reverts", "undo": "Undoes"}
"""A command's effect on its commits. Any other command adds them."""

_REVERTS = re.compile(r"^This reverts commit ([0-9a-f]{40}|[0-9a-f]{64})\b", re.MULTILINE)
_TASK = re.compile(rf"^{TASK}: ([A-Za-z0-9_-]{{1,128}})$", re.MULTILINE)


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
        match = _REVERTS.search(self.body)
        return match[1] if match else ""

    @property
    def task_id(self) -> str:
        """The id of the command that made it; empty if a person did."""
        task_ids = _TASK.findall(self.body)
        return task_ids[-1] if task_ids else ""

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


NO_COMMIT = Commit("", "", (), datetime.min.replace(tzinfo=UTC), "", "")


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

    def __str__(self) -> str:
        was = f" (was {self.was})" if self.was else ""
        lines = "" if self.added is None else f" +{self.added} -{self.removed}"
        return f"{CHANGES.get(self.kind, 'changed'):<8} {self.path}{was}{lines}"


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """A worker that a command would affect."""

    id: str
    pid: int | None
    paused: str = ""
    """Who paused it, and when; empty if it isn't paused."""
    rests: str = ""
    """Another reason not to start it afterwards."""
    busy: str = ""
    """The command that is running or waiting for it."""

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "pid": self.pid,
            "running": self.pid is not None,
            "paused": bool(self.paused),
            "rests": self.rests or self.paused or None,
            "busy": self.busy or None,
        }

    @property
    def stays(self) -> str:
        """The reason not to start it afterwards; empty if it starts."""
        return self.rests or self.paused

    def __str__(self) -> str:
        facts = [f"running (pid {self.pid})" if self.pid else "not running"]
        facts += [self.busy] if self.busy else []
        facts += [f"not started afterwards: {self.stays}"] if self.stays else []
        return f"{self.id}: {'; '.join(facts)}"


@dataclass(frozen=True, slots=True)
class CodePlan:
    """A change of one checkout: what people see before it, what an approval is bound to, and what is carried out."""

    command: str
    """Its name in the catalog."""
    folder: str
    branch: str
    workers: tuple[WorkerNow, ...] = ()
    """All that run from the checkout; only a preview describes them."""
    refused: str = ""
    """Why the command can't be carried out. Then there's no more to the plan."""
    head: Commit = NO_COMMIT
    """The current commit."""
    target: str = ""
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
    """The changes of each revert. Nothing may be in the way of these new files either."""
    undone_task_id: str = ""
    undone: str = ""
    """The undone command in words: `the rollback`."""
    packages: tuple[Mapping[str, Any], ...] = ()
    """The packages that the undone command installed, by environment. They are restored too."""
    installs: tuple[str, ...] = ()
    """The requirements to install and their Python, in words."""
    notes: tuple[str, ...] = ()
    """Further sentences for people."""
    result: str = ""
    """The commit that the checkout moves to, once it's made."""
    reverted: tuple[Commit, ...] = ()
    """The commits that a rollback could revert."""
    conflict: str = ""
    """Why the commit couldn't be made, or not all of it."""
    untried: str = ""
    """The reason why the dry run couldn't be done."""
    state: str = ""
    """The hash of everything that an approval relies on."""
    commit_page: str = ""
    """The address of a commit's page on the hosting site up to its hash, where that is known."""

    @property
    def ok(self) -> bool:
        """True if the command can run."""
        return not (self.refused or self.conflict)

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

    def as_json(self) -> dict[str, Any]:
        known = {
            "command": self.command,
            "checkout": self.folder,
            "branch": self.branch,
            "ok": self.ok,
            "refused": self.refused or None,
            "conflict": self.conflict or None,
            "untried": self.untried or None,
            "workers": [worker.as_json() for worker in self.workers],
            "state": self.state or None,
            "commit_page": self.commit_page or None,
        }
        if self.refused:
            return known
        return {
            **known,
            "head": self.head.as_json(),
            "target": self.target,
            "commit_count": self.commit_count,
            **{name: commits_json(getattr(self, name)) for name in COMMIT_LISTS},
            "changes": list(self.changes[:LISTED_FILES]),
            "files": files_json(self.files),
            "file_count": len(self.files),
            "undone_task_id": self.undone_task_id or None,
            "installs": list(self.installs),
            "notes": list(self.notes),
        }


def preview_text(plan: CodePlan, now: datetime) -> list[str]:
    """The plan for people, line by line."""
    lines = [f"{plan.command} in {plan.folder} (branch {plan.branch})"]
    if plan.refused:
        lines += ["", f"Refused: {plan.refused}"]
    else:
        lines += _plan_lines(plan, now)
    if plan.conflict:
        lines += ["", f"Would fail: {plan.conflict}"]
    if plan.untried:
        lines += ["", plan.untried]
    lines += ["", f"Affects {count(len(plan.workers), 'worker')}:"]
    lines += [f"  {worker}" for worker in plan.workers]
    if plan.ok and plan.does_nothing:
        lines += ["", "Nothing to do. No worker is stopped."]
    elif plan.ok:
        restarted = [worker.id for worker in plan.workers if worker.pid and not worker.stays]
        stopped = [worker.id for worker in plan.workers if worker.pid and worker.stays]
        started = [worker.id for worker in plan.workers if not worker.pid and not worker.stays]
        effects = [f"Restarts {' and '.join(restarted)}."] if restarted else []
        effects += [f"Stops {' and '.join(stopped)} without a restart."] if stopped else []
        effects += [f"Starts {' and '.join(started)}."] if started else []
        effects = effects or ["No worker is stopped or started."]
        effects += ["Dry run: applies cleanly."] if plan.is_tried and not plan.untried else []
        lines += ["", " ".join(effects)]
    return [one_line(line, LONGEST_LINE) for line in lines]


def _plan_lines(plan: CodePlan, now: datetime) -> Iterator[str]:
    def listed(title: str, lines: Sequence[object], number: int, most: int) -> list[str]:
        shown = [f"  {line}" for line in lines[:most]]
        return ["", title, *shown, *([f"  … and {number - len(shown)} more"] if number > len(shown) else [])]

    def commit_line(commit: Commit) -> str:
        seconds = max((now - commit.at).total_seconds(), 0)
        units = ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute"), (1, "second"))
        size, unit = next(((size, unit) for size, unit in units if seconds >= size), units[-1])
        merge = " (merge)" if commit.is_merge else ""
        age = count(int(seconds // size), unit)
        return f"{short(commit.hash)}  {age:>10}  {commit.author}: {commit.subject}{merge}"

    yield f"  now at {commit_line(plan.head)}"
    if plan.own_reverts:
        yield from ("", describe_own_reverts(len(plan.own_reverts)))
    for commits, number, title in (
        (plan.commits, plan.commit_count, f"{VERBS.get(plan.command, 'Adds')} {count(plan.commit_count, 'commit')}:"),
        (plan.skipped, len(plan.skipped), f"Skips {count(len(plan.skipped), 'commit')} without changes:"),
        (plan.kept, len(plan.kept), f"Keeps {count(len(plan.kept), 'local commit')}:"),
        (plan.dropped, len(plan.dropped), f"Drops {count(len(plan.dropped), 'local commit')} (kept as a backup ref):"),
    ):
        if commits:
            yield from listed(title, list(map(commit_line, commits[:SHOWN_COMMITS])), number, SHOWN_COMMITS)
    if plan.changes:
        title = f"Discards uncommitted changes in {count(len(plan.changes), 'file')} (kept as a backup ref):"
        yield from listed(title, plan.changes, len(plan.changes), SHOWN_FILES)
    if plan.files:
        yield from listed(f"Changes {count(len(plan.files), 'file')}:", plan.files, len(plan.files), SHOWN_FILES)
    elif plan.installs and plan.leaves_code:
        yield from ("", "No new commits.")
    if plan.installs:
        title = f"Installs {count(len(plan.installs), 'requirements file')}:"
        yield from listed(title, plan.installs, len(plan.installs), SHOWN_FILES)
    if plan.notes:
        yield from ("", *plan.notes)


def describe_own_reverts(number: int) -> str:
    """The warning that a rollback would revert earlier rollbacks."""
    if number == 1:
        return "Reverts an earlier rollback: the commit that it removed comes back."
    return f"Reverts {number} commits of earlier rollbacks: what they removed comes back."


def new_paths(changes: Iterable[FileChange]) -> list[str]:
    """The paths of new files. Submodules don't count, because their folders may already exist."""
    return [change.path for change in changes if change.kind in "ARC" and not change.submodule]


def touched_paths(changes: Iterable[FileChange]) -> set[str]:
    """The paths whose files are written or removed."""
    return {path for change in changes for path in (change.path, change.was) if path}


def short(commit: str) -> str:
    return commit[:SHORT]


def state_hash(facts: Mapping[str, Any]) -> str:
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()


def count(number: int, noun: str) -> str:
    """`1 commit`, `3 commits`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def list_names(names: Sequence[str], most: int) -> str:
    """The first names, and the number of the others."""
    text = ", ".join(one_line(name, LONGEST_NAME) for name in names[:most])
    return f"{text} and {len(names) - most} more" if len(names) > most else text


def followed_by(text: str, more: str) -> str:
    """Both texts as sentences. What follows the output of a program starts a new line."""
    return f"{text}\n{more}" if "\n" in text else f"{sentence(text)} {more}"


def describe_move(what: str, before: str, after: str) -> str:
    """`Updated OrionMX (1a2b3c4 → 5d6e7f8)`."""
    return f"{what} ({short(before)} → {short(after)})"


def commits_json(commits: Sequence[Commit]) -> list[dict[str, Any]]:
    """Commits for results, the first of them."""
    return [commit.as_json() for commit in commits[:LISTED_COMMITS]]


def files_json(files: Sequence[FileChange]) -> list[dict[str, Any]]:
    return [change.as_json() for change in files[:LISTED_FILES]]
