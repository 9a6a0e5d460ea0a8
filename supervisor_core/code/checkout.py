"""The checkout that a command on code works on, who runs from it, and whether it may be touched at all.

What commands have done to a checkout before, as the ledger knows it: to take it back, and to do nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.code.change_plan import FileChange, list_names, new_paths, short
from supervisor_core.code.git.history import find_blocking_files, resolve_commit, top_of, tree_of
from supervisor_core.code.git.runner import CodeState, Git
from supervisor_core.commands.command import Outcome
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.errors import RefusedError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import CodeSettings, WorkerSettings
from supervisor_core.jobs.model import FINAL, Job, JobState
from supervisor_core.workers.context import HostContext

NAMED = 5  # files in an error


class CodeRefused(RefusedError):
    """The code may not be changed as it is now."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """One checkout, and all workers of this host that run from it."""

    git: Git
    worker: WorkerSettings
    """For whom it was asked; what is configured for its code counts."""
    workers: tuple[WorkerSettings, ...]
    """All of them, by their ids."""

    @property
    def top(self) -> Path:
        """The topmost folder of the checkout."""
        return self.git.folder

    @property
    def code(self) -> CodeSettings:
        """Where its code comes from."""
        return self.worker.code

    @property
    def are(self) -> str:
        """Who runs from it, as the beginning of a sentence: `OrionMX is`, `OrionMX and Second are`."""
        *others, last = self.ids
        return f"{', '.join(others)} and {last} are" if others else f"{last} is"

    @property
    def ids(self) -> list[str]:
        """Who runs from it."""
        return [worker.id for worker in self.workers]


def checkout_of(host: HostContext, worker: WorkerSettings) -> Checkout:
    """The site of this worker."""
    top = host.drive.call(top_of, worker.code.path)
    sharing = host.drive.call(_sharing, host.config, top)
    return Checkout(Git(top, extra=commit_environment(host.config), deadline=host.deadline), worker, sharing)


def commit_environment(config: SupervisorConfig) -> dict[str, str]:
    """Who the commits are by: it is configured for the supervisor, and not taken from the host."""
    name, email = config.git.author_name, config.git.author_email
    roles = ("AUTHOR", "COMMITTER")
    return {f"GIT_{role}_NAME": name for role in roles} | {f"GIT_{role}_EMAIL": email for role in roles}


def check_changeable(site: Checkout, *, drops_changes: bool = False) -> CodeState:
    """How the checkout stands; `CodeRefused` where nothing may be changed in it as it is."""
    code, top = site.code, site.top
    state = site.git.state(code.remote, code.branch)
    if not state.head:
        raise CodeRefused(f"{top} has no commit yet.", remedy=f"Look at workers.{site.worker.id}.code.path.")
    if state.under_way:
        word = state.under_way.split(" ", maxsplit=1)[0]
        raise CodeRefused(
            f"In {top} a {state.under_way} was begun and not ended.",
            remedy=f"End it, or take it back: git -C {top} {word} --abort",
        )
    if state.lock is not None:
        raise CodeRefused(
            f"Another git is at work in {top}, or was cut off: {state.lock} is there.",
            remedy="If no git runs there, delete that file.",
        )
    if state.branch != code.branch:
        on = f"on branch {state.branch}" if state.branch else f"on no branch (at {short(state.head)})"
        raise CodeRefused(
            f"{top} is {on}, and workers.{site.worker.id}.code.branch is {code.branch}.",
            remedy=f"Switch it (git -C {top} switch {code.branch}), or correct the configuration.",
        )
    if state.unmerged:
        raise CodeRefused(
            f"In {top}, {list_names(state.unmerged, NAMED)} hold conflicts that nobody has resolved.",
            remedy=f"Resolve them, or drop what is not committed: git -C {top} reset --hard",
        )
    if state.in_submodules:
        raise CodeRefused(
            f"In {top}, the submodule {list_names(state.in_submodules, NAMED)} has changes that no commit has.",
            remedy="Commit them there or put them aside (git stash) first; nothing here could keep them.",
        )
    if state.changes and not drops_changes:
        raise CodeRefused(
            f"{top} has changes that no commit has: {list_names(state.changes, NAMED)}.",
            remedy="Commit them or put them aside (git stash) first.",
        )
    return state


def check_free(site: Checkout, changes: Sequence[FileChange]) -> None:
    """`CodeRefused` where something lies in the way of files that would come."""
    if found := find_blocking_files(site.git, new_paths(changes)):
        raise CodeRefused(
            f"In {site.top}, {list_names(found, NAMED)} would be overwritten, and git does not know what is in there.",
            remedy="Move it out of the way first.",
        )


def _sharing(config: SupervisorConfig, top: Path) -> tuple[WorkerSettings, ...]:
    sharing = (worker for worker in config.workers.values() if top_of(worker.code.path) == top)
    return tuple(sorted(sharing, key=lambda worker: worker.id))


def check_unmoved(site: Checkout, head: str, changes: Sequence[str], files: Sequence[FileChange]) -> None:
    """`CodeRefused` where the checkout is not any more what it was when this was planned.

    Asked once its workers are at rest: one that ends may write what it knows into the very folder that it runs from.
    """
    state = check_changeable(site, drops_changes=bool(changes))
    if state.head != head:
        raise CodeRefused(f"Somebody committed in {site.top} meanwhile; nothing was changed.", remedy="Ask again.")
    if new := sorted(set(state.changes) - set(changes)):
        raise CodeRefused(
            f"In {site.top}, {list_names(new, NAMED)} changed while its workers were stopped; nothing else was "
            "changed.",
            remedy="Look at that first: what no commit has would be lost.",
        )
    check_free(site, files)


WHAT = {"update_code": "the update", "update_code_deps": "the update", "rollback_code": "the rollback"}

NOT_KNOWN = "What was done before is not known here."

PAGE = 100
"""So many commands are read at once, until one is found that changed something; most change nothing."""


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One command that moved the head."""

    task_id: str
    handler: str
    before: str
    after: str
    packages: tuple[Mapping[str, Any], ...] = ()
    """What it installed, by environment."""
    changes: str = ""
    """The name under which it kept what was changed and in no commit."""

    @property
    def what(self) -> str:
        """What it was, as people call it."""
        return WHAT.get(self.handler, "the undo")


def change_to_undo(host: HostContext, site: Checkout, head: str, task_id: str | None) -> CodeChange:
    """The update or rollback with this id; without one the newest, unless that is an undo.

    It can be undone where nothing came on top of it, or where all that came on top cancels out.
    """
    who = ", ".join(site.ids)
    if task_id is not None:
        found = _changed_by(host, site, task_id)
        if found is None:
            raise CodeRefused(
                f"No command {task_id} has changed the code of {who}.",
                remedy="The audit trail shows which ones have.",
            )
        if found.handler == "undo_code":
            raise CodeRefused(f"{task_id} is itself an undo, which can't be undone.{_instead(host, site, head)}")
        return found
    newest = next(_changes(host, site), None)
    if newest is None:
        raise CodeRefused(f"No update and no rollback of {who} is known here; there is nothing to undo.")
    if newest.handler == "undo_code":
        raise CodeRefused(
            f"The newest change of this code is itself an undo ({newest.task_id}), which can't be undone."
            f"{_instead(host, site, head)}"
        )
    return newest


def has_nothing_on_top(site: Checkout, change: CodeChange, head: str) -> bool:
    """Whether the files are as this change left them."""
    git = site.git
    return head == change.after or (
        bool(resolve_commit(git, change.after)) and tree_of(git, head) == tree_of(git, change.after)
    )


def _instead(host: HostContext, site: Checkout, head: str) -> str:
    """What can be done where the newest change is an undo: take it back, or go one change further."""
    again = f" To take it back: rollback {site.worker.id} 1."
    for change in _changes(host, site):
        if change.handler != "undo_code" and has_nothing_on_top(site, change, head):
            return f"{again} To undo {change.what} before it as well: undo {site.worker.id} {change.task_id}."
    return again


def _changed_by(host: HostContext, site: Checkout, task_id: str) -> CodeChange | None:
    if host.ledger is None:
        raise CodeRefused(NOT_KNOWN)
    from supervisor_core.jobs import rows as jobs  # late: a pass that has nothing to do must not pay for it

    known = host.ledger.read(lambda connection: jobs.of_task(connection, task_id))
    ours = (job for job in known if job.worker_id in site.ids and job.handler in CODE_HANDLERS)
    return next((change for job in ours if (change := _change(job))), None)


def _changes(host: HostContext, site: Checkout) -> Iterator[CodeChange]:
    """All that changed the code, newest first."""
    if host.ledger is None:
        raise CodeRefused(NOT_KNOWN)
    from supervisor_core.jobs import rows as jobs  # late, as above

    start = 0
    while True:
        page = host.ledger.read(
            partial(jobs.ended, worker_ids=site.ids, handlers=CODE_HANDLERS, most=PAGE, start=start)
        )
        yield from (change for job in page if (change := _change(job)))
        if len(page) < PAGE:
            return
        start += PAGE


def sibling_outcome(host: HostContext, job: Job, site: Checkout) -> Outcome | None:
    """What came of the same command for another worker that runs from the same checkout; None where it is the first.

    What is done to a checkout is done once for each command, whoever of its workers comes first.
    """
    if host.ledger is None:
        return None
    from supervisor_core.jobs import rows as jobs  # late, as above

    siblings = host.ledger.read(lambda connection: jobs.of_task(connection, job.task_id))
    for other in siblings:
        if other.worker_id == job.worker_id or other.worker_id not in site.ids:
            continue
        if other.handler != job.handler or dict(other.params) != dict(job.params):
            continue  # two flags that somebody gave the same id are two commands
        if other.outcome is not None and other.state is not JobState.INTERRUPTED:
            return _as_well(other, other.outcome, job)
        if other.state in (JobState.STARTED, *FINAL):  # we have the checkout alone, so nobody is at work there
            return Outcome.failed(
                f"{job.worker_id} runs from the same checkout as {other.worker_id}, for which this was interrupted; it "
                "is not run again. Look at both, and ask again if that is not what you want.",
                together_with=other.worker_id,
            )
    return None


def _as_well(other: Job, outcome: Outcome, job: Job) -> Outcome:
    message = f"{outcome.details.get('message') or other.handler} (done once, for the checkout that both run from)"
    details = {**outcome.details, "message": message, "together_with": other.worker_id, "label": job.label}
    return Outcome(outcome.success, outcome.error, details)


def _change(job: Job) -> CodeChange | None:
    details = job.outcome.details if job.outcome else {}
    before, after = str(details.get("before") or ""), str(details.get("after") or "")
    told = details.get("packages")
    packages = tuple(one for one in told if one["changed"]) if isinstance(told, list) else ()
    if not before or not after or (before == after and not packages):
        return None
    changes = str((details.get("kept_as") or {}).get("changes") or "")
    return CodeChange(job.task_id, job.handler, before, after, packages, changes)
