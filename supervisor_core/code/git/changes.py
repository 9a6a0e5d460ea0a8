"""Operations that change a checkout. Each has a time limit, is logged, and is undone if it fails halfway."""

from __future__ import annotations

import logging
import os
import re
import shlex
import time
from collections.abc import Collection, Iterable, Sequence

from supervisor_core.code.change_plan import Commit, FileChange, list_names, new_paths, short, touched_paths
from supervisor_core.code.git.history import (
    files_between,
    find_blocking_files,
    has_submodules,
    remotes,
    resolve_commit,
)
from supervisor_core.code.git.runner import Git, GitError, git_message, safe_message, without_credentials
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import printable
from supervisor_core.host.programs import ProgramResult

OPERATION_SECONDS = 30.0
"""The time limit of one operation, such as a fetch. A longer one has no response, or waits for input."""

KEPT_REFS = "refs/supervisor/"
"""The prefix of the refs that keep the head before each change, by command id, so that nothing is lost."""

CHANGES = "-changes"
"""The suffix of the ref that keeps the same command's uncommitted changes."""

IN_WORKTREE = "-in-"
"""The separator before the name of a worktree, if a repository has several."""

TIDY_SECONDS = 30.0
"""The time limit for packing, which is retried another time."""

GC_AUTO = "6700"
"""Git's own default number of loose objects from which it packs."""

LONGEST_LOG = 2000  # characters of what git says
NAMED_FILES = 5

ASKING = ("terminal prompts disabled", "could not read Username", "could not read Password", "Authentication failed")
STRANGER = ("Permission denied", "Host key verification failed")

LOCKED = "cannot lock ref"
AT_ONCE = re.compile(rf"{LOCKED}[^\n]*(?:File exists|but expected|reference already exists)")
"""Git's message when another process changes the same ref: a preview may fetch during an update."""

LOCK_FILE = re.compile(r"Unable to create '([^'\n]+\.lock)': File exists")
LOCK_WAITS = (0.1, 0.3, 1.0, 2.0)
"""The seconds before each retry. A fetch locks a ref for some milliseconds."""

REFUSALS = ("would be overwritten", "not uptodate", "Cannot merge")
"""Git's words if it refuses a move because of an uncommitted change, before it writes anything."""

_FROM_INPUT = ("--pathspec-from-file=-", "--pathspec-file-nul")
LISTED_IN_COMMAND = 50
"""The most files of a command that is printed for people."""

SUBMODULE = re.compile(r"submodule path '([^'\n]+)'")
"""Git's mention of a submodule, among the words of its remote."""

log = logging.getLogger(__name__)


class ConflictError(GitError):
    """Two changes of the same lines conflict."""


def keep_commit(git: Git, task_id: str, commit: str, *, what: str = "") -> str:
    """Keep a commit under the command's id, and return the ref's name. A ref that exists is left as it is."""
    name = _kept_as(git, task_id, what)
    ran = _operation(git, "update-ref", name, commit, "")
    if not ran.ok and not resolve_commit(git, name):
        raise GitError(f"`git update-ref` failed: {_why(ran)}")
    return name


def kept_commit(git: Git, task_id: str) -> str:
    """The head before the command with this id changed it; empty if it changed nothing here."""
    return resolve_commit(git, _kept_as(git, task_id))


def keep_changes(git: Git, task_id: str) -> str:
    """Keep the uncommitted changes under the command's id. Returns the ref's name; empty without changes."""
    made = _must(git, "stash", "create", f"Before {task_id}").output.strip()
    return keep_commit(git, task_id, made, what=CHANGES) if made else ""


def kept_changes(git: Git, task_id: str) -> str:
    """The ref with the uncommitted changes that the command with this id kept; empty without one."""
    name = _kept_as(git, task_id, CHANGES)
    return name if resolve_commit(git, name) else ""


def restore_changes(git: Git, name: str) -> None:
    _must(git, "stash", "apply", "--quiet", "--index", name)


def kept_refs(git: Git) -> list[str]:
    """The names of all refs that commands have kept in this repository."""
    ran = git.run("for-each-ref", "--format=%(refname)", KEPT_REFS)
    return ran.output.splitlines() if ran.ok else []


def task_ids_of_ref(name: str) -> list[str]:
    """The ids of the commands that may have kept this ref. An id may itself contain the separators."""
    rest = name.removeprefix(KEPT_REFS).removesuffix(CHANGES)
    parts = rest.split(IN_WORKTREE)
    return [IN_WORKTREE.join(parts[:count]) for count in range(1, len(parts) + 1)] + [name.removeprefix(KEPT_REFS)]


def delete_kept_ref(git: Git, name: str) -> bool:
    """Delete a ref that a command kept. Returns whether that worked."""
    return name.startswith(KEPT_REFS) and git.run("update-ref", "-d", name).ok


def _kept_as(git: Git, task_id: str, what: str = "") -> str:
    """The name of a ref. All worktrees of a repository share its refs, and one command may change several worktrees."""
    place = git.places().own
    where = f"{IN_WORKTREE}{place.name}" if place.parent.name == "worktrees" else ""
    return f"{KEPT_REFS}{task_id}{where}{what}"


def fetch(git: Git, remote: str, branch: str) -> str:
    """Fetch the remote's branch. Returns the hash of its newest commit."""
    known = remotes(git)
    if remote not in known:
        there = f"only {', '.join(known)}" if known else "none at all"
        raise GitError(f"{git.folder} has no remote {remote}, {there}.", remedy="Fix workers.ID.code.remote.")
    place = f"refs/remotes/{remote}/{branch}"
    words = ["fetch", "--no-recurse-submodules", "--no-write-fetch-head", "--", remote, f"+refs/heads/{branch}:{place}"]
    git_with_ssh = _with_own_ssh(git)
    deadline = time.monotonic() + git.seconds_left(OPERATION_SECONDS)
    ran = _operation(git_with_ssh, *words)
    for wait in LOCK_WAITS:  # while another git changes the same ref
        left = deadline - time.monotonic() - wait
        if ran.ok or left <= 0 or not AT_ONCE.search(ran.errors):
            break
        time.sleep(wait)
        ran = _operation(git_with_ssh, *words, seconds=left)
    if not ran.ok:
        raise _fetch_failed(git, ran, remote, branch)
    return resolve_commit(git, place)


def fast_forward(git: Git, head: str, commit: str) -> None:
    """Fast-forward from the head to a commit. If that isn't possible, the checkout is as before.

    Uncommitted changes of other files stay, staged or not. With one of a file that differs, git refuses.
    """
    files, in_place = _files_to_restore(git, head, commit)
    ran = _operation(git, "merge", "--quiet", "--ff-only", "--no-squash", "--no-edit", commit)
    if not ran.ok:
        _restore_files(git, head, files, in_place, ran)
        raise GitError(f"Fast-forwarding to {short(commit)} failed: {_why(ran)}")
    submodules = _submodules(git, files)
    if submodules is not None and not submodules.ok:
        move_back(git, commit, head)
        raise _submodule_failed(submodules)


def move_back(git: Git, commit: str, before: str) -> None:
    """Restore the files and the branch from a commit to the one before. Uncommitted changes stay.

    One that was made meanwhile in a file to restore is an error: the code then stays at `commit`.
    """
    files, in_place = _files_to_restore(git, commit, before)
    _operation(git, "update-index", "-q", "--refresh")
    ran = _operation(git, "read-tree", "-m", "-u", commit, before)
    if not ran.ok:
        _restore_files(git, commit, files, in_place, ran)
        raise GitError(
            f"{git.folder} stays at {short(commit)}: {_why(ran)}",
            remedy=f"Save uncommitted changes, then run: git -C {shlex.quote(str(git.folder))} reset --keep {before}",
        )
    _must(git, "update-ref", "HEAD", before, commit)
    _submodules(git, files)  # those of before are here already; where they can't be had, the status says so


def try_merge(git: Git, commit: str, message: str) -> None:
    """Merge a commit. A failed merge is left as it is, for the caller or in a temporary worktree."""
    how = ("--no-ff", "--no-squash", "--commit", "--no-edit", "--no-verify")  # whatever branch.NAME.mergeOptions says
    ran = _operation(git, "merge", "--quiet", *how, "-m", message, commit)
    if not ran.ok:
        conflict = f"The new commits (up to {short(commit)}) conflict with local commits"
        raise _failed(git, conflict, f"Merging {short(commit)}", ran)


def reset(git: Git, head: str, commit: str) -> None:
    """Reset the branch and all files from the head to a commit, and drop all uncommitted changes: keep them first."""
    files, in_place = _files_to_restore(git, head, commit)
    ran = _operation(git, "reset", "--quiet", "--hard", commit)
    if not ran.ok:
        _restore_files(git, head, files, in_place, ran)
        _operation(git, "reset", "--quiet", "--hard", head)  # so that what the caller has kept can be restored
        raise GitError(f"Resetting to {short(commit)} failed: {_why(ran)}")
    submodules = _submodules(git)
    if submodules is not None and not submodules.ok:
        move_back(git, commit, head)
        raise _submodule_failed(submodules)


def revert(git: Git, commit: Commit, message: str) -> str:
    """Revert a commit on top of the head of a temporary worktree. Returns the new commit."""
    try_revert(git, commit)
    # The commit is complete without this message, which is for people and for the undo.
    worded = _operation(git, "commit", "--quiet", "--amend", "--only", "--no-verify", "--allow-empty", "-m", message)
    if not worded.ok:
        log.warning("the revert of %s keeps git's default message: %s", commit.hash, git_message(worded))
    return resolve_commit(git, "HEAD")


def try_revert(git: Git, commit: Commit) -> None:
    """Revert a commit. A failed revert is left as it is, for the caller or in a temporary worktree."""
    towards = ["-m", "1"] if commit.is_merge else []
    ran = _operation(git, "revert", "--no-edit", *towards, commit.hash)
    if not ran.ok:
        raise _failed(git, f"Reverting {commit} conflicts with later commits", f"Reverting {commit}", ran)


def commit_tree(git: Git, tree: str, message: str) -> str:
    """Create a commit on top of the head with exactly these files. Returns its hash. The checkout isn't touched."""
    return _must(git, "commit-tree", tree, "-p", "HEAD", "-m", message).output.strip()


def push(git: Git, remote: str, branch: str) -> None:
    """Push new commits to the remote, never by force."""
    words = ["push", "--no-verify", "--porcelain", "--", remote, f"HEAD:refs/heads/{branch}"]
    ran = _operation(_with_own_ssh(git), *words)
    if not ran.ok:
        said = [line.split("\t")[-1] for line in ran.output.split("\n") if line.startswith("!")]
        why = f"Pushing to {remote} failed: {' '.join([*map(safe_message, said), _why(ran)])}"
        raise GitError(
            why, remedy=f"The commits stay on this host. To push them by hand, run git push in {git.folder}."
        )


def tidy(git: Git) -> None:
    """Let git pack its objects if there are many, and wait: otherwise a checkout gets slower over the years.

    Refs protect everything that commands kept. A configured `gc.auto` counts, also 0. A failure is only logged.
    """
    try:
        configured = git.run("config", "--get-all", "gc.auto").output.split()[:-1]  # the last one is our own
        wanted = configured[-1] if configured else GC_AUTO
        settings = ("-c", f"gc.auto={wanted}", "-c", "gc.autoDetach=false")
        ran = git.run(*settings, "gc", "--auto", "--quiet", timeout=TIDY_SECONDS)
    except SupervisorError as error:
        log.warning("git gc in %s failed: %s", git.folder, error)
        return
    if not ran.ok:
        why = f"timed out after {TIDY_SECONDS:g} s" if ran.timed_out else git_message(ran)
        log.warning("git gc in %s failed: %s", git.folder, why)


def _files_to_restore(git: Git, before: str, after: str) -> tuple[list[FileChange], frozenset[str]]:
    """The files that a move changes, and the untracked ones in the places of new files."""
    files = files_between(git, before, after)
    return files, frozenset(find_blocking_files(git, new_paths(files)))


def _restore_files(
    git: Git, before: str, files: Sequence[FileChange], in_place: Collection[str], ran: ProgramResult
) -> None:
    """Restore exactly these files to the commit that is still the head, after git failed partway.

    All others stay as they are, with their edits. `in_place` are files that lay in the places of new ones. If git
    refused before it wrote anything, nothing is done. If the restoring fails, a `GitError` says how to do it.
    """
    if any(words in ran.errors for words in REFUSALS):
        return
    left = [path for path in find_blocking_files(git, new_paths(files)) if path not in in_place]
    if not left and resolve_commit(git, "HEAD") == before and not _edited(git, files):
        return
    for path in left:  # first: where a folder was made in place of a file, the file comes back
        try:
            (git.folder / path).unlink(missing_ok=True)
        except OSError as error:
            log.warning("%s is left from a failed attempt and can't be removed: %s", git.folder / path, error)
    literal = git.at(git.folder, GIT_LITERAL_PATHSPECS="1")
    old = sorted({change.was or change.path for change in files if change.kind not in "AC" and not change.submodule})
    restored = (
        _operation(literal, "checkout", "--quiet", before, *_FROM_INPUT, given=_zero_terminated(old)) if old else None
    )
    gone = [*new_paths(files), *(change.path for change in files if change.kind == "A" and change.submodule)]
    if gone:
        _operation(git, "update-index", "--force-remove", "-z", "--stdin", given=_zero_terminated(gone))
    if resolve_commit(git, "HEAD") != before:
        _operation(git, "update-ref", "HEAD", before)
    _submodules(git, files)
    if (restored is not None and not restored.ok) or _edited(git, files):
        why = _why(restored) if restored is not None and not restored.ok else "some files still differ."
        raise GitError(
            f"{git.folder} is in an unknown state: restoring {short(before)} failed: {why}",
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


def _edited(git: Git, files: Sequence[FileChange]) -> set[str]:
    """Those of these files that differ from the head."""
    return set(git.state(OPERATION_SECONDS).changes) & touched_paths(files)


def _zero_terminated(paths: Iterable[str]) -> bytes:
    return b"".join(os.fsencode(path) + b"\0" for path in paths)


def _submodules(git: Git, files: Sequence[FileChange] | None = None) -> ProgramResult | None:
    """Move the submodules among these files, or all that are initialized, to the commits that the checkout names.

    None if there are none. It isn't forced: a file that a submodule doesn't know must not be overwritten.
    """
    paths = None if files is None else sorted(change.path for change in files if change.submodule)
    if paths == [] or not has_submodules(git):
        return None
    words = ["submodule", "--quiet", "update", "--init", "--recursive", "--checkout"]
    return _operation(_with_own_ssh(git), *words, *(["--", *paths] if paths else []))


def _submodule_failed(ran: ProgramResult) -> GitError:
    which = sorted(set(SUBMODULE.findall(without_credentials(ran.errors))))
    who = f"The submodule {list_names(which, NAMED_FILES)}" if which else "A submodule"
    return GitError(f"{who} couldn't be updated: {_why(ran)}", remedy="Check the submodule's remote.")


def _failed(git: Git, conflict: str, what: str, ran: ProgramResult) -> GitError:
    unmerged = git.run("diff", "--name-only", "--diff-filter=U", "-z")
    if unmerged.ok and (files := [path for path in unmerged.output.split("\0") if path]):
        return ConflictError(f"{conflict} in {list_names(files, NAMED_FILES)}.")
    return GitError(f"{what} failed: {_why(ran)}")


def _fetch_failed(git: Git, ran: ProgramResult, remote: str, branch: str) -> GitError:
    output = git_message(ran)
    if ran.timed_out:
        address = safe_message(git.unhurried().run("remote", "get-url", remote).output)
        return GitError(
            f"The remote {remote} ({address}) didn't answer within {ran.seconds:.2g} s.",
            remedy="Check the network and the remote's server, then try again.",
        )
    if LOCKED in ran.errors:  # the remote answered, but the result can't be stored
        if there := LOCK_FILE.search(ran.errors):
            return GitError(
                f"Another git process is updating {remote}/{branch} in {git.folder}, or was killed: "
                f"{safe_message(there[1])} exists.",
                remedy="If no git process is running there, delete that file.",
            )
        return GitError(
            f"{remote}/{branch} can't be updated in {git.folder}. Git says: {output}",
            remedy="Check the owner and permissions of refs/remotes in its git folder.",
        )
    if "couldn't find remote ref" in output:
        return GitError(f"{remote} has no branch {branch}.", remedy="Fix workers.ID.code.branch.")
    if any(words in output for words in ASKING):
        return GitError(
            f"{remote} asks for a username and password, and no one is there to enter them. Git says: {output}",
            remedy="Set up a deploy key or a credential helper for this user.",
        )
    if any(words in output for words in STRANGER):
        return GitError(
            f"{remote} denied access. Git says: {output}",
            remedy="Set up an SSH key that the remote accepts for this user, and add the remote to known_hosts.",
        )
    return GitError(f"{remote} can't be reached. Git says: {output}", remedy="Check the network and the remote's URL.")


def _with_own_ssh(git: Git) -> Git:
    """The git with the configured SSH command, such as one with a deploy key, in place of ours."""
    own = git.run("config", "--get", "core.sshCommand").output.strip()
    return git.at(git.folder, GIT_SSH_COMMAND=own) if own else git


def _must(git: Git, *words: str) -> ProgramResult:
    ran = _operation(git, *words)
    if not ran.ok:
        raise GitError(f"`git {words[0]}` failed: {_why(ran)}")
    return ran


def _why(ran: ProgramResult) -> str:
    if ran.timed_out:
        return f"timed out after {OPERATION_SECONDS:g} s."
    return git_message(ran)


def _operation(git: Git, *words: str, seconds: float | None = None, given: bytes = b"") -> ProgramResult:
    """Run an operation. All changes go through here."""
    crashpoints.reach(f"git.{words[0]}:before")
    ran = git.run(*words, timeout=OPERATION_SECONDS if seconds is None else seconds, given=given)
    said = printable(without_credentials(f"{ran.output}{ran.errors}".strip())[-LONGEST_LOG:])
    level = logging.DEBUG if git.is_trial else logging.INFO if ran.ok else logging.WARNING
    how = "timed out" if ran.timed_out else f"exited with {ran.exit_code}"
    log.log(
        level, "git %s in %s %s after %.2f s%s", words[0], git.folder, how, ran.seconds, f": {said}" if said else ""
    )
    crashpoints.reach(f"git.{words[0]}:after")
    return ran
