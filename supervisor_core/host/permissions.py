"""The cause and the remedy where the system only says that permission is denied. It imports nothing slow."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

WRITE = os.R_OK | os.W_OK


def blocked_at(path: str | Path, mode: int) -> str:
    """The folder on the way that this user can't enter, or the path itself if it can't be used so; else empty."""
    path = os.path.abspath(path)  # noqa: PTH100 (see below)
    folders = [path]
    while os.path.dirname(folders[-1]) != folders[-1]:  # noqa: PTH120 (pathlib is slow to import)
        folders.append(os.path.dirname(folders[-1]))  # noqa: PTH120
    for folder in reversed(folders[1:]):
        if os.path.isdir(folder) and not _may(folder, os.X_OK):  # noqa: PTH112
            return folder
    return path if os.path.exists(path) and not _may(path, mode) else ""  # noqa: PTH110


def why_denied(path: str | Path, mode: int = WRITE) -> tuple[str, str]:
    """Why this user can't use a file or folder so, and what to do; both empty if they can."""
    part = blocked_at(path, mode)
    if not part or not hasattr(os, "geteuid"):
        return "", ""
    me, owner = os.geteuid(), os.stat(part).st_uid  # noqa: PTH116
    if owner == me:
        return f"the permissions of {part} don't allow it", f"To change that: chmod u+rwX {part}"
    cause = f"{part} belongs to {user_name(owner)}, and this runs as {user_name(me)}"
    is_of_system = os.path.ismount(part) or os.path.dirname(os.path.dirname(part)) == os.path.dirname(part)  # noqa: PTH120
    if owner != 0 or is_of_system:
        return cause, f"Run this as {user_name(owner)}{', or use another folder' if is_of_system else ''}."
    give = f"sudo chown -R {user_name(me)} {part}"
    return cause, f"To give it back: {give}. If the supervisor runs as root on this host, use sudo instead."


def _may(path: str, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def user_name(uid: int) -> str:
    """The name of this user; the number if the host knows no name."""
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):  # Windows has no such names, and not every number has one
        return str(uid)
