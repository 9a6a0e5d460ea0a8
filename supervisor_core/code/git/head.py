"""The checked-out commit, read from git's files without starting git: fast enough for every page view.

Also the commits of all workers' checkouts, without waiting for the drive.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection
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
    own = top_of(folder) / ".git"
    if not own.is_dir():  # a worktree's or a submodule's folder is elsewhere
        pointer = _line(own)
        if not pointer.startswith(POINTER):
            return ""
        own = own.parent / pointer.removeprefix(POINTER)
    shared = own / (_line(own / "commondir") or ".")
    value = _line(own / "HEAD")
    for _ in range(DEEPEST):
        if not value.startswith(REF):
            return value if _HASH.fullmatch(value) else ""
        name = value.removeprefix(REF)
        if not name.startswith("refs/") or ".." in name:
            return ""
        value = _line(own / name) or _line(shared / name) or _packed(shared, name)
    return ""


def _line(path: Path) -> str:
    """The line in one of these files; empty without the file."""
    try:
        with path.open("rb") as file:
            return file.read(LARGEST).decode("utf-8", "replace").strip()
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _packed(shared: Path, name: str) -> str:
    try:
        with (shared / "packed-refs").open(encoding="utf-8", errors="replace") as file:
            return next((line.split(" ")[0] for line in file if line.rstrip("\n").endswith(f" {name}")), "")
    except FileNotFoundError:
        return ""


def versions(host: HostContext, workers: Collection[WorkerSettings]) -> dict[str, str]:
    """The full hash for each of these workers whose checkout has one; none if the drive is away. The call blocks."""

    def heads(folders: Collection[Path]) -> dict[Path, str]:
        found = {}
        for folder in folders:
            with contextlib.suppress(OSError):  # one that can't be read doesn't affect the others
                found[folder] = head_of(folder)
        return found

    try:
        found = host.drive.call(heads, {worker.code.path for worker in workers}, timeout=DRIVE_SECONDS)
    except (DriveUnavailable, OSError):
        return {}
    return {worker.id: head for worker in workers if (head := found.get(worker.code.path))}
