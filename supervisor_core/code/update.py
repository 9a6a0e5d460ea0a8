"""Update: brings the code to its remote branch, and installs its requirements on request."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    site = checkout_of(host, host.config.worker(job.worker_id))
    if earlier := sibling_outcome(host, job, site):
        return earlier
    plan = _looked_at(host, job, site)
    if plan.does_nothing:
        return _up_to_date(host, job, site, plan)
    return change_code(host, job, site, plan, Update(host, job, site, plan))


def update_code_deps(host: HostContext, job: Job) -> Outcome:
    """Update the code and install its requirements; without new commits, only install them."""
    site = checkout_of(host, host.config.worker(job.worker_id))
    if earlier := sibling_outcome(host, job, site):
        return earlier
    plan = _looked_at(host, job, site)
    if plan.does_nothing:  # and no worker of it has requirements
        return _up_to_date(host, job, site, plan)
    host.progress("checking the installed packages")
    with environments_of(host, site) as environments:
        return change_code(host, job, site, plan, WithPackages(Update(host, job, site, plan), environments))


def _up_to_date(host: HostContext, job: Job, site: Checkout, plan: CodePlan) -> Outcome:
    """Nothing to change: a worker that should run and doesn't is started, the others are left alone."""
    beside = f"; {_own(plan, site)}" if plan.kept else ""
    message = f"Already up to date at {plan.head}{beside}"
    return start_stopped(host, job, site, CodeResult(_details(plan, plan.head.hash, job), message))


def _looked_at(host: HostContext, job: Job, site: Checkout) -> CodePlan:
    """Plan the update. Raise `CodeRefused` if it would fail, before a worker is stopped."""
    host.progress(f"checking {site.code.remote} for new commits")
    plan = checked_plan(host, job, site)
    shown = try_plan(host, site, plan)
    if shown.problem:  # then it is seen at the merge itself, which takes itself back
        log.warning("%s", shown.problem)
    if shown.conflict:
        raise CodeRefused(
            f"{shown.conflict} Nothing was changed, and no worker was stopped.",
            remedy="Merge them by hand, or drop the local commits: update --reset.",
        )
    return plan


@dataclass(frozen=True, slots=True)
class Update:
    """A fast-forward if possible, a merge if there are local commits, or a reset on request."""

    host: HostContext
    job: Job
    site: Checkout
    plan: CodePlan
    _kept: dict[str, str] = field(default_factory=dict)
    """The backup refs, by their content: `head`, `changes`."""

    def apply(self) -> CodeResult:
        """Move to the remote's commit."""
        git, plan, job = self.site.git, self.plan, self.job
        self._kept["head"] = keep_commit(git, job.task_id, plan.head.hash)
        coming = f" ({count(plan.commit_count, 'commit')})" if plan.commit_count else ""
        self.host.progress(f"{self._how()} {short(plan.target)}{coming}")
        if job.params.get("reset"):
            if plan.changes:
                self._kept["changes"] = keep_changes(git, job.task_id)
            self._reset()
        elif plan.kept:
            fast_forward(git, plan.head.hash, self._merge())
        else:
            fast_forward(git, plan.head.hash, plan.target)
        after = resolve_commit(git, "HEAD")
        what = (
            f"Updated {self.site.names} by {count(plan.commit_count, 'commit')}"
            if plan.commit_count
            else f"Reset {self.site.names} to {self.site.code.remote}/{self.site.code.branch}"
        )
        words = f"{describe_move(what, plan.head.hash, after)}{self._beside()}"
        return CodeResult({**_details(plan, after, job), "kept_as": dict(self._kept)}, words)

    def _merge(self) -> str:
        """Merge beside the checkout. A conflict or a failure touches nothing."""
        git, plan, state_dir = self.site.git, self.plan, self.host.config.state_dir
        with temporary_worktree(git, state_dir, plan.head.hash, plan.trial_paths, CHANGES) as there:
            try_merge(there, plan.target, _message(self.site, plan, self.job))
            return resolve_commit(there, "HEAD")

    def _reset(self) -> None:
        try:
            reset(self.site.git, self.plan.head.hash, self.plan.target)
        except GitError as error:
            try:
                self._restore()
            except GitError:
                kept = self._kept["changes"]
                raise GitError(f"{error} Uncommitted changes are kept as {kept}.") from None
            raise

    def take_back(self) -> Callable[[str], CodeResult]:
        """Restore the previous code with its uncommitted changes."""
        return self.put_back

    def afterwards(self, made: CodeResult) -> CodeResult:
        """Nothing more."""
        return made

    def put_back(self, why: str) -> CodeResult:
        """Restore the previous code; `why` becomes the error."""
        git, head = self.site.git, self.plan.head.hash
        given_up = resolve_commit(git, "HEAD")
        move_back(git, given_up, head)
        self._restore()
        details = {**_details(self.plan, head, self.job), "tried": given_up}
        said = f"Restored the code of {self.site.names} to {short(head)}"
        return CodeResult(details, said, followed_by(why, f"{said}."))

    def _restore(self) -> None:
        if name := self._kept.get("changes"):
            restore_changes(self.site.git, name)

    def _how(self) -> str:
        if self.job.params.get("reset"):
            return "resetting to"
        return "merging" if self.plan.kept else "fast-forwarding to"

    def _beside(self) -> str:
        plan = self.plan
        if plan.kept:
            return f"; {_own(plan, self.site)}"
        gone = [count(len(plan.dropped), "local commit")] if plan.dropped else []
        gone += [f"the changes in {count(len(plan.changes), 'file')}"] if plan.changes else []
        return f"; dropped {' and '.join(gone)} (kept under refs/supervisor/)" if gone else ""


@dataclass(frozen=True, slots=True)
class WithPackages:
    """An update and its requirements. If the installation fails, code and packages are restored."""

    update: Update
    environments: Sequence[PythonEnvironment]

    def apply(self) -> CodeResult:
        """Update the code, then install its requirements."""
        update, plan = self.update, self.update.plan
        if plan.leaves_code:
            made = CodeResult(_details(plan, plan.head.hash, update.job), f"Code already up to date at {plan.head}")
        else:
            made = update.apply()
        try:
            record_snapshots(update.host, update.job.task_id, self.environments)
            for environment in self.environments:
                for each in environment.installations:
                    what = each.named(update.site)
                    update.host.progress(f"installing {what} into {environment.python}")
                    each.run()
                environment.check()
            packages = [each.changed() for each in self.environments]
        except (SupervisorError, OSError) as error:  # a full disk, say: the new code must not run without them
            return self._put_back(f"Installing the requirements failed. {error}")
        return CodeResult({**made.details, "packages": packages}, f"{made.message}. {_packages_in_words(packages)}")

    def take_back(self) -> Callable[[str], CodeResult]:
        """Restore the code and the packages."""
        return self._put_back

    def afterwards(self, made: CodeResult) -> CodeResult:
        """Nothing more."""
        return made

    def _put_back(self, why: str) -> CodeResult:
        """Restore the code first, because packages may be installed from its folders."""
        update = self.update
        update.host.progress("restoring the code and the packages")
        if update.plan.leaves_code:
            head = update.plan.head
            said = f"The code is still at {short(head.hash)}"
            made = CodeResult(_details(update.plan, head.hash, update.job), said, followed_by(why, f"{said}."))
        else:
            made = self._code_put_back(why)
        said = " ".join(dict.fromkeys(each.put_back() for each in self.environments))
        return replace(made, error=followed_by(made.error or "", said))

    def _code_put_back(self, why: str) -> CodeResult:
        """Restore the code. A failure is reported, and the packages are restored all the same."""
        update, head = self.update, self.update.plan.head.hash
        try:
            return update.put_back(why)
        except (SupervisorError, OSError) as error:
            failed = followed_by(why, f"Restoring the code failed too. {error}")
        try:
            after = resolve_commit(update.site.git, "HEAD")
        except SupervisorError:
            after = ""
        details = _details(update.plan, after or head, update.job)
        said = (
            describe_move("The code moved", head, after)
            if after not in ("", head)
            else "Couldn't tell whether the code was restored"
        )
        return CodeResult(details, said, failed)


def _packages_in_words(packages: Sequence[Mapping[str, Any]]) -> str:
    changed = list(dict.fromkeys(each for one in packages for each in one["changed"]))
    return f"Packages: {list_names(changed, NAMED)}" if changed else "All requirements were already installed"


def _own(plan: CodePlan, site: Checkout) -> str:
    are = "isn't" if len(plan.kept) == 1 else "aren't"
    return f"kept {count(len(plan.kept), 'local commit')} that {are} on {site.code.remote}"


def _message(site: Checkout, plan: CodePlan, job: Job) -> str:
    branch = f"{site.code.remote}/{site.code.branch}"
    return merge_message(branch, len(plan.kept), job.audit_label, job.task_id)


def _details(plan: CodePlan, after: str, job: Job) -> dict[str, Any]:
    moved_on = after != plan.head.hash
    return {
        "up_to_date": plan.leaves_code,
        "before": plan.head.hash,
        "after": after,
        "target": plan.target,
        "commits": commits_json(plan.commits) if moved_on else [],
        "commit_count": plan.commit_count if moved_on else 0,
        "files": [change.as_json() for change in plan.files[:LISTED_FILES]] if moved_on else [],
        "file_count": len(plan.files) if moved_on else 0,
        "kept": commits_json(plan.kept),
        "dropped": commits_json(plan.dropped) if moved_on else [],
        "label": job.label,
    }
