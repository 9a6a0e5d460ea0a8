"""Which drive this is: a file on it with a random id, and a note at home of the id that we have worked with.

A mount point without its drive is an empty folder like any other, and "no flag" read there would end every pause.
Device and inode numbers do not tell the two apart: a network drive has others at each mount.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from pathlib import Path

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.adapters.open_folder import UnreadableError

MARKER = "supervisor_drive.json"
NOTE = "drive.json"
DESIRED = "desired"
"""The folder in the state folder that holds a copy of each pause."""
ID_BYTES = 16
PRIVATE = 0o600

ADOPT_ATTEMPTS, PATIENT_ATTEMPTS = 20, 8
ADOPT_PAUSE_SECONDS = 0.01
"""While another host creates the marker, it has a second name for a moment, and can't be read. One that keeps the
second name was left so by a crash."""


class DriveIdentity:
    """Knows the drive again by the file in its state folder. Hosts that share the folder share the file."""

    def __init__(self, state_dir: Path, root: Path, state_folder: Path, file_mode: int) -> None:
        self._note = state_dir / NOTE
        self._root = root
        self._folder = state_folder
        self._marker = state_folder / MARKER
        self._mode = file_mode

    def noted(self) -> str:
        """The id of the drive that we have worked with; empty where there is none, or where another path is meant.

        Read each time, so that a person may delete the note beneath a daemon.
        """
        try:
            note = read_json(self._note)
        except NotADirectoryError:
            return ""
        except UnreadableError as error:
            raise DriveUnavailable(
                f"Which drive is ours can't be read: {error}",
                remedy=f"Look that the right drive is mounted, then delete {self._note}.",
            ) from None
        if note is None or note.get("state_folder") != str(self._folder):
            return ""
        return _id(note)

    def confirm(self) -> None:
        """Raise `DriveUnavailable` where this is not the drive that we have worked with. Hangs as long as it does."""
        noted = self.noted()
        if not noted:
            self._refuse_a_gap()
            return
        shown = self._shown()
        if shown != noted:
            has = "is another one than" if shown else f"has no {self._marker.name} in {self._folder}, as it has on"
            raise DriveUnavailable(
                f"The drive {has} the one that this host has worked with.",
                remedy=f"Mount the right one. If it was replaced on purpose, delete {self._note}.",
            )

    def adopt(self) -> None:
        """Note the drive, where none is noted yet and there is a state folder; the first one here gives it its id.

        The file is made whole and only where there is none, so of several at a time all take the same. Where it can't
        be done yet (a full disk, a drive without links) nothing is noted, and the next call tries again.
        """
        if self.noted() or not self._note.parent.is_dir() or not drive_files.exists(self._root, self._folder):
            return
        for attempt in range(ADOPT_ATTEMPTS):
            with contextlib.suppress(OSError):
                if attempt >= PATIENT_ATTEMPTS:
                    self._remove_leftovers()
                if not drive_files.exists(self._root, self._marker):
                    self._make_marker()
                if shown := self._shown():
                    write_json(self._note, {"drive_id": shown, "state_folder": str(self._folder)}, mode=PRIVATE)
                    return
            time.sleep(ADOPT_PAUSE_SECONDS)

    def _refuse_a_gap(self) -> None:
        """A state folder that held a pause flag before drives were known by an id does not vanish by itself."""
        if not drive_files.exists(self._root, self._folder) and _holds_a_pause(self._note.parent):
            raise DriveUnavailable(
                f"The folder {self._folder} is gone, and a worker is paused in it.",
                remedy="Mount the right drive. If it was replaced on purpose, make this folder on it.",
            )

    def _shown(self) -> str:
        return _id(drive_files.read_json(self._root, self._marker, tolerant=True) or {})

    def _remove_leftovers(self) -> None:
        """Remove what a crash left while the marker was created: with a second name it can't be read."""
        for entry in drive_files.list_folder(self._root, self._folder):
            if entry.name.startswith(f".{MARKER}."):
                drive_files.remove(self._root, self._folder / entry.name)

    def _make_marker(self) -> None:
        data = f'{{"drive_id": "{secrets.token_hex(ID_BYTES)}"}}\n'.encode()
        with contextlib.suppress(FileExistsError):
            drive_files.create(self._root, self._marker, data, self._mode)


def _id(document: dict[str, object]) -> str:
    found = document.get("drive_id")
    return found if isinstance(found, str) else ""


def _holds_a_pause(state_dir: Path) -> bool:
    """Whether a drive whose id nobody noted was told of a pause that holds."""
    copies = (read_json(path, tolerant=True) or {} for path in (state_dir / DESIRED).glob("*.json"))
    return any(copy.get("pause") and not copy.get("waits") and not copy.get("drive") for copy in copies)
