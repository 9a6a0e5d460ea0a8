"""The check of the shared drive and its folders, through the drive's own door, because the drive may hang."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from supervisor_core.adapters import drive_files
from supervisor_core.config import SupervisorConfig
from supervisor_core.config.models import Folders
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.doors import open_drive
from supervisor_core.runtime.environment import FOLDERS

NAME = "drive"


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
    troubles, missing = [], []
    for name, folder in folders.items():
        try:
            if name in FOLDERS:
                drive_files.probe(root, folder)
            elif drive_files.is_file(root, folder):
                troubles.append(f"{folder} is no folder")
        except FileNotFoundError:
            missing.append(folder.name)
        except NotADirectoryError as error:
            troubles.append(f"{folder} is no folder ({error.strerror})")
        except OSError as error:
            troubles.append(f"nothing can be written in {folder}: {error.strerror}")
    if missing and not os.access(root, os.W_OK | os.X_OK):
        troubles.append(f"{root} may not be written, so {', '.join(missing)} can't be made")
    return troubles, missing
