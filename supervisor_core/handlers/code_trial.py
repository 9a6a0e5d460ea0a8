"""Trying what may not fit together, before anybody is stopped for it: reverts, and merges.

Going forward, to a reset, and to an undo needs no trial: there git only writes files, and nothing is to be merged.
"""

from __future__ import annotations

from supervisor_core.adapters.git_changing import merge, revert
from supervisor_core.adapters.git_reading import files_between
from supervisor_core.adapters.git_trial import temporary_worktree
from supervisor_core.domain.code_plan import CodePlan
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.handlers.code_site import Site
from supervisor_core.handlers.context import Host

MESSAGE = "A trial of the supervisor; nothing comes of it."


def why_not(host: Host, site: Site, plan: CodePlan) -> str:
    """Why it would fail half way; empty where it goes through, and where there is nothing to try."""
    if not plan.is_tried:
        return ""
    paths = {change.path for change in plan.files}
    for commit in plan.commits if plan.command == "rollback" else ():
        paths |= {change.path for change in files_between(site.git, commit.hash, commit.parents[0])}
    try:
        with temporary_worktree(site.git, host.config.state_dir, plan.head.hash, paths) as there:
            if plan.merges:
                merge(there, plan.target, MESSAGE)
            else:
                for commit in plan.commits:
                    revert(there, commit, MESSAGE)
    except SupervisorError as error:
        return str(error)
    return ""
