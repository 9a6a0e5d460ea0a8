"""A folder held open: its files are reached through it, whatever happens to its path meanwhile.

Local folders (`files.py`) and those of the shared drive (`drive_files.py`) are opened here. On the drive, somebody may
swap any file or folder for a link, a FIFO, or a giant at any moment. So a name is opened without following links and
without waiting, and the open file must be a regular one, on the drive with a single name.

Windows can't open names relative to a folder: there, a path is checked before it's opened, and a folder swapped in
between isn't noticed. Windows and macOS aren't tested.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, Self

from supervisor_core.common import crashpoints
from supervisor_core.host.descriptors import (
    NOT_SUPPORTED,
    PRIVATE_FILE,
    UnreadableFileError,
    chunks,
    is_link,
    refused,
    retry_rename,
    set_mode,
    temporary_name,
    write_all,
)

BY_DESCRIPTOR = os.open in os.supports_dir_fd
"""True if files can be opened relative to an open folder. False on Windows."""

SYNCS_AT_ONCE = 8
"""The files that are synced at the same time: the disk then writes its journal once for several."""


_NO_FOLLOW, _CLOSE_ON_EXEC = getattr(os, "O_NOFOLLOW", 0), getattr(os, "O_CLOEXEC", 0)
_OPEN_FILE = _NO_FOLLOW | _CLOSE_ON_EXEC | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
_LIST_FOLDER = os.O_RDONLY | _CLOSE_ON_EXEC | getattr(os, "O_DIRECTORY", 0)
_OPEN_FOLDER = _LIST_FOLDER | getattr(os, "O_PATH", 0)


class FileEnd(NamedTuple):
    """The last bytes of a file, the file's size, and whether something before them was left out."""

    data: bytes
    size: int
    cut: bool


class OpenFolder:
    """An open folder. In a `shared` one others may write too: a file there with a second name is refused."""

    def __init__(self, path: Path, *, shared: bool, descriptor: int | None, owner: int) -> None:
        self.path = path
        self._shared = shared
        self._descriptor = descriptor
        self._owner = owner
        """The owner of the trusted folder. A drive may give all files one owner, ours included."""

    @classmethod
    def at(cls, path: Path, *, shared: bool) -> OpenFolder:
        """Open the folder at a trusted path; links in it are followed."""
        facts = path.stat()
        if not stat.S_ISDIR(facts.st_mode):
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), os.fspath(path))
        descriptor = os.open(path, _OPEN_FOLDER) if BY_DESCRIPTOR else None
        return cls(path, shared=shared, descriptor=descriptor, owner=facts.st_uid)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enter(self, name: str, *, make: bool = False) -> OpenFolder:
        """Open a folder in this one; a link in its place is refused. With `make`, create it if it's missing."""
        descriptor = None
        with self._naming(name):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(self._at(name), dir_fd=self._descriptor)
            facts = self.look(name)
            if is_link(facts):
                raise NotADirectoryError(errno.ENOTDIR, "Folders on the drive can't be symbolic links")
            if not stat.S_ISDIR(facts.st_mode):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
            if BY_DESCRIPTOR:
                descriptor = os.open(name, _OPEN_FOLDER | _NO_FOLLOW, dir_fd=self._descriptor)
        return OpenFolder(self.path / name, shared=self._shared, descriptor=descriptor, owner=self._owner)

    def look(self, name: str) -> os.stat_result:
        """The facts about one name. A link isn't followed."""
        with self._naming(name):
            return os.stat(self._at(name), follow_symlinks=False, dir_fd=self._descriptor)

    def names(self) -> list[str]:
        with self._listing() as folder:
            return os.listdir(folder)

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Every name in the folder, to be asked with `follow_symlinks=False` before the next one comes."""
        with self._listing() as folder, os.scandir(folder) as entries:
            yield from entries

    def allows(self, access: int) -> bool:
        path = self.path if self._descriptor is None else "."
        return os.access(path, access, dir_fd=self._descriptor)

    def probe(self) -> None:
        """Write a file and remove it: a full or read-only drive has the same rights as any other."""
        name = temporary_name("probe", only_writer=False)
        self._write_new(name, b"x", PRIVATE_FILE)
        self.remove(name)

    def read(self, name: str, max_bytes: int) -> bytes:
        """All bytes of a regular file of at most `max_bytes`.

        A link isn't followed, a FIFO or a device is never waited for, and a file that grows while it's read can't
        exceed the limit: each is an `UnreadableFileError` that says which.
        """
        with self.opened(name, os.O_RDONLY) as descriptor:
            content = b"".join(chunks(descriptor, max_bytes + 1))
        if len(content) > max_bytes:
            raise UnreadableFileError(
                f"{self.path / name} is larger than {max_bytes} bytes.",
                remedy="Such files are never that large. Check it, then remove it.",
            )
        return content

    def read_end(self, name: str, max_bytes: int) -> FileEnd:
        """The last bytes of a regular file, at most so many."""
        with self.opened(name, os.O_RDONLY) as descriptor:
            size = os.fstat(descriptor).st_size
            start = max(size - max_bytes, 0)
            os.lseek(descriptor, start, os.SEEK_SET)
            return FileEnd(b"".join(chunks(descriptor, max_bytes)), size, start > 0)

    def write(self, name: str, data: bytes, mode: int, *, only_writer: bool = False, synced: bool = True) -> None:
        """Replace a file by one with exactly this content: a reader sees the old one or the new one.

        The temporary file, a dot file that ends with `.tmp` so that no scanner takes it for a flag, is gone after a
        failure. The file has the rights of `mode`. A link at `name` is replaced. The content survives a power cut,
        and the name too if `synced`. With `only_writer`, nobody else writes this file: a crash's leftover is removed.
        """
        with self._naming(name):
            temporary = temporary_name(name, only_writer=only_writer)
            if only_writer:
                self.remove(temporary)
            self._write_new(temporary, data, mode)
            try:
                self.rename(temporary, self, name)
            except BaseException:
                self.remove(temporary)
                raise
            if synced:
                self.sync()

    def write_all(
        self, files: Sequence[tuple[str, bytes]], mode: int, seconds: float = math.inf, crash_point: str = ""
    ) -> list[BaseException | None]:
        """Replace files as their only writer, several at a time. Returns the error of each, or None.

        After so many seconds the rest is left out.
        """
        from supervisor_core.common.threads import DaemonThreads

        parallel = SYNCS_AT_ONCE if len(dict(files)) == len(files) else 1
        threads = DaemonThreads("sync", parallel, idle_seconds=0)  # a drive that hangs keeps them
        write, deadline = partial(self.write, mode=mode, only_writer=True, synced=False), time.monotonic() + seconds
        errors: list[BaseException | None] = []
        for start in range(0, len(files), parallel):
            if errors and time.monotonic() > deadline:
                break
            for future in [threads.submit(write, *file) for file in files[start : start + parallel]]:
                errors.append(future.exception())
                if crash_point and errors[-1] is None:
                    crashpoints.reach(crash_point)
        self.sync()
        return errors

    def create(self, name: str, data: bytes, mode: int) -> None:
        """Create a file; `FileExistsError` where the name is taken. A reader may see a part of it for a moment."""
        self._write_new(name, data, mode)
        self.sync()

    def append(self, name: str, data: bytes, mode: int, max_bytes: int, backups: int) -> None:
        """Append to a file of our own. If it would grow beyond `max_bytes`, it's renamed to `NAME.1` first.

        `NAME.1` becomes `NAME.2`, and so on up to `backups`. No file is truncated. A link, a file with a second name,
        or somebody else's file isn't written to.
        """
        with contextlib.suppress(FileNotFoundError):
            facts = self.look(name)
            if stat.S_ISREG(facts.st_mode) and facts.st_size > 0 and facts.st_size + len(data) > max_bytes:
                names = [name, *(f"{name}.{number}" for number in range(1, backups + 1))]
                self.remove(names[-1])
                for name_before, name_after in reversed(list(pairwise(names))):
                    with contextlib.suppress(FileNotFoundError):
                        self.rename(name_before, self, name_after)
        with self.opened(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT, mode, own=True) as descriptor:
            if os.fstat(descriptor).st_size == 0:
                set_mode(descriptor, mode)
            write_all(descriptor, data)

    def rename(self, name: str, folder: OpenFolder, new_name: str) -> None:
        """Move a name to another open folder, or to another name. Links are moved, never followed."""
        with self._naming(name):
            source, target = self._at(name), folder._at(new_name)
            source_descriptor, target_descriptor = self._descriptor, folder._descriptor
            retry_rename(lambda: os.replace(source, target, src_dir_fd=source_descriptor, dst_dir_fd=target_descriptor))

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is fine. Links are removed, never followed."""
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            os.unlink(self._at(name), dir_fd=self._descriptor)

    def remove_any(self, name: str) -> None:
        """Remove a file or an empty folder; a missing one is fine."""
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(self.look(name).st_mode):
                os.rmdir(self._at(name), dir_fd=self._descriptor)
            else:
                self.remove(name)

    def set_folder_aside(self, name: str) -> None:
        """Rename a folder that's in the place of a file, since it can't be replaced or removed. Anything else stays."""
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(self.look(name).st_mode):
                self.rename(name, self, temporary_name(name, only_writer=False))

    def sync(self) -> None:
        """Make the names in the folder survive a power cut, where the system knows how."""
        if not BY_DESCRIPTOR:
            return
        with self._listing() as descriptor:
            try:
                os.fsync(descriptor)
            except OSError as error:
                if error.errno not in NOT_SUPPORTED:
                    raise

    def path_by_descriptor(self) -> str:
        """A path of this very folder while it is open, for calls that take only paths. Linux only."""
        return str(self.path) if self._descriptor is None else f"/proc/self/fd/{self._descriptor}"

    @contextlib.contextmanager
    def opened(self, name: str, flags: int, mode: int = PRIVATE_FILE, *, own: bool = False) -> Iterator[int]:
        """The checked descriptor of a regular file; with `own`, of a file that we wrote."""
        with self._naming(name):
            with contextlib.suppress(FileNotFoundError):
                self._check(name, self.look(name), own=False)  # to open a device can already have an effect
            try:
                descriptor = os.open(self._at(name), flags | _OPEN_FILE, mode, dir_fd=self._descriptor)
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise refused(self.path / name, "is a symbolic link") from None
                if error.errno == errno.ENXIO:  # a FIFO without a reader, or a socket
                    raise refused(self.path / name, "isn't a regular file") from None
                raise
            try:
                self._check(name, os.fstat(descriptor), own=own)
                yield descriptor
            finally:
                os.close(descriptor)  # a network drive reports a full disk here

    def _check(self, name: str, facts: os.stat_result, *, own: bool) -> None:
        problem = ""
        if is_link(facts):
            problem = "is a symbolic link"
        elif not stat.S_ISREG(facts.st_mode):
            problem = "isn't a regular file"
        elif self._shared and facts.st_nlink > 1:
            problem = "has a second name (hard link)"
        elif own and sys.platform != "win32" and facts.st_uid not in {os.geteuid(), self._owner}:
            problem = f"belongs to another user (uid {facts.st_uid})"
        if problem:
            raise refused(self.path / name, problem)

    def _write_new(self, name: str, data: bytes, mode: int) -> None:
        """Write a file whose name is free; after a failure it's gone."""
        with self.opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode) as descriptor:
            try:
                set_mode(descriptor, mode)
                write_all(descriptor, data)
                os.fsync(descriptor)
            except BaseException:
                self.remove(name)
                raise

    def _at(self, name: str) -> str:
        """A name as the system's calls take it: relative to the descriptor, or as a whole path."""
        if not name or name in {".", ".."} or "/" in name or (os.altsep and os.sep in name):
            raise ValueError(f"{name!r} isn't a file name")
        return name if self._descriptor is not None else os.fspath(self.path / name)

    @contextlib.contextmanager
    def _listing(self) -> Iterator[Any]:
        """The folder opened for reading, as listing and syncing need it."""
        if self._descriptor is None:
            yield self.path
            return
        with self._naming(""):
            descriptor = os.open(".", _LIST_FOLDER, dir_fd=self._descriptor)
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    @contextlib.contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Let an error from the system (a full disk) name the file that was meant, with its whole path."""
        try:
            yield
        except OSError as error:
            del error.filename2
            error.filename = os.path.join(self.path, name)  # noqa: PTH118 (many files are missing, and a Path is slow)
            raise
