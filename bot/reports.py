"""Reports that are posted in a thread, read back from the drive, which may hang, or from the state folder."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.drive import Drive
from supervisor_core.adapters.files import read_limited
from supervisor_core.domain.errors import SupervisorError

READ_SECONDS = 3.0
"""All other messages wait at most so long; then the message says where the report is."""

MOST_BYTES = 16_000_000
"""Of one report. It's read whole for its digest; Slack gets its beginning."""

log = logging.getLogger(__name__)


class Reports:
    """Reads reports, and no other file: the content must have the digest of what we wrote."""

    def __init__(self, root: Path, state_dir: Path) -> None:
        self._drive = Drive(root, READ_SECONDS, threads=1)
        self._state_dir = state_dir

    def read(self, path: str, sha256: str) -> str:
        """The report; empty where it can't be read now, or isn't the one that was written."""
        wanted = Path(path)
        if ".." in wanted.parts:
            return ""
        try:
            if wanted.is_relative_to(self._state_dir):
                data = read_limited(wanted, MOST_BYTES)
            elif wanted.is_relative_to(self._drive.root):
                data = self._drive.call(drive_files.read, self._drive.root, wanted, MOST_BYTES)
            else:
                return ""
        except (OSError, SupervisorError) as error:
            log.warning("the report %s can't be posted in its thread: %s", path, error)
            return ""
        if hashlib.sha256(data).hexdigest() != sha256:
            log.error("the report %s isn't posted in its thread: its content isn't what was written there", path)
            return ""
        return data.decode(errors="replace")
