"""Which commit is checked out, read from git's files without starting git: cheap enough for every look at a page.

Which commit each worker's checkout stands at, for whoever shows workers; the drive is not waited for.
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
"""References that name another one, as git follows them."""

LARGEST = 4096  # bytes of HEAD, of a reference, of a pointer: they are one line
_HASH = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


def head_of(folder: Path) -> str:
    """The full hash of the commit that this folder's checkout stands at; empty where there is none, or where its files
    do not say (git may keep references in a table of its own). What can't be read is raised as an `OSError`."""
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
    """Where git keeps what it knows of this checkout; that of a worktree or a submodule lies elsewhere."""
    here = top / ".git"
    if here.is_dir():
        return here
    said = _line(here)
    return top / said.removeprefix(POINTER) if said.startswith(POINTER) else None


def _common(own: Path) -> Path:
    """What all worktrees of a repository have in common."""
    said = _line(own / "commondir")
    return own / said if said else own


def _line(path: Path) -> str:
    """What one of these files says; empty where there is none."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _packed(common: Path, name: str) -> str:
    """A reference that git has put together with others."""
    wanted = f" {name}"
    try:
        with (common / "packed-refs").open(encoding="utf-8", errors="replace") as file:
            return next(
                (line.rstrip("\n").removesuffix(wanted) for line in file if line.rstrip("\n").endswith(wanted)), ""
            )
    except FileNotFoundError:
        return ""


def versions(host: HostContext, workers: Collection[WorkerSettings]) -> dict[str, str]:
    """The full hash for each of these workers whose checkout says one; nobody where the drive is away. It blocks."""
    folders = {worker.code.path for worker in workers}
    try:
        heads = host.drive.call(_heads, folders, timeout=DRIVE_SECONDS)
    except (DriveUnavailable, OSError):
        return {}
    return {worker.id: head for worker in workers if (head := heads.get(worker.code.path))}


def _heads(folders: Collection[Path]) -> Mapping[Path, str]:
    """What each folder stands at; one that can't be read takes no other with it."""
    found = {}
    for folder in folders:
        try:
            found[folder] = head_of(folder)
        except OSError:
            continue
    return found
