"""Text files of any size that an operator names: written whole or not at all, never over another file."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from supervisor_core.domain.errors import SupervisorError

MODE = 0o600
LONGEST_LINE = 64 * 1024 * 1024


class FileTaken(SupervisorError):
    """There is a file of this name already."""


def write_lines(path: Path, lines: Iterable[str]) -> str:
    """Write a new file and have it on the disk when this returns; the SHA-256 of its content, in hex."""
    if os.path.lexists(path):
        raise FileTaken(f"{path} exists already.", remedy="Choose another name. No file is ever replaced.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(temporary, flags, MODE), "wb") as file:
            for line in lines:
                content = f"{line}\n".encode()
                digest.update(content)
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # unlike a rename, it replaces nothing
        except FileExistsError:
            raise FileTaken(f"{path} exists already.", remedy="Choose another name.") from None
    finally:
        temporary.unlink(missing_ok=True)
    _sync(path.parent)
    return digest.hexdigest()


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file. Bytes that aren't UTF-8 become lone surrogates; a longer line comes in pieces."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            yield line.decode("utf-8", "surrogateescape").rstrip("\n")


def digest_of(path: Path) -> str:
    """The SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def discard(path: Path) -> None:
    """Remove a file that was just written."""
    path.unlink(missing_ok=True)


def _sync(folder: Path) -> None:
    """Make the new name survive a power cut."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
