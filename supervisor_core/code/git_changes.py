"""Operations that change a checkout. Each has a time limit, is logged, and is undone if it fails halfway.

Reverts and merges are made in a temporary worktree; the checkout itself only moves from one commit to another.
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shlex
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path

from supervisor_core.code.change_plan import Commit, FileChange, list_names, new_paths, short, touched_paths
from supervisor_core.code.git import Git, GitError, git_message, safe_message, without_credentials
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import printable
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.host.programs import ProgramResult

OPERATION_SECONDS = 30.0
"""The time limit of one operation, such as a fetch. A longer one has no response, or waits for input."""

KEPT_REFS = "refs/supervisor/"
"""The prefix of the refs that keep the head before each change, by command id, so that nothing is lost."""

UNCOMMITTED = "-changes"
"""The suffix of the ref that keeps the same command's uncommitted changes."""

IN_WORKTREE = "-in-"
"""The separator before the name of a worktree, if a repository has several."""

TIDY_SECONDS = 30.0
"""The time limit for packing, which is retried another time."""

GC_AUTO = "6700"
"""Git's own default number of loose objects from which it packs."""

LONGEST_LOG = 2000  # characters of what git says
NAMED_FILES = 5

FETCH_PROBLEMS = (
    (("couldn't find remote ref",), "{remote} has no branch {branch}.", "Fix workers.ID.code.branch."),
    (
        ("terminal prompts disabled", "could not read Username", "could not read Password", "Authentication failed"),
        "{remote} asks for a username and password, and no one is there to enter them. Git says: {output}",
        "Set up a deploy key or a credential helper for this user.",
    ),
    (
        ("Permission denied", "Host key verification failed"),
        "{remote} denied access. Git says: {output}",
        "Set up an SSH key that the remote accepts for this user, and add the remote to known_hosts.",
    ),
    (("",), "{remote} can't be reached. Git says: {output}", "Check the network and the remote's URL."),
)
"""Parts of git's message, and what they mean."""

LOCKED = "cannot lock ref"
CONCURRENT = re.compile(rf"{LOCKED}[^\n]*(?:File exists|but expected|reference already exists)")
"""Git's message when another process changes the same ref: a preview may fetch during an update."""

LOCK_FILE = re.compile(r"Unable to create '([^'\n]+\.lock)': File exists")
LOCK_WAITS = (0.1, 0.3, 1.0, 2.0)
"""The seconds before each retry. A fetch locks a ref for some milliseconds."""

REFUSALS = ("would be overwritten", "not uptodate", "Cannot merge")
"""Git's message if it refuses a move because of an uncommitted change, before it writes anything."""

LISTED_IN_COMMAND = 50
"""The most files of a command that is printed for people."""

SUBMODULE = re.compile(r"submodule path '([^'\n]+)'")

TRIALS, CHANGES = "trials", "changes"
"""The folders of dry runs and of real changes, which don't wait for each other."""

MOST_PATHS = 500
"""The most paths of a sparse worktree. Git compares each file with each path, so with more, a full one is faster."""

SPARSE = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.sparseCheckout",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_KEY_1": "core.sparseCheckoutCone",
    "GIT_CONFIG_VALUE_1": "false",
}
"""Settings for our own calls. The configuration of the checkout isn't touched."""

LOCK_SECONDS = 60.0
"""The wait for another dry run. Only one runs in a state folder, and each takes as long as a checkout."""

log = logging.getLogger(__name__)


class WorktreeError(GitError):
    """There's no temporary worktree, which says nothing about the change."""


def keep_commit(git: Git, task_id: str, commit: str, suffix: str = "") -> str:
    """Keep a commit under the command's id, and return the ref's name. A ref that exists is left as it is."""
    name = _kept_ref(git, task_id, suffix)
    ran = _operate(git, "update-ref", name, commit, "")
    if not ran.ok and not git.resolve(name):
        raise GitError(f"`git update-ref` failed: {_reason(ran)}")
    return name


def kept_commit(git: Git, task_id: str) -> str:
    """The head before the command with this id changed it; empty if it changed nothing here."""
    return git.resolve(_kept_ref(git, task_id))


def keep_changes(git: Git, task_id: str) -> str:
    """Keep the uncommitted changes under the command's id. Returns the ref's name; empty without changes."""
    stash = _operate_or_raise(git, "stash", "create", f"Before {task_id}").output.strip()
    return keep_commit(git, task_id, stash, UNCOMMITTED) if stash else ""


def kept_changes(git: Git, task_id: str) -> str:
    """The ref with the uncommitted changes that the command with this id kept; empty without one."""
    name = _kept_ref(git, task_id, UNCOMMITTED)
    return name if git.resolve(name) else ""


def restore_changes(git: Git, name: str) -> None:
    _operate_or_raise(git, "stash", "apply", "--quiet", "--index", name)


def kept_refs(git: Git) -> list[str]:
    """The names of all refs that commands have kept in this repository."""
    ran = git.run("for-each-ref", "--format=%(refname)", KEPT_REFS)
    return ran.output.splitlines() if ran.ok else []


def task_ids_of_ref(name: str) -> list[str]:
    """The ids of the commands that may have kept this ref. An id may itself contain the separators."""
    parts = name.removeprefix(KEPT_REFS).removesuffix(UNCOMMITTED).split(IN_WORKTREE)
    return [IN_WORKTREE.join(parts[:count]) for count in range(1, len(parts) + 1)] + [name.removeprefix(KEPT_REFS)]


def delete_kept_ref(git: Git, name: str) -> bool:
    """Delete a ref that a command kept. Returns whether that worked."""
    return name.startswith(KEPT_REFS) and git.run("update-ref", "-d", name).ok


def _kept_ref(git: Git, task_id: str, suffix: str = "") -> str:
    """The name of a ref. All worktrees of a repository share its refs, and one command may change several worktrees."""
    own, _, _ = git.folders()
    worktree = f"{IN_WORKTREE}{own.name}" if own.parent.name == "worktrees" else ""
    return f"{KEPT_REFS}{task_id}{worktree}{suffix}"


def fetch(git: Git, remote: str, branch: str) -> str:
    """Fetch the remote's branch. Returns the hash of its newest commit."""
    remotes = git.ask("remote").split()
    if remote not in remotes:
        others = f"only {', '.join(remotes)}" if remotes else "none at all"
        raise GitError(f"{git.folder} has no remote {remote}, {others}.", remedy="Fix workers.ID.code.remote.")
    ref = f"refs/remotes/{remote}/{branch}"
    options = ("--no-recurse-submodules", "--no-write-fetch-head", "--", remote, f"+refs/heads/{branch}:{ref}")
    git_with_ssh = _with_own_ssh(git)
    deadline = time.monotonic() + git.seconds_left(OPERATION_SECONDS)
    ran = _operate(git_with_ssh, "fetch", *options)
    for wait in LOCK_WAITS:  # while another git changes the same ref
        left = deadline - time.monotonic() - wait
        if ran.ok or left <= 0 or not CONCURRENT.search(ran.errors):
            break
        time.sleep(wait)
        ran = _operate(git_with_ssh, "fetch", *options, seconds=left)
    if not ran.ok:
        raise _fetch_error(git, ran, remote, branch)
    return git.resolve(ref)


def _fetch_error(git: Git, ran: ProgramResult, remote: str, branch: str) -> GitError:
    output = git_message(ran)
    if ran.timed_out:
        address = safe_message(git.unhurried().run("remote", "get-url", remote).output)
        return GitError(
            f"The remote {remote} ({address}) didn't answer within {ran.seconds:.2g} s.",
            remedy="Check the network and the remote's server, then try again.",
        )
    if LOCKED in ran.errors:  # the remote answered, but the result can't be stored
        if lock := LOCK_FILE.search(ran.errors):
            return GitError(
                f"Another git process is updating {remote}/{branch} in {git.folder}, or was killed: "
                f"{safe_message(lock[1])} exists.",
                remedy="If no git process is running there, delete that file.",
            )
        return GitError(
            f"{remote}/{branch} can't be updated in {git.folder}. Git says: {output}",
            remedy="Check the owner and permissions of refs/remotes in its git folder.",
        )
    _, problem, remedy = next(row for row in FETCH_PROBLEMS if any(part in output for part in row[0]))
    return GitError(problem.format(remote=remote, branch=branch, output=output), remedy=remedy)


def move_forward(git: Git, head: str, commit: str, *, drops_changes: bool = False) -> None:
    """Fast-forward from the head to a commit. If that isn't possible, the checkout is as before.

    Uncommitted changes of other files stay, staged or not. With one of a file that differs, git refuses. With
    `drops_changes`, the branch is reset to any commit, and all uncommitted changes are dropped: keep them first.
    """
    files = git.changed_files(head, commit)
    present = frozenset(git.blocking_files(new_paths(files)))
    if drops_changes:
        ran = _operate(git, "reset", "--quiet", "--hard", commit)
    else:
        ran = _operate(git, "merge", "--quiet", "--ff-only", "--no-squash", "--no-edit", commit)
    if not ran.ok:
        _restore_files(git, head, files, present, ran)
        if drops_changes:
            _operate(git, "reset", "--quiet", "--hard", head)  # so that the kept changes can be restored
        move = "Resetting" if drops_changes else "Fast-forwarding"
        raise GitError(f"{move} to {short(commit)} failed: {_reason(ran)}")
    updated = _update_submodules(git, None if drops_changes else files)
    if updated is not None and not updated.ok:
        move_back(git, commit, head)
        names = sorted(set(SUBMODULE.findall(without_credentials(updated.errors))))
        which = f"The submodule {list_names(names, NAMED_FILES)}" if names else "A submodule"
        raise GitError(f"{which} couldn't be updated: {_reason(updated)}", remedy="Check the submodule's remote.")


def move_back(git: Git, commit: str, before: str) -> None:
    """Restore the files and the branch from a commit to the one before. Uncommitted changes stay.

    One that was made meanwhile in a file to restore is an error: the code then stays at `commit`.
    """
    files = git.changed_files(commit, before)
    present = frozenset(git.blocking_files(new_paths(files)))
    _operate(git, "update-index", "-q", "--refresh")
    ran = _operate(git, "read-tree", "-m", "-u", commit, before)
    if not ran.ok:
        _restore_files(git, commit, files, present, ran)
        raise GitError(
            f"{git.folder} stays at {short(commit)}: {_reason(ran)}",
            remedy=f"Save uncommitted changes, then run: git -C {shlex.quote(str(git.folder))} reset --keep {before}",
        )
    _operate_or_raise(git, "update-ref", "HEAD", before, commit)
    _update_submodules(git, files)  # these commits are here already; if they can't be had, the status says so


def _restore_files(
    git: Git, before: str, files: Sequence[FileChange], present: Collection[str], ran: ProgramResult
) -> None:
    """Restore exactly these files to the commit that is still the head, after git failed partway.

    All others stay as they are, with their edits. `present` are files that were in the places of new ones. If git
    refused before it wrote anything, nothing is done. If the restoring fails, a `GitError` says how to do it.
    """
    if any(message in ran.errors for message in REFUSALS):
        return

    def edited() -> bool:
        return bool(set(git.state(OPERATION_SECONDS).changes) & touched_paths(files))

    left = [path for path in git.blocking_files(new_paths(files)) if path not in present]
    if not left and git.resolve("HEAD") == before and not edited():
        return
    for path in left:  # first: where a folder was made in place of a file, the file comes back
        try:
            (git.folder / path).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s is left from a failed attempt and can't be removed: %s", git.folder / path, error)
    old = sorted({change.was or change.path for change in files if change.kind not in "AC" and not change.submodule})
    problem = ""
    if old:
        literal = git.at(git.folder, GIT_LITERAL_PATHSPECS="1")
        from_input = ("--pathspec-from-file=-", "--pathspec-file-nul")
        restored = _operate(literal, "checkout", "--quiet", before, *from_input, given=_zero_terminated(old))
        problem = "" if restored.ok else _reason(restored)
    new = [*new_paths(files), *(change.path for change in files if change.kind == "A" and change.submodule)]
    if new:
        _operate(git, "update-index", "--force-remove", "-z", "--stdin", given=_zero_terminated(new))
    if git.resolve("HEAD") != before:
        _operate(git, "update-ref", "HEAD", before)
    _update_submodules(git, files)
    if problem or edited():
        raise GitError(
            f"{git.folder} is in an unknown state: restoring {short(before)} failed: "
            f"{problem or 'some files still differ.'}",
            remedy=f"Once the cause is fixed, run: {restore_command(git, before, files)}",
        )


def restore_command(git: Git, commit: str, files: Sequence[FileChange]) -> str:
    """The shell command that restores these files to the commit before their change, and no others."""
    at = f"git -C {shlex.quote(str(git.folder))}"
    new = new_paths(files)
    old = sorted({change.was or change.path for change in files if change.kind not in "AC"})
    if len(new) + len(old) > LISTED_IN_COMMAND:
        return f"{at} stash && {at} reset --keep {commit}"
    parts = [f"rm -f -- {' '.join(shlex.quote(str(git.folder / path)) for path in new)}"] if new else []
    parts += [f"{at} rm --quiet --cached --ignore-unmatch -- {' '.join(map(shlex.quote, new))}"] if new else []
    parts += [f"{at} checkout --quiet {commit} -- {' '.join(map(shlex.quote, old))}"] if old else []
    return " && ".join(parts)


def _zero_terminated(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _update_submodules(git: Git, files: Sequence[FileChange] | None) -> ProgramResult | None:
    """Move the submodules among these files, or all that are initialized, to the commits that the checkout names.

    None if there are none. It isn't forced: a file that a submodule doesn't know must not be overwritten.
    """
    paths = None if files is None else sorted(change.path for change in files if change.submodule)
    if paths == [] or not (git.folder / ".gitmodules").exists():
        return None
    if not git.run("config", "--get-regexp", r"^submodule\..*\.(url|active)$").output.strip():
        return None  # none is initialized here
    options = ("--quiet", "update", "--init", "--recursive", "--checkout", *(["--", *paths] if paths else []))
    return _operate(_with_own_ssh(git), "submodule", *options)


def merge(git: Git, commit: str, message: str) -> None:
    """Merge a commit in a temporary worktree. A failed merge is left as it is."""
    options = ("--no-ff", "--no-squash", "--commit", "--no-edit", "--no-verify")  # whatever branch.NAME.mergeOptions is
    ran = _operate(git, "merge", "--quiet", *options, "-m", message, commit)
    if not ran.ok:
        conflict = f"The new commits (up to {short(commit)}) conflict with local commits"
        raise _conflict_error(git, conflict, f"Merging {short(commit)}", ran)


def revert(git: Git, commit: Commit, message: str = "") -> None:
    """Revert a commit in a temporary worktree. A failed revert is left as it is. Without a message, git's is kept."""
    parent = ["-m", "1"] if commit.is_merge else []
    ran = _operate(git, "revert", "--no-edit", *parent, commit.hash)
    if not ran.ok:
        raise _conflict_error(git, f"Reverting {commit} conflicts with later commits", f"Reverting {commit}", ran)
    if message:  # the commit is complete without it; it's for people and for the undo
        options = ("--amend", "--only", "--no-verify", "--allow-empty")
        amended = _operate(git, "commit", "--quiet", *options, "-m", message)
        if not amended.ok:
            log.warning("the revert of %s keeps git's default message: %s", commit.hash, git_message(amended))


def _conflict_error(git: Git, conflict: str, operation: str, ran: ProgramResult) -> GitError:
    unmerged = git.run("diff", "--name-only", "--diff-filter=U", "-z")
    if unmerged.ok and (files := [path for path in unmerged.output.split("\0") if path]):
        return GitError(f"{conflict} in {list_names(files, NAMED_FILES)}.")
    return GitError(f"{operation} failed: {_reason(ran)}")


def commit_tree(git: Git, tree: str, message: str) -> str:
    """Create a commit on top of the head with exactly these files. Returns its hash. The checkout isn't touched."""
    return _operate_or_raise(git, "commit-tree", tree, "-p", "HEAD", "-m", message).output.strip()


def push(git: Git, remote: str, branch: str) -> None:
    """Push new commits to the remote, never by force."""
    options = ("--no-verify", "--porcelain", "--", remote, f"HEAD:refs/heads/{branch}")
    ran = _operate(_with_own_ssh(git), "push", *options)
    if not ran.ok:
        refusals = [safe_message(line.split("\t")[-1]) for line in ran.output.split("\n") if line.startswith("!")]
        raise GitError(
            f"Pushing to {remote} failed: {' '.join([*refusals, _reason(ran)])}",
            remedy=f"The commits stay on this host. To push them by hand, run git push in {git.folder}.",
        )


def tidy(git: Git) -> None:
    """Let git pack its objects if there are many, and wait: otherwise a checkout gets slower over the years.

    Refs protect everything that commands kept. A configured `gc.auto` counts, also 0. A failure is only logged.
    """
    try:
        configured = git.run("config", "--get-all", "gc.auto").output.split()[:-1]  # the last one is our own
        limit = configured[-1] if configured else GC_AUTO
        settings = ("-c", f"gc.auto={limit}", "-c", "gc.autoDetach=false")
        ran = git.run(*settings, "gc", "--auto", "--quiet", timeout=TIDY_SECONDS)
    except SupervisorError as error:
        log.warning("git gc in %s failed: %s", git.folder, error)
        return
    if not ran.ok:
        reason = f"timed out after {TIDY_SECONDS:g} s" if ran.timed_out else git_message(ran)
        log.warning("git gc in %s failed: %s", git.folder, reason)


@contextlib.contextmanager
def temporary_worktree(
    git: Git, state_dir: Path, commit: str, paths: Collection[str], purpose: str = TRIALS
) -> Iterator[Git]:
    """A temporary worktree with these files of a commit, removed afterwards. The checkout itself isn't touched.

    It shares the checkout's objects and configuration, so filters and merge drivers are the same. Git knows the other
    files but doesn't write them, which would take most of the time in a large checkout. LFS files aren't fetched, and
    submodules are left out.
    """
    folder = state_dir / purpose
    folder.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    patient = git.unhurried()  # whatever the deadline, nothing is left behind
    try:
        lock = _worktree_lock(folder).acquire(timeout=git.seconds_left(LOCK_SECONDS))
    except LockedError as error:
        raise WorktreeError(f"Another command uses the temporary worktree: {error}") from None
    with lock:
        _remove_worktrees(patient, folder)
        top = folder / uuid.uuid4().hex
        worktree = git.at(top, GIT_LFS_SKIP_SMUDGE="1")
        worktree.is_trial = purpose == TRIALS
        try:
            options = ("--quiet", "--detach", "--no-checkout", str(top), commit)
            _made(git.run("worktree", "add", *options, timeout=OPERATION_SECONDS))
            if len(paths) <= MOST_PATHS and not any("\n" in path for path in paths):
                pointer = (top / ".git").read_text(encoding="utf-8", errors="surrogateescape")
                patterns = Path(pointer.removeprefix("gitdir: ").strip()) / "info" / "sparse-checkout"
                patterns.parent.mkdir(exist_ok=True)
                escaped = ("".join(f"\\{char}" if char in "\\*?[]!# " else char for char in path) for path in paths)
                lines = [".gitattributes\n", *(f"/{path}\n" for path in escaped)]  # filters and merge drivers
                patterns.write_text("".join(lines), encoding="utf-8", errors="surrogateescape")
                worktree = worktree.at(top, **SPARSE)
            _made(worktree.run("read-tree", "-m", "-u", "HEAD", timeout=OPERATION_SECONDS))
            yield worktree
        finally:
            _remove_worktrees(patient, folder)


def remove_stale_worktrees(git: Git, state_dir: Path) -> None:
    """Remove what killed programs left here, unless a dry run or a change is in progress."""
    for folder in (state_dir / TRIALS, state_dir / CHANGES):
        if folder.is_dir():
            with contextlib.suppress(LockedError), _worktree_lock(folder).acquire():
                _remove_worktrees(git, folder)


def _worktree_lock(folder: Path) -> FileLock:
    return FileLock(folder / "lock", "a dry run or a code change")


def _made(ran: ProgramResult) -> None:
    if not ran.ok:
        raise WorktreeError(f"A temporary worktree couldn't be made: {_reason(ran)}")


def _remove_worktrees(git: Git, folder: Path) -> None:
    """Remove our worktrees: the current one, and those of programs that were killed. No others are touched."""
    if not any(entry.is_dir() for entry in folder.iterdir()):
        return
    for line in git.run("worktree", "list", "--porcelain").output.splitlines():
        path = line.removeprefix("worktree ")
        if path != line and Path(path).parent == folder.resolve():
            git.run("worktree", "remove", "--force", "--force", path, timeout=OPERATION_SECONDS)
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
            if entry.exists():
                log.warning("%s couldn't be removed; it's no longer needed", entry)


def _with_own_ssh(git: Git) -> Git:
    """The git with the configured SSH command, such as one with a deploy key, in place of ours."""
    own = git.run("config", "--get", "core.sshCommand").output.strip()
    return git.at(git.folder, GIT_SSH_COMMAND=own) if own else git


def _reason(ran: ProgramResult) -> str:
    return f"timed out after {OPERATION_SECONDS:g} s." if ran.timed_out else git_message(ran)


def _operate_or_raise(git: Git, *arguments: str) -> ProgramResult:
    ran = _operate(git, *arguments)
    if not ran.ok:
        raise GitError(f"`git {arguments[0]}` failed: {_reason(ran)}")
    return ran


def _operate(git: Git, *arguments: str, seconds: float | None = None, given: bytes = b"") -> ProgramResult:
    """Run an operation. All changes go through here."""
    crashpoints.reach(f"git.{arguments[0]}:before")
    ran = git.run(*arguments, timeout=OPERATION_SECONDS if seconds is None else seconds, given=given)
    output = printable(without_credentials(f"{ran.output}{ran.errors}".strip())[-LONGEST_LOG:])
    level = logging.DEBUG if git.is_trial else logging.INFO if ran.ok else logging.WARNING
    end = "timed out" if ran.timed_out else f"exited with {ran.exit_code}"
    output = f": {output}" if output else ""
    log.log(level, "git %s in %s %s after %.2f s%s", arguments[0], git.folder, end, ran.seconds, output)
    crashpoints.reach(f"git.{arguments[0]}:after")
    return ran
