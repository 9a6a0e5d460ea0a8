"""Rollback: reverts the newest commits, newest first, each with a new commit that names the requester."""

from __future__ import annotations

from typing import Any

from supervisor_core.code.change import CodeResult, change_code
from supervisor_core.code.change_plan import (
    LISTED_FILES,
    CodePlan,
    Commit,
    commits_json,
    count,
    describe_move,
    revert_message,
)
from supervisor_core.code.checkout import Checkout, checkout_of, sibling_outcome
from supervisor_core.code.git.changes import fast_forward, keep_commit, revert
from supervisor_core.code.git.history import resolve_commit
from supervisor_core.code.git.worktree import CHANGES, temporary_worktree
from supervisor_core.code.planning import checked_plan
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext


def rollback_code(host: HostContext, job: Job) -> Outcome:
    """Revert the newest commits, and restart all workers of the checkout.

    A rollback that would surely fail is refused before a worker is stopped. If a revert fails anyway, the rollback
    stops there: the earlier reverts stay, and the checkout is clean. A rollback stays even if a worker fails with it;
    an undo reverses it.
    """
    try:
        site = checkout_of(host, host.config.worker(job.worker_id))
        if earlier := sibling_outcome(host, job, site):
            return earlier
        host.progress("checking the code")
        plan = checked_plan(host, job, site)
    except SupervisorError as error:
        refused = {"refused": True, "commits_reverted": 0, "reverted_commits": [], "failed_commit": None}
        refused |= {"success": False, "error": str(error), "label": job.label}
        return Outcome(success=False, error=str(error), details=refused)
    if plan.does_nothing:
        what = f"the newest {count(len(plan.skipped), 'commit')} of {site.worker.id} changed no files"
        words = f"Nothing to revert: {what}. No worker was stopped"
        return Outcome(success=True, details={"message": words, **_details(plan, [], plan.head.hash, None, job)})
    try:
        outcome = change_code(host, job, site, plan, lambda: _revert(host, job, site, plan), push_commits=True)
    except SupervisorError as error:  # no worker was stopped
        outcome = Outcome.failed(str(error), refused=True)
    if "commits_reverted" in outcome.details or not ({"refused", "survivors"} & outcome.details.keys()):
        return outcome
    untouched = _details(plan, [], plan.head.hash, None, job, outcome.error)
    return Outcome(success=False, error=outcome.error, details={**untouched, **outcome.details})


def _revert(host: HostContext, job: Job, site: Checkout, plan: CodePlan) -> CodeResult:
    """Revert the commits in a temporary worktree, up to the first that fails; then move the checkout at once."""
    git, head = site.git, plan.head.hash
    keep_commit(git, job.task_id, head)
    done: list[Commit] = []
    after, commit = head, plan.commits[0]
    failure: SupervisorError | None = None
    try:
        with temporary_worktree(git, host.config.state_dir, head, plan.trial_paths, CHANGES) as there:
            for number, commit in enumerate(plan.commits, 1):
                host.progress(f"reverting {commit} ({number} of {len(plan.commits)})")
                after = revert(there, commit, revert_message(commit, job.audit_label, job.task_id))
                done.append(commit)
    except SupervisorError as error:
        failure = error
    try:
        if done:
            fast_forward(git, head, after)
    except SupervisorError as error:
        failure, done, commit = error, [], plan.commits[0]
    if failure is None:
        what = f"Rolled back {site.names} by {count(len(done), 'commit')}"
        if plan.skipped:
            what += f", skipping {', '.join(map(str, plan.skipped))} without changes"
        return CodeResult(_details(plan, done, after, None, job), describe_move(what, head, after))
    after = resolve_commit(git, "HEAD") or head
    kept = f"{count(len(done), 'newer commit')} stayed reverted" if done else "nothing was reverted"
    again = f" To bring {'it' if len(done) == 1 else 'them'} back: undo {site.worker.id} {job.task_id}."
    words = f"{failure} The rollback stopped there: {kept}.{again if done else ''}"
    details = _details(plan, done, after, commit, job, words)
    return CodeResult(details, describe_move("The rollback stopped partway", head, after), words)


def _details(
    plan: CodePlan, done: list[Commit], after: str, failed: Commit | None, job: Job, error: str | None = None
) -> dict[str, Any]:
    return {
        "starting_commit": plan.head.hash,
        "commits_reverted": len(done),
        "reverted_commits": [commit.hash for commit in done],
        "skipped_commits": [commit.hash for commit in plan.skipped],
        "failed_commit": failed.hash if failed else None,
        "final_commit": after,
        "before": plan.head.hash,
        "after": after,
        "success": error is None,
        "error": error,
        "label": job.label,
        "commits": commits_json(done),
        "files": [change.as_json() for change in plan.files[:LISTED_FILES]] if error is None else [],
        "notes": list(plan.notes),
    }
