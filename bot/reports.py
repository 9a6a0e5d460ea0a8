"""Reading a report that is to be brought to a thread: from the drive, which may hang, or from the state folder."""

from __future__ import annotations

import logging
from pathlib import Path

from bot.attached import MOST_BYTES
from supervisor_core.adapters.drive import Drive
from supervisor_core.domain.errors import SupervisorError

READ_SECONDS = 3.0
"""Everything else that is told waits so long at most; then it is said where the report is."""

log = logging.getLogger(__name__)


class Reports:
    """Reads reports, and nothing that is elsewhere."""

    def __init__(self, root: Path, state_dir: Path) -> None:
        self._drive = Drive(root, READ_SECONDS, threads=1)
        self._state_dir = state_dir

    def read(self, path: str) -> str:
        """What is in it; empty where it can't be read now."""
        wanted = Path(path)
        if ".." in wanted.parts:
            return ""
        try:
            if wanted.is_relative_to(self._state_dir):
                return _read(wanted)
            return self._drive.call(_read, wanted) if wanted.is_relative_to(self._drive.root) else ""
        except (OSError, SupervisorError) as error:
            log.warning("the report %s can't be brought to its thread: %s", path, error)
            return ""


def _read(path: Path) -> str:
    with path.open("rb") as file:
        return file.read(MOST_BYTES + 1).decode(errors="replace")
