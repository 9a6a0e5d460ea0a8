"""The shared drive, which may hang: its calls run in threads of their own, bounded in time and in number.

A call that hangs can't be ended, so it keeps its thread. While one hangs, every other call fails at once, also one that
waits for a thread: it could otherwise run after a later one.

A mount point without its drive is an empty folder like any other, and "no flag" read there would end every pause. So
the drive gets a marker file, and a note in the state folder says that this host has used it.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import CancelledError, Future
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

MARKER = "supervisor_drive.json"
NOTE = "drive.json"


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
        *,
        note: Path | None = None,
        state_folder: Path | None = None,
        file_mode: int = 0o640,
        local: bool = False,
        forgotten: Mapping[Path, str] | None = None,
    ) -> None:
        """With a `note`, a drive without the marker in its `state_folder` isn't taken for one that had it. With
        `local`, the root is a folder of our own, which may not exist yet. If one of the `forgotten` folders exists, the
        drive isn't used, because the configuration names other folders; each has its remedy."""
        self.root = root
        self._note = note
        self._state_folder = state_folder or root
        self._file_mode = file_mode
        self._local = local
        self._forgotten = forgotten or {}
        self._timeout = timeout_seconds
        self._threads = DaemonThreads("drive", threads)
        self._open: set[Future[Any]] = set()
        """Calls that wait or run."""
        self._hanging: set[Future[Any]] = set()
        """Calls that have timed out and still run."""
        self._lock = threading.Lock()

    @property
    def hangs(self) -> bool:
        """True while a call that timed out hasn't come back."""
        return bool(self._hanging)

    def call(self, work: Callable[..., T], *arguments: Any, timeout: float | None = None) -> T:  # noqa: ANN401
        """The result of `work`; `DriveUnavailable` where the drive hangs. A folder of our own needs no other thread."""
        if self._local:
            return work(*arguments)
        with self._lock:
            if self._hanging:
                raise self._hangs()
            future = self._threads.submit(work, *arguments)
            self._open.add(future)
        future.add_done_callback(self._forget)
        seconds = timeout or self._timeout
        try:
            return future.result(seconds)
        except CancelledError:
            raise self._hangs() from None
        except FutureTimeout:
            if future.done():  # `work` itself timed out, or it has just returned
                return future.result()
            if not future.cancel():
                with self._lock:
                    hung = self._open & {future}
                    self._hanging |= hung
                    waiting = list(self._open) if hung else []
                for call in waiting:
                    call.cancel()  # unless it has started
            problem = f"The drive at {self.root} didn't respond within {seconds:g} s."
            raise DriveUnavailable(problem, remedy="Check the mount.") from None

    def _hangs(self) -> DriveUnavailable:
        return DriveUnavailable(f"The drive at {self.root} hangs.", remedy="Check the mount.")

    def _forget(self, future: Future[Any]) -> None:
        with self._lock:
            self._open.discard(future)
            self._hanging.discard(future)

    def check(self) -> None:
        """Raise `DriveUnavailable` unless the drive's root is there; it is never made, since it may be a mount."""
        self.call(self.confirm)

    def confirm(self) -> None:
        """The same check from within a call to the drive."""
        if not self._local and not self.root.is_dir():
            raise DriveUnavailable(
                f"The drive isn't mounted: {self.root} isn't a folder.", remedy="Mount it, or correct nas.root."
            )
        self._confirm_layout()
        marker = self._state_folder / MARKER
        if self.known_id() and not drive_files.is_file(self.root, marker):
            raise DriveUnavailable(
                f"The drive isn't mounted: {self._state_folder} has no {MARKER}.",
                remedy=f"Mount it. If it was replaced on purpose, delete {self._note}.",
            )

    def known_id(self) -> str:
        """The id of the drive since this host first used it; empty before. It doesn't ask the drive.

        The note is read each time, so that a person can delete it while the daemon runs.
        """
        try:
            note = read_json(self._note) if self._note is not None else None
        except NotADirectoryError:
            return ""
        except UnreadableFileError as error:
            raise DriveUnavailable(
                f"The note about the drive can't be read: {error}",
                remedy=f"Check that the right drive is mounted, then delete {self._note}.",
            ) from None
        return str(note.get("id", "")) if note and note.get("state_folder") == str(self._state_folder) else ""

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
        """Make a folder below the root, which must be there."""
        self.call(self._make_folder, folder)

    def _make_folder(self, folder: Path) -> None:
        self.confirm()
        drive_files.make_folder(self.root, folder)
        note, marker = self._note, self._state_folder / MARKER
        if note is None or self.known_id() or not note.parent.is_dir():
            return
        if not drive_files.exists(self.root, self._state_folder):
            return
        with contextlib.suppress(OSError):  # a full disk: then the next call tries it again
            if not drive_files.is_file(self.root, marker):
                drive_files.write(self.root, marker, b"{}\n", self._file_mode)
            write_json(note, {"id": secrets.token_hex(8), "state_folder": str(self._state_folder)})
