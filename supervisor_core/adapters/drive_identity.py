"""Which drive this is: a file on it with a random id, and a note at home of the id that we have worked with.

A mount point without its drive is an empty folder like any other, and "no flag" read there would end every pause.
Device and inode numbers do not tell the two apart: a network drive has others at each mount.
"""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from supervisor_core.adapters.drive import DriveUnavailable
from supervisor_core.adapters.files import UnreadableError, read_json, write_atomically, write_json
from supervisor_core.adapters.pauses import told_of_a_pause

MARKER = "supervisor_drive.json"
NOTE = "drive.json"
ID_BYTES = 16
PRIVATE = 0o600


class DriveIdentity:
    """Knows the drive again by the file in its state folder. Hosts that share the folder share the file."""

    def __init__(self, state_dir: Path, state_folder: Path, file_mode: int) -> None:
        self._note = state_dir / NOTE
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
        if self.noted() or not self._note.parent.is_dir() or not self._folder.is_dir():
            return
        with contextlib.suppress(OSError):
            if not os.path.lexists(self._marker):
                self._make_marker()
            shown = self._shown()
            if shown:
                write_json(self._note, {"drive_id": shown, "state_folder": str(self._folder)}, mode=PRIVATE)

    def _refuse_a_gap(self) -> None:
        """A state folder that held a pause flag before drives were known by an id does not vanish by itself."""
        if not self._folder.is_dir() and told_of_a_pause(self._note.parent):
            raise DriveUnavailable(
                f"The folder {self._folder} is gone, and a worker is paused in it.",
                remedy="Mount the right drive. If it was replaced on purpose, make this folder on it.",
            )

    def _shown(self) -> str:
        return _id(read_json(self._marker, tolerant=True) or {})

    def _make_marker(self) -> None:
        text = f'{{"drive_id": "{secrets.token_hex(ID_BYTES)}"}}\n'
        temporary = self._folder / f".{MARKER}.{secrets.token_hex(4)}.tmp"
        write_atomically(temporary, text, mode=self._mode)
        try:
            os.link(temporary, self._marker)  # unlike a rename it never replaces another's
        except FileExistsError:
            return
        except OSError:
            self._make_without_links(text)
        finally:
            temporary.unlink(missing_ok=True)

    def _make_without_links(self, text: str) -> None:
        """Some network drives have no hard links. Who reads too early reads no id, and notes nothing yet."""
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(self._marker, os.O_WRONLY | os.O_CREAT | os.O_EXCL, self._mode)
            with os.fdopen(descriptor, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())


def _id(document: dict[str, object]) -> str:
    found = document.get("drive_id")
    return found if isinstance(found, str) else ""
