"""What works on workers need from the drive, besides heartbeats. It's asked once for all of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host import drive_files
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.files import json_text
from supervisor_core.processes.together import SharedNeed

if TYPE_CHECKING:
    from supervisor_core.processes.claims import ProcessProfile

PROFILE_SECONDS = 1.0
"""The time to resolve the worker's program and directory: `status` answers within two seconds."""


def watcher_profile(drive: Drive, config: SupervisorConfig, worker: WorkerSettings) -> ProcessProfile:
    """The profile of this worker's process. Its program may be on the drive, which may hang."""
    (profile,) = Profiled.answer([Profiled(drive, config, worker)])
    return profile


@dataclass(frozen=True, slots=True)
class Profiled(SharedNeed):
    """The profile of a worker's process."""

    drive: Drive
    config: SupervisorConfig
    worker: WorkerSettings

    @classmethod
    def answer(cls, needs: Sequence[Profiled]) -> Sequence[ProcessProfile]:
        """Ask the drive once for all."""
        from supervisor_core.processes.claims import bare_profile, profiles_of

        wanted = [
            (each.config.command_for(each.worker), each.worker.cwd, _path_for(each.config, each.worker))
            for each in needs
        ]
        try:
            return needs[0].drive.call(profiles_of, wanted, timeout=PROFILE_SECONDS)
        except (DriveUnavailable, OSError):
            return [bare_profile(command, cwd) for command, cwd, _ in wanted]


def _path_for(config: SupervisorConfig, worker: WorkerSettings) -> str:
    return config.environment_for(worker).get("PATH", os.defpath)


@dataclass(frozen=True, slots=True)
class LayoutKept(SharedNeed):
    """The drive has the folders of the configured layout; `LayoutNotSet` if not."""

    drive: Drive

    @classmethod
    def answer(cls, needs: Sequence[LayoutKept]) -> Sequence[None]:
        """Ask the drive once for all."""
        needs[0].drive.check_layout()
        return [None] * len(needs)


@dataclass(frozen=True, slots=True)
class DriveFileKept(SharedNeed):
    """A JSON document that must be on the drive, or with None a file that must be gone."""

    drive: Drive
    path: Path
    document: Mapping[str, object] | None
    mode: int

    @classmethod
    def answer(cls, needs: Sequence[DriveFileKept]) -> Sequence[BaseException | None]:
        """Write all; the answer to one is its error."""
        drive, answers = needs[0].drive, dict[Path, BaseException | None]()
        for folder in {need.path.parent for need in needs}:
            mine = [need for need in needs if need.path.parent == folder]
            drive.make_folder(folder)
            errors = drive.call(_write, drive.root, folder, mine)
            answers |= {need.path: error for need, error in zip(mine, errors, strict=True)}
        return [answers[need.path] for need in needs]


def _write(root: Path, folder: Path, files: Sequence[DriveFileKept]) -> list[BaseException | None]:
    errors: list[BaseException | None] = [None] * len(files)
    kept: list[int] = []
    with drive_files.open_folder(root, folder) as opened:
        for place, file in enumerate(files):
            try:
                opened.set_folder_aside(file.path.name)  # else it holds up every pause and resume
                if file.document is None:
                    opened.remove(file.path.name)
                else:
                    kept.append(place)
            except OSError as error:
                errors[place] = error
        contents = [(files[each].path.name, json_text(files[each].document).encode()) for each in kept]
        for place, problem in zip(kept, opened.write_all(contents, files[0].mode), strict=True):
            errors[place] = problem
    return errors
