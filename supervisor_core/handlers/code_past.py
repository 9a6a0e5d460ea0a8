"""What commands have done to a checkout before, as the ledger knows it: to take it back, and to do nothing twice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from supervisor_core.domain.command import Outcome
from supervisor_core.domain.jobs import FINAL, Job, JobState
from supervisor_core.handlers.code_site import CodeRefused, Site
from supervisor_core.handlers.context import Host

CODE_HANDLERS = ("update_code", "update_code_deps", "rollback_code", "undo_code")
WHAT = {"update_code": "the update", "update_code_deps": "the update", "rollback_code": "the rollback"}

LOOKED_AT = 100
"""So many of the newest commands are looked through for one that changed something."""


@dataclass(frozen=True, slots=True)
class CodeChange:
    """One command that moved the head."""

    task_id: str
    handler: str
    before: str
    after: str
    packages: tuple[Mapping[str, Any], ...] = ()
    """What it installed, by environment."""
    changes: str = ""
    """The name under which it kept what was changed and in no commit."""

    @property
    def what(self) -> str:
        """What it was, as people call it."""
        return WHAT.get(self.handler, "the undo")


def change_to_undo(host: Host, site: Site, head: str, task_id: str | None) -> CodeChange:
    """The update or rollback with this id; without one the newest, as long as nothing was done since."""
    if host.ledger is None:
        raise CodeRefused("What was done before is not known here.")
    from supervisor_core.ledger import jobs  # late: a pass that has nothing to do must not pay for it

    known = host.ledger.read(lambda connection: jobs.ended(connection, site.ids, CODE_HANDLERS, LOOKED_AT))
    changes = [change for job in known if (change := _change(job))]
    who = ", ".join(site.ids)
    if task_id is not None:
        found = next((change for change in changes if change.task_id == task_id), None)
        if found is None:
            raise CodeRefused(
                f"No command {task_id} has changed the code of {who}.", remedy="`audit` shows which ones have."
            )
    elif not changes:
        raise CodeRefused(f"No update and no rollback of {who} is known here; there is nothing to undo.")
    else:
        found = next((change for change in changes if change.after == head), changes[0])
    if found.handler == "undo_code":
        raise CodeRefused(
            f"The newest change of this code is itself an undo ({found.task_id}), which can't be undone.",
            remedy="To take it back: rollback 1.",
        )
    return found


def done_together(host: Host, job: Job, site: Site) -> Outcome | None:
    """What came of the same command for another worker that runs from the same checkout; None where it is the first.

    What is done to a checkout is done once for each command, whoever of its workers comes first.
    """
    if host.ledger is None:
        return None
    from supervisor_core.ledger import jobs  # late, as above

    siblings = host.ledger.read(lambda connection: jobs.of_task(connection, job.task_id))
    for other in siblings:
        if other.worker_id == job.worker_id or other.worker_id not in site.ids:
            continue
        if other.outcome is not None and other.state is not JobState.INTERRUPTED:
            return _as_well(other, other.outcome, job)
        if other.state in (JobState.STARTED, *FINAL):  # we have the checkout alone, so nobody is at work there
            return Outcome.failed(
                f"{job.worker_id} runs from the same checkout as {other.worker_id}, for which this was interrupted; it "
                "is not run again. Look at both, and ask again if that is not what you want.",
                together_with=other.worker_id,
            )
    return None


def _as_well(other: Job, outcome: Outcome, job: Job) -> Outcome:
    message = f"{outcome.details.get('message') or other.handler} (done once, for the checkout that both run from)"
    details = {**outcome.details, "message": message, "together_with": other.worker_id, "label": job.label}
    return Outcome(outcome.success, outcome.error, details)


def _change(job: Job) -> CodeChange | None:
    details = job.outcome.details if job.outcome else {}
    before, after = str(details.get("before") or ""), str(details.get("after") or "")
    if not before or not after or before == after:
        return None
    changes = str((details.get("kept_as") or {}).get("changes") or "")
    return CodeChange(job.task_id, job.handler, before, after, tuple(details.get("packages") or ()), changes)
