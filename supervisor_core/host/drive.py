"""The shared drive, which may hang: its calls run in threads of their own, bounded in time and in number.

A call that hangs can't be ended, so it keeps its thread. While one hangs, every other call fails at once: a waiting
call could otherwise run after a later one.

`DriveIdentity` recognizes the drive: a file on it has a random id, and a note in the state folder repeats it. A mount
point without its drive is an empty folder like any other, and "no flag" read there would end every pause. Device and
inode numbers don't tell the two apart: a network drive has others at each mount.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import Any, TypeVar

from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.threads import DaemonThreads
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.files import read_json, write_json

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
"""A healthy drive answers in milliseconds; a network file system that reconnects needs some seconds."""

LAYOUT_SECONDS = 2.0
"""For a look at the layout before a start, which doesn't wait for a drive that hangs."""

THREADS = 4


class DriveUnavailable(TemporaryError):
    """The shared drive can't be reached."""


class LayoutNotSet(DriveUnavailable):
    """The drive has the folders of another layout than the configuration."""


class Drive:
    """Runs calls that touch the drive."""

    def __init__(
        self,
        root: Path,
        timeout_seconds: float = TIMEOUT_SECONDS,
        threads: int = THREADS,
        identity: DriveIdentity | None = None,
        *,
        local: bool = False,
        forgotten: Mapping[Path, str] | None = None,
    ) -> None:
        """With `local`, the root is a folder of our own, which may not exist yet. If one of the `forgotten` folders
        exists, the drive isn't used, because the configuration names other folders; each has its remedy."""
        self.root = root
        self.identity = identity
        self._local = local
        self._forgotten = forgotten or {}
        self._timeout = timeout_seconds
        self._threads = DaemonThreads("drive", threads)
        self._hanging: set[Future[Any]] = set()
        self._lock = threading.Lock()

    @property
    def hangs(self) -> bool:
        """True while a call that timed out hasn't come back."""
        return bool(self._hanging)

    def call(self, work: Callable[..., T], *arguments: Any, timeout: float | None = None) -> T:  # noqa: ANN401
        """The result of `work`; `DriveUnavailable` where the drive hangs. A folder of our own needs no other thread."""
        if self._local:
            return work(*arguments)
        if self._hanging:
            raise DriveUnavailable(f"The drive at {self.root} hangs.", remedy="Check the mount.")
        future = self._threads.submit(work, *arguments)
        seconds = timeout or self._timeout
        try:
            return future.result(seconds)
        except FutureTimeout:
            if future.done():  # it was `work` that timed out, or it has just come back
                return future.result()
            self._give_up(future)
            problem = f"The drive at {self.root} didn't respond within {seconds:g} s."
            raise DriveUnavailable(problem, remedy="Check the mount.") from None

    def check(self) -> None:
        """Raise `DriveUnavailable` unless the drive's root is there; it is never made, since it may be a mount.

        Where the drive is known by its identity, it must be the one that we have worked with.
        """
        self.call(self.confirm)

    def confirm(self) -> None:
        """The same check from within a call to the drive."""
        if not self._local and not self.root.is_dir():
            raise DriveUnavailable(
                f"The drive isn't mounted: {self.root} isn't a folder.", remedy="Mount it, or correct nas.root."
            )
        self._confirm_layout()
        if self.identity is not None:
            self.identity.confirm()

    def check_layout(self) -> None:
        """Raise `LayoutNotSet` if a forgotten folder exists, which may hold a pause. A drive that is away has none."""
        if not self._forgotten:
            return
        try:
            self.call(self._confirm_layout, timeout=LAYOUT_SECONDS)
        except LayoutNotSet:
            raise
        except (DriveUnavailable, OSError):
            return

    def _confirm_layout(self) -> None:
        for folder, remedy in self._forgotten.items():
            if folder.is_dir():
                raise LayoutNotSet(f"{folder} exists, but nas.layout isn't set.", remedy=remedy)

    def make_folder(self, folder: Path) -> None:
        """Make a folder below the root, which must be there. From then on the drive is known by its identity."""
        self.call(self._make_folder, folder)

    def _make_folder(self, folder: Path) -> None:
        self.confirm()
        drive_files.make_folder(self.root, folder)
        if self.identity is not None:
            self.identity.adopt()

    def _give_up(self, future: Future[Any]) -> None:
        """Leave the call to its thread; cancel it if it hasn't begun."""
        if future.cancel():
            return
        with self._lock:
            self._hanging.add(future)
        future.add_done_callback(self._came_back)

    def _came_back(self, future: Future[Any]) -> None:
        with self._lock:
            self._hanging.discard(future)


MARKER = "supervisor_drive.json"
NOTE = "drive.json"
DESIRED = "desired"
"""The folder in the state folder that holds a copy of each pause."""
ID_BYTES = 16

ADOPT_ATTEMPTS, PATIENT_ATTEMPTS = 20, 8
ADOPT_PAUSE_SECONDS = 0.01
"""While another host creates the marker, it has a second name for a moment and can't be read. A second name that stays
is from a crash."""


class DriveIdentity:
    """Knows the drive again by the file in its state folder. Hosts that share the folder share the file."""

    def __init__(self, state_dir: Path, root: Path, state_folder: Path, file_mode: int) -> None:
        self._note = state_dir / NOTE
        self._root = root
        self._folder = state_folder
        self._marker = state_folder / MARKER
        self._mode = file_mode

    def noted(self) -> str:
        """The id of the known drive; empty if there is none, or if the note is for another path.

        The note is read each time, so that a person can delete it while the daemon runs.
        """
        try:
            note = read_json(self._note)
        except NotADirectoryError:
            return ""
        except UnreadableFileError as error:
            raise DriveUnavailable(
                f"The identity of the drive can't be read: {error}",
                remedy=f"Check that the right drive is mounted, then delete {self._note}.",
            ) from None
        if note is None or note.get("state_folder") != str(self._folder):
            return ""
        return _id(note)

    def confirm(self) -> None:
        """Raise `DriveUnavailable` if this isn't the known drive. The call may hang as long as the drive does."""
        noted = self.noted()
        if not noted:
            self._refuse_a_gap()
            return
        shown = self._marker_id()
        if shown != noted:
            has = "isn't" if shown else f"has no {self._marker.name} in {self._folder}, so it isn't"
            raise DriveUnavailable(
                f"The drive {has} the one that this host used before.",
                remedy=f"Mount the right drive. If it was replaced on purpose, delete {self._note}.",
            )

    def adopt(self) -> None:
        """Note the drive if none is noted yet and the state folder exists. The first host gives the drive its id.

        The marker is created whole, and only if there is none, so that concurrent hosts take the same id. If that fails
        (a full disk, a drive without links), nothing is noted, and the next call retries.
        """
        if self.noted() or not self._note.parent.is_dir() or not drive_files.exists(self._root, self._folder):
            return
        for attempt in range(ADOPT_ATTEMPTS):
            with contextlib.suppress(OSError):
                if attempt >= PATIENT_ATTEMPTS:
                    self._remove_leftovers()
                if not drive_files.exists(self._root, self._marker):
                    self._make_marker()
                if shown := self._marker_id():
                    write_json(self._note, {"drive_id": shown, "state_folder": str(self._folder)})
                    return
            time.sleep(ADOPT_PAUSE_SECONDS)

    def _refuse_a_gap(self) -> None:
        """Refuse a drive without its state folder if a pause flag was there before drives had an id."""
        if not drive_files.exists(self._root, self._folder) and _holds_a_pause(self._note.parent):
            raise DriveUnavailable(
                f"The folder {self._folder}, which holds the pause of a worker, is missing.",
                remedy="Mount the right drive. If it was replaced on purpose, create this folder on it.",
            )

    def _marker_id(self) -> str:
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
    copies = (read_json(path, tolerant=True) or {} for path in (state_dir / DESIRED).glob("*.json"))
    return any(copy.get("pause") and not copy.get("waits") and not copy.get("drive") for copy in copies)
