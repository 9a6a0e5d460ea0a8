"""Private files on the local disk: written whole or not at all, read without following links or waiting for pipes.

Files on the shared drive are reached through `drive_files.py`. `write_lines` and `read_lines` handle text files of any
size that an operator names, and never replace another file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import PRIVATE_FILE, UnreadableFileError
from supervisor_core.host.open_folder import OpenFolder

MAX_JSON_BYTES = 4 * 1024 * 1024  # far above any document of ours, far below what would hurt


def write_atomically(path: str | Path, data: bytes | str, *, synced: bool = True) -> None:
    """Replace `path` by a file with exactly this content: a reader sees the old one or the new one.

    Unless `synced`, the new name survives a power cut only once something else in the folder was written.
    """
    target = Path(path)
    with OpenFolder.at(target.parent, shared=False) as folder:
        content = data.encode() if isinstance(data, str) else data
        folder.write(target.name, content, PRIVATE_FILE, synced=synced)


def write_json(path: str | Path, document: object, *, synced: bool = True) -> None:
    """Write a JSON document atomically. A value that isn't JSON (a NaN) fails before the disk is touched."""
    write_atomically(path, json_text(document), synced=synced)


def read_json(
    path: str | Path, *, tolerant: bool = False, max_bytes: int = MAX_JSON_BYTES, root: Path | None = None
) -> dict[str, Any] | None:
    """The JSON object in a file, or None if there is no file. A file on the drive needs the drive's root.

    If it isn't a regular file, is too large, or isn't a JSON object, that's an `UnreadableFileError`; with `tolerant`,
    it's None. An unavailable disk is always an `OSError`, because it says nothing about the file.
    """
    try:
        if root is not None:
            return parse_json(root / path, drive_files.read(root, path, max_bytes))
        os.lstat(path)  # most notes about workers are missing, and this is the quickest way to know
        return parse_json(Path(path), read_limited(path, max_bytes))
    except FileNotFoundError:
        return None
    except UnreadableFileError:
        if tolerant:
            return None
        raise


def read_limited(path: str | Path, max_bytes: int) -> bytes:
    """All bytes of a regular file of at most `max_bytes`; never through a link, and never waiting for a pipe."""
    name = Path(path)
    with OpenFolder.at(name.parent, shared=False) as folder:
        return folder.read(name.name, max_bytes)


def json_text(document: object) -> str:
    """A document as a file of ours holds it, with a line for each name; `ValueError` for what isn't JSON.

    Python's encoder is in C only where it doesn't indent.
    """
    encode = partial(json.dumps, ensure_ascii=False, allow_nan=False)
    if not isinstance(document, dict) or not document:
        return f"{encode(document)}\n"
    lines = ",\n".join(f"  {encode({name: value})[1:-1]}" for name, value in document.items())
    return f"{{\n{lines}\n}}\n"


def parse_json(name: Path, content: bytes) -> dict[str, Any]:
    """The JSON object in the content of a file; `UnreadableFileError`, with the file's name, for anything else."""

    def refuse(constant: str) -> object:
        raise ValueError(f"{constant} isn't a JSON number")

    try:
        document = json.loads(content.decode("utf-8-sig"), parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise UnreadableFileError(f"{name} isn't valid JSON: {error}.", remedy="Repair it or remove it.") from None
    if not isinstance(document, dict):
        raise UnreadableFileError(
            f"{name} isn't a JSON object, but {type(document).__name__}.", remedy="Repair it or remove it."
        )
    return document


LONGEST_LINE = 64 * 1024 * 1024


class FileTaken(SupervisorError):
    """A file with this name exists."""


def write_lines(path: Path, lines: Iterable[str]) -> str:
    """Write a new file durably. Returns the SHA-256 of its content, in hex."""
    if os.path.lexists(path):
        raise FileTaken(f"{path} already exists.", remedy="Choose another name. Files are never replaced.")
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    digest = hashlib.sha256()
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    try:
        with os.fdopen(os.open(temporary, flags, PRIVATE_FILE), "wb") as file:
            for line in lines:
                content = f"{line}\n".encode()
                digest.update(content)
                file.write(content)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(temporary, path)  # unlike a rename, it replaces nothing
        except FileExistsError:
            raise FileTaken(f"{path} already exists.", remedy="Choose another name.") from None
    finally:
        temporary.unlink(missing_ok=True)
    with OpenFolder.at(path.parent, shared=False) as folder:
        folder.sync()
    return digest.hexdigest()


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file. Bytes that aren't UTF-8 become lone surrogates; a longer line comes in pieces."""
    with path.open("rb") as file:
        while line := file.readline(LONGEST_LINE):
            yield line.decode("utf-8", "surrogateescape").rstrip("\n")


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
