"""A temporary worktree, in which reverts and merges are tried, and then made before the checkout moves to them."""

from __future__ import annotations

import contextlib
import logging
import shutil
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path

from supervisor_core.code.git.changes import OPERATION_SECONDS
from supervisor_core.code.git.runner import Git, GitError, git_message
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.locks import FileLock, LockedError
from supervisor_core.host.programs import ProgramResult

TRIALS, CHANGES = "trials", "changes"
"""The folders of dry runs and of real changes, which don't wait for each other."""

PURPOSE = "a dry run or a code change"
MOST_PATHS = 500
"""The most paths of a sparse worktree. Git compares each file with each path, so with more, a full one is faster."""

ALWAYS = (".gitattributes",)  # in every folder: which filters and merge drivers there are
SPARSE = {
    "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "core.sparseCheckout",
    "GIT_CONFIG_VALUE_0": "true",
    "GIT_CONFIG_KEY_1": "core.sparseCheckoutCone",
    "GIT_CONFIG_VALUE_1": "false",
}
"""Settings for our own calls. The configuration of the checkout isn't touched."""

SECONDS = OPERATION_SECONDS  # for each of its steps
LOCK_SECONDS = 60.0
"""The wait for another dry run. Only one runs in a state folder, and each takes as long as a checkout."""

log = logging.getLogger(__name__)


class TrialError(GitError):
    """There's no temporary worktree, which says nothing about the change."""


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
    with _alone(folder, git.seconds_left(LOCK_SECONDS)):
        _clear(patient, folder)
        place = folder / uuid.uuid4().hex
        there = git.at(place, GIT_LFS_SKIP_SMUDGE="1")
        try:
            _must(
                git.run("worktree", "add", "--quiet", "--detach", "--no-checkout", str(place), commit, timeout=SECONDS)
            )
            if len(paths) <= MOST_PATHS and not any("\n" in path for path in paths):
                own = Path(
                    (place / ".git").read_text(encoding="utf-8", errors="surrogateescape")[len("gitdir: ") :].strip()
                )
                patterns = own / "info" / "sparse-checkout"
                patterns.parent.mkdir(exist_ok=True)
                patterns.write_text(
                    "".join(map(_pattern, (*ALWAYS, *paths))), encoding="utf-8", errors="surrogateescape"
                )
                there = git.at(place, GIT_LFS_SKIP_SMUDGE="1", **SPARSE)
            there.is_trial = purpose == TRIALS
            _must(there.run("read-tree", "-m", "-u", "HEAD", timeout=SECONDS))
            yield there
        finally:
            _clear(patient, folder)


def remove_stale_trials(git: Git, state_dir: Path) -> None:
    """Remove what killed programs left here, unless a dry run or a change is in progress."""
    for folder in (state_dir / TRIALS, state_dir / CHANGES):
        if folder.is_dir():
            with contextlib.suppress(LockedError), FileLock(folder / "lock", PURPOSE).acquire():
                _clear(git, folder)


def _must(ran: ProgramResult) -> None:
    if not ran.ok:
        why = f"timed out after {SECONDS:g} s." if ran.timed_out else git_message(ran)
        raise TrialError(f"A temporary worktree couldn't be made: {why}")


def _alone(folder: Path, seconds: float) -> FileLock:
    try:
        return FileLock(folder / "lock", PURPOSE).acquire(timeout=seconds)
    except LockedError as error:
        raise TrialError(f"Another command uses the temporary worktree: {error}") from None


def _pattern(path: str) -> str:
    escaped = "".join(f"\\{letter}" if letter in "\\*?[]!# " else letter for letter in path)
    return f"{'/' if path not in ALWAYS else ''}{escaped}\n"


def _clear(git: Git, folder: Path) -> None:
    """Remove our worktrees: the current one, and those of programs that were killed. No others are touched."""
    if not any(each.is_dir() for each in folder.iterdir()):
        return
    listed = git.run("worktree", "list", "--porcelain").output.splitlines()
    ours = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
    for place in ours:
        if Path(place).parent == folder.resolve():
            git.run("worktree", "remove", "--force", "--force", place, timeout=SECONDS)
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
            if left.exists():
                log.warning("%s couldn't be removed; it's no longer needed", left)
