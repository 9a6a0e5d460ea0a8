"""Plans an update, a rollback or an undo; `CodeRefused` says why it can't be done.

Nothing here changes the checkout, except that an update fetches. Reverts and merges get a dry run in a temporary
worktree before any worker is stopped. A fast-forward, a reset and an undo only write files and don't need one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from supervisor_core.code.change_plan import (
    LISTED_COMMITS,
    STATE_PARAM,
    CodePlan,
    Commit,
    FileChange,
    count,
    list_names,
    short,
    state_hash,
)
from supervisor_core.code.checkout import (
    Checkout,
    CodeRefused,
    change_to_undo,
    check_changeable,
    check_free,
    check_unedited,
    has_nothing_on_top,
)
from supervisor_core.code.git.changes import fetch, try_merge, try_revert
from supervisor_core.code.git.history import (
    commits,
    common_ancestor,
    count_commits,
    count_lines,
    files_between,
    find_removed_commit,
    is_shallow,
    resolve_commit,
    tree_of,
)
from supervisor_core.code.git.runner import Git, GitError, GitLateError
from supervisor_core.code.git.worktree import TrialError, temporary_worktree
from supervisor_core.code.packages.environments import check_requirements, installations_of
from supervisor_core.commands.command import NOTE_KEY
from supervisor_core.commands.definitions import KEEP_GOING, ROLLING
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs.model import START_BEFORE, Job
from supervisor_core.workers.context import HostContext

NAMED_PACKAGES = 10
NOT_PLANNED = frozenset({STATE_PARAM, NOTE_KEY, START_BEFORE, KEEP_GOING.name, *(each.name for each in ROLLING)})
"""Parameters that don't change the plan for a checkout: when, in which order and why it's carried out."""

OWN_COMMITS = 1000
"""The most local commits that are read. A checkout with more is hardly one of this remote."""


def make_plan(host: HostContext, site: Checkout, handler: str, params: Mapping[str, Any]) -> CodePlan:
    match handler:
        case "update_code":
            return plan_update(host, site, "update", reset=bool(params.get("reset")))
        case "update_code_deps":
            plan = plan_update(host, site, "update-deps", reset=bool(params.get("reset")))
            installations = installations_of(host, site)
            check_requirements(site, installations, plan)
            return replace(plan, installs=tuple(f"{each.named(site)} into {each.python}" for each in installations))
        case "rollback_code":
            return plan_rollback(site, int(params.get("commits_back") or 1))
        case "undo_code":
            return plan_undo(host, site, params.get("task_id"))
    raise ValueError(f"{handler} does not change code")


def plan_update(host: HostContext, site: Checkout, command: str, *, reset: bool) -> CodePlan:
    """Fetch from the remote, and compare."""
    git, code = site.git, site.code
    check_changeable(site)
    with host.unlocked():
        newest = fetch(git, code.remote, code.branch)
    state = check_changeable(site)
    own_count = count_commits(git, f"{newest}..{state.head}")
    coming = count_commits(git, f"{state.head}..{newest}")
    own = commits(git, f"{newest}..{state.head}", most=min(own_count, OWN_COMMITS)) if own_count else []
    removed = find_removed_commit(git, f"refs/remotes/{code.remote}/{code.branch}", state.head) if own else ""
    if removed and not reset:
        gone = count(count_commits(git, f"{newest}..{removed}"), "commit")
        raise CodeRefused(
            f"The history of {code.remote}/{code.branch} was rewritten: it no longer has {gone} of this checkout "
            f"(up to {short(removed)}). A merge would bring them back.",
            remedy="To match the remote exactly: update --reset. Local commits are kept under refs/supervisor.",
        )
    base = common_ancestor(git, newest, state.head) if own else state.head
    if not base and not reset:
        raise CodeRefused(
            f"{code.remote}/{code.branch} and {site.top} have no common history.",
            remedy="To match the remote exactly: update --reset.",
        )
    goes = coming or (reset and (own_count or state.changes))
    before = state.head if reset else base
    files = count_lines(git, before, newest, files_between(git, before, newest)) if goes else []
    check_unedited(site, state, files, drops_changes=reset)
    check_free(site, files)
    notes = []
    if own and coming and not reset:
        kept = count(own_count, "local commit")
        notes.append(f"The new commits are merged with {kept}.")
    if command == "update":
        notes += _packages_stay(site, files)
    return CodePlan(
        command=command,
        head=_commit(git, state.head),
        target=newest,
        commits=tuple(commits(git, f"{state.head}..{newest}", most=LISTED_COMMITS)) if coming else (),
        commit_count=coming,
        kept=() if reset else tuple(own),
        dropped=tuple(own) if reset else (),
        changes=state.changes if reset else (),
        drops_changes=reset,
        files=tuple(files),
        notes=tuple(notes),
    )


def plan_rollback(site: Checkout, back: int) -> CodePlan:
    """Find the newest commits along the first parents, and the files that each revert would touch."""
    git = site.git
    state = check_changeable(site)
    line = commits(git, state.head, most=back + 1, first_parents=True)
    if len(line) <= back:
        cut = " It's a shallow clone." if is_shallow(git) else ""
        can = f"At most {count(len(line) - 1, 'commit')}" if len(line) > 1 else "No commit"
        raise CodeRefused(
            f"{site.top} can't be rolled back by {count(back, 'commit')}: it has only {len(line)}, and the first can't "
            f"be reverted.{cut} {can} can be reverted here."
        )
    newest, before = line[:back], line[1:]
    skipped = [commit for commit, older in zip(newest, before, strict=True) if commit.tree == older.tree]
    reverted = [commit for commit in newest if commit not in skipped]
    oldest = before[-1].hash
    files = count_lines(git, state.head, oldest, files_between(git, state.head, oldest))
    on_the_way = [change for commit in reverted for change in files_between(git, commit.hash, commit.parents[0])]
    check_unedited(site, state, (*files, *on_the_way), drops_changes=False)
    check_free(site, on_the_way)
    notes = []
    for commit in reverted:
        if commit.is_merge:
            towards = short(commit.parents[0])
            notes.append(
                f"{short(commit.hash)} is a merge. Reverting it removes everything it merged, back to {towards}."
            )
        if commit.takes_back:
            known = resolve_commit(git, commit.takes_back)
            what = str(_commit(git, commit.takes_back)) if known else short(commit.takes_back)
            kind = "rollback" if commit.task_id else "revert"
            notes.append(f"{short(commit.hash)} is a {kind} of {what}. Reverting it brings that commit back.")
        elif commit.task_id:
            notes.append(f"{short(commit.hash)} was made by {commit.task_id}.")
    if reverted and not files:
        notes.append("These commits cancel each other out, so no file changes.")
    return CodePlan(
        command="rollback",
        head=line[0],
        target=oldest,
        commits=tuple(reverted),
        commit_count=len(reverted),
        skipped=tuple(skipped),
        files=tuple(files),
        on_the_way=tuple(on_the_way),
        notes=(*notes, *_packages_stay(site, files)),
    )


def plan_undo(host: HostContext, site: Checkout, task_id: str | None) -> CodePlan:
    """Find the change to undo, and check that nothing has changed since."""
    git = site.git
    state = check_changeable(site)
    change = change_to_undo(host, site, state.head, task_id)
    if not resolve_commit(git, change.before):
        raise GitError(f"Commit {short(change.before)}, the state before {change.task_id}, no longer exists.")
    if not has_nothing_on_top(site, change, state.head):
        on_top = commits(git, f"{change.after}..{state.head}", most=3)
        what = f": {'; '.join(map(str, on_top))}" if on_top else f" ({short(state.head)} is checked out)"
        raise CodeRefused(
            f"{change.task_id} can't be undone: the code has changed since{what}.",
            remedy="Undo the newer change first, or revert single commits with rollback.",
        )
    files = count_lines(git, state.head, change.before, files_between(git, state.head, change.before))
    check_unedited(site, state, files, drops_changes=False)
    check_free(site, files)
    same = tree_of(git, state.head) == tree_of(git, change.before)
    made = commits(git, f"{change.before}..{state.head}", most=LISTED_COMMITS)
    notes = [f"Undoes {change.what} {change.task_id}: every file is restored to {short(change.before)}."]
    if packages := [str(name) for one in change.packages for name in one.get("changed", ())]:
        notes.append(f"Restores the packages that it changed: {list_names(packages, NAMED_PACKAGES)}.")
    if kept := change.changes:
        notes.append(f"Uncommitted changes from before it stay in a backup ref. To apply them: git stash apply {kept}")
    if not change.packages:
        notes += _packages_stay(site, files)
    return CodePlan(
        command="undo",
        head=_commit(git, state.head),
        target=change.before,
        commits=() if same else tuple(made),
        commit_count=0 if same else count_commits(git, f"{change.before}..{state.head}"),
        files=tuple(files),
        undone_task_id="" if same and not change.packages else change.task_id,
        undone=change.what,
        packages=change.packages,
        notes=tuple(notes),
    )


def _packages_stay(site: Checkout, files: Sequence[FileChange]) -> Iterator[str]:
    changed = {change.path for change in files} | {change.was for change in files}
    named_in = {worker.code.requirements for worker in site.workers if worker.code.requirements}
    for name in sorted(name for name in named_in if any(path == name or path.endswith(f"/{name}") for path in changed)):
        yield f"{name} changes, but the installed packages don't. To install it: update-deps."


def _commit(git: Git, name: str) -> Commit:
    return commits(git, name, most=1, first_parents=True)[0]  # in any other order the whole history is walked for it


MESSAGE = "Dry run of the supervisor"


class TrialResult(NamedTuple):
    """The result of a dry run; empty if it succeeded or wasn't needed."""

    conflict: str = ""
    """The reason why the change would fail."""
    problem: str = ""
    """The reason why the dry run couldn't be done."""


def try_plan(host: HostContext, site: Checkout, plan: CodePlan) -> TrialResult:
    """Do a dry run of a plan with reverts or a merge."""
    if not plan.is_tried:
        return TrialResult()
    try:
        with temporary_worktree(site.git, host.config.state_dir, plan.head.hash, plan.trial_paths) as there:
            if plan.merges:
                try_merge(there, plan.target, MESSAGE)
            else:
                for commit in plan.commits:
                    try_revert(there, commit)
    except (TrialError, GitLateError) as error:
        return TrialResult(problem=f"The dry run couldn't be done. {error}")
    except SupervisorError as error:
        return TrialResult(conflict=str(error))
    except OSError as error:
        return TrialResult(problem=f"The dry run couldn't be done: {error}")
    return TrialResult()


def preview_state(host: HostContext, site: Checkout, plan: CodePlan, params: Mapping[str, Any]) -> str:
    """Hash what a preview shows: the code, its workers, their pauses and the parameters.

    Processes and their health aren't part of it: they change all the time, and don't change the plan. Neither are
    `--keep-going` and batches, which concern other checkouts.
    """
    asked = {name: value for name, value in params.items() if name not in NOT_PLANNED}
    paused = [worker_id for worker_id in site.ids if host.pauses.preview(worker_id) is not None]
    facts = {"command": plan.command, "params": asked, "targets": site.ids, "paused": paused, "top": str(site.top)}
    return state_hash({**facts, **plan.facts()})


def checked_plan(host: HostContext, job: Job, site: Checkout) -> CodePlan:
    """Plan this job. Raise `CodeRefused` if the plan no longer matches the preview that was approved."""
    plan = make_plan(host, site, job.handler, job.params)
    seen = job.params.get(STATE_PARAM)
    if seen and preview_state(host, site, plan, job.params) not in str(seen).split(","):
        raise CodeRefused(
            f"The preview is out of date: the code in {site.top}, its workers or their pauses have changed since. "
            "Nothing was changed.",
            remedy="Send the command again and check the new preview.",
        )
    return plan
