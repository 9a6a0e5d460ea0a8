"""The shared drive, which may hang: its calls run in threads of their own, bounded in time and in number.

A call that hangs can't be ended, so its thread is left to it. While one hangs nobody else is sent after it: what
would wait behind it fails at once, and what was late can't overtake what came after.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from supervisor_core.adapters import drive_files
from supervisor_core.adapters.threads import DaemonThreads
from supervisor_core.domain.errors import TemporaryError

if TYPE_CHECKING:
    from supervisor_core.adapters.drive_identity import DriveIdentity

T = TypeVar("T")

TIMEOUT_SECONDS = 10.0
"""A healthy drive answers in milliseconds; a network file system that reconnects needs some seconds."""

THREADS = 4


class DriveUnavailable(TemporaryError):
    """The shared drive can't be reached."""


class Drive:
    """Runs calls that touch the drive."""

    def __init__(
        self,
        root: Path,
        timeout_seconds: float = TIMEOUT_SECONDS,
        threads: int = THREADS,
        identity: DriveIdentity | None = None,
    ) -> None:
        self.root = root
        self.identity = identity
        self._timeout = timeout_seconds
        self._threads = DaemonThreads("drive", threads)
        self._hanging: set[Future[Any]] = set()
        self._lock = threading.Lock()

    @property
    def hangs(self) -> bool:
        """Whether a call is out that did not come back in time."""
        return bool(self._hanging)

    def call(self, work: Callable[..., T], *arguments: Any, timeout: float | None = None) -> T:  # noqa: ANN401
        """The result of `work`; `DriveUnavailable` where the drive hangs."""
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
            problem = f"The drive at {self.root} did not answer within {seconds:g} s."
            raise DriveUnavailable(problem, remedy="Check the mount.") from None

    def check(self) -> None:
        """Raise `DriveUnavailable` unless the drive's root is there; it is never made, since it may be a mount.

        Where the drive is known by its identity, it must be the one that we have worked with.
        """
        self.call(self.confirm)

    def confirm(self) -> None:
        """What `check` looks at, for whoever is within a call to the drive already."""
        if not self.root.is_dir():
            raise DriveUnavailable(
                f"The drive is not there: {self.root} is no folder.", remedy="Mount it, or correct nas.root."
            )
        if self.identity is not None:
            self.identity.confirm()

    def make_folder(self, folder: Path) -> None:
        """Make a folder below the root, which must be there. From then on the drive is known by its identity."""
        self.call(self._make_folder, folder)

    def _make_folder(self, folder: Path) -> None:
        self.confirm()
        drive_files.make_folder(self.root, folder)
        if self.identity is not None:
            self.identity.adopt()

    def _give_up(self, future: Future[Any]) -> None:
        """Leave the call to its thread; one that has not begun is taken back."""
        if future.cancel():
            return
        with self._lock:
            self._hanging.add(future)
        future.add_done_callback(self._came_back)

    def _came_back(self, future: Future[Any]) -> None:
        with self._lock:
            self._hanging.discard(future)
