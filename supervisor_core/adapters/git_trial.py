"""A temporary worktree, in which a change of the code is tried before anybody is stopped for it."""

from __future__ import annotations

import contextlib
import logging
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path

from supervisor_core.adapters.git import Git, GitError, what_it_said
from supervisor_core.adapters.git_changing import OPERATION_SECONDS
from supervisor_core.adapters.locks import FileLock

FOLDER = "trials"
LOCK_SECONDS = 60.0
"""One trial at a time in one state folder; each takes as long as writing the checkout's files."""

log = logging.getLogger(__name__)


@contextlib.contextmanager
def temporary_worktree(git: Git, state_dir: Path, commit: str) -> Iterator[Git]:
    """All files of a commit, in a folder of their own that is gone afterwards. The checkout itself is not touched.

    It shares the checkout's objects and its configuration, so its filters and merge drivers are the same; large files
    that live elsewhere (LFS) are left out.
    """
    folder = state_dir / FOLDER
    folder.mkdir(mode=0o700, exist_ok=True)
    with FileLock(folder / "lock", "a trial").acquire(timeout=LOCK_SECONDS):
        _clear(git, folder)
        place = folder / uuid.uuid4().hex
        ran = git.at(git.folder, GIT_LFS_SKIP_SMUDGE="1").run(
            "worktree", "add", "--quiet", "--detach", str(place), commit, timeout=OPERATION_SECONDS
        )
        try:
            if not ran.ok:
                why = "it took too long" if ran.timed_out else what_it_said(ran)
                raise GitError(f"It could not be tried in a worktree of its own: {why}")
            yield git.at(place, GIT_LFS_SKIP_SMUDGE="1")
        finally:
            _clear(git, folder)


def _clear(git: Git, folder: Path) -> None:
    """Remove our worktrees: the one in hand, and those of programs that were killed. Nobody else's is touched."""
    listed = git.run("worktree", "list", "--porcelain").output.splitlines()
    ours = [line.removeprefix("worktree ") for line in listed if line.startswith("worktree ")]
    for place in ours:
        if Path(place).parent == folder.resolve():
            git.run("worktree", "remove", "--force", "--force", place, timeout=OPERATION_SECONDS)
    for left in folder.iterdir():
        if left.is_dir():
            shutil.rmtree(left, ignore_errors=True)
            if left.exists():
                log.warning("%s could not be removed; nothing needs it any more", left)
