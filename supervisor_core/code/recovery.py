"""Recovery after a crash: a started command is reported as interrupted, and never run again.

Only the holder of a worker's lock may do this, before it executes anything: then no executor of its jobs is alive. A
job that was claimed and not started needs no recovery; it is the next to run.
"""

from __future__ import annotations

import logging
import shlex
import time
from collections.abc import Callable, Collection, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from supervisor_core.code.change import WorkerRestart, start_again
from supervisor_core.code.change_plan import LISTED_COMMITS, commits_json, list_names, new_paths, short, touched_paths
from supervisor_core.code.checkout import Checkout, checkout_of
from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.code.git.changes import OPERATION_SECONDS, kept_changes, kept_commit, restore_command
from supervisor_core.code.git.history import commits, files_between, find_blocking_files, is_ancestor, resolve_commit
from supervisor_core.code.git.runner import CodeState, GitError, is_git_running
from supervisor_core.code.packages.environments import describe_packages
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.command import Outcome
from supervisor_core.commands.definitions import Tier
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.host.logging.log import command_context
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.handler_checks import find_stopped, start_objection, stop_reason
from supervisor_core.jobs.model import Job, JobState
from supervisor_core.jobs.progress import log_passed_over
from supervisor_core.jobs.rows import tier_of
from supervisor_core.processes.finding import FoundWorker, Presence
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

SETTLE_SECONDS = OPERATION_SECONDS
"""A git that outlived its supervisor is waited for so long, as it would have been: nobody starts on half a change."""

LOOK_SECONDS = 0.1
NAMED_FILES = 5


class InterruptedCode(NamedTuple):
    """What a command left behind that was cut off."""

    words: str
    details: Mapping[str, Any]


def describe_code(host: HostContext, job: Job) -> InterruptedCode:
    """The commits and the files as they are, against what they were when the command began."""
    try:
        site = checkout_of(host, host.config.worker(job.worker_id))
        state = _settled(site)
        before = kept_commit(site.git, job.task_id)
        made = commits(site.git, f"{before}..{state.head}", most=LISTED_COMMITS) if before else []
        unclean = _unclean(site, job, before, state)
        changes = kept_changes(site.git, job.task_id)
        left = describe_packages(host, job, site) if job.handler == "update_code_deps" else None
    except (SupervisorError, OSError) as error:
        return InterruptedCode(f"Its code couldn't be inspected. {error}", {})
    details: dict[str, Any] = {"before": before or state.head, "after": state.head, "commits": commits_json(made)}
    details |= {"starting_commit": before or state.head, "final_commit": state.head}
    details["kept_as"] = {"changes": changes} if changes else {}
    details["checkout"] = {"folder": str(site.top), "clean": not unclean, "under_way": state.under_way or None}
    details["checkout"] |= {"changes": list(state.changes), "lock": str(state.lock) if state.lock else None}
    aside = f"Uncommitted changes are kept as {changes}." if changes else ""
    packages = ""
    if left is not None:
        details["packages"] = left.packages
        back = f" To restore them: undo {site.worker.id} {job.task_id}."
        packages = left.words + (back if left.differ and before in ("", state.head) else "")
    return InterruptedCode(
        " ".join(filter(None, (_moved(site, job, before, state), packages, aside, unclean))), details
    )


def start_workers(host: HostContext, job: Job) -> dict[str, Any]:
    """Start whoever runs from there and does not run now, unless they rest: the command may have stopped them."""
    try:
        site = checkout_of(host, host.config.worker(job.worker_id))
    except (SupervisorError, OSError):
        return {}  # `describe_code` has said so
    return {
        worker.id: start_again(host, WorkerRestart(worker, None), stop_reason(job)).as_json() for worker in site.workers
    }


def _settled(site: Checkout) -> CodeState:
    deadline = time.monotonic() + SETTLE_SECONDS
    while is_git_running(site.top) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    state = site.git.state()
    if not state.head:
        raise GitError(f"{site.top} has no commits.")
    return state


def _moved(site: Checkout, job: Job, before: str, state: CodeState) -> str:
    head = commits(site.git, state.head, most=1, first_parents=True)[0]
    if not before:
        return f"Its code wasn't changed; it's at {head}."
    if before == state.head:
        return f"Its code is still at {head}."
    back = f"undo {site.worker.id} {job.task_id}"
    if job.handler == "undo_code":  # which can't be undone itself
        back = f"rollback {site.worker.id} 1"
    return f"Its code moved from {short(before)} to {head}. To restore it: {back}."


def _unclean(site: Checkout, job: Job, before: str, state: CodeState) -> str:
    """The half-written files of the checkout, and the command that restores them; empty if it's clean.

    Files that the change doesn't touch have edits by people, who may need them. New files that were written before git
    knew them would be in the way of the next attempt: nothing lay in their places when this one began.
    """
    if state.lock is None and not state.under_way and not state.changes:
        return ""
    top, at = site.top, f"git -C {shlex.quote(str(site.top))}"
    target = _went_to(site, job, before) if before else ""
    there = resolve_commit(site.git, target) if target else ""
    files = files_between(site.git, state.head, there) if there else []
    touched = touched_paths(files)
    half = [path for path in state.changes if path in touched]
    edits = [path for path in state.changes if path not in touched]
    left = find_blocking_files(site.git, new_paths(files))
    if half or left:
        written = [change for change in files if {change.path, change.was} & {*half, *left}]
        command = restore_command(site.git, state.head, written)
    elif edits and not there:  # half of a merge, perhaps; a stash keeps both
        command = f"{at} stash"
    else:
        command = f"{at} reset --keep {state.head}"
    kept = f" Edits of other files stay: {list_names(edits, NAMED_FILES)}." if edits and there else ""
    if state.lock is not None:
        lock = f"If no git process is running there, delete {state.lock}, then run: {command}"
        return f"Git was killed in {top}.{kept} {lock}"
    if state.under_way:
        word = state.under_way.split(" ", maxsplit=1)[0]
        return f"A {state.under_way} is in progress in {top}.{kept} To abort it: {at} {word} --abort"
    if half or left or not there:
        names = list_names([*half, *left] or edits, NAMED_FILES)
        return f"{top} has uncommitted changes: {names}.{kept} To put them aside: {command}"
    return f"{top} has uncommitted changes: {list_names(edits, NAMED_FILES)}."


def _went_to(site: Checkout, job: Job, before: str) -> str:
    """The commit whose files it was about to write, in whose places nothing lay; empty where that is not sure."""
    if job.handler == "rollback_code":
        return f"{before}~{job.params.get('commits_back') or 1}"
    if job.handler == "undo_code":
        return kept_commit(site.git, str(job.params.get("task_id")))
    remote = f"refs/remotes/{site.code.remote}/{site.code.branch}"
    straight = job.params.get("reset") or is_ancestor(site.git, before, remote)
    return remote if straight else ""  # a merge leaves out what this checkout has taken back; that was not looked at


log = logging.getLogger(__name__)


def report_interrupted(
    host: HostContext,
    ledger: Ledger,
    worker_ids: Collection[str],
    should_stop: Callable[[], object] = lambda: False,
    *,
    plans: bool = False,
) -> list[Job]:
    """Give every job of these workers that was under way its outcome, its audit row and its result; which they were.

    `plans`: whether whoever asks starts those workers afterwards that should run and don't.
    Whoever has the checkout of one is waited for. Once told to stop, such a job is left to the next program.
    """
    ended = []
    for job in ledger.read(lambda connection: jobs.waiting(connection, worker_ids, (JobState.STARTED,))):
        with command_context(job.task_id, job.label, job.worker_id):
            outcome = _what_is_known(job, host, should_stop, plans=plans)
            if outcome is None:
                continue
            if ledger.step(jobs.interrupt(job, outcome, datetime.now(UTC))):
                ended.append(job)
                about = LogEvent.COMMAND_INTERRUPTED.extra(command=job.command, error=outcome.error)
                log.error("%s of %s was interrupted: %s", job.command, job.worker_id, outcome.error, extra=about)
                log_passed_over(job, ledger)
    return ended


def _what_is_known(job: Job, host: HostContext, should_stop: Callable[[], object], *, plans: bool) -> Outcome | None:
    """How the worker stands now, for whoever decides whether to ask again. One whose stop was cut off is given a moment
    to exit first, so that this names no process that is about to go."""
    left = InterruptedCode("", {})
    if job.worker_id not in host.config.workers:
        left = InterruptedCode(f"{job.worker_id} is no longer in the configuration.", {})
    elif (definition := by_handler(job.handler)) is not None and definition.extension is not None:
        left = InterruptedCode("Its program may have continued without the supervisor.", {})
    elif tier_of(job.handler) == Tier.CODE:
        with checkout_shared(host, host.config.worker(job.worker_id), wait=True, should_stop=should_stop) as ours:
            if not ours:
                return None
            left = describe_code(host, job)
            left = left._replace(details={**left.details, "workers": start_workers(host, job)})
    worker = host.config.workers.get(job.worker_id)
    found = find_stopped(host.processes, worker) if worker else host.processes.find(job.worker_id)
    pause = host.pauses.read(job.worker_id)
    rests = pause is not None or host.quarantines.read(job.worker_id) is not None
    ends = found.presence is Presence.STOPPED or found.stopping
    back = plans and ends and not rests and worker is not None and not start_objection(worker)
    now = f"{_in_words(found)}{' and paused' if pause else ''}."
    again = "It restarts automatically once it has exited." if found.stopping else "It restarts automatically."
    words = [f"{job.worker_id} {now}", again if back else "", left.words]
    return Outcome.failed(
        f"Interrupted: the supervisor stopped while this was running. It isn't run again automatically. "
        f"{' '.join(filter(None, (*words, _what_next(job, left))))}",
        **left.details,
        interrupted=True,
        pid=found.identity.pid if found.identity else None,
        paused=pause is not None,
    )


def _in_words(found: FoundWorker) -> str:
    if found.identity is None:
        return "is stopped" if found.presence is Presence.STOPPED else "can't be checked"
    if found.stopping:
        return f"is still stopping (pid {found.identity.pid})"
    return f"is running (pid {found.identity.pid})"


def _what_next(job: Job, left: InterruptedCode) -> str:
    """Whether asking again as it stands would do what was asked for."""
    if job.handler == "rollback_code" and left.details.get("commits"):
        back = f"git -C {left.details['checkout']['folder']} reset --keep {left.details['before']}"
        return (
            "Don't send it again as it is: it would revert its own commits, and an undo counts as a commit too. "
            f"To start over, pause the workers of that checkout, then run: {back}"
        )
    return "Check the worker, then send the command again if needed."
