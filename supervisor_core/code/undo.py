"""Undo: reverses an update or a rollback with one commit that restores every file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from supervisor_core.code.change import CodeResult, change_code
from supervisor_core.code.change_plan import LISTED_FILES, CodePlan, commits_json, short, undo_message
from supervisor_core.code.checkout import Checkout, checkout_of, sibling_outcome
from supervisor_core.code.git.changes import commit_tree, fast_forward, keep_commit
from supervisor_core.code.git.history import tree_of
from supervisor_core.code.packages.environments import put_back_packages
from supervisor_core.code.planning import checked_plan
from supervisor_core.code.rollback import push_if_wanted
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext


def undo_code(host: HostContext, job: Job) -> Outcome:
    """Restore the code from before an update or a rollback. Refused if the code has changed since."""
    site = checkout_of(host, host.config.worker(job.worker_id))
    if earlier := sibling_outcome(host, job, site):
        return earlier
    host.progress("checking the code")
    plan = checked_plan(host, job, site)
    if plan.does_nothing:
        words = f"Nothing to undo: the files of {site.worker.id} already match the state before it"
        return Outcome.done(message=words, **_details(plan, plan.head.hash, job))
    return change_code(host, job, site, plan, Undo(host, job, site, plan))


@dataclass(frozen=True, slots=True)
class Undo:
    """One new commit with the earlier files."""

    host: HostContext
    job: Job
    site: Checkout
    plan: CodePlan

    def apply(self) -> CodeResult:
        """Make the commit beside the checkout, then fast-forward to it: all or nothing."""
        git, plan, job = self.site.git, self.plan, self.job
        keep_commit(git, job.task_id, plan.head.hash)
        self.host.progress(f"undoing {plan.undone_task_id}: restoring the files of {short(plan.target)}")
        tree, after = tree_of(git, plan.target), plan.head.hash
        if tree != tree_of(git, after):  # else it had installed something and brought no code
            before = f"commit {plan.target}"
            message = undo_message(plan.undone, plan.undone_task_id, before, job.audit_label, job.task_id)
            after = commit_tree(git, tree, message)
            fast_forward(git, plan.head.hash, after)
        whose = " and ".join(self.site.ids)
        words = f"Undid {plan.undone} {plan.undone_task_id} of {whose}"
        if after == plan.head.hash:
            words += f". No files changed; the code is at {short(after)}"
        else:
            words += f". Commit {short(after)} restores every file to {short(plan.target)}"
        said = self._packages()
        details = {**_details(plan, after, job), "packages_said": said or None}
        return CodeResult(details, f"{words}. {said}" if said else words)

    def take_back(self) -> None:
        """An undo stays even if a worker fails with it: the worker ran with this code before."""

    def afterwards(self, made: CodeResult) -> CodeResult:
        """Push the commit if that's configured."""
        if made.details["before"] == made.details["after"]:
            return replace(made, details={**made.details, "pushed": False})
        return push_if_wanted(self.host, self.site, made)

    def _packages(self) -> str:
        """Restore the packages that an update installed, and describe the result."""
        if not self.plan.packages:
            return ""
        self.host.progress("restoring the packages")
        try:
            return put_back_packages(self.host, self.site, self.plan.packages).rstrip(".")
        except SupervisorError as error:
            return f"Couldn't tell whether the packages were restored: {error}".rstrip(".")


def _details(plan: CodePlan, after: str, job: Job) -> dict[str, Any]:
    return {
        "undone_task_id": plan.undone_task_id or None,
        "restored_commit": plan.target,
        "before": plan.head.hash,
        "after": after,
        "commits": commits_json(plan.commits),
        "files": [change.as_json() for change in plan.files[:LISTED_FILES]],
        "file_count": len(plan.files),
        "label": job.label,
    }
