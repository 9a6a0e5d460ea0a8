"""The one door to files on the shared drive. No other module opens, lists, moves or removes anything there.

Whoever can write to the drive may swap any file or folder for a link, a FIFO, or a giant at any moment. So each
function takes the drive's root, which is trusted, and a path below it, which isn't: every folder on the way is opened
without following links, and a file is used only after a look at the open descriptor. Only a regular file with a
single name is opened, and it's never waited for.

These functions block as long as the drive does. Call them through `Drive.call`, which has a deadline.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from stat import S_ISREG
from typing import NamedTuple

from supervisor_core.host.open_folder import FileEnd, OpenFolder


def read(root: Path, path: str | PurePath, max_bytes: int) -> bytes:
    """All bytes of a file of at most `max_bytes`."""
    with _holder(root, path) as (folder, name):
        return folder.read(name, max_bytes)


def read_end(root: Path, path: str | PurePath, max_bytes: int) -> FileEnd:
    """The last bytes of a file, up to a limit."""
    with _holder(root, path) as (folder, name):
        return folder.read_end(name, max_bytes)


def write(root: Path, path: str | PurePath, data: bytes, mode: int, *, only_writer: bool = False) -> None:
    """Replace a file atomically; with `only_writer`, also remove the temporary file that a crash left."""
    with _holder(root, path) as (folder, name):
        folder.write(name, data, mode, only_writer=only_writer)


def write_all(
    root: Path, folder: Path, files: Sequence[tuple[str, bytes]], mode: int, seconds: float, crash_point: str = ""
) -> list[BaseException | None]:
    """Replace files of a folder as their only writer; see `OpenFolder.write_all`."""
    with open_folder(root, folder) as opened:
        return opened.write_all(files, mode, seconds, crash_point)


def append(root: Path, path: str | PurePath, data: bytes, mode: int, max_bytes: int, backups: int) -> None:
    """Append to a file of our own. A full one becomes `NAME.1` by a rename, up to `NAME.<backups>`."""
    with _holder(root, path) as (folder, name):
        folder.append(name, data, mode, max_bytes, backups)


def move(root: Path, path: str | PurePath, target: str | PurePath) -> None:
    """Rename a file, replacing whatever is at `target`; `FileNotFoundError` if somebody was faster."""
    with _holder(root, path) as (folder, name), _holder(root, target) as (other, new_name):
        folder.rename(name, other, new_name)


def remove(root: Path, path: str | PurePath) -> None:
    """Remove a file; a missing one is fine."""
    with _holder(root, path) as (folder, name):
        folder.remove(name)


class FolderEntry(NamedTuple):
    """One name in a folder, and its facts. A link is reported as a link."""

    name: str
    facts: os.stat_result


def list_folder(root: Path, path: str | PurePath, suffix: str = "") -> list[FolderEntry]:
    """Every name in a folder with this ending, without those that vanish meanwhile."""
    entries = []
    with open_folder(root, path) as folder:
        for entry in folder.entries():
            if entry.name.endswith(suffix):
                with contextlib.suppress(FileNotFoundError):
                    entries.append(FolderEntry(entry.name, entry.stat(follow_symlinks=False)))
    return entries


def probe(root: Path, path: str | PurePath) -> None:
    """Write a file in a folder and remove it, since nothing else shows whether the folder can be written."""
    with open_folder(root, path) as folder:
        folder.probe()


def make_folder(root: Path, path: str | PurePath) -> None:
    """Create a folder and those above it, below the root."""
    with open_folder(root, path, make=True):
        pass


def stat(root: Path, path: str | PurePath) -> os.stat_result:
    """The facts about whatever lies at a path; a link isn't followed."""
    with _holder(root, path) as (folder, name):
        return folder.look(name)


def exists(root: Path, path: str | PurePath) -> bool:
    try:
        stat(root, path)
    except FileNotFoundError:
        return False
    return True


def is_file(root: Path, path: str | PurePath) -> bool:
    try:
        return S_ISREG(stat(root, path).st_mode)
    except FileNotFoundError:
        return False


def sync_folder(root: Path, path: str | PurePath) -> None:
    """Make the names in a folder survive a power cut."""
    with open_folder(root, path) as folder:
        folder.sync()


def open_folder(root: Path, path: str | PurePath, *, make: bool = False) -> OpenFolder:
    """A folder below the root, opened step by step without following links. The caller closes it."""
    folder = OpenFolder.at(root, shared=True)
    for name in _names(root, path):
        with folder:
            folder = folder.enter(name, make=make)
    return folder


@contextlib.contextmanager
def _holder(root: Path, path: str | PurePath) -> Iterator[tuple[OpenFolder, str]]:
    """The open folder that holds a file, and the file's name in it."""
    *above, name = _names(root, path) or [""]
    with open_folder(root, PurePath(*above)) as folder:
        yield folder, name


def _names(root: Path, path: str | PurePath) -> list[str]:
    """The names from the root down to a path, which is relative to the root or absolute and below it."""
    inner = PurePath(path)
    if inner.is_absolute():
        inner = inner.relative_to(root)
    if ".." in inner.parts:
        raise ValueError(f"{path} may be outside {root}")
    return list(inner.parts)
