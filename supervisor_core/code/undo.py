"""Undo: reverses an update or a rollback with one commit that restores every file."""

from __future__ import annotations

from supervisor_core.code.change import CodeResult, change_code
from supervisor_core.code.change_plan import LISTED_FILES, CodePlan, commits_json, short, undo_message
from supervisor_core.code.checkout import Checkout, checkout_of, sibling_outcome
from supervisor_core.code.git.changes import commit_tree, fast_forward, keep_commit
from supervisor_core.code.git.history import tree_of
from supervisor_core.code.packages.environments import put_back_packages
from supervisor_core.code.planning import checked_plan
from supervisor_core.commands.command import Outcome
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs.model import Job
from supervisor_core.workers.context import HostContext


def undo_code(host: HostContext, job: Job) -> Outcome:
    """Restore the code from before an update or a rollback. Refused if the code has changed since.

    An undo stays even if a worker fails with it: the worker ran with this code before.
    """
    site = checkout_of(host, host.config.worker(job.worker_id))
    if earlier := sibling_outcome(host, job, site):
        return earlier
    host.progress("checking the code")
    plan = checked_plan(host, job, site)
    if plan.does_nothing:
        words = f"Nothing to undo: the files of {site.worker.id} already match the state before it"
        return Outcome.done(message=words, **_details(plan, plan.head.hash, job))
    return change_code(host, job, site, plan, lambda: _restore(host, job, site, plan), push_commits=True)


def _restore(host: HostContext, job: Job, site: Checkout, plan: CodePlan) -> CodeResult:
    """Make the commit, fast-forward to it, and restore the packages that the undone update installed."""
    git, head = site.git, plan.head.hash
    keep_commit(git, job.task_id, head)
    host.progress(f"undoing {plan.undone_task_id}: restoring the files of {short(plan.target)}")
    words = f"Undid {plan.undone} {plan.undone_task_id} of {' and '.join(site.ids)}"
    tree, after = tree_of(git, plan.target), head
    if tree == tree_of(git, head):  # it installed something and brought no code
        words += f". No files changed; the code is at {short(head)}"
    else:
        before = f"commit {plan.target}"
        message = undo_message(plan.undone, plan.undone_task_id, before, job.audit_label, job.task_id)
        after = commit_tree(git, tree, message)
        fast_forward(git, head, after)
        words += f". Commit {short(after)} restores every file to {short(plan.target)}"
    packages = ""
    if plan.packages:
        host.progress("restoring the packages")
        try:
            packages = put_back_packages(host, site, plan.packages).rstrip(".")
        except SupervisorError as error:
            packages = f"Couldn't tell whether the packages were restored: {error}".rstrip(".")
    details = {**_details(plan, after, job), "packages_said": packages or None}
    return CodeResult(details, f"{words}. {packages}" if packages else words)


def _details(plan: CodePlan, after: str, job: Job) -> dict[str, object]:
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
