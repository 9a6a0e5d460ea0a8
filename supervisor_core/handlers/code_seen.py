"""What somebody saw before they said yes, and whether it is still so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from supervisor_core.domain.code import SEEN, state_hash
from supervisor_core.domain.code_plan import CodePlan
from supervisor_core.domain.definitions import KEEP_GOING
from supervisor_core.domain.jobs import Job
from supervisor_core.handlers.code_plans import plan_of
from supervisor_core.handlers.code_site import CodeRefused, Site
from supervisor_core.handlers.context import Host


def state_of(host: Host, site: Site, plan: CodePlan, params: Mapping[str, Any]) -> str:
    """The hash of what a preview shows: the code, who runs from it, who is paused, and what was asked for.

    Not the processes and not their health: those change all the time, and change nothing of what would be done. Nor
    whether the other workers follow after a failure: nothing of that is done here.
    """
    asked = {name: value for name, value in params.items() if name not in (SEEN, KEEP_GOING.name)}
    paused = [worker_id for worker_id in site.ids if host.pauses.preview(worker_id) is not None]
    facts = {"command": plan.command, "params": asked, "targets": site.ids, "paused": paused, "top": str(site.top)}
    return state_hash({**facts, **plan.facts()})


def checked_plan(host: Host, job: Job, site: Site) -> CodePlan:
    """The plan of this job; `CodeRefused` where it is not any more what somebody saw and agreed to."""
    plan = plan_of(host, site, job.handler, job.params)
    seen = job.params.get(SEEN)
    if seen and state_of(host, site, plan, job.params) not in str(seen).split(","):
        raise CodeRefused(
            f"What was seen in the preview is not so any more: the code in {site.top}, its workers or their pauses "
            "have changed since. Nothing was done.",
            remedy="Look at a new preview, and ask again.",
        )
    return plan
