"""Whether a supervisor can work here: the drive, its folders, and what must be writable. What is missing is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypedDict

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.drive import Drive, DriveUnavailable
from supervisor_core.adapters.open_folder import OpenFolder
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.doors import open_drive
from supervisor_core.runtime.host import prepare_state_dir

FOLDERS = ("inbox", "outbox", "logs", "state")
"""What the supervisor itself works with; the other folders are its workers' business."""


class Environment(TypedDict):
    """What was found: `valid`, or the `issues`, each a sentence that says what to do."""

    valid: bool
    issues: list[str]


def validate_supervisor_environment(config: SupervisorConfig, drive: Drive | None = None) -> Environment:
    """Look at the place where this configuration would have a supervisor work, and make the folders that are missing.

    The root of the drive is never made: one that is not mounted must not turn into a folder. A drive that hangs is
    not waited for longer than its door allows.
    """
    issues = []
    try:
        prepare_state_dir(config)
        issues += list(
            _writable("supervisor.state_dir", config.state_dir, partial(OpenFolder.at, config.state_dir, shared=False))
        )
    except SupervisorError as error:
        issues.append(str(error))
    door = drive or open_drive(config)
    try:
        issues += door.call(_folders, door, {name: config.folder(name) for name in FOLDERS})
    except (DriveUnavailable, OSError) as error:
        issues.append(str(error))
    return {"valid": not issues, "issues": issues}


def _folders(drive: Drive, folders: dict[str, Path]) -> list[str]:
    """All of them, in one call to the drive, and only where it is ours: a mount point without it stays empty."""
    drive.confirm()
    return [issue for name, folder in folders.items() for issue in _usable(f"nas.folders.{name}", drive.root, folder)]


def _usable(key: str, root: Path, folder: Path) -> Iterator[str]:
    try:
        drive_files.make_folder(root, folder)
    except OSError as error:
        yield f"The folder {folder} ({key}) can't be made: {error.strerror}."
        return
    yield from _writable(key, folder, partial(drive_files.open_folder, root, folder))


def _writable(key: str, folder: Path, opening: Callable[[], OpenFolder]) -> Iterator[str]:
    try:
        with opening() as opened:
            opened.probe()
    except OSError as error:
        yield f"Nothing can be written in {folder} ({key}): {error.strerror}. Let this user write there."
