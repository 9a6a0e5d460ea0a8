"""Update: brings the code to its remote branch, and installs its requirements on request."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from supervisor_core.code.change import CodeResult, change_code, start_stopped
from supervisor_core.code.change_plan import (
    LISTED_FILES,
    CodePlan,
    commits_json,
    count,
    describe_move,
    followed_by,
    list_names,
    merge_message,
    short,
)
from supervisor_core.code.checkout import Checkout, CodeRefused, checkout_of, sibling_outcome
from supervisor_core.code.git.changes import (
    fast_forward,
    keep_changes,
    keep_commit,
    kept_changes,
    move_back,
    reset,
    restore_changes,
    try_merge,
)
from supervisor_core.code.git.history import resolve_commit
from supervisor_core.code.git.runner import GitError
from supervisor_core.code.git.worktree import CHANGES, temporary_worktree
from supervisor_core.code.packages.environments import NAMED, PythonEnvironment, environments_of, record_snapshots
from supervisor_core.code.planning import checked_plan, try_plan
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext

log = logging.getLogger(__name__)


def update_code(host: HostContext, job: Job) -> Outcome:
    """Update the code. Without new commits, no worker is stopped."""
    return _update(host, job, with_packages=False)


def update_code_deps(host: HostContext, job: Job) -> Outcome:
    """Update the code and install its requirements; without new commits, only install them."""
    return _update(host, job, with_packages=True)


def _update(host: HostContext, job: Job, *, with_packages: bool) -> Outcome:
    """A fast-forward if possible, a merge if there are local commits, or a reset on request.

    An update that would fail is refused before a worker is stopped. If a worker fails with the new code, or an
    installation fails, code and packages are restored.
    """
    site = checkout_of(host, host.config.worker(job.worker_id))
    if earlier := sibling_outcome(host, job, site):
        return earlier
    host.progress(f"checking {site.code.remote} for new commits")
    plan = checked_plan(host, job, site)
    trial = try_plan(host, site, plan)
    if trial.problem:  # the merge itself will show it, and undo itself
        log.warning("%s", trial.problem)
    if trial.conflict:
        raise CodeRefused(
            f"{trial.conflict} Nothing was changed, and no worker was stopped.",
            remedy="Merge them by hand, or drop the local commits: update --reset.",
        )
    if plan.does_nothing:
        beside = f"; {_kept_words(plan, site)}" if plan.kept else ""
        made = CodeResult(_details(plan, plan.head.hash, job), f"Already up to date at {plan.head}{beside}")
        return start_stopped(host, job, site, made)
    if not with_packages:
        return change_code(
            host,
            job,
            site,
            plan,
            lambda: _move(host, job, site, plan),
            put_back=lambda why: _put_back(job, site, plan, why),
        )
    host.progress("checking the installed packages")
    with environments_of(host, site) as environments:
        return change_code(
            host,
            job,
            site,
            plan,
            lambda: _move_and_install(host, job, site, plan, environments),
            put_back=lambda why: _put_back_with_packages(host, job, site, plan, environments, why),
        )


def _move(host: HostContext, job: Job, site: Checkout, plan: CodePlan) -> CodeResult:
    """Move the checkout to the remote's commit."""
    git, head = site.git, plan.head.hash
    kept = {"head": keep_commit(git, job.task_id, head)}
    resets = bool(job.params.get("reset"))
    how = "resetting to" if resets else "merging" if plan.kept else "fast-forwarding to"
    coming = f" ({count(plan.commit_count, 'commit')})" if plan.commit_count else ""
    host.progress(f"{how} {short(plan.target)}{coming}")
    beside = ""
    if resets:
        if plan.changes:
            kept["changes"] = keep_changes(git, job.task_id)
        try:
            reset(git, head, plan.target)
        except GitError as error:
            try:
                if kept.get("changes"):
                    restore_changes(git, kept["changes"])
            except GitError:
                raise GitError(f"{error} Uncommitted changes are kept as {kept['changes']}.") from None
            raise
        dropped = [count(len(plan.dropped), "local commit")] if plan.dropped else []
        dropped += [f"the changes in {count(len(plan.changes), 'file')}"] if plan.changes else []
        beside = f"; dropped {' and '.join(dropped)} (kept under refs/supervisor/)" if dropped else ""
    elif plan.kept:
        # Merged in a temporary worktree: a conflict or a failure touches nothing.
        with temporary_worktree(git, host.config.state_dir, head, plan.trial_paths, CHANGES) as there:
            branch = f"{site.code.remote}/{site.code.branch}"
            try_merge(there, plan.target, merge_message(branch, len(plan.kept), job.audit_label, job.task_id))
            merged = resolve_commit(there, "HEAD")
        fast_forward(git, head, merged)
        beside = f"; {_kept_words(plan, site)}"
    else:
        fast_forward(git, head, plan.target)
    after = resolve_commit(git, "HEAD")
    what = (
        f"Updated {site.names} by {count(plan.commit_count, 'commit')}"
        if plan.commit_count
        else f"Reset {site.names} to {site.code.remote}/{site.code.branch}"
    )
    return CodeResult({**_details(plan, after, job), "kept_as": kept}, f"{describe_move(what, head, after)}{beside}")


def _put_back(job: Job, site: Checkout, plan: CodePlan, why: str) -> CodeResult:
    """Restore the previous code with its uncommitted changes; `why` becomes the error."""
    git, head = site.git, plan.head.hash
    tried = resolve_commit(git, "HEAD")
    move_back(git, tried, head)
    if changes := kept_changes(git, job.task_id):
        restore_changes(git, changes)
    words = f"Restored the code of {site.names} to {short(head)}"
    return CodeResult({**_details(plan, head, job), "tried": tried}, words, followed_by(why, f"{words}."))


def _move_and_install(
    host: HostContext, job: Job, site: Checkout, plan: CodePlan, environments: Sequence[PythonEnvironment]
) -> CodeResult:
    if plan.leaves_code:
        made = CodeResult(_details(plan, plan.head.hash, job), f"Code already up to date at {plan.head}")
    else:
        made = _move(host, job, site, plan)
    try:
        record_snapshots(host, job.task_id, environments)
        for environment in environments:
            for installation in environment.installations:
                host.progress(f"installing {installation.named(site)} into {environment.python}")
                installation.run()
            environment.check()
        packages = [environment.changed() for environment in environments]
    except (SupervisorError, OSError) as error:  # a full disk, say: the new code must not run without them
        why = f"Installing the requirements failed. {error}"
        return _put_back_with_packages(host, job, site, plan, environments, why)
    changed = list(dict.fromkeys(package for one in packages for package in one["changed"]))
    words = f"Packages: {list_names(changed, NAMED)}" if changed else "All requirements were already installed"
    return CodeResult({**made.details, "packages": packages}, f"{made.message}. {words}")


def _put_back_with_packages(
    host: HostContext, job: Job, site: Checkout, plan: CodePlan, environments: Sequence[PythonEnvironment], why: str
) -> CodeResult:
    """Restore the code first, because packages may be installed from its folders. If that fails, restore the packages
    all the same."""
    host.progress("restoring the code and the packages")
    head = plan.head.hash
    if plan.leaves_code:
        words = f"The code is still at {short(head)}"
        made = CodeResult(_details(plan, head, job), words, followed_by(why, f"{words}."))
    else:
        try:
            made = _put_back(job, site, plan, why)
        except (SupervisorError, OSError) as error:
            try:
                after = resolve_commit(site.git, "HEAD")
            except SupervisorError:
                after = ""
            words = "Couldn't tell whether the code was restored"
            if after not in ("", head):
                words = describe_move("The code moved", head, after)
            failed = followed_by(why, f"Restoring the code failed too. {error}")
            made = CodeResult(_details(plan, after or head, job), words, failed)
    results = " ".join(dict.fromkeys(environment.put_back() for environment in environments))
    return replace(made, error=followed_by(made.error or "", results))


def _kept_words(plan: CodePlan, site: Checkout) -> str:
    are = "isn't" if len(plan.kept) == 1 else "aren't"
    return f"kept {count(len(plan.kept), 'local commit')} that {are} on {site.code.remote}"


def _details(plan: CodePlan, after: str, job: Job) -> dict[str, Any]:
    moved = after != plan.head.hash
    return {
        "up_to_date": plan.leaves_code,
        "before": plan.head.hash,
        "after": after,
        "target": plan.target,
        "commits": commits_json(plan.commits) if moved else [],
        "commit_count": plan.commit_count if moved else 0,
        "files": [change.as_json() for change in plan.files[:LISTED_FILES]] if moved else [],
        "file_count": len(plan.files) if moved else 0,
        "kept": commits_json(plan.kept),
        "dropped": commits_json(plan.dropped) if moved else [],
        "label": job.label,
    }
