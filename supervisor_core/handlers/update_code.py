"""Update: the code goes to what its remote has, and what it requires is installed where that is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from supervisor_core.adapters.git_changing import (
    fast_forward,
    keep,
    keep_changes,
    merge,
    reset,
    restore_changes,
)
from supervisor_core.adapters.git_reading import resolve
from supervisor_core.domain.code import count, merge_message, moved, short
from supervisor_core.domain.code_plan import LISTED_FILES, CodePlan, as_list
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.code_change import Made, change_code
from supervisor_core.handlers.code_past import done_together
from supervisor_core.handlers.code_seen import checked_plan
from supervisor_core.handlers.code_site import Site, site_of
from supervisor_core.handlers.code_trial import why_not
from supervisor_core.handlers.context import Host


def update_code(host: Host, job: Job) -> Outcome:
    """Bring the code up to its remote. With nothing to bring, nobody is touched."""
    site = site_of(host, host.config.worker(job.worker_id))
    if earlier := done_together(host, job, site):
        return earlier
    host.progress(f"asking {site.code.remote} what is new")
    plan = checked_plan(host, job, site)
    if plan.does_nothing:
        words = f"{site.are} up to date, at {plan.head}"
        return Outcome.done(message=words, **_details(plan, plan.head.hash, job))
    if plan.merges and (conflict := why_not(host, site, plan)):
        return Outcome.failed(
            f"Nothing was done, and nobody was stopped. {conflict}", **_details(plan, plan.head.hash, job)
        )
    return change_code(host, job, site, Update(host, job, site, plan))


@dataclass(frozen=True, slots=True)
class Update:
    """The way forward: straight on where that is possible, by a merge where the branch has commits of its own."""

    host: Host
    job: Job
    site: Site
    plan: CodePlan
    _kept: dict[str, str] = field(default_factory=dict)
    """What was dropped, by what it is; where it is kept."""

    def apply(self) -> Made:
        """Go there."""
        git, plan, job = self.site.git, self.plan, self.job
        self._kept["head"] = keep(git, job.task_id, plan.head.hash)
        self.host.progress(f"{self._how()} {short(plan.target)} ({count(plan.commit_count, 'commit')})")
        if job.params.get("reset"):
            if plan.changes:
                self._kept["changes"] = keep_changes(git, job.task_id)
            reset(git, plan.target)
        elif plan.kept:
            merge(git, plan.target, _message(self.site, plan, job))
        else:
            fast_forward(git, plan.target)
        after = resolve(git, "HEAD")
        way = f"updated by {count(plan.commit_count, 'commit')}" if plan.commit_count else "what its remote has"
        what = f"{self.site.are} {way}"
        words = f"{moved(what, plan.head.hash, after)}{self._beside()}"
        return Made({**_details(plan, after, job), "kept_as": dict(self._kept)}, words)

    def take_back(self) -> Callable[[str], Made]:
        """The code as it was, with what was changed in it."""
        return self._put_back

    def _put_back(self, why: str) -> Made:
        git, head = self.site.git, self.plan.head.hash
        tried = resolve(git, "HEAD")
        reset(git, head)
        if name := self._kept.get("changes"):
            restore_changes(git, name)
        details = {**_details(self.plan, head, self.job), "tried": tried}
        return Made(details, f"the code of {' and '.join(self.site.ids)} is again at {short(head)}", why)

    def _how(self) -> str:
        if self.job.params.get("reset"):
            return "going to exactly"
        return "merging" if self.plan.kept else "going forward to"

    def _beside(self) -> str:
        plan = self.plan
        if plan.kept:
            return f"; {count(len(plan.kept), 'commit')} of this checkout that {self.site.code.remote} has not stay"
        gone = [count(len(plan.dropped), "commit")] if plan.dropped else []
        gone += [f"the changes in {count(len(plan.changes), 'file')}"] if plan.changes else []
        return f"; {' and '.join(gone)} of this checkout are dropped, and kept under refs/supervisor/" if gone else ""


def _message(site: Site, plan: CodePlan, job: Job) -> str:
    branch = f"{site.code.remote}/{site.code.branch}"
    return merge_message(branch, len(plan.kept), job.audit_label, job.task_id)


def _details(plan: CodePlan, after: str, job: Job) -> dict[str, Any]:
    moved_on = after != plan.head.hash
    return {
        "up_to_date": plan.does_nothing,
        "before": plan.head.hash,
        "after": after,
        "target": plan.target,
        "commits": as_list(plan.commits) if moved_on else [],
        "commit_count": plan.commit_count if moved_on else 0,
        "files": [change.as_json() for change in plan.files[:LISTED_FILES]] if moved_on else [],
        "file_count": len(plan.files) if moved_on else 0,
        "kept": as_list(plan.kept),
        "dropped": as_list(plan.dropped) if moved_on else [],
        "label": job.label,
    }
