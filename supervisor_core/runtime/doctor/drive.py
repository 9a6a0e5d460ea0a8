"""The check of the shared drive and its folders, through the drive's own door, because the drive may hang."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from supervisor_core.config import SupervisorConfig
from supervisor_core.config.models import Folders
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.doors import open_drive

NAME = "drive"
WRITTEN = ("state", "logs", "inbox", "outbox")
"""What the supervisor writes itself; the other folders are its workers' business."""


def look(config: SupervisorConfig) -> Check:
    """The root, and below it each folder that is there; those that are missing are made by the first run."""
    root = config.nas.root
    door = open_drive(config)
    door.check()
    folders = {name: config.folder(name) for name in Folders.model_fields}
    troubles, missing = door.call(_walk, root, folders)
    if troubles:
        remedy = f"Let this user write there (nas.folders names the folders below {root})."
        return Check(NAME, False, "; ".join(troubles), remedy)
    yet = f"; not there yet, made when needed: {', '.join(missing)}" if missing else ""
    return Check(NAME, True, f"{root} is there and can be written{yet}")


def _walk(root: Path, folders: Mapping[str, Path]) -> tuple[list[str], list[str]]:
    """What is wrong, and which folders are missing, in one call to the drive."""
    missing = [name for name in folders if not os.path.lexists(folders[name])]
    return list(_troubles(root, folders, missing)), [folders[name].name for name in missing]


def _troubles(root: Path, folders: Mapping[str, Path], missing: list[str]) -> Iterator[str]:
    if missing and not os.access(root, os.W_OK | os.X_OK):
        yield f"{root} may not be written, so {', '.join(folders[name].name for name in missing)} can't be made"
    for name, folder in folders.items():
        if name in missing:
            continue
        if not folder.is_dir():
            yield f"{folder} is no folder"
        elif name in WRITTEN:
            yield from _writable(folder)


def _writable(folder: Path) -> Iterator[str]:
    """A dot in front and `.tmp` at the end: nobody takes it for a flag, should it outlive us."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor.", suffix=".tmp") as file:
            file.write(b"x")
    except OSError as error:
        yield f"nothing can be written in {folder}: {error.strerror}"
