"""What people see before they say yes to a command on code, as a value and in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from supervisor_core.domain.code import CHANGES, Commit, FileChange, count, short
from supervisor_core.domain.code_plan import CodePlan
from supervisor_core.domain.times import ago

SHOWN_COMMITS, SHOWN_FILES = 20, 20
"""In words; programs get more."""


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """A worker that would be stopped and started for it."""

    id: str
    pid: int | None
    paused: str = ""
    """By whom and since when, where it is."""
    rests: str = ""
    """Why else it would not be started afterwards."""
    busy: str = ""
    """The command that is under way or waits for it."""

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "id": self.id,
            "pid": self.pid,
            "running": self.pid is not None,
            "paused": bool(self.paused),
            "rests": self.rests or self.paused or None,
            "busy": self.busy or None,
        }

    def __str__(self) -> str:
        runs = f"runs as pid {self.pid}" if self.pid else "does not run"
        after = f"; {self.rests or f'it is {self.paused}'}, and is not started" if self.rests or self.paused else ""
        return f"{self.id} {runs}{after}{f'; {self.busy}' if self.busy else ''}"


@dataclass(frozen=True, slots=True)
class Preview:
    """One command on one checkout."""

    command: str
    folder: str
    branch: str
    workers: tuple[WorkerNow, ...]
    plan: CodePlan | None = None
    """None where it is refused as things are."""
    refused: str = ""
    conflict: str = ""
    """Why it would fail half way, by a trial in a worktree of its own."""
    state: str = ""
    """The hash of all that somebody relies on who says yes to this."""

    @property
    def ok(self) -> bool:
        """Whether nothing speaks against it."""
        return not (self.refused or self.conflict)

    def as_json(self) -> dict[str, Any]:
        """For programs."""
        return {
            "command": self.command,
            "checkout": self.folder,
            "branch": self.branch,
            "ok": self.ok,
            "refused": self.refused or None,
            "conflict": self.conflict or None,
            "workers": [worker.as_json() for worker in self.workers],
            "state": self.state or None,
            **(self.plan.as_json() if self.plan else {}),
        }


def in_words(preview: Preview, now: datetime) -> list[str]:
    """The same for people, line by line."""
    lines = [f"{preview.command}, in {preview.folder} on {preview.branch}"]
    plan = preview.plan
    if preview.refused:
        lines.append(f"  refused: {preview.refused}")
    if plan is not None:
        lines += _plan_lines(plan, now)
    if preview.conflict:
        lines.append(f"  it would fail: {preview.conflict}")
    elif plan is not None and not plan.does_nothing:
        lines.append("  tried in a worktree of its own: it goes through")
    if plan is None or not plan.does_nothing:
        lines.append("workers that are stopped and started again for it:")
        lines += [f"  {worker}" for worker in preview.workers]
    return lines


def _plan_lines(plan: CodePlan, now: datetime) -> Iterator[str]:
    yield f"  now at  {_line(plan.head, now)}"
    if plan.does_nothing:
        yield "  nothing to do: it is so already"
    title = {"rollback": "is taken back", "undo": "is undone with it"}.get(plan.command, "comes in")
    yield from _several(plan.commits, plan.commit_count, title, now)
    yield from _several(plan.skipped, len(plan.skipped), "changes no file, and is skipped", now)
    yield from _several(plan.kept, len(plan.kept), "of this checkout alone stays", now)
    yield from _several(plan.dropped, len(plan.dropped), "of this checkout alone goes (and is kept aside)", now)
    if plan.changes:
        yield f"  changes that no commit has, in {count(len(plan.changes), 'file')}, go (and are kept aside):"
        yield from (f"    {path}" for path in plan.changes[:SHOWN_FILES])
    if plan.files:
        yield f"  {count(len(plan.files), 'file')}:"
        yield from (f"    {_file(change)}" for change in plan.files[:SHOWN_FILES])
        if len(plan.files) > SHOWN_FILES:
            yield f"    … and {len(plan.files) - SHOWN_FILES} more"
    yield from (f"  {note}" for note in plan.notes)


def _several(commits: Sequence[Commit], all_of_them: int, what: str, now: datetime) -> Iterator[str]:
    if not commits:
        return
    what = what if all_of_them == 1 else what.replace("is ", "are ", 1).replace("comes ", "come ", 1)
    what = what if all_of_them == 1 else what.replace("changes ", "change ", 1).replace("goes", "go", 1)
    yield f"  {count(all_of_them, 'commit')} {what if all_of_them == 1 else what.replace('stays', 'stay')}:"
    yield from (f"    {_line(commit, now)}" for commit in commits[:SHOWN_COMMITS])
    if all_of_them > SHOWN_COMMITS:
        yield f"    … and {all_of_them - SHOWN_COMMITS} more"


def _line(commit: Commit, now: datetime) -> str:
    merge = " (merge)" if commit.is_merge else ""
    return f"{short(commit.hash)}  {ago(commit.at, now):>8}  {commit.author}: {commit.subject}{merge}"


def _file(change: FileChange) -> str:
    was = f" (was {change.was})" if change.was else ""
    return f"{CHANGES.get(change.kind, 'changed'):<8} {change.path}{was}"
