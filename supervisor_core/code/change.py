"""Changes the code of workers: update, rollback and undo.

Each stops all workers that run from the checkout, changes the code, and starts them again, also after a failure. The
checkout's lock is held meanwhile (see `checkout_lock`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any

from supervisor_core.code import git_changes
from supervisor_core.code.change_plan import (
    CodePlan,
    commits_json,
    count,
    describe_move,
    files_json,
    followed_by,
    list_names,
    short,
)
from supervisor_core.code.git import GitError, versions
from supervisor_core.code.packages import (
    NAMED_PACKAGES,
    PythonEnvironment,
    install_requirements,
    locked_environments,
    restore_recorded,
)
from supervisor_core.code.planning import (
    Checkout,
    CodeRefused,
    check_unmoved,
    checkout_of,
    plan_job,
    prepare,
)
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import RefusedError, SupervisorError, describe
from supervisor_core.common.text import sentence
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.jobs.handler_checks import (
    check_alone,
    check_startable,
    find_stopped,
    start_objection,
    stop_details,
    stop_reason,
    stuck,
)
from supervisor_core.jobs.model import FINAL, START_BEFORE, Job, JobState
from supervisor_core.processes.finding import Presence
from supervisor_core.processes.launch import LaunchError
from supervisor_core.processes.stopping import Ending, StopReport
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.worker import find_watcher, start_watcher, stop_watcher_gracefully

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Change:
    """One execution of a plan."""

    host: HostContext
    job: Job
    checkout: Checkout
    plan: CodePlan
    environments: Sequence[PythonEnvironment] = ()
    """The Pythons that requirements are installed into, locked."""

    def details(self, after: str) -> dict[str, Any]:
        """The details of the outcome, with the code at this commit."""
        plan, moved = self.plan, after != self.plan.head.hash
        commits = (plan.reverted if plan.command == "rollback" else plan.commits) if moved else ()
        files = plan.files if moved and not plan.conflict else ()
        details: dict[str, Any] = {
            "up_to_date": plan.leaves_code,
            "before": plan.head.hash,
            "after": after,
            "target": plan.target,
            "commits": commits_json(commits),
            "commit_count": len(commits) if plan.command == "rollback" else plan.commit_count if moved else 0,
            "files": files_json(files),
            "file_count": len(files),
            "kept": commits_json(plan.kept),
            "dropped": commits_json(plan.dropped) if moved else [],
            "label": self.job.label,
        }
        if plan.command == "undo":
            details |= {"undone_task_id": plan.undone_task_id or None, "restored_commit": plan.target}
        if plan.command == "rollback":
            details |= {
                "starting_commit": plan.head.hash,
                "commits_reverted": len(commits),
                "reverted_commits": [commit.hash for commit in commits],
                "skipped_commits": [commit.hash for commit in plan.skipped],
                "failed_commit": None,
                "final_commit": after,
                "success": True,
                "error": None,
                "notes": list(plan.notes),
            }
        return details


@dataclass(slots=True)
class WorkerRestart:
    """The stop and start of one worker during a code change."""

    host: HostContext
    worker: WorkerSettings
    reason: str
    """The command, recorded until the worker has ended."""
    old_pid: int | None = None
    stopped: StopReport | None = None
    new_pid: int | None = None
    rests: str = ""
    """Why it wasn't started again: paused, quarantined or not enabled."""
    error: str = ""
    exited: bool = False
    """True if the worker itself exited, and nothing else kept it from starting."""

    @property
    def inactive_reason(self) -> str:
        pause = self.host.pauses.read(self.worker.id)
        return str(pause) if pause else start_objection(self.worker)

    @property
    def died(self) -> bool:
        """True if it ran before, and fails with the new version."""
        return bool(self.old_pid and self.error and self.exited)

    def stop(self) -> None:
        """A failure is kept, so that the other workers are started again all the same."""
        if self.old_pid and self.stopped is None:
            self.host.progress(f"stopping {self.worker.id} (pid {self.old_pid})")
        self.stopped, self.error = None, ""
        try:
            self.stopped = stop_watcher_gracefully(self.host.processes, self.worker, self.reason)
        except (SupervisorError, OSError) as error:
            self.error = str(error)

    def start(self) -> None:
        """Start it for this command, unless it's running, paused or quarantined."""
        self.new_pid, self.error = None, ""
        self.rests = self.inactive_reason
        if self.rests:
            return
        found = find_stopped(self.host.processes, self.worker)
        if found.stopping:
            self.rests = "it's still stopping and starts once it has exited"
        elif found.identity is not None:
            self.new_pid = found.identity.pid
        else:
            self.host.progress(f"starting {self.worker.id}")
            try:
                self.new_pid = start_watcher(self.host, self.worker, trial=self.reason).pid
            except LaunchError as error:
                self.error, self.exited = str(error), True
            except (SupervisorError, OSError) as error:
                self.error = str(error)

    def as_json(self) -> dict[str, Any]:
        known = {"was_running": self.old_pid is not None, "old_pid": self.old_pid, "new_pid": self.new_pid}
        ending = stop_details(self.stopped) if self.stopped is not None else {}
        return {**known, **ending, "rests": self.rests or None, "error": self.error or None}

    def __str__(self) -> str:
        """`OrionMX is running (pid 12)`, `OrionMX wasn't started: paused by ann …`."""
        worker_id = self.worker.id
        if self.error:
            return f"{worker_id} couldn't be started"
        if self.worker.quarantined:
            runs = f", and still runs the code that it was started with (pid {self.old_pid})" if self.old_pid else ""
            return f"{worker_id} was left alone: it's quarantined in the configuration{runs}"
        if self.new_pid is None:
            return f"{worker_id} wasn't started: {self.rests.rstrip('.')}"
        killed = self.stopped is not None and self.stopped.ending is Ending.KILLED
        late = "; the old process didn't stop in time and was killed" if killed else ""
        return f"{worker_id} is running (pid {self.new_pid}{late})"


def update_code(host: HostContext, job: Job) -> Outcome:
    """Bring the code to its remote branch, and for `update-deps` install its requirements.

    A fast-forward if possible, a merge if there are local commits, or a reset on request. An update that would fail is
    refused before a worker is stopped. If a worker fails with the new code, or an installation fails, code and packages
    are restored. Without new commits, no worker is stopped, but one that should run is started.
    """
    return _change_code(host, job, _update, puts_back=True)


update_code_deps = update_code


def rollback_code(host: HostContext, job: Job) -> Outcome:
    """Revert the newest commits, newest first, each with a new commit that names the requester.

    If a revert fails, the rollback stops there: the earlier reverts stay, and the checkout is clean. A rollback stays
    even if a worker fails with it; an undo reverses it.
    """
    try:
        outcome = _change_code(host, job, _rollback, pushes=True)
    except SupervisorError as error:  # no worker was stopped
        outcome = Outcome.failed(str(error), refused=True)
    if not {"refused", "survivors"} & outcome.details.keys():
        return outcome
    head = versions(host, [host.config.worker(job.worker_id)]).get(job.worker_id, "")
    unchanged = {"starting_commit": head, "final_commit": head, "before": head, "after": head, "success": False}
    unchanged |= {"commits_reverted": 0, "reverted_commits": [], "failed_commit": None}
    return replace(outcome, details={**unchanged, "error": outcome.error, "label": job.label, **outcome.details})


def undo_code(host: HostContext, job: Job) -> Outcome:
    """Reverse an update or a rollback with one commit that restores every file. Refused if the code has changed since.

    An undo stays even if a worker fails with it: the worker ran with this code before.
    """
    return _change_code(host, job, _undo, pushes=True)


def _change_code(
    host: HostContext,
    job: Job,
    apply: Callable[[Change], Outcome],
    *,
    puts_back: bool = False,
    pushes: bool = False,
) -> Outcome:
    """Change the code of a checkout, and restart its workers.

    1. Plan, and refuse if the plan isn't the approved one.
    2. Make the new commit aside. Refuse an update with a conflict; a rollback reverts what it can.
    3. Look at all workers, and refuse if one couldn't be started afterwards. Quarantined ones are left alone.
    4. Stop them. If one doesn't stop, start the others again and change nothing.
    5. Check the code again, and `apply`. An error of it means that nothing was changed.
    6. Start them. If one that ran before fails with the new code, stop them, put back the old code, and start again.
    7. Push the new commits if that's configured, and pack the repository.
    """
    # 1
    checkout = checkout_of(host, host.config.worker(job.worker_id))
    if earlier := _sibling_outcome(host, job, checkout):
        return earlier
    host.progress("checking the code" if pushes else f"checking {checkout.code.remote} for new commits")
    plan = plan_job(host, job, checkout)
    # 2
    plan = prepare(host, checkout, plan, job)
    if plan.conflict and puts_back:
        raise CodeRefused(
            f"{plan.conflict} Nothing was changed, and no worker was stopped.",
            remedy="Merge them by hand, or drop the local commits: update --reset.",
        )
    if plan.does_nothing or (plan.conflict and not plan.reverted):
        change = Change(host, job, checkout, plan)
        return _start_stopped(change, _change_nothing(change))
    with ExitStack() as locks:
        environments: Sequence[PythonEnvironment] = ()
        if plan.installs:
            host.progress("checking the installed packages")
            environments = locks.enter_context(locked_environments(host, checkout))
        change = Change(host, job, checkout, plan, environments)
        # 3
        restarts, quarantined = _look_at_workers(change)
        # 4
        _run_concurrently(restarts, WorkerRestart.stop)
        if kept := [restart for restart in restarts if not restart.stopped]:
            reports = [restart.stopped for restart in kept if restart.stopped is not None]
            why = " ".join(f"{restart.worker.id} couldn't be stopped: {restart.error}" for restart in kept)
            _run_concurrently(restarts, WorkerRestart.start)
            details = {"workers": {restart.worker.id: restart.as_json() for restart in restarts}, "label": job.label}
            if reports:
                return stuck(reports[0], details, "Its code wasn't changed.")
            return Outcome.failed(f"{why} Nothing was changed. {'. '.join(map(str, restarts))}.", **details)
        # 5
        result = _apply_safely(change, apply)
        # 6
        _run_concurrently(restarts, WorkerRestart.start)
        if puts_back and result.error is None and any(restart.died for restart in restarts):
            result = _return_to_old_code(change, result, restarts)
            _run_concurrently(restarts, WorkerRestart.start)
    # 7
    if result.error is None:
        result = _push(change, result) if pushes else result
        git_changes.tidy(checkout.git)
    return _outcome(change, result, [*restarts, *quarantined])


def _sibling_outcome(host: HostContext, job: Job, checkout: Checkout) -> Outcome | None:
    """The outcome of the same command for another worker of the checkout; None for the first worker.

    A command changes a checkout once, whichever of its workers comes first.
    """

    def params_of(job: Job) -> dict[str, Any]:
        return {name: value for name, value in job.params.items() if name != START_BEFORE}  # differs in each batch

    if host.ledger is None:
        return None
    from supervisor_core.jobs import rows as jobs  # late: a pass that has nothing to do must not pay for it

    for other in host.ledger.read(lambda connection: jobs.of_task(connection, job.task_id)):
        if other.worker_id == job.worker_id or other.worker_id not in checkout.ids:
            continue
        if other.handler != job.handler or params_of(other) != params_of(job):
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


def _change_nothing(change: Change) -> Outcome:
    """The outcome of a change that has nothing to do, or of a rollback whose first revert fails."""
    plan, worker_id = change.plan, change.checkout.worker.id
    details = change.details(plan.head.hash)
    if plan.conflict:
        return _stopped_rollback(change, plan.head.hash)
    message = f"Already up to date at {plan.head}{_describe_kept(change)}"
    if plan.command == "rollback":
        newest = f"the newest {count(len(plan.skipped), 'commit')} of {worker_id} changed no files"
        message = f"Nothing to revert: {newest}. No worker was stopped"
    elif plan.command == "undo":
        message = f"Nothing to undo: the files of {worker_id} already match the state before it"
    return Outcome(success=True, details={**details, "message": message})


def _start_stopped(change: Change, result: Outcome) -> Outcome:
    """Start workers that should run and don't, although no worker was stopped."""
    host = change.host
    restarts = [WorkerRestart(host, worker, stop_reason(change.job)) for worker in change.checkout.workers]
    stopped = [
        restart
        for restart in restarts
        if not restart.inactive_reason
        and host.quarantines.read(restart.worker.id) is None
        and find_stopped(host.processes, restart.worker).presence is Presence.STOPPED
    ]
    _run_concurrently(stopped, WorkerRestart.start)
    return _outcome(change, result, stopped) if stopped else result


def _look_at_workers(change: Change) -> tuple[list[WorkerRestart], list[WorkerRestart]]:
    """The workers to restart, and those that the configuration quarantines. `CodeRefused` if one couldn't be started
    again afterwards."""
    host = change.host
    restarts: list[WorkerRestart] = []
    quarantined: list[WorkerRestart] = []
    for worker in change.checkout.workers:
        found = find_watcher(host, worker, beside=True)
        try:
            check_alone(found)
        except RefusedError as error:
            raise CodeRefused(str(error)) from None
        restart = WorkerRestart(host, worker, stop_reason(change.job), found.identity.pid if found.identity else None)
        if worker.quarantined:
            restart.rests = start_objection(worker)
        (quarantined if worker.quarantined else restarts).append(restart)
    for restart in restarts:
        if restart.old_pid and not restart.inactive_reason:
            try:
                check_startable(host, restart.worker)
            except (SupervisorError, OSError) as error:
                raise CodeRefused(
                    f"Nothing was changed: {restart.worker.id} couldn't be started again afterwards. {error}"
                ) from None
    return restarts, quarantined


def _run_concurrently(restarts: Sequence[WorkerRestart], step: Callable[[WorkerRestart], None]) -> None:
    """Do the same for all of them, since each takes its own time to stop and start."""
    from concurrent.futures import ThreadPoolExecutor  # seldom needed

    with ThreadPoolExecutor(max_workers=len(restarts) or 1, thread_name_prefix="code-change") as pool:
        # A copy of the context each, so that log lines name this command.
        for future in [pool.submit(copy_context().run, step, restart) for restart in restarts]:
            future.result()


def _apply_safely(change: Change, apply: Callable[[Change], Outcome]) -> Outcome:
    """Make the change, unless the code has changed while its workers stopped. Whatever happens, they're started."""
    before = ""
    try:
        check_unmoved(change.checkout, change.plan)
        before = change.plan.head.hash
        return apply(change)
    except SupervisorError as error:
        reason = str(error)
    except Exception as error:
        log.exception("changing the code failed unexpectedly")
        reason = f"Unexpected error: {describe(error)}."
    try:
        after = change.checkout.git.resolve("HEAD")
    except SupervisorError:
        return Outcome.failed(reason, message="The state of the code is unknown")
    before = before or after
    move = describe_move("The code moved", before, after) if after != before else f"The code is still at {short(after)}"
    return Outcome.failed(reason, before=before, after=after, message=move)


def _update(change: Change) -> Outcome:
    """Move the checkout to the new commit, and install the requirements. If that fails, restore both."""
    job, plan, checkout = change.job, change.plan, change.checkout
    git, head = checkout.git, plan.head.hash
    details, message = change.details(head), f"Code already up to date at {plan.head}"
    if not plan.leaves_code:
        kept = {"head": git_changes.keep_commit(git, job.task_id, head)}
        how = "resetting to" if plan.drops_changes else "merging" if plan.kept else "fast-forwarding to"
        coming = f" ({count(plan.commit_count, 'commit')})" if plan.commit_count else ""
        change.host.progress(f"{how} {short(plan.target)}{coming}")
        if plan.changes:
            kept["changes"] = git_changes.keep_changes(git, job.task_id)
        try:
            git_changes.move_forward(git, head, plan.result, drops_changes=plan.drops_changes)
        except GitError as error:
            try:
                if kept.get("changes"):
                    git_changes.restore_changes(git, kept["changes"])
            except GitError:
                raise GitError(f"{error} Uncommitted changes are kept as {kept['changes']}.") from None
            raise
        dropped = [count(len(plan.dropped), "local commit")] if plan.dropped else []
        dropped += [f"the changes in {count(len(plan.changes), 'file')}"] if plan.changes else []
        local = f"; dropped {' and '.join(dropped)} (kept under refs/supervisor/)" if dropped else ""
        message = f"Reset {checkout.names} to {checkout.code.remote}/{checkout.code.branch}"
        if plan.commit_count:
            message = f"Updated {checkout.names} by {count(plan.commit_count, 'commit')}"
        message = f"{describe_move(message, head, plan.result)}{local}{_describe_kept(change)}"
        details = {**change.details(plan.result), "kept_as": kept}
    if change.environments:
        try:
            packages = install_requirements(change.host, job.task_id, checkout, change.environments)
        except (SupervisorError, OSError) as error:  # a full disk, say: the new code must not run without them
            return _put_back(change, f"Installing the requirements failed. {error}")
        changed = list(dict.fromkeys(package for record in packages for package in record["changed"]))
        installed = f"Packages: {list_names(changed, NAMED_PACKAGES)}"
        message += f". {installed if changed else 'All requirements were already installed'}"
        details["packages"] = packages
    return Outcome(success=True, details={**details, "message": message})


def _put_back(change: Change, why: str) -> Outcome:
    """Restore the previous code with its uncommitted changes, and the packages; `why` becomes the error.

    The code comes first, because packages may be installed from its folders. If that fails, the packages are restored
    all the same.
    """
    plan, checkout = change.plan, change.checkout
    git, head, after = checkout.git, plan.head.hash, plan.head.hash
    tried: Mapping[str, str] = {}
    message = f"The code is still at {short(head)}"
    error = followed_by(why, f"{message}.")
    if change.environments:
        change.host.progress("restoring the code and the packages")
    if not plan.leaves_code:
        try:
            tried = {"tried": git.resolve("HEAD")}
            git_changes.move_back(git, tried["tried"], head)
            if changes := git_changes.kept_changes(git, change.job.task_id):
                git_changes.restore_changes(git, changes)
            message = f"Restored the code of {checkout.names} to {short(head)}"
            error = followed_by(why, f"{message}.")
        except (SupervisorError, OSError) as failure:
            try:
                after = git.resolve("HEAD") or head
            except SupervisorError:
                after = plan.result
            message = describe_move("The code moved", head, after)
            if after == head:
                message = "Couldn't tell whether the code was restored"
            error = followed_by(why, f"Restoring the previous version failed too. {failure}")
    if change.environments:
        results = dict.fromkeys(environment.restore() for environment in change.environments)
        error = followed_by(error, " ".join(results))
    return Outcome(success=False, error=error, details={**change.details(after), **tried, "message": message})


def _return_to_old_code(change: Change, result: Outcome, restarts: Sequence[WorkerRestart]) -> Outcome:
    """Stop all workers, and restore the previous version, with which the failing ones ran."""
    errors = {restart.worker.id: restart.error for restart in restarts if restart.died}
    why = "\n".join(
        f"{name} fails with the new version: {error.removeprefix(f'{name} ')}" for name, error in errors.items()
    )
    change.host.progress(f"{next(iter(errors))} fails with the new version; restoring the previous one")
    _run_concurrently(restarts, WorkerRestart.stop)
    if all(restart.stopped for restart in restarts):
        try:
            result = _put_back(change, why)
        except Exception as error:  # whatever it is, the workers wait to be started
            log.exception("restoring the previous version failed unexpectedly")
            reason = f"Restoring the previous version failed too. Unexpected error: {describe(error)}."
            result = replace(result, success=False, error=followed_by(why, reason))
    return replace(result, details={**result.details, "failed": errors})


def _rollback(change: Change) -> Outcome:
    """Move the checkout to the last revert that could be made."""
    git, plan, head = change.checkout.git, change.plan, change.plan.head.hash
    git_changes.keep_commit(git, change.job.task_id, head)
    try:
        git_changes.move_forward(git, head, plan.result)
    except SupervisorError as error:
        failed = replace(change, plan=replace(plan, reverted=(), conflict=str(error)))
        return _stopped_rollback(failed, git.resolve("HEAD") or head)
    if plan.conflict:
        return _stopped_rollback(change, plan.result)
    message = f"Rolled back {change.checkout.names} by {count(len(plan.reverted), 'commit')}"
    if plan.skipped:
        message += f", skipping {', '.join(map(str, plan.skipped))} without changes"
    details = {**change.details(plan.result), "message": describe_move(message, head, plan.result)}
    return Outcome(success=True, details=details)


def _stopped_rollback(change: Change, after: str) -> Outcome:
    """The failure of a rollback that reverted only some of its commits, or none."""
    plan, number = change.plan, len(change.plan.reverted)
    stayed = f"{count(number, 'newer commit')} stayed reverted" if number else "nothing was reverted"
    pronoun, undo = "it" if number == 1 else "them", f"undo {change.checkout.worker.id} {change.job.task_id}"
    error = f"{plan.conflict} The rollback stopped there: {stayed}."
    error += f" To bring {pronoun} back: {undo}." if number else ""
    message = describe_move("The rollback stopped partway", plan.head.hash, after)
    failed_commit = plan.commits[number].hash
    details = {**change.details(after), "failed_commit": failed_commit, "success": False, "error": error}
    return Outcome(success=False, error=error, details={**details, "message": message})


def _undo(change: Change) -> Outcome:
    """Move the checkout to the new commit, and restore the packages that the undone update installed."""
    host, plan, checkout, after = change.host, change.plan, change.checkout, change.plan.result
    git_changes.keep_commit(checkout.git, change.job.task_id, plan.head.hash)
    host.progress(f"undoing {plan.undone_task_id}: restoring the files of {short(plan.target)}")
    message = f"Undid {plan.undone} {plan.undone_task_id} of {' and '.join(checkout.ids)}"
    if after == plan.head.hash:
        message += f". No files changed; the code is at {short(after)}"
    else:
        git_changes.move_forward(checkout.git, plan.head.hash, after)
        message += f". Commit {short(after)} restores every file to {short(plan.target)}"
    packages = ""
    if plan.packages:
        host.progress("restoring the packages")
        try:
            packages = restore_recorded(host, checkout, plan.packages).rstrip(".")
        except SupervisorError as error:
            packages = f"Couldn't tell whether the packages were restored: {error}".rstrip(".")
        message += f". {packages}"
    details = {**change.details(after), "packages_said": packages or None, "message": message}
    return Outcome(success=True, details=details)


def _describe_kept(change: Change) -> str:
    kept = change.plan.kept
    are = "isn't" if len(kept) == 1 else "aren't"
    return f"; kept {count(len(kept), 'local commit')} that {are} on {change.checkout.code.remote}" if kept else ""


def _push(change: Change, result: Outcome) -> Outcome:
    """Push the new commits if that's configured. A failed push doesn't fail the command."""
    code, details, message = change.checkout.code, result.details, result.details["message"]
    if not code.push_rollbacks or details["before"] == details["after"]:
        return replace(result, details={**details, "pushed": False})
    change.host.progress(f"pushing to {code.remote}")
    try:
        git_changes.push(change.checkout.git, code.remote, code.branch)
    except SupervisorError as error:
        message = f"{message}. {str(error).rstrip('.')}"
        return replace(result, details={**details, "pushed": False, "push_error": str(error), "message": message})
    return replace(result, details={**details, "pushed": True, "message": f"{message}. Pushed to {code.remote}"})


def _outcome(change: Change, result: Outcome, restarts: Sequence[WorkerRestart]) -> Outcome:
    """The outcome with its workers: first who is down, then what went wrong with the code."""
    down = [restart for restart in restarts if restart.error]
    message, error = result.details["message"], None
    states = ". ".join(map(str, restarts))
    if down:
        names, are = ", ".join(restart.worker.id for restart in down), "is" if len(down) == 1 else "are"
        moved = result.details.get("before") != result.details.get("after")
        undo = f" To restore the previous code: {undo_command(change.job)}." if moved else ""
        reasons = [sentence(reason) for reason in (result.error, *(restart.error for restart in down)) if reason]
        error = " ".join([f"{names} couldn't be started and {are} down. {message}.{undo}", *reasons])
    elif result.error:
        error = followed_by(result.error, f"{states}.")
    checkout = change.checkout
    details = {
        **result.details,
        "message": f"{message}. {states}",
        "label": change.job.label,
        "checkout": str(checkout.top),
        "workers": {restart.worker.id: restart.as_json() for restart in restarts},
        "commit_page": checkout.git.commit_page(checkout.code.remote) or None,
        "success": error is None,
        "error": error,
    }
    return Outcome(error is None, error, details)


def undo_command(job: Job) -> str:
    """The command that reverses this one. An undo can't be undone, but it's a commit like any other."""
    if job.handler == "undo_code":
        return f"rollback {job.worker_id} 1"
    return f"undo {job.worker_id} {job.task_id}"
