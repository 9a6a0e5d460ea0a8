"""The preview of a code change: its effects, and a dry run where one is possible. Nothing is changed.

All checkouts of a command are checked concurrently, under one total deadline. A checkout that takes longer is refused
with the reason, and doesn't hold up the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from supervisor_core.code.change_plan import CHANGES, CodePlan, Commit, FileChange, count, describe_own_reverts, short
from supervisor_core.code.checkout import Checkout, checkout_of
from supervisor_core.code.git.history import commits, resolve_commit
from supervisor_core.code.git.hosting import commit_page_of
from supervisor_core.code.planning import make_plan, preview_state, try_plan
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.common.times import DAY, HOUR, MINUTE
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.jobs.handler_checks import start_objection
from supervisor_core.jobs.model import JobState
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.worker import find_watcher

SHOWN_COMMITS, SHOWN_FILES = 20, 20
"""In words; programs get more."""

LONGEST_LINE = 1000
"""Characters. Unprintable ones in a file name are escaped, because the line goes to a terminal."""

VERBS = {"rollback": "Reverts", "undo": "Undoes"}
"""A command's effect on its commits. Any other command adds them."""


@dataclass(frozen=True, slots=True)
class WorkerNow:
    """A worker that a code change would restart."""

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
class Preview:
    command: str
    folder: str
    branch: str
    workers: tuple[WorkerNow, ...]
    plan: CodePlan | None = None
    """None if the command is refused."""
    refused: str = ""
    conflict: str = ""
    """The failure that the dry run found."""
    state: str = ""
    """The hash of everything that an approval of this preview relies on."""
    untried: str = ""
    """The reason why the dry run couldn't be done."""
    commit_page: str = ""
    """The address of a commit's page on the hosting site up to its hash, where that is known."""

    @property
    def ok(self) -> bool:
        """True if the command can run."""
        return not (self.refused or self.conflict)

    def as_json(self) -> dict[str, Any]:
        return {
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
            **(self.plan.as_json() if self.plan else {}),
        }


def preview_text(preview: Preview, now: datetime) -> list[str]:
    """The preview for people, line by line."""
    plan = preview.plan
    lines = [f"{preview.command} in {preview.folder} (branch {preview.branch})"]
    if preview.refused:
        lines += ["", f"Refused: {preview.refused}"]
    if plan is not None:
        lines += _plan_lines(plan, now)
    if preview.conflict:
        lines += ["", f"Would fail: {preview.conflict}"]
    if preview.untried:
        lines += ["", preview.untried]
    lines += ["", f"Affects {count(len(preview.workers), 'worker')}:"]
    lines += [f"  {worker}" for worker in preview.workers]
    if preview.ok and plan is not None:
        verdict = "Nothing to do. No worker is stopped."
        if not plan.does_nothing:
            tried = " Dry run: applies cleanly." if plan.is_tried and not preview.untried else ""
            verdict = f"{_restarts(preview.workers)}{tried}"
        lines += ["", verdict]
    return [one_line(line, LONGEST_LINE) for line in lines]


def _restarts(workers: Sequence[WorkerNow]) -> str:
    """`Restarts OrionMX. Stops Second without a restart.`"""
    restarted = [worker.id for worker in workers if worker.pid and not worker.stays]
    stopped = [worker.id for worker in workers if worker.pid and worker.stays]
    started = [worker.id for worker in workers if not worker.pid and not worker.stays]
    words = [f"Restarts {' and '.join(restarted)}."] if restarted else []
    words += [f"Stops {' and '.join(stopped)} without a restart."] if stopped else []
    words += [f"Starts {' and '.join(started)}."] if started else []
    return " ".join(words) or "No worker is stopped or started."


def _plan_lines(plan: CodePlan, now: datetime) -> Iterator[str]:
    yield f"  now at {_line(plan.head, now)}"
    if plan.own_reverts:
        yield from ("", describe_own_reverts(len(plan.own_reverts)))
    for shown, number, title in (
        (plan.commits, plan.commit_count, f"{VERBS.get(plan.command, 'Adds')} {count(plan.commit_count, 'commit')}:"),
        (plan.skipped, len(plan.skipped), f"Skips {count(len(plan.skipped), 'commit')} without changes:"),
        (plan.kept, len(plan.kept), f"Keeps {count(len(plan.kept), 'local commit')}:"),
        (plan.dropped, len(plan.dropped), f"Drops {count(len(plan.dropped), 'local commit')} (kept as a backup ref):"),
    ):
        if shown:
            yield from ("", title)
            yield from _listed([_line(commit, now) for commit in shown[:SHOWN_COMMITS]], number, SHOWN_COMMITS)
    if plan.changes:
        in_files = count(len(plan.changes), "file")
        yield from ("", f"Discards uncommitted changes in {in_files} (kept as a backup ref):")
        yield from _listed(plan.changes, len(plan.changes), SHOWN_FILES)
    if plan.files:
        yield from ("", f"Changes {count(len(plan.files), 'file')}:")
        yield from _listed([_file_line(change) for change in plan.files[:SHOWN_FILES]], len(plan.files), SHOWN_FILES)
    elif plan.installs and plan.leaves_code:
        yield from ("", "No new commits.")
    if plan.installs:
        yield from ("", f"Installs {count(len(plan.installs), 'requirements file')}:")
        yield from _listed(plan.installs, len(plan.installs), SHOWN_FILES)
    if plan.notes:
        yield ""
        yield from plan.notes


def _listed(lines: Sequence[str], number: int, most: int) -> Iterator[str]:
    yield from (f"  {line}" for line in lines[:most])
    if number > min(len(lines), most):
        yield f"  … and {number - min(len(lines), most)} more"


def _line(commit: Commit, now: datetime) -> str:
    seconds = max((now - commit.at).total_seconds(), 0)
    size, unit = next(
        ((size, unit) for size, unit in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")) if seconds >= size),
        (1, "second"),
    )
    merge = " (merge)" if commit.is_merge else ""
    age = count(int(seconds // size), unit)
    return f"{short(commit.hash)}  {age:>10}  {commit.author}: {commit.subject}{merge}"


def _file_line(change: FileChange) -> str:
    was = f" (was {change.was})" if change.was else ""
    lines = "" if change.added is None else f" +{change.added} -{change.removed}"
    return f"{CHANGES.get(change.kind, 'changed'):<8} {change.path}{was}{lines}"


PREVIEW_SECONDS = 20.0
"""For the whole preview of a command, whatever the number of checkouts."""

ENDING_SECONDS = 5.0
"""After the deadline, to end a git process that is late."""

CHECKOUTS_AT_ONCE = 64
"""Checkouts that the previews of this program check concurrently."""

_threads = DaemonThreads("preview", CHECKOUTS_AT_ONCE)


def preview(host: HostContext, command: Command) -> list[Preview]:
    """Preview the command for each of its checkouts, within `PREVIEW_SECONDS`. One that is late is refused."""
    deadline = time.monotonic() + PREVIEW_SECONDS
    host = replace(host, deadline=deadline)
    sites: dict[str, Checkout] = {}
    for worker_id in command.workers:
        site = checkout_of(host, host.config.worker(worker_id))
        sites.setdefault(str(site.top), site)
    futures = [(site, _threads.submit(_preview, host, site, command)) for site in sites.values()]
    wait([future for _, future in futures], timeout=max(deadline + ENDING_SECONDS - time.monotonic(), 0))
    previews = []
    for site, future in futures:
        if future.done():
            previews.append(future.result())
        else:
            future.cancel()
            late = f"Checking {site.top} timed out after {PREVIEW_SECONDS:g} s. Try again."
            previews.append(replace(_empty_preview(host, site, command), refused=late))
    return previews


def recent_commits(host: HostContext, worker_ids: Sequence[str], most: int) -> list[Commit]:
    """The newest commits that a rollback of these workers can revert, newest first; none if they run from several
    checkouts."""
    site = _only_checkout(host, worker_ids)
    return _revertable(site, most) if site else []


def find_commit(host: HostContext, worker_ids: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
    """The commit of this hash in the checkout of these workers, and its place among the newest ones that a rollback can
    revert: 1 for the newest, 0 if it isn't among them. None if there's no such commit, or several checkouts."""
    site = _only_checkout(host, worker_ids)
    found = resolve_commit(site.git, name) if site else ""
    if site is None or not found.startswith(name.lower()):  # a branch may have such a name, too
        return None
    newest = [commit.hash for commit in _revertable(site, most)]
    return commits(site.git, found, most=1, first_parents=True)[0], newest.index(found) + 1 if found in newest else 0


def _only_checkout(host: HostContext, worker_ids: Sequence[str]) -> Checkout | None:
    host = replace(host, deadline=time.monotonic() + PREVIEW_SECONDS)
    sites = {site.top: site for site in (checkout_of(host, host.config.worker(each)) for each in worker_ids)}
    return next(iter(sites.values())) if len(sites) == 1 else None


def _revertable(site: Checkout, most: int) -> list[Commit]:
    line = commits(site.git, "HEAD", most=most + 1, first_parents=True)
    return line[:most] if len(line) > most else line[:-1]  # the first commit can't be reverted


def _preview(host: HostContext, site: Checkout, command: Command) -> Preview:
    handler, base = CATALOG[command.name].handler or "", _empty_preview(host, site, command)
    try:
        plan = make_plan(host, site, handler, command.params)
    except SupervisorError as error:
        return replace(base, refused=str(error))
    shown = try_plan(host, site, plan)
    return replace(
        base,
        plan=plan,
        conflict=shown.conflict,
        untried=shown.problem,
        state=preview_state(host, site, plan, command.params),
        commit_page=commit_page_of(site.git, site.code.remote),
    )


def _empty_preview(host: HostContext, site: Checkout, command: Command) -> Preview:
    workers = tuple(worker_now(host, worker) for worker in site.workers)
    return Preview(command.name, str(site.top), site.code.branch, workers)


def worker_now(host: HostContext, worker: WorkerSettings) -> WorkerNow:
    """Describe a worker that a command would affect."""
    found = find_watcher(host.processes, host.drive, host.config, worker)
    pause = host.pauses.preview(worker.id)
    busy = ""
    if host.ledger is not None:
        from supervisor_core.jobs import rows as jobs  # late: whoever only looks at workers must not pay for it

        states = (JobState.STARTED, JobState.CLAIMED, JobState.QUEUED)
        waiting = host.ledger.read(lambda connection: jobs.waiting(connection, [worker.id], states))
        started = next((job for job in waiting if job.state is JobState.STARTED), None)
        if started is not None:
            busy = f"busy with {started.command} ({started.task_id})"
        elif waiting:
            busy = f"{count(len(waiting), 'command')} waiting"
    return WorkerNow(
        id=worker.id,
        pid=found.identity.pid if found.identity else None,
        paused=str(pause) if pause else "",
        rests=start_objection(worker),
        busy=busy,
    )
