"""Recovery after a crash: a started command is reported as interrupted, and never run again.

Only the holder of a worker's lock may do this, before it executes anything: then no executor of its jobs is alive. A
job that was claimed and not started needs no recovery; it is the next to run.
"""

from __future__ import annotations

import contextlib
import logging
import shlex
import time
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from typing import Any

from supervisor_core.code.change import WorkerRestart, undo_command
from supervisor_core.code.change_plan import LISTED_COMMITS, commits_json, list_names, new_paths, short, touched_paths
from supervisor_core.code.checkout_lock import checkout_shared
from supervisor_core.code.git import CodeState, GitError, is_git_running
from supervisor_core.code.git_changes import OPERATION_SECONDS, kept_changes, kept_commit, restore_command
from supervisor_core.code.packages import describe_packages
from supervisor_core.code.planning import Checkout, checkout_of
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
from supervisor_core.processes.finding import Presence
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext

SETTLE_SECONDS = OPERATION_SECONDS
"""The wait for a git process that outlived its supervisor, so that no worker starts on half a change."""

WAIT_SECONDS = 0.1
NAMED_FILES = 5

log = logging.getLogger(__name__)


def report_interrupted(
    host: HostContext,
    ledger: Ledger,
    worker_ids: Collection[str],
    should_stop: Callable[[], object] = lambda: False,
    *,
    plans: bool = False,
) -> list[Job]:
    """Give each started job of these workers its outcome, audit row and result, and return these jobs.

    `plans`: whether the caller starts workers afterwards that should run. The checkout of a code change is waited for;
    if this program must stop first, such a job is left to the next program.
    """
    ended = []
    for job in ledger.read(lambda connection: jobs.waiting(connection, worker_ids, (JobState.STARTED,))):
        with command_context(job.task_id, job.label, job.worker_id):
            outcome = _interrupted_outcome(job, host, should_stop, plans=plans)
            if outcome is not None and ledger.step(jobs.interrupt(job, outcome, datetime.now(UTC))):
                ended.append(job)
                about = LogEvent.COMMAND_INTERRUPTED.extra(command=job.command, error=outcome.error)
                log.error("%s of %s was interrupted: %s", job.command, job.worker_id, outcome.error, extra=about)
                log_passed_over(job, ledger)
    return ended


def _interrupted_outcome(
    job: Job, host: HostContext, should_stop: Callable[[], object], *, plans: bool
) -> Outcome | None:
    """The current state of the worker, for the person who decides whether to send the command again."""
    worker = host.config.workers.get(job.worker_id)
    about, details = "", dict[str, Any]()
    definition = by_handler(job.handler)
    if worker is None:
        about = f"{job.worker_id} is no longer in the configuration."
    elif definition is not None and definition.extension is not None:
        about = "Its program may have continued without the supervisor."
    elif tier_of(job.handler) == Tier.CODE:
        with checkout_shared(host, worker, wait=True, should_stop=should_stop) as shared:
            if not shared:
                return None
            about, details = _describe_code(host, job)
            details["workers"] = {}
            with contextlib.suppress(SupervisorError, OSError):  # `_describe_code` has reported it
                for sibling in checkout_of(host, worker).workers:  # the command may have stopped them
                    restart = WorkerRestart(host, sibling, stop_reason(job))
                    restart.start()
                    details["workers"][sibling.id] = restart.as_json()
    # A worker that is stopping gets a moment to exit, so that this names no process that is about to go.
    found = find_stopped(host.processes, worker) if worker else host.processes.find(job.worker_id)
    pause = host.pauses.read(job.worker_id)
    now = "can't be checked"
    if found.identity is not None:
        now = f"is {'still stopping' if found.stopping else 'running'} (pid {found.identity.pid})"
    elif found.presence is Presence.STOPPED:
        now = "is stopped"
    inactive = pause is not None or host.quarantines.read(job.worker_id) is not None
    sentences = [f"{job.worker_id} {now}{' and paused' if pause else ''}."]
    if plans and worker is not None and not inactive and not start_objection(worker):
        if found.stopping:
            sentences.append("It restarts automatically once it has exited.")
        elif found.presence is Presence.STOPPED:
            sentences.append("It restarts automatically.")
    if about:
        sentences.append(about)
    if job.handler == "rollback_code" and details.get("commits"):
        back = f"git -C {details['checkout']['folder']} reset --keep {details['before']}"
        sentences.append(
            "Don't send it again as it is: it would revert its own commits, and an undo counts as a commit too. "
            f"To start over, pause the workers of that checkout, then run: {back}"
        )
    else:
        sentences.append("Check the worker, then send the command again if needed.")
    return Outcome.failed(
        "Interrupted: the supervisor stopped while this was running. It isn't run again automatically. "
        + " ".join(sentences),
        **details,
        interrupted=True,
        pid=found.identity.pid if found.identity else None,
        paused=pause is not None,
    )


def _describe_code(host: HostContext, job: Job) -> tuple[str, dict[str, Any]]:
    """Compare the commits and files with those before the command: in words, and as details."""
    try:
        checkout = checkout_of(host, host.config.worker(job.worker_id))
        git = checkout.git
        deadline = time.monotonic() + SETTLE_SECONDS
        while is_git_running(checkout.top) and time.monotonic() < deadline:
            time.sleep(WAIT_SECONDS)
        state = git.state()
        if not state.head:
            raise GitError(f"{checkout.top} has no commits.")
        before = kept_commit(git, job.task_id)
        commits = git.commits(f"{before}..{state.head}", most=LISTED_COMMITS) if before else []
        unclean = _describe_half_written(checkout, job, before, state)
        changes = kept_changes(git, job.task_id)
        packages = describe_packages(host, job, checkout) if job.handler == "update_code_deps" else None
        head = git.commit(state.head)
    except (SupervisorError, OSError) as error:
        return f"Its code couldn't be inspected. {error}", {}
    start = before or state.head
    details: dict[str, Any] = {
        "before": start,
        "after": state.head,
        "commits": commits_json(commits),
        "starting_commit": start,
        "final_commit": state.head,
        "kept_as": {"changes": changes} if changes else {},
        "checkout": {
            "folder": str(checkout.top),
            "clean": not unclean,
            "under_way": state.under_way or None,
            "changes": list(state.changes),
            "lock": str(state.lock) if state.lock else None,
        },
    }
    if not before:
        sentences = [f"Its code wasn't changed; it's at {head}."]
    elif before == state.head:
        sentences = [f"Its code is still at {head}."]
    else:
        sentences = [f"Its code moved from {short(before)} to {head}. To restore it: {undo_command(job)}."]
    if packages is not None:
        description, details["packages"] = packages
        sentences.append(description)
        if details["packages"] and start == state.head:
            sentences.append(f"To restore them: {undo_command(job)}.")
    if changes:
        sentences.append(f"Uncommitted changes are kept as {changes}.")
    return " ".join([*sentences, *([unclean] if unclean else [])]), details


def _describe_half_written(checkout: Checkout, job: Job, before: str, state: CodeState) -> str:
    """The half-written files of the checkout, and the command that restores them; empty if it's clean.

    Files that the change doesn't touch have edits by people, who may need them. New files that were written before git
    knew them would be in the way of the next attempt: nothing was in their places when this one began.
    """
    if state.lock is None and not state.under_way and not state.changes:
        return ""
    git, top, at = checkout.git, checkout.top, f"git -C {shlex.quote(str(checkout.top))}"
    target = ""  # of a merge it isn't known: it leaves out what this checkout has reverted
    if before:
        remote = f"refs/remotes/{checkout.code.remote}/{checkout.code.branch}"
        if job.handler == "rollback_code":
            target = git.resolve(f"{before}~{job.params.get('commits_back') or 1}")
        elif job.handler == "undo_code":
            target = kept_commit(git, str(job.params.get("task_id")))
        elif job.params.get("reset") or git.contains(remote, before):
            target = git.resolve(remote)
    files = git.changed_files(state.head, target) if target else []
    touched = touched_paths(files)
    half = [path for path in state.changes if path in touched]
    edits = [path for path in state.changes if path not in touched]
    left = git.blocking_files(new_paths(files))
    if half or left:
        written = [change for change in files if {change.path, change.was} & {*half, *left}]
        command = restore_command(git, state.head, written)
    elif edits and not target:  # half of a merge, perhaps; a stash keeps both
        command = f"{at} stash"
    else:
        command = f"{at} reset --keep {state.head}"
    kept = f" Edits of other files stay: {list_names(edits, NAMED_FILES)}." if edits and target else ""
    if state.lock is not None:
        lock = f"If no git process is running there, delete {state.lock}, then run: {command}"
        return f"Git was killed in {top}.{kept} {lock}"
    if state.under_way:
        operation = state.under_way.split(" ", maxsplit=1)[0]
        return f"A {state.under_way} is in progress in {top}.{kept} To abort it: {at} {operation} --abort"
    if half or left or not target:
        names = list_names([*half, *left] or edits, NAMED_FILES)
        return f"{top} has uncommitted changes: {names}.{kept} To put them aside: {command}"
    return f"{top} has uncommitted changes: {list_names(edits, NAMED_FILES)}."
