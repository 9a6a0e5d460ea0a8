"""After a command on code was cut off: how the code stands now, and its workers started again on what is there."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, NamedTuple

from supervisor_core.adapters.git import CodeState, GitError
from supervisor_core.adapters.git_changing import kept
from supervisor_core.adapters.git_reading import commits
from supervisor_core.domain.code import named, short
from supervisor_core.domain.code_plan import LISTED_COMMITS, as_list
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.code_change import Turn, start_again
from supervisor_core.handlers.code_site import Site, site_of
from supervisor_core.handlers.context import Host

SETTLE_SECONDS = 5.0
"""A git that outlived its supervisor is waited for so long: what it had in hand it mostly ends within a second."""

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
    except (SupervisorError, OSError) as error:
        return Left(f"How its code stands could not be seen. {error}", {})
    details: dict[str, Any] = {"before": before or state.head, "after": state.head, "commits": as_list(made)}
    details |= {"starting_commit": before or state.head, "final_commit": state.head}
    unclean = _unclean(site, state)
    details["checkout"] = {"folder": str(site.top), "clean": not unclean, "under_way": state.under_way or None}
    details["checkout"] |= {"changes": list(state.changes), "lock": str(state.lock) if state.lock else None}
    return Left(" ".join(filter(None, (_moved(site, job, before, state), unclean))), details)


def start_all_again(host: Host, job: Job) -> dict[str, Any]:
    """Start whoever runs from there and does not run now, unless they rest: the command may have stopped them."""
    try:
        site = site_of(host, host.config.worker(job.worker_id))
    except (SupervisorError, OSError):
        return {}  # `code_as_it_is` has said so
    return {worker.id: start_again(host, Turn(worker, None)).as_json() for worker in site.workers}


def _settled(site: Site) -> CodeState:
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        state = site.git.state(site.code.remote, site.code.branch)
        if not state.head:
            raise GitError(f"{site.top} has no commit.")
        if state.lock is None or time.monotonic() >= deadline:
            return state
        time.sleep(LOOK_SECONDS)


def _moved(site: Site, job: Job, before: str, state: CodeState) -> str:
    head = f"{short(state.head)} {state.subject}"
    if not before:
        return f"Its code was not touched; it is at {head}."
    if before == state.head:
        return f"Its code is at {head}, as before."
    return (
        f"Its code had gone from {short(before)} to {head}. To have it as before: undo {site.worker.id} {job.task_id}."
    )


def _unclean(site: Site, state: CodeState) -> str:
    """What is half done in the checkout, and what to do about it; empty where it is clean."""
    top, back = site.top, f"git -C {site.top} reset --hard {short(state.head)}"
    if state.lock is not None:
        return f"Git was cut off in {top}: when no git runs there, delete {state.lock}, then: {back}"
    if state.under_way:
        return f"In {top} a {state.under_way} was begun and not ended. To take that back: {back}"
    if state.changes:
        return f"In {top}, {named(state.changes, NAMED_FILES)} differ from that. To have them as committed: {back}"
    return ""
