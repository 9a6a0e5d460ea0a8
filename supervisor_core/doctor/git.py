"""The check of git and of the checkouts that workers run from: what update, rollback and undo need."""

from __future__ import annotations

from supervisor_core.code.git.runner import CodeState, Git, GitError, NoCheckoutError, git_version
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.doctor.checks import CheckResult

NAME = "git"
ALL_SECONDS = 15.0
"""For all checkouts together."""


def check_git(config: SupervisorConfig) -> CheckResult:
    """A worker whose code is in no checkout is no failure, unless the configuration says that there is one."""
    version = git_version()
    troubles: list[tuple[str, str]] = []
    without: list[str] = []
    remarks = [f"git {version}"]
    each_seconds = ALL_SECONDS / max(len(config.workers), 1)
    for worker in config.workers.values():
        try:
            state = Git(worker.code.path).state(each_seconds)
        except NoCheckoutError as error:
            if "path" in worker.code.model_fields_set:
                remedy = f"Clone the code there, or correct workers.{worker.id}.code.path."
                troubles.append((f"{worker.id}: {error.message}", remedy))
            else:
                without.append(worker.id)
            continue
        except GitError as error:
            troubles.append((f"{worker.id}: {error.message}", error.remedy or "Check it with git."))
            continue
        found, said = _seen(worker, state)
        troubles += found
        remarks += said
    if without:
        remarks.append(f"no checkout, so no update or rollback: {', '.join(without)}")
    if troubles:
        return CheckResult(NAME, False, "; ".join(said for said, _ in troubles), troubles[0][1])
    return CheckResult(NAME, True, "; ".join(remarks))


def _seen(worker: WorkerSettings, state: CodeState) -> tuple[list[tuple[str, str]], list[str]]:
    """The problems that prevent a change of the checkout, each with a remedy; and remarks."""
    troubles, remarks = [], []
    if state.under_way:
        remedy = f"Run: git -C {state.top} {state.under_way} --abort (or --continue)."
        troubles.append((f"{worker.id}: a {state.under_way} in {state.top} is unfinished", remedy))
    if state.lock is not None:
        troubles.append((f"{worker.id}: {state.lock} exists", "If no git is running there, delete the file."))
    if state.branch != worker.code.branch:
        on, wanted = f"branch {state.branch}" if state.branch else "no branch", worker.code.branch
        said = f"the code of {worker.id} is on {on}, not {wanted}, so it can't be updated or rolled back"
        remedy = f"Run: git -C {state.top} switch {wanted}. Or correct workers.{worker.id}.code.branch."
        if worker.code.model_fields_set:
            troubles.append((said, remedy))
        else:
            remarks.append(said)
    if state.changes:
        remarks.append(f"the code of {worker.id} has uncommitted changes: a change of the same files is refused")
    return troubles, remarks
