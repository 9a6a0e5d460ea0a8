"""The files that make up a configuration, and hearing of changes to them.

An editor writes a temporary file and renames it; a link may lead to the file, and be pointed elsewhere. So it is
folders that are watched, and contents that are compared.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

from supervisor_core.config.raw import ENV_FILE, MAX_BYTES
from supervisor_core.host.folder_watch import FolderWatch
from supervisor_core.host.permissions import user_name

LONGEST_CHAIN = 8
"""Links that lead to links; one that is longer leads to itself."""


class ConfigFiles:
    """The configuration and the `.env` beside it. Every call may hang as long as their drive does."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._all = (path, path.with_name(ENV_FILE))

    def fingerprint(self) -> str:
        """Changes with the content of a file, and with what keeps it from being read."""
        seen = hashlib.sha256()
        for path in self._all:
            content = _content(path)
            seen.update(b"%d:" % len(content) + content)
        return seen.hexdigest()

    def owner(self) -> str:
        """The owner of the configuration file, as the audit trail names people known only by a file: `file:anna`."""
        try:
            return f"file:{user_name(self.path.stat().st_uid)}"
        except OSError:
            return "file:unknown"

    def folders(self) -> tuple[Path, ...]:
        """The real folders in which a change can be one of these files', those of links to them included."""
        found: dict[Path, None] = {}
        for path in self._all:
            here = path
            for _ in range(LONGEST_CHAIN):
                found[Path(os.path.realpath(here.parent))] = None
                try:
                    here = here.parent / here.readlink()
                except OSError:  # no link, or nothing at all
                    break
        return tuple(found)


def _content(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return b"=" + file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        return f"!{type(error).__name__}".encode()


class FileWatches:
    """Calls `hint` on the event loop when something has happened in one of the folders that it follows."""

    def __init__(self, hint: Callable[[], None]) -> None:
        self.all_heard = False
        """True if the kernel reports changes in every folder."""
        self._hint = hint
        self._watches: dict[Path, FolderWatch] = {}

    def follow(self, folders: tuple[Path, ...]) -> Callable[[], None]:
        """From now on these, on the event loop; what is returned must then be called off it, since it may hang."""
        for folder in [each for each in self._watches if each not in folders]:
            self._close(folder)
        for folder in folders:
            self._watches[folder] = self._opened(folder)
        watches = dict(self._watches)

        def watch() -> None:
            heard = [each.watch(folder) for folder, each in watches.items()]  # each, also after one that can't be
            self.all_heard = all(heard)

        return watch

    def close(self) -> None:
        """Follow none."""
        for folder in tuple(self._watches):
            self._close(folder)
        self.all_heard = False

    def _opened(self, folder: Path) -> FolderWatch:
        if folder in self._watches:
            return self._watches[folder]
        watch = FolderWatch(every_change=True)
        descriptor = watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().add_reader(descriptor, self._heard, watch)
        return watch

    def _heard(self, watch: FolderWatch) -> None:
        watch.drain()
        self._hint()

    def _close(self, folder: Path) -> None:
        watch = self._watches.pop(folder)
        descriptor = watch.fileno()
        if descriptor is not None:
            asyncio.get_running_loop().remove_reader(descriptor)
        watch.close()
