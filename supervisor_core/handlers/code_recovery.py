"""After a command on code was cut off: how the code stands now, and its workers started again on what is there."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from supervisor_core.adapters.git import CodeState, GitError, git_at_work
from supervisor_core.adapters.git_changing import OPERATION_SECONDS, kept, kept_changes
from supervisor_core.adapters.git_reading import commits, files_between, in_the_way, is_ancestor, resolve
from supervisor_core.domain.code import named, new_paths, short
from supervisor_core.domain.code_plan import LISTED_COMMITS, as_list
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.code_change import Turn, start_again
from supervisor_core.handlers.code_site import Site, site_of
from supervisor_core.handlers.context import Host
from supervisor_core.handlers.packages_before import packages_left
from supervisor_core.handlers.stopping import ordered_by

SETTLE_SECONDS = OPERATION_SECONDS
"""A git that outlived its supervisor is waited for so long, as it would have been: nobody starts on half a change."""

LOOK_SECONDS = 0.1
NAMED_FILES = 5


class Left(NamedTuple):
    """What a command left behind that was cut off."""

    words: str
    details: Mapping[str, Any]


def code_as_it_is(host: Host, job: Job) -> Left:
    """The commits and the files as they are, against what they were when the command began."""
    try:
        site = site_of(host, host.config.worker(job.worker_id))
        state = _settled(site)
        before = kept(site.git, job.task_id)
        made = commits(site.git, f"{before}..{state.head}", most=LISTED_COMMITS) if before else []
        unclean = _unclean(site, job, before, state)
        changes = kept_changes(site.git, job.task_id)
        left = packages_left(host, job, site) if job.handler == "update_code_deps" else None
    except (SupervisorError, OSError) as error:
        return Left(f"How its code stands could not be seen. {error}", {})
    details: dict[str, Any] = {"before": before or state.head, "after": state.head, "commits": as_list(made)}
    details |= {"starting_commit": before or state.head, "final_commit": state.head}
    details["kept_as"] = {"changes": changes} if changes else {}
    details["checkout"] = {"folder": str(site.top), "clean": not unclean, "under_way": state.under_way or None}
    details["checkout"] |= {"changes": list(state.changes), "lock": str(state.lock) if state.lock else None}
    aside = f"What was changed in it and in no commit is kept as {changes}." if changes else ""
    packages = ""
    if left is not None:
        details["packages"] = left.packages
        back = f" To have them as before: undo {site.worker.id} {job.task_id}."
        packages = left.words + (back if left.differ and before in ("", state.head) else "")
    return Left(" ".join(filter(None, (_moved(site, job, before, state), packages, aside, unclean))), details)


def start_all_again(host: Host, job: Job) -> dict[str, Any]:
    """Start whoever runs from there and does not run now, unless they rest: the command may have stopped them."""
    try:
        site = site_of(host, host.config.worker(job.worker_id))
    except (SupervisorError, OSError):
        return {}  # `code_as_it_is` has said so
    return {worker.id: start_again(host, Turn(worker, None), ordered_by(job)).as_json() for worker in site.workers}


def _settled(site: Site) -> CodeState:
    deadline = time.monotonic() + SETTLE_SECONDS
    while git_at_work(site.top) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    state = site.git.state(site.code.remote, site.code.branch)
    if not state.head:
        raise GitError(f"{site.top} has no commit.")
    return state


def _moved(site: Site, job: Job, before: str, state: CodeState) -> str:
    head = f"{short(state.head)} {state.subject}"
    if not before:
        return f"Its code was not touched; it is at {head}."
    if before == state.head:
        return f"Its code is at {head}, as before."
    back = f"undo {site.worker.id} {job.task_id}"
    if job.handler == "undo_code":  # which can't be undone itself
        back = f"rollback {site.worker.id} 1"
    return f"Its code had gone from {short(before)} to {head}. To have it as before: {back}."


def _unclean(site: Site, job: Job, before: str, state: CodeState) -> str:
    """What is half done in the checkout, and what to do about it; empty where it is clean."""
    if state.lock is None and not state.under_way and not state.changes:
        return ""
    top, back = site.top, _back(site, job, before, state)
    if state.lock is not None:
        return f"Git was cut off in {top}: when no git runs there, delete {state.lock}, then: {back}"
    if state.under_way:
        return f"In {top} a {state.under_way} was begun and not ended. To take that back: {back}"
    return f"In {top}, {named(state.changes, NAMED_FILES)} differ from that. To have them as committed: {back}"


def _back(site: Site, job: Job, before: str, state: CodeState) -> str:
    """The command after which the checkout is what is committed in it.

    New files that were written, and git was cut off before it knew them, would be in the way of the next attempt.
    Nothing lay in their places when this one began; as part of the commit that they came from they go again.
    """
    reset = f"git -C {shlex.quote(str(site.top))} reset --hard"
    went_to = _went_to(site, job, before) if before else ""
    there = resolve(site.git, went_to) if went_to else ""
    if there and in_the_way(site.git, new_paths(files_between(site.git, state.head, there))):
        return f"{reset} {there} && {reset} {state.head}"
    return f"{reset} {state.head}"


def _went_to(site: Site, job: Job, before: str) -> str:
    """The commit whose files it was about to write, in whose places nothing lay; empty where that is not sure."""
    if job.handler == "rollback_code":
        return f"{before}~{job.params.get('commits_back') or 1}"
    if job.handler == "undo_code":
        return kept(site.git, str(job.params.get("task_id")))
    remote = f"refs/remotes/{site.code.remote}/{site.code.branch}"
    straight = job.params.get("reset") or is_ancestor(site.git, before, remote)
    return remote if straight else ""  # a merge leaves out what this checkout has taken back; that was not looked at
