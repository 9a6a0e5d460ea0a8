"""The checked-out commit, read from git's files without starting git: fast enough for every page view.

Also the commits of all workers' checkouts, without waiting for the drive.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from supervisor_core.code.git.history import top_of
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.drive import DriveUnavailable
from supervisor_core.workers.context import HostContext
from supervisor_core.workers.observation import DRIVE_SECONDS

REF, POINTER = "ref: ", "gitdir: "
DEEPEST = 5
"""The longest chain of symbolic references, as in git."""

LARGEST = 4096  # bytes of HEAD, of a reference, of a pointer: they are one line
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def head_of(folder: Path) -> str:
    """The full hash of the checked-out commit of this folder; `OSError` if the files can't be read.

    It's empty without a commit, or if the files don't have it: git may keep references in a table.
    """
    own = _git_folder(top_of(folder))
    if own is None:
        return ""
    common = _common(own)
    said = _line(own / "HEAD")
    for _ in range(DEEPEST):
        if not said.startswith(REF):
            return said if _HASH.fullmatch(said) else ""
        name = said.removeprefix(REF)
        if not name.startswith("refs/") or ".." in name:
            return ""
        said = _line(own / name) or _line(common / name) or _packed(common, name)
    return ""


def _git_folder(top: Path) -> Path | None:
    """Git's folder for this checkout; that of a worktree or a submodule is elsewhere."""
    here = top / ".git"
    if here.is_dir():
        return here
    said = _line(here)
    return top / said.removeprefix(POINTER) if said.startswith(POINTER) else None


def _common(own: Path) -> Path:
    """The folder that all worktrees of a repository share."""
    said = _line(own / "commondir")
    return own / said if said else own


def _line(path: Path) -> str:
    """The line in one of these files; empty without the file."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _packed(common: Path, name: str) -> str:
    """The hash of a packed reference."""
    wanted = f" {name}"
    try:
        with (common / "packed-refs").open(encoding="utf-8", errors="replace") as file:
            return next(
                (line.rstrip("\n").removesuffix(wanted) for line in file if line.rstrip("\n").endswith(wanted)), ""
            )
    except FileNotFoundError:
        return ""


def versions(host: HostContext, workers: Collection[WorkerSettings]) -> dict[str, str]:
    """The full hash for each of these workers whose checkout has one; none if the drive is away. The call blocks."""
    folders = {worker.code.path for worker in workers}
    try:
        heads = host.drive.call(_heads, folders, timeout=DRIVE_SECONDS)
    except (DriveUnavailable, OSError):
        return {}
    return {worker.id: head for worker in workers if (head := heads.get(worker.code.path))}


def _heads(folders: Collection[Path]) -> Mapping[Path, str]:
    """The commit of each folder; one that can't be read doesn't affect the others."""
    found = {}
    for folder in folders:
        try:
            found[folder] = head_of(folder)
        except OSError:
            continue
    return found
