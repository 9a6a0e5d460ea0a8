"""Which commit each worker's checkout stands at, for whoever shows workers; the drive is not waited for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.git_head import head_of
from supervisor_core.config import Worker
from supervisor_core.handlers.context import Host
from supervisor_core.runtime.observing import DRIVE_SECONDS


def versions(host: Host, workers: Collection[Worker]) -> dict[str, str]:
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
