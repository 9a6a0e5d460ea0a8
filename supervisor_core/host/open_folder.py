"""A folder held open: its files are reached through it, whatever happens to its path meanwhile.

Both kinds of folder go through here: local ones (`files.py`) and those of the shared drive (`drive_files.py`), where
somebody may swap any file or folder for a link, a FIFO, or a giant at any moment.

Platforms: Linux and macOS open every name relative to the folder's descriptor, without following links, and look
at the opened descriptor. Windows has neither; there, a path is checked before it's opened, and the opened file must be
the one that was checked. A folder swapped in between isn't noticed. Windows and macOS aren't tested.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

from supervisor_core.host.descriptors import (
    NOT_SUPPORTED,
    PRIVATE_FILE,
    UnreadableFileError,
    chunks,
    is_link,
    known_flags,
    refused,
    retry_rename,
    set_mode,
    split_lines,
    temporary_name,
    write_all,
)

BY_DESCRIPTOR = os.open in os.supports_dir_fd
"""True if files can be opened relative to an open folder. False on Windows."""
_A_LINK_OR_NO_FOLDER = frozenset({errno.ELOOP, errno.ENOTDIR})

OPEN_ATTEMPTS = 5
"""Attempts to open a file that is replaced at the same moment, as heartbeats are every few seconds."""

LOOKS = 20
"""Checks of the number of names of a file. They take 60 µs together; a network drive answers from its cache."""


class FileEnd(NamedTuple):
    """The last bytes of a file, the file's size, and whether something before them was left out."""

    data: bytes
    size: int
    cut: bool


class OpenFolder:
    """An open folder. In a `shared` one others may write too: a file there with a second name is refused."""

    def __init__(self, path: Path, *, shared: bool, descriptor: int | None = None) -> None:
        self.path = path
        self._shared = shared
        self._descriptor = descriptor

    @classmethod
    def at(cls, path: Path, *, shared: bool) -> OpenFolder:
        """Open the folder at a trusted path; links in it are followed."""
        if not BY_DESCRIPTOR:
            if not path.is_dir():
                number = errno.ENOTDIR if path.exists() else errno.ENOENT
                raise OSError(number, os.strerror(number), os.fspath(path))
            return cls(path, shared=shared)
        flags = known_flags("O_PATH", "O_DIRECTORY", "O_CLOEXEC")
        return cls(path, shared=shared, descriptor=os.open(path, os.O_RDONLY | flags))

    def close(self) -> None:
        """Close the folder."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def enter(self, name: str, *, make: bool = False) -> OpenFolder:
        """Open a folder in this one; a link in its place is refused. With `make`, create it if it's missing."""
        path = self.path / name
        with self._naming(name):
            if make:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(*self._at(name), **self._from_here())  # noqa: PTH102 (relative to the descriptor)
            if not BY_DESCRIPTOR:
                facts = self.look(name)
                if not stat.S_ISDIR(facts.st_mode) or is_link(facts):
                    raise self._no_folder(name)
                return OpenFolder(path, shared=self._shared)
            flags = os.O_RDONLY | known_flags("O_PATH", "O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC")
            try:
                descriptor = os.open(name, flags, **self._from_here())
            except OSError as error:
                if error.errno in _A_LINK_OR_NO_FOLDER:
                    raise self._no_folder(name) from None
                raise
        return OpenFolder(path, shared=self._shared, descriptor=descriptor)

    def look(self, name: str) -> os.stat_result:
        """The facts about one name. A link isn't followed."""
        with self._naming(name):
            return os.stat(*self._at(name), follow_symlinks=False, **self._from_here())

    def names(self) -> list[str]:
        """Every name in the folder."""
        with self._listing() as listed:
            return os.listdir(listed)

    def entries(self) -> Iterator[os.DirEntry[str]]:
        """Every name in the folder, to be asked with `follow_symlinks=False` before the next one comes."""
        with self._listing() as listed, os.scandir(listed) as found:
            yield from found

    def allows(self, access: int) -> bool:
        """True where we have these rights (`os.W_OK` and so on) in the folder."""
        if self._descriptor is None:
            return os.access(self.path, access)
        return os.access(".", access, dir_fd=self._descriptor)

    def probe(self) -> None:
        """Write a file and remove it: a full or read-only drive has the same rights as any other."""
        name = temporary_name("probe", only_writer=False)
        self._write_new(name, b"x", PRIVATE_FILE)
        self.remove(name)

    def read(self, name: str, max_bytes: int, *, own: bool = False) -> bytes:
        """All bytes of a regular file of at most `max_bytes`; with `own`, of a file that we wrote.

        A link isn't followed, a FIFO or a device is never waited for, and a file that grows while it's read can't
        exceed the limit: each is an `UnreadableFileError` that says which.
        """
        with self.opened(name, os.O_RDONLY, own=own) as descriptor:
            content = b"".join(chunks(descriptor, max_bytes + 1))
        if len(content) > max_bytes:
            raise UnreadableFileError(
                f"{self.path / name} is larger than {max_bytes} bytes.",
                remedy="Such files are never that large. Check it, then remove it.",
            )
        return content

    def read_end(self, name: str, most: int) -> FileEnd:
        """The last bytes of a regular file, at most so many."""
        with self.opened(name, os.O_RDONLY) as descriptor:
            size = os.fstat(descriptor).st_size
            start = max(size - most, 0)
            os.lseek(descriptor, start, os.SEEK_SET)
            return FileEnd(b"".join(chunks(descriptor, most)), size, start > 0)

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

    def create(self, name: str, data: bytes, mode: int) -> None:
        """Create a file; `FileExistsError` where the name is taken, even by another host at the same moment.

        A reader sees the whole file or none. On a drive without hard links it may see less for a moment.
        """
        link: Callable[..., None] = os.link  # unlike a rename, it replaces nothing
        follow = {"follow_symlinks": False} if BY_DESCRIPTOR else {}
        with self._naming(name):
            temporary = temporary_name(name, only_writer=False)
            self._write_new(temporary, data, mode)
            try:
                link(*self._at(temporary), *self._at(name), **self._pair(self), **follow)
            except FileExistsError:
                raise
            except OSError:
                self._write_new(name, data, mode)
            finally:
                self.remove(temporary)
            self.sync()

    def append(self, name: str, data: bytes, mode: int, max_bytes: int, backups: int) -> None:
        """Append to a file of our own, which never grows beyond `max_bytes`.

        A full file is renamed to `NAME.1`, `NAME.1` to `NAME.2`, and so on up to `backups`. No file is truncated. A
        link, a file with a second name, or somebody else's file isn't written to.
        """
        rest = data
        while rest:
            size = self._size(name)
            if size and size + len(rest) > max_bytes:
                self._rotate(name, backups)
            piece, rest = split_lines(rest, max_bytes)
            new = self.opened(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
            with contextlib.suppress(FileExistsError), new as descriptor:
                set_mode(descriptor, mode)
            with self.opened(name, os.O_WRONLY | os.O_APPEND, own=True) as descriptor:
                write_all(descriptor, piece)

    def rename(self, name: str, folder: OpenFolder, new_name: str) -> None:
        """Move a name to another open folder, or to another name. Links are moved, never followed."""
        with self._naming(name):
            names: tuple[Any, ...] = (*self._at(name), *folder._at(new_name))
            retry_rename(lambda: os.replace(*names, **self._pair(folder)))  # noqa: PTH105 (relative to the descriptors)

    def remove(self, name: str) -> None:
        """Remove a file; a missing one is fine. Links are removed, never followed."""
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            os.unlink(*self._at(name), **self._from_here())

    def remove_any(self, name: str) -> None:
        """Remove a file or an empty folder; a missing one is fine."""
        with self._naming(name), contextlib.suppress(FileNotFoundError):
            if stat.S_ISDIR(self.look(name).st_mode):
                os.rmdir(*self._at(name), **self._from_here())
            else:
                self.remove(name)

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
            descriptor = self._open(name, flags, mode)
            try:
                facts = os.fstat(descriptor)
                if own and not self._is_ours(facts):
                    raise refused(self.path / name, f"belongs to another user (uid {facts.st_uid})")
                yield descriptor
            finally:
                os.close(descriptor)  # on a network drive this is where a full disk is told

    def _open(self, name: str, flags: int, mode: int) -> int:
        """Open a regular file; one that is replaced at this very moment is opened again."""
        for _ in range(OPEN_ATTEMPTS):
            if not flags & os.O_CREAT:
                self._check_regular(name, self.look(name))  # to open a device can already have an effect
            safe = flags | known_flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
            try:
                descriptor = os.open(*self._at(name), safe, mode, **self._from_here())
            except OSError as error:
                if error.errno == errno.ELOOP:
                    raise refused(self.path / name, "is a symbolic link") from None
                if error.errno == errno.ENXIO:  # a FIFO without a reader, or a socket
                    raise refused(self.path / name, "isn't a regular file") from None
                raise
            try:
                self._check_regular(name, os.fstat(descriptor))
                if flags & os.O_CREAT or not self._shared or self._is_its_only_name(name, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)
        raise refused(self.path / name, "changed each time it was opened")

    def _is_its_only_name(self, name: str, descriptor: int) -> bool:
        """Refuse an open file with a second name; False where the name means another file by now.

        The count alone isn't enough: a hard link to a private file that's removed right after we opened it leaves a
        private file with a single name, its own. So the count must be one while the name is still there. Whoever makes
        and removes the link all the time gets through one such look in twenty, so we look often.
        """
        for _ in range(LOOKS):
            try:
                by_name = self.look(name)
            except FileNotFoundError:
                return False
            facts = os.fstat(descriptor)
            if not os.path.samestat(by_name, facts):
                return False
            if by_name.st_nlink > 1 or facts.st_nlink > 1:
                raise refused(self.path / name, "has a second name (hard link)")
        return True

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

    def _rotate(self, name: str, backups: int) -> None:
        if backups < 1:
            self.remove(name)
            return
        for number in range(backups - 1, 0, -1):
            with contextlib.suppress(FileNotFoundError):
                self.rename(f"{name}.{number}", self, f"{name}.{number + 1}")
        with contextlib.suppress(FileNotFoundError):
            self.rename(name, self, f"{name}.1")

    def _size(self, name: str) -> int:
        try:
            facts = self.look(name)
        except FileNotFoundError:
            return 0
        self._check_regular(name, facts)
        return facts.st_size

    def _is_ours(self, facts: os.stat_result) -> bool:
        """True for our own file. A drive may give all files one owner: then it's the owner of a file that we make."""
        if sys.platform == "win32" or facts.st_uid == os.geteuid():
            return True
        probe = temporary_name("owner", only_writer=False)
        try:
            with self.opened(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as descriptor:
                return os.fstat(descriptor).st_uid == facts.st_uid
        finally:
            self.remove(probe)

    def _check_regular(self, name: str, facts: os.stat_result) -> None:
        if stat.S_ISREG(facts.st_mode) and not is_link(facts):
            return
        raise refused(self.path / name, "is a symbolic link" if is_link(facts) else "isn't a regular file")

    def _no_folder(self, name: str) -> OSError:
        """The error for a name that isn't a folder that we may enter. It says nothing about the files below it."""
        linked = False
        with contextlib.suppress(FileNotFoundError):
            linked = is_link(self.look(name))
        why = "Folders on the drive can't be symbolic links" if linked else os.strerror(errno.ENOTDIR)
        return OSError(errno.ENOTDIR, why, os.fspath(self.path / name))

    def _at(self, name: str) -> tuple[str]:
        """A name as the system's calls take it: relative to the descriptor, or as a whole path."""
        if not name or name in {".", ".."} or "/" in name or (os.altsep and os.sep in name):
            raise ValueError(f"{name!r} isn't a file name")
        return (name if self._descriptor is not None else os.fspath(self.path / name),)

    def _from_here(self) -> dict[str, Any]:
        return {} if self._descriptor is None else {"dir_fd": self._descriptor}

    def _pair(self, folder: OpenFolder) -> dict[str, Any]:
        here, there = self._descriptor, folder._descriptor
        return {} if here is None else {"src_dir_fd": here, "dst_dir_fd": there}

    @contextlib.contextmanager
    def _listing(self) -> Iterator[Any]:
        """The folder opened for reading, as listing and syncing need it."""
        if self._descriptor is None:
            yield self.path
            return
        flags = os.O_RDONLY | known_flags("O_DIRECTORY", "O_CLOEXEC")
        try:
            descriptor = os.open(".", flags, dir_fd=self._descriptor)
        except OSError as error:
            error.filename = os.fspath(self.path)
            raise
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
