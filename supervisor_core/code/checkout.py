"""The checkout of a code change: its workers, the checks before a change, and its earlier changes from the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.code.change_plan import CodePlan, FileChange, list_names, new_paths, short, touched_paths
from supervisor_core.code.git.history import find_blocking_files, resolve_commit, top_of, tree_of
from supervisor_core.code.git.runner import CodeState, Git
from supervisor_core.commands.command import Outcome
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.worker_settings import CodeSettings, WorkerSettings
from supervisor_core.jobs.model import FINAL, START_BEFORE, Job, JobState
from supervisor_core.workers.context import HostContext

NAMED = 5  # files in an error


class CodeRefused(RefusedError):
    """The code can't be changed in its current state."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """One checkout, with all workers of this host that run from it."""

    git: Git
    worker: WorkerSettings
    """The worker of the command, whose code settings apply."""
    workers: tuple[WorkerSettings, ...]
    """All workers, sorted by id."""

    @property
    def top(self) -> Path:
        """The topmost folder of the checkout."""
        return self.git.folder

    @property
    def code(self) -> CodeSettings:
        return self.worker.code

    @property
    def names(self) -> str:
        """Its workers for people: `OrionMX`, `OrionMX and Second`."""
        *others, last = self.ids
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def ids(self) -> list[str]:
        """Who runs from it."""
        return [worker.id for worker in self.workers]


def checkout_of(host: HostContext, worker: WorkerSettings) -> Checkout:
    def workers_of(top: Path) -> tuple[WorkerSettings, ...]:
        sharing = (worker for worker in host.config.workers.values() if top_of(worker.code.path) == top)
        return tuple(sorted(sharing, key=lambda worker: worker.id))

    top = host.drive.call(top_of, worker.code.path)
    name, email = host.config.git.author_name, host.config.git.author_email
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
    author |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}
    return Checkout(Git(top, extra=author, deadline=host.deadline), worker, host.drive.call(workers_of, top))


def check_changeable(site: Checkout) -> CodeState:
    """Read the state of the checkout. Raise `CodeRefused` if it can't be changed."""
    code, top = site.code, site.top
    state = site.git.state()
    if not state.head:
        raise CodeRefused(f"{top} has no commits yet.", remedy=f"Check workers.{site.worker.id}.code.path.")
    if state.under_way:
        word = state.under_way.split(" ", maxsplit=1)[0]
        raise CodeRefused(
            f"A {state.under_way} is in progress in {top}.",
            remedy=f"Finish it, or abort it: git -C {top} {word} --abort",
        )
    if state.lock is not None:
        raise CodeRefused(
            f"Another git process is using {top}, or was killed there: {state.lock} exists.",
            remedy="If no git process is running there, delete that file.",
        )
    if state.branch != code.branch:
        on = f"on branch {state.branch}" if state.branch else f"on no branch (detached at {short(state.head)})"
        raise CodeRefused(
            f"{top} is {on}, but workers.{site.worker.id}.code.branch is {code.branch}.",
            remedy=f"Switch branches (git -C {top} switch {code.branch}), or fix the configuration.",
        )
    if state.unmerged:
        raise CodeRefused(
            f"{top} has unresolved conflicts: {list_names(state.unmerged, NAMED)}.",
            remedy=f"Resolve them, or discard uncommitted changes: git -C {top} reset --hard",
        )
    return state


def check_unedited(site: Checkout, state: CodeState, files: Sequence[FileChange], *, drops_changes: bool) -> None:
    """Raise `CodeRefused` if a file that the change touches was edited. Edits of other files stay, so they're fine."""
    touched = touched_paths(files)
    inside = [path for path in state.in_submodules if drops_changes or path in touched]
    if inside:
        raise CodeRefused(
            f"{site.top} has uncommitted changes in a submodule: {list_names(inside, NAMED)}.",
            remedy="Commit or stash them there first. The supervisor can't back them up.",
        )
    edited = [path for path in state.changes if path in touched]
    if edited and not drops_changes:
        raise CodeRefused(
            f"{site.top} has uncommitted changes: {list_names(edited, NAMED)}.",
            remedy="Commit or stash them first.",
        )


def check_free(site: Checkout, changes: Sequence[FileChange]) -> None:
    """Raise `CodeRefused` if untracked files lie in the way of new ones."""
    if found := find_blocking_files(site.git, new_paths(changes)):
        raise CodeRefused(
            f"Untracked files in {site.top} would be overwritten: {list_names(found, NAMED)}.",
            remedy="Move them out of the way first.",
        )


def check_unmoved(site: Checkout, plan: CodePlan) -> None:
    """Raise `CodeRefused` if the checkout has changed since the plan, except in files that the plan leaves alone.

    Called after the workers have stopped, because a worker may write into its own folder as it exits.
    """
    state, files, head = check_changeable(site), (*plan.files, *plan.on_the_way), plan.head.hash
    if state.head != head:
        raise CodeRefused(
            f"{site.top} got a new commit in the meantime. Nothing was changed.", remedy="Send the command again."
        )
    endangered = set(state.changes) - set(plan.changes)
    if not plan.drops_changes:
        endangered &= touched_paths(files)
    if new := sorted(endangered):
        raise CodeRefused(
            f"Files in {site.top} changed while its workers stopped: {list_names(new, NAMED)}. The update or rollback "
            "wasn't started.",
            remedy="Check those files first. Uncommitted changes would be lost.",
        )
    check_unedited(site, state, files, drops_changes=plan.drops_changes)
    check_free(site, files)


WHAT = {"update_code": "the update", "update_code_deps": "the update", "rollback_code": "the rollback"}

NOT_KNOWN = "Earlier code changes aren't on record here."

PAGE = 100
"""Commands that are read at once in the search for one that changed something; most don't."""


@dataclass(frozen=True, slots=True)
class CodeChange:
    task_id: str
    handler: str
    before: str
    after: str
    packages: tuple[Mapping[str, Any], ...] = ()
    """The packages that it installed, by environment."""
    changes: str = ""
    """The backup ref of the uncommitted changes that it discarded."""

    @property
    def what(self) -> str:
        return WHAT.get(self.handler, "the undo")


def change_to_undo(host: HostContext, site: Checkout, head: str, task_id: str | None) -> CodeChange:
    """The update or rollback with this id; without an id the newest change, unless that's an undo."""
    who = ", ".join(site.ids)
    if task_id is not None:
        jobs_of_task = (job for job in _jobs_of_task(host, task_id) if job.worker_id in site.ids)
        changes = (_change(job) for job in jobs_of_task if job.handler in CODE_HANDLERS)
        found = next(filter(None, changes), None)
        if found is None:
            raise CodeRefused(f"{task_id} isn't a code change of {who}.", remedy="Find the command id with audit.")
        undo = f"{task_id} is itself an undo"
    else:
        found = next(_changes(host, site), None)
        if found is None:
            raise CodeRefused(f"Nothing to undo: no update or rollback of {who} is on record.")
        undo = f"The newest code change is itself an undo ({found.task_id})"
    if found.handler != "undo_code":
        return found
    instead = f" To revert it: rollback {site.worker.id} 1."
    for change in _changes(host, site):
        if change.handler != "undo_code" and has_nothing_on_top(site, change, head):
            instead += f" To undo {change.what} before it too: undo {site.worker.id} {change.task_id}."
            break
    raise CodeRefused(f"{undo}, which can't be undone.{instead}")


def has_nothing_on_top(site: Checkout, change: CodeChange, head: str) -> bool:
    """True if the files are as this change left them, also if later changes cancel out."""
    git = site.git
    return head == change.after or (
        bool(resolve_commit(git, change.after)) and tree_of(git, head) == tree_of(git, change.after)
    )


def _jobs_of_task(host: HostContext, task_id: str) -> list[Job]:
    if host.ledger is None:
        raise CodeRefused(NOT_KNOWN)
    from supervisor_core.jobs import rows as jobs  # late: a pass that has nothing to do must not pay for it

    return host.ledger.read(lambda connection: jobs.of_task(connection, task_id))


def _changes(host: HostContext, site: Checkout) -> Iterator[CodeChange]:
    """The code changes on record, newest first."""
    if host.ledger is None:
        raise CodeRefused(NOT_KNOWN)
    from supervisor_core.jobs import rows as jobs  # late, as above

    start = 0
    while True:
        page = host.ledger.read(
            partial(jobs.ended, worker_ids=site.ids, handlers=CODE_HANDLERS, most=PAGE, start=start)
        )
        yield from filter(None, map(_change, page))
        if len(page) < PAGE:
            return
        start += PAGE


def sibling_outcome(host: HostContext, job: Job, site: Checkout) -> Outcome | None:
    """The outcome of the same command for another worker of the checkout; None for the first worker.

    A command changes a checkout once, whichever of its workers comes first.
    """

    def asked(one: Job) -> dict[str, Any]:
        """Its parameters without the deadline, which differs in each batch."""
        return {name: value for name, value in one.params.items() if name != START_BEFORE}

    for other in _jobs_of_task(host, job.task_id) if host.ledger is not None else ():
        if other.worker_id == job.worker_id or other.worker_id not in site.ids:
            continue
        if other.handler != job.handler or asked(other) != asked(job):
            continue  # two flags that somebody gave the same id are two commands
        outcome = other.outcome
        if outcome is not None and other.state is not JobState.INTERRUPTED:
            message = f"{outcome.details.get('message') or other.command} (done once for the shared checkout)"
            shared = {"message": message, "together_with": other.worker_id, "label": job.label}
            return Outcome(outcome.success, outcome.error, {**outcome.details, **shared})
        if other.state in (JobState.STARTED, *FINAL):  # this command has the checkout, so no other is at work there
            return Outcome.failed(
                f"Interrupted on {other.worker_id}, which shares a checkout with {job.worker_id}. It isn't run again "
                "automatically. Check both workers, then send the command again if needed.",
                together_with=other.worker_id,
            )
    return None


def _change(job: Job) -> CodeChange | None:
    details = job.outcome.details if job.outcome else {}
    before, after = str(details.get("before") or ""), str(details.get("after") or "")
    recorded = details.get("packages")
    packages = tuple(one for one in recorded if one["changed"]) if isinstance(recorded, list) else ()
    if not before or not after or (before == after and not packages):
        return None
    changes = str((details.get("kept_as") or {}).get("changes") or "")
    return CodeChange(job.task_id, job.handler, before, after, packages, changes)
