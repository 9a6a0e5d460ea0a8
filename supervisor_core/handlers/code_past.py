"""What commands have done to a checkout before, as the ledger knows it: to take it back, and to do nothing twice."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from supervisor_core.adapters.git_reading import resolve, tree_of
from supervisor_core.domain.command import Outcome
from supervisor_core.domain.definitions import CODE_HANDLERS
from supervisor_core.domain.jobs import FINAL, Job, JobState
from supervisor_core.handlers.code_site import CodeRefused, Site
from supervisor_core.handlers.context import Host

WHAT = {"update_code": "the update", "update_code_deps": "the update", "rollback_code": "the rollback"}

NOT_KNOWN = "What was done before is not known here."

PAGE = 100
"""So many commands are read at once, until one is found that changed something; most change nothing."""


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
    """The update or rollback with this id; without one the newest, unless that is an undo.

    It can be undone where nothing came on top of it, or where all that came on top cancels out.
    """
    who = ", ".join(site.ids)
    if task_id is not None:
        found = _changed_by(host, site, task_id)
        if found is None:
            raise CodeRefused(
                f"No command {task_id} has changed the code of {who}.",
                remedy="The audit trail shows which ones have.",
            )
        if found.handler == "undo_code":
            raise CodeRefused(f"{task_id} is itself an undo, which can't be undone.{_instead(host, site, head)}")
        return found
    newest = next(_changes(host, site), None)
    if newest is None:
        raise CodeRefused(f"No update and no rollback of {who} is known here; there is nothing to undo.")
    if newest.handler == "undo_code":
        raise CodeRefused(
            f"The newest change of this code is itself an undo ({newest.task_id}), which can't be undone."
            f"{_instead(host, site, head)}"
        )
    return newest


def nothing_on_top(site: Site, change: CodeChange, head: str) -> bool:
    """Whether the files are as this change left them."""
    git = site.git
    return head == change.after or (
        bool(resolve(git, change.after)) and tree_of(git, head) == tree_of(git, change.after)
    )


def _instead(host: Host, site: Site, head: str) -> str:
    """What can be done where the newest change is an undo: take it back, or go one change further."""
    again = f" To take it back: rollback {site.worker.id} 1."
    for change in _changes(host, site):
        if change.handler != "undo_code" and nothing_on_top(site, change, head):
            return f"{again} To undo {change.what} before it as well: undo {site.worker.id} {change.task_id}."
    return again


def _changed_by(host: Host, site: Site, task_id: str) -> CodeChange | None:
    if host.ledger is None:
        raise CodeRefused(NOT_KNOWN)
    from supervisor_core.ledger import jobs  # late: a pass that has nothing to do must not pay for it

    known = host.ledger.read(lambda connection: jobs.of_task(connection, task_id))
    ours = (job for job in known if job.worker_id in site.ids and job.handler in CODE_HANDLERS)
    return next((change for job in ours if (change := _change(job))), None)


def _changes(host: Host, site: Site) -> Iterator[CodeChange]:
    """All that changed the code, newest first."""
    if host.ledger is None:
        raise CodeRefused(NOT_KNOWN)
    from supervisor_core.ledger import jobs  # late, as above

    start = 0
    while True:
        page = host.ledger.read(
            partial(jobs.ended, worker_ids=site.ids, handlers=CODE_HANDLERS, most=PAGE, start=start)
        )
        yield from (change for job in page if (change := _change(job)))
        if len(page) < PAGE:
            return
        start += PAGE


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
        if other.handler != job.handler or dict(other.params) != dict(job.params):
            continue  # two flags that somebody gave the same id are two commands
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
    told = details.get("packages")
    packages = tuple(one for one in told if one["changed"]) if isinstance(told, list) else ()
    if not before or not after or (before == after and not packages):
        return None
    changes = str((details.get("kept_as") or {}).get("changes") or "")
    return CodeChange(job.task_id, job.handler, before, after, packages, changes)
