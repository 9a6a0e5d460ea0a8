"""Plans an update, a rollback or an undo; `CodeRefused` says why it can't be done.

Nothing here changes the checkout, except that an update fetches. Reverts and merges get a dry run in a temporary
worktree before any worker is stopped. A fast-forward, a reset and an undo only write files and don't need one.

All checkouts of a command are previewed concurrently, under one total deadline. A checkout that takes longer is refused
with the reason, and doesn't hold up the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import wait
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from supervisor_core.code.change_plan import (
    LISTED_COMMITS,
    STATE_PARAM,
    TASK,
    CodePlan,
    Commit,
    FileChange,
    WorkerNow,
    count,
    list_names,
    new_paths,
    short,
    state_hash,
    touched_paths,
)
from supervisor_core.code.git import CodeState, Git, GitError, GitLateError, top_of
from supervisor_core.code.git_changes import (
    CHANGES,
    TRIALS,
    WorktreeError,
    commit_tree,
    fetch,
    merge,
    revert,
    temporary_worktree,
)
from supervisor_core.code.packages import check_requirements, installations_of
from supervisor_core.code.watch.rules import CodeChange, change_of
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import NOTE_KEY, Command
from supervisor_core.commands.definitions import CODE_HANDLERS, KEEP_GOING, ROLLING
from supervisor_core.common.errors import RefusedError, SupervisorError
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.config.worker_settings import CodeSettings, WorkerSettings
from supervisor_core.jobs.handler_checks import start_objection
from supervisor_core.jobs.model import START_BEFORE, Job, JobState
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.worker import find_watcher

PREVIEW_SECONDS = 20.0
"""For the whole preview of a command, whatever the number of checkouts."""

ENDING_SECONDS = 5.0
"""After the deadline, to end a git process that is late."""

CHECKOUTS_AT_ONCE = 64
"""Checkouts that the previews of this program check concurrently."""

NOT_PLANNED = frozenset({STATE_PARAM, NOTE_KEY, START_BEFORE, KEEP_GOING.name, *(option.name for option in ROLLING)})
"""Parameters that don't change the plan for a checkout: when, in which order and why it's carried out."""

OWN_COMMITS = 1000
"""The most local commits that are read. A checkout with more is hardly one of this remote."""

NAMED_FILES, NAMED_PACKAGES = 5, 10  # in a message

JOBS_AT_ONCE = 100
"""Commands that are read at once in the search for one that changed something; most don't."""

_threads = DaemonThreads("preview", CHECKOUTS_AT_ONCE)


class CodeRefused(RefusedError):
    """The code can't be changed in its current state."""


@dataclass(frozen=True, slots=True)
class Checkout:
    """One checkout, with all workers of this host that run from it."""

    git: Git
    worker: WorkerSettings
    """The worker of the command, whose code settings apply."""
    workers: tuple[WorkerSettings, ...]
    """All workers, sorted by id."""

    @property
    def top(self) -> Path:
        return self.git.folder

    @property
    def code(self) -> CodeSettings:
        return self.worker.code

    @property
    def ids(self) -> list[str]:
        return [worker.id for worker in self.workers]

    @property
    def names(self) -> str:
        """Its workers for people: `OrionMX`, `OrionMX and Second`."""
        *others, last = self.ids
        return f"{', '.join(others)} and {last}" if others else last


def checkout_of(host: HostContext, worker: WorkerSettings) -> Checkout:
    def workers_of(top: Path) -> tuple[WorkerSettings, ...]:
        sharing = (worker for worker in host.config.workers.values() if top_of(worker.code.path) == top)
        return tuple(sorted(sharing, key=lambda worker: worker.id))

    top = host.drive.call(top_of, worker.code.path)
    name, email = host.config.git.author_name, host.config.git.author_email
    author = {"GIT_AUTHOR_NAME": name, "GIT_AUTHOR_EMAIL": email}
    author |= {"GIT_COMMITTER_NAME": name, "GIT_COMMITTER_EMAIL": email}
    return Checkout(Git(top, extra=author, deadline=host.deadline), worker, host.drive.call(workers_of, top))


def preview(host: HostContext, command: Command) -> list[CodePlan]:
    """Plan the command for each of its checkouts, within `PREVIEW_SECONDS`. One that is late is refused."""
    deadline = time.monotonic() + PREVIEW_SECONDS
    host = replace(host, deadline=deadline)
    handler = CATALOG[command.name].handler or ""

    def empty_plan(checkout: Checkout) -> CodePlan:
        workers = tuple(worker_now(host, worker) for worker in checkout.workers)
        return CodePlan(command.name, str(checkout.top), checkout.code.branch, workers)

    def plan(checkout: Checkout) -> CodePlan:
        base = empty_plan(checkout)
        try:
            plan = plan_change(host, checkout, handler, command.params)
        except SupervisorError as error:
            return replace(base, refused=str(error))
        page = checkout.git.commit_page(checkout.code.remote)
        return replace(prepare(host, checkout, plan), workers=base.workers, commit_page=page)

    checkouts: dict[str, Checkout] = {}
    for worker_id in command.workers:
        checkout = checkout_of(host, host.config.worker(worker_id))
        checkouts.setdefault(str(checkout.top), checkout)
    futures = [(checkout, _threads.submit(plan, checkout)) for checkout in checkouts.values()]
    wait([future for _, future in futures], timeout=max(deadline + ENDING_SECONDS - time.monotonic(), 0))
    plans = []
    for checkout, future in futures:
        if future.done():
            plans.append(future.result())
        else:
            future.cancel()
            late = f"Checking {checkout.top} timed out after {PREVIEW_SECONDS:g} s. Try again."
            plans.append(replace(empty_plan(checkout), refused=late))
    return plans


def worker_now(host: HostContext, worker: WorkerSettings) -> WorkerNow:
    """Describe a worker that a command would affect."""
    found = find_watcher(host, worker)
    pause = host.pauses.preview(worker.id)
    busy = ""
    if host.ledger is not None:
        from supervisor_core.jobs import rows as jobs  # late: whoever only looks at workers must not pay for it

        states = (JobState.STARTED, JobState.CLAIMED, JobState.QUEUED)
        waiting = host.ledger.read(lambda connection: jobs.waiting(connection, [worker.id], states))
        started = next((job for job in waiting if job.state is JobState.STARTED), None)
        if started is not None:
            busy = f"busy with {started.command} ({started.task_id})"
        elif waiting:
            busy = f"{count(len(waiting), 'command')} waiting"
    return WorkerNow(
        id=worker.id,
        pid=found.identity.pid if found.identity else None,
        paused=str(pause) if pause else "",
        rests=start_objection(worker),
        busy=busy,
    )


def recent_commits(host: HostContext, worker_ids: Sequence[str], most: int) -> list[Commit]:
    """The newest commits that a rollback of these workers can revert, newest first; none if they run from several
    checkouts."""
    host = replace(host, deadline=time.monotonic() + PREVIEW_SECONDS)
    checkouts = [checkout_of(host, host.config.worker(worker_id)) for worker_id in worker_ids]
    if len({checkout.top for checkout in checkouts}) != 1:
        return []
    commits = checkouts[0].git.commits("HEAD", most=most + 1, first_parents=True)
    return commits[:most] if len(commits) > most else commits[:-1]  # the first commit can't be reverted


def find_commit(host: HostContext, worker_ids: Sequence[str], name: str, most: int) -> tuple[Commit, int] | None:
    """The commit of this hash in the checkout of these workers, and its position among the newest ones that a rollback
    can revert: 1 for the newest, 0 if it isn't among them. None if there's no such commit, or several checkouts."""
    newest = [commit.hash for commit in recent_commits(host, worker_ids, most)]
    git = checkout_of(replace(host, deadline=time.monotonic() + PREVIEW_SECONDS), host.config.worker(worker_ids[0])).git
    commit = git.resolve(name) if newest else ""
    if not commit or not commit.startswith(name.lower()):  # a branch may have such a name, too
        return None
    return git.commit(commit), newest.index(commit) + 1 if commit in newest else 0


def plan_change(host: HostContext, checkout: Checkout, handler: str, params: Mapping[str, Any]) -> CodePlan:
    match handler:
        case "update_code":
            plan = _plan_update(host, checkout, "update", reset=bool(params.get("reset")))
        case "update_code_deps":
            plan = _plan_update(host, checkout, "update-deps", reset=bool(params.get("reset")))
            installations = installations_of(host, checkout)
            check_requirements(checkout, installations, plan)
            plan = replace(plan, installs=tuple(f"{each.named(checkout)} into {each.python}" for each in installations))
        case "rollback_code":
            plan = _plan_rollback(checkout, int(params.get("commits_back") or 1))
        case "undo_code":
            plan = _plan_undo(host, checkout, params.get("task_id"))
        case _:
            raise ValueError(f"{handler} does not change code")
    # Processes and their health aren't approved: they change all the time, and don't change the plan.
    facts = {
        "command": plan.command,
        "head": plan.head.hash,
        "target": plan.target,
        "changes": sorted(plan.changes),
        "params": {name: value for name, value in params.items() if name not in NOT_PLANNED},
        "targets": checkout.ids,
        "paused": [worker_id for worker_id in checkout.ids if host.pauses.preview(worker_id) is not None],
        "top": str(checkout.top),
    }
    return replace(plan, state=state_hash(facts | ({"installs": list(plan.installs)} if plan.installs else {})))


def plan_job(host: HostContext, job: Job, checkout: Checkout) -> CodePlan:
    """Plan this job. Raise `CodeRefused` if the plan no longer matches the one that was approved."""
    plan = plan_change(host, checkout, job.handler, job.params)
    approved = job.params.get(STATE_PARAM)
    if approved and plan.state not in str(approved).split(","):
        raise CodeRefused(
            f"The preview is out of date: the code in {checkout.top}, its workers or their pauses have changed since. "
            "Nothing was changed.",
            remedy="Send the command again and check the new preview.",
        )
    return plan


def prepare(host: HostContext, checkout: Checkout, plan: CodePlan, job: Job | None = None) -> CodePlan:
    """Make the commit to move to; reverts and merges in a temporary worktree. The returned plan has the result.

    Without a job it's a dry run, whose commit nobody needs. Reverts stop at the first that fails.
    """
    git, result = checkout.git, plan.head.hash
    signature = f"Requested by {job.audit_label}.\n\n{TASK}: {job.task_id}\n" if job else "Dry run\n"
    if not plan.is_tried:
        result = plan.target
        if plan.command == "undo":
            result, tree = plan.head.hash, git.tree(plan.target)
            if job and tree != git.tree(result):  # else the undone command installed something and brought no code
                restores = f"Restores every file to commit {plan.target}."
                subject = f"Undo {plan.undone} ({plan.undone_task_id})"
                result = commit_tree(git, tree, f"{subject}\n\n{restores}\n\n{signature}")
        return replace(plan, result=result)
    conflict, untried, reverted = "", "", []
    purpose = CHANGES if job else TRIALS
    try:
        with temporary_worktree(git, host.config.state_dir, result, plan.trial_paths, purpose) as worktree:
            if plan.merges:
                keeps = f"Keeps {count(len(plan.kept), 'local commit')}."
                subject = f"Merge {checkout.code.remote}/{checkout.code.branch}"
                merge(worktree, plan.target, f"{subject}\n\n{keeps}\n\n{signature}")
                result = worktree.resolve("HEAD")
            for number, commit in enumerate(() if plan.merges else plan.commits, 1):
                if job:
                    host.progress(f"reverting {commit} ({number} of {len(plan.commits)})")
                # The message begins with git's own, so that every tool recognizes it.
                towards = f", reversing\nchanges made to {commit.parents[0]}" if commit.is_merge else ""
                reverts = f"This reverts commit {commit.hash}{towards}."
                message = f'Revert "{commit.subject}"\n\n{reverts}\n\n{signature}' if job else ""
                revert(worktree, commit, message)
                result = worktree.resolve("HEAD")
                reverted.append(commit)
    except (SupervisorError, OSError) as error:
        if job and plan.merges and isinstance(error, WorktreeError | OSError):  # no conflict: nobody need drop commits
            raise CodeRefused(f"{str(error).rstrip('.')}. Nothing was changed, and no worker was stopped.") from None
        if job or not isinstance(error, WorktreeError | GitLateError | OSError):
            conflict = str(error)
        else:
            untried = f"The dry run couldn't be done. {error}"
    return replace(plan, result=result, reverted=tuple(reverted), conflict=conflict, untried=untried)


def _plan_update(host: HostContext, checkout: Checkout, command: str, *, reset: bool) -> CodePlan:
    """Fetch from the remote, and compare."""
    git, code = checkout.git, checkout.code
    check_changeable(checkout)
    with host.unlocked():
        newest = fetch(git, code.remote, code.branch)
    state = check_changeable(checkout)
    own_count, coming_count = git.count(f"{newest}..{state.head}"), git.count(f"{state.head}..{newest}")
    own = git.commits(f"{newest}..{state.head}", most=OWN_COMMITS) if own_count else []
    base = state.head
    if own and not reset:
        # Git's reflog has the former commits of the remote's branch, for as long as git keeps it.
        upstream = f"refs/remotes/{code.remote}/{code.branch}"
        forked = git.find("merge-base", "--fork-point", upstream, state.head)
        if forked and not git.contains(upstream, forked):
            gone = count(git.count(f"{newest}..{forked}"), "commit")
            raise CodeRefused(
                f"The history of {code.remote}/{code.branch} was rewritten: it no longer has {gone} of this checkout "
                f"(up to {short(forked)}). A merge would bring them back.",
                remedy="To match the remote exactly: update --reset. Local commits are kept under refs/supervisor.",
            )
        base = git.find("merge-base", newest, state.head) or ""
        if not base:
            raise CodeRefused(
                f"{code.remote}/{code.branch} and {checkout.top} have no common history.",
                remedy="To match the remote exactly: update --reset.",
            )
    has_effect = coming_count or (reset and (own_count or state.changes))
    files = git.changed_files(base, newest, count_lines=True) if has_effect else []
    check_files_free(checkout, state, files, files, drops_changes=reset)
    notes = []
    if own and coming_count and not reset:
        notes.append(f"The new commits are merged with {count(own_count, 'local commit')}.")
    if command == "update":
        notes += _describe_stale_requirements(checkout, files)
    return CodePlan(
        command,
        str(checkout.top),
        code.branch,
        head=git.commit(state.head),
        target=newest,
        commits=tuple(git.commits(f"{state.head}..{newest}", most=LISTED_COMMITS)) if coming_count else (),
        commit_count=coming_count,
        kept=() if reset else tuple(own),
        dropped=tuple(own) if reset else (),
        changes=state.changes if reset else (),
        drops_changes=reset,
        files=tuple(files),
        notes=tuple(notes),
    )


def _plan_rollback(checkout: Checkout, commits_back: int) -> CodePlan:
    """Find the newest commits along the first parents, and the files that each revert would touch."""
    git = checkout.git
    state = check_changeable(checkout)
    commits = git.commits(state.head, most=commits_back + 1, first_parents=True)
    if len(commits) <= commits_back:
        shallow = " It's a shallow clone." if git.ask("rev-parse", "--is-shallow-repository") == "true" else ""
        most = f"At most {count(len(commits) - 1, 'commit')}" if len(commits) > 1 else "No commit"
        raise CodeRefused(
            f"{checkout.top} can't be rolled back by {count(commits_back, 'commit')}: it has only {len(commits)}, and "
            f"the first can't be reverted.{shallow} {most} can be reverted here."
        )
    pairs = list(pairwise(commits))
    skipped = [commit for commit, older in pairs if commit.tree == older.tree]
    reverted = [commit for commit, older in pairs if commit.tree != older.tree]
    oldest = commits[-1].hash
    files = git.changed_files(state.head, oldest, count_lines=True)
    on_the_way = [change for commit in reverted for change in git.changed_files(commit.hash, commit.parents[0])]
    check_files_free(checkout, state, (*files, *on_the_way), on_the_way)
    notes = []
    for commit in reverted:
        if commit.is_merge:
            parent = short(commit.parents[0])
            notes.append(
                f"{short(commit.hash)} is a merge. Reverting it removes everything it merged, back to {parent}."
            )
        if commit.takes_back:
            known = git.resolve(commit.takes_back)
            reverted_commit = git.commit(known) if known else short(commit.takes_back)
            kind = "rollback" if commit.task_id else "revert"
            notes.append(
                f"{short(commit.hash)} is a {kind} of {reverted_commit}. Reverting it brings that commit back."
            )
        elif commit.task_id:
            notes.append(f"{short(commit.hash)} was made by {commit.task_id}.")
    if reverted and not files:
        notes.append("These commits cancel each other out, so no file changes.")
    return CodePlan(
        "rollback",
        str(checkout.top),
        checkout.code.branch,
        head=commits[0],
        target=oldest,
        commits=tuple(reverted),
        commit_count=len(reverted),
        skipped=tuple(skipped),
        files=tuple(files),
        on_the_way=tuple(on_the_way),
        notes=(*notes, *_describe_stale_requirements(checkout, files)),
    )


def _plan_undo(host: HostContext, checkout: Checkout, task_id: str | None) -> CodePlan:
    """Find the change to undo, and check that nothing has changed since."""
    git = checkout.git
    state = check_changeable(checkout)
    change = _find_change_to_undo(host, checkout, state.head, task_id)
    if not git.resolve(change.before):
        raise GitError(f"Commit {short(change.before)}, the state before {change.task_id}, no longer exists.")
    if not _has_nothing_on_top(git, change, state.head):
        on_top = git.commits(f"{change.after}..{state.head}", most=3)
        what = f": {'; '.join(map(str, on_top))}" if on_top else f" ({short(state.head)} is checked out)"
        raise CodeRefused(
            f"{change.task_id} can't be undone: the code has changed since{what}.",
            remedy="Undo the newer change first, or revert single commits with rollback.",
        )
    files = git.changed_files(state.head, change.before, count_lines=True)
    check_files_free(checkout, state, files, files)
    same = git.tree(state.head) == git.tree(change.before)
    commits = [] if same else git.commits(f"{change.before}..{state.head}", most=LISTED_COMMITS)
    notes = [f"Undoes {change.name} {change.task_id}: every file is restored to {short(change.before)}."]
    if packages := [str(name) for record in change.packages for name in record["changed"]]:
        notes.append(f"Restores the packages that it changed: {list_names(packages, NAMED_PACKAGES)}.")
    if ref := change.uncommitted:
        notes.append(f"Uncommitted changes from before it stay in a backup ref. To apply them: git stash apply {ref}")
    if not change.packages:
        notes += _describe_stale_requirements(checkout, files)
    return CodePlan(
        "undo",
        str(checkout.top),
        checkout.code.branch,
        head=git.commit(state.head),
        target=change.before,
        commits=tuple(commits),
        commit_count=0 if same else git.count(f"{change.before}..{state.head}"),
        files=tuple(files),
        undone_task_id="" if same and not change.packages else change.task_id,
        undone=change.name,
        packages=change.packages,
        notes=tuple(notes),
    )


def _describe_stale_requirements(checkout: Checkout, files: Sequence[FileChange]) -> Iterator[str]:
    changed = touched_paths(files)
    names = {worker.code.requirements for worker in checkout.workers if worker.code.requirements}
    for name in sorted(name for name in names if any(path == name or path.endswith(f"/{name}") for path in changed)):
        yield f"{name} changes, but the installed packages don't. To install it: update-deps."


def check_changeable(checkout: Checkout) -> CodeState:
    """Read the state of the checkout. Raise `CodeRefused` if it can't be changed."""
    code, top = checkout.code, checkout.top
    state = checkout.git.state()
    if not state.head:
        raise CodeRefused(f"{top} has no commits yet.", remedy=f"Check workers.{checkout.worker.id}.code.path.")
    if state.under_way:
        operation = state.under_way.split(" ", maxsplit=1)[0]
        raise CodeRefused(
            f"A {state.under_way} is in progress in {top}.",
            remedy=f"Finish it, or abort it: git -C {top} {operation} --abort",
        )
    if state.lock is not None:
        raise CodeRefused(
            f"Another git process is using {top}, or was killed there: {state.lock} exists.",
            remedy="If no git process is running there, delete that file.",
        )
    if state.branch != code.branch:
        branch = f"on branch {state.branch}" if state.branch else f"on no branch (detached at {short(state.head)})"
        raise CodeRefused(
            f"{top} is {branch}, but workers.{checkout.worker.id}.code.branch is {code.branch}.",
            remedy=f"Switch branches (git -C {top} switch {code.branch}), or fix the configuration.",
        )
    if state.unmerged:
        raise CodeRefused(
            f"{top} has unresolved conflicts: {list_names(state.unmerged, NAMED_FILES)}.",
            remedy=f"Resolve them, or discard uncommitted changes: git -C {top} reset --hard",
        )
    return state


def check_files_free(
    checkout: Checkout,
    state: CodeState,
    files: Sequence[FileChange],
    new: Sequence[FileChange],
    *,
    drops_changes: bool = False,
) -> None:
    """Raise `CodeRefused` if a file that the change touches was edited, or if untracked files are in the way of new
    ones. Edits of other files stay, so they're fine."""
    touched = touched_paths(files)
    if submodule_edits := [path for path in state.in_submodules if drops_changes or path in touched]:
        raise CodeRefused(
            f"{checkout.top} has uncommitted changes in a submodule: {list_names(submodule_edits, NAMED_FILES)}.",
            remedy="Commit or stash them there first. The supervisor can't back them up.",
        )
    edited = [path for path in state.changes if path in touched]
    if edited and not drops_changes:
        raise CodeRefused(
            f"{checkout.top} has uncommitted changes: {list_names(edited, NAMED_FILES)}.",
            remedy="Commit or stash them first.",
        )
    if blocking := checkout.git.blocking_files(new_paths(new)):
        raise CodeRefused(
            f"Untracked files in {checkout.top} would be overwritten: {list_names(blocking, NAMED_FILES)}.",
            remedy="Move them out of the way first.",
        )


def check_unmoved(checkout: Checkout, plan: CodePlan) -> None:
    """Raise `CodeRefused` if the checkout has changed since the plan, except in files that the plan leaves alone.

    Called after the workers have stopped, because a worker may write into its own folder as it exits.
    """
    state, files = check_changeable(checkout), (*plan.files, *plan.on_the_way)
    if state.head != plan.head.hash:
        raise CodeRefused(
            f"{checkout.top} got a new commit in the meantime. Nothing was changed.", remedy="Send the command again."
        )
    endangered = set(state.changes) - set(plan.changes)
    if not plan.drops_changes:
        endangered &= touched_paths(files)
    if endangered:
        names = list_names(sorted(endangered), NAMED_FILES)
        raise CodeRefused(
            f"Files in {checkout.top} changed while its workers stopped: {names}. The update or rollback wasn't "
            "started.",
            remedy="Check those files first. Uncommitted changes would be lost.",
        )
    check_files_free(checkout, state, files, files, drops_changes=plan.drops_changes)


def _find_change_to_undo(host: HostContext, checkout: Checkout, head: str, task_id: str | None) -> CodeChange:
    """The update or rollback with this id; without an id the newest change, unless that's an undo."""
    who = ", ".join(checkout.ids)
    change = next(_recorded_changes(host, checkout, task_id), None)
    if task_id is not None:
        if change is None:
            raise CodeRefused(f"{task_id} isn't a code change of {who}.", remedy="Find the command id with audit.")
        undo = f"{task_id} is itself an undo"
    else:
        if change is None:
            raise CodeRefused(f"Nothing to undo: no update or rollback of {who} is on record.")
        undo = f"The newest code change is itself an undo ({change.task_id})"
    if change.handler != "undo_code":
        return change
    worker_id = checkout.worker.id
    instead = f" To revert it: rollback {worker_id} 1."
    for earlier in _recorded_changes(host, checkout):
        if earlier.handler != "undo_code" and _has_nothing_on_top(checkout.git, earlier, head):
            instead += f" To undo {earlier.name} before it too: undo {worker_id} {earlier.task_id}."
            break
    raise CodeRefused(f"{undo}, which can't be undone.{instead}")


def _has_nothing_on_top(git: Git, change: CodeChange, head: str) -> bool:
    """True if the files are as this change left them, also if later changes cancel out."""
    return head == change.after or (bool(git.resolve(change.after)) and git.tree(head) == git.tree(change.after))


def _recorded_changes(host: HostContext, checkout: Checkout, task_id: str | None = None) -> Iterator[CodeChange]:
    """The code changes on record, newest first; with an id, only those of this command."""
    if host.ledger is None:
        raise CodeRefused("Earlier code changes aren't on record here.")
    from supervisor_core.jobs import rows as jobs  # late: a pass that has nothing to do must not pay for it

    def read(start: int) -> list[Job]:
        if task_id is None:
            query = partial(jobs.ended, worker_ids=checkout.ids, handlers=CODE_HANDLERS, most=JOBS_AT_ONCE, start=start)
            return host.ledger.read(query) if host.ledger else []
        of_task = host.ledger.read(partial(jobs.of_task, task_id=task_id)) if host.ledger and not start else []
        return [job for job in of_task if job.worker_id in checkout.ids and job.handler in CODE_HANDLERS]

    start = 0
    while page := read(start):
        for job in page:
            change = change_of(job)
            if change and change.before and change.after:
                yield change
        start += JOBS_AT_ONCE
