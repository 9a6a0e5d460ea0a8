"""Trying what may not fit together, before anybody is stopped for it: reverts, and merges.

Going forward, to a reset, and to an undo needs no trial: there git only writes files, and nothing is to be merged.
"""

from __future__ import annotations

from typing import NamedTuple

from supervisor_core.adapters.git import GitLateError
from supervisor_core.adapters.git_changing import merge, revert
from supervisor_core.adapters.git_trial import TrialError, temporary_worktree
from supervisor_core.domain.code_plan import CodePlan
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.handlers.code_site import Site
from supervisor_core.handlers.context import Host

MESSAGE = "A trial of the supervisor; nothing comes of it."


class Tried(NamedTuple):
    """What a trial has shown."""

    conflict: str = ""
    """Why it would fail half way."""
    problem: str = ""
    """Why it could not be tried, which says nothing of whether it would go through."""


def tried(host: Host, site: Site, plan: CodePlan) -> Tried:
    """What would come of it; nothing is to be said where it goes through, and where there is nothing to try."""
    if not plan.is_tried:
        return Tried()
    paths = {change.path for change in (*plan.files, *plan.on_the_way)}
    try:
        with temporary_worktree(site.git, host.config.state_dir, plan.head.hash, paths) as there:
            if plan.merges:
                merge(there, plan.target, MESSAGE)
            else:
                for commit in plan.commits:
                    revert(there, commit, MESSAGE)
    except (TrialError, GitLateError) as error:
        return Tried(problem=str(error))
    except SupervisorError as error:
        return Tried(conflict=str(error))
    except OSError as error:
        return Tried(problem=f"It could not be tried: {error}")
    return Tried()
