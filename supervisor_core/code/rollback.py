"""Rollback: reverts the newest commits, newest first, each with a new commit that names the requester."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from supervisor_core.code.git.changes import fast_forward, keep_commit, push, revert
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
    stops there: the earlier reverts stay, and the checkout is clean.
    """
    try:
        site = checkout_of(host, host.config.worker(job.worker_id))
        if earlier := sibling_outcome(host, job, site):
            return earlier
        host.progress("checking the code")
        plan = checked_plan(host, job, site)
    except SupervisorError as error:
        return Outcome(success=False, error=str(error), details=_nothing(str(error), job))
    if plan.does_nothing:
        what = f"the newest {count(len(plan.skipped), 'commit')} of {site.worker.id} changed no files"
        words = f"Nothing to revert: {what}. No worker was stopped"
        return Outcome(success=True, details={"message": words, **_details(plan, [], plan.head.hash, None, job)})
    try:
        outcome = change_code(host, job, site, plan, Rollback(host, job, site, plan))
    except SupervisorError as error:  # nobody was stopped for it
        outcome = Outcome.failed(str(error), refused=True)
    if "commits_reverted" in outcome.details or not ({"refused", "survivors"} & outcome.details.keys()):
        return outcome
    untouched = _details(plan, [], plan.head.hash, None, job, outcome.error)
    return Outcome(success=False, error=outcome.error, details={**untouched, **outcome.details})


@dataclass(frozen=True, slots=True)
class Rollback:
    """The reverts, in order."""

    host: HostContext
    job: Job
    site: Checkout
    plan: CodePlan

    def apply(self) -> CodeResult:
        """Revert each beside the checkout, up to the first that fails; then move to the last commit at once."""
        git, job, plan, state_dir = self.site.git, self.job, self.plan, self.host.config.state_dir
        keep_commit(git, job.task_id, plan.head.hash)
        done: list[Commit] = []
        after, commit = plan.head.hash, plan.commits[0]
        failure: SupervisorError | None = None
        try:
            with temporary_worktree(git, state_dir, plan.head.hash, plan.trial_paths, CHANGES) as there:
                for number, commit in enumerate(plan.commits, 1):
                    self.host.progress(f"reverting {commit} ({number} of {len(plan.commits)})")
                    after = revert(there, commit, revert_message(commit, job.audit_label, job.task_id))
                    done.append(commit)
        except SupervisorError as error:
            failure = error
        try:
            if done:
                fast_forward(git, plan.head.hash, after)
        except SupervisorError as error:
            return self._failed([], plan.commits[0], error)
        if failure is not None:
            return self._failed(done, commit, failure)
        what = f"Rolled back {self.site.names} by {count(len(done), 'commit')}"
        if plan.skipped:
            what += f", skipping {', '.join(map(str, plan.skipped))} without changes"
        details = _details(plan, done, after, None, job)
        return CodeResult(details, describe_move(what, plan.head.hash, after))

    def take_back(self) -> None:
        """A rollback stays even if a worker fails with it. An undo reverses it."""

    def afterwards(self, made: CodeResult) -> CodeResult:
        """Push the commits if that's configured."""
        return push_if_wanted(self.host, self.site, made)

    def _failed(self, done: list[Commit], commit: Commit, error: SupervisorError) -> CodeResult:
        after = resolve_commit(self.site.git, "HEAD") or self.plan.head.hash
        kept = f"{count(len(done), 'newer commit')} stayed reverted" if done else "nothing was reverted"
        again = f" To bring {'it' if len(done) == 1 else 'them'} back: undo {self.site.worker.id} {self.job.task_id}."
        words = f"{error} The rollback stopped there: {kept}.{again if done else ''}"
        details = _details(self.plan, done, after, commit, self.job, words)
        return CodeResult(details, describe_move("The rollback stopped partway", self.plan.head.hash, after), words)


def push_if_wanted(host: HostContext, site: Checkout, made: CodeResult) -> CodeResult:
    """Push the new commits if that's configured. A failed push doesn't fail the command."""
    code = site.code
    if not code.push_rollbacks:
        return replace(made, details={**made.details, "pushed": False})
    host.progress(f"pushing to {code.remote}")
    try:
        push(site.git, code.remote, code.branch)
    except SupervisorError as error:
        details = {**made.details, "pushed": False, "push_error": str(error)}
        return replace(made, details=details, message=f"{made.message}. {str(error).rstrip('.')}")
    return replace(made, details={**made.details, "pushed": True}, message=f"{made.message}. Pushed to {code.remote}")


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


def _nothing(error: str, job: Job) -> dict[str, Any]:
    """The details of a rollback that was refused before anything was changed."""
    return {
        "refused": True,
        "commits_reverted": 0,
        "reverted_commits": [],
        "failed_commit": None,
        "success": False,
        "error": error,
        "label": job.label,
    }
