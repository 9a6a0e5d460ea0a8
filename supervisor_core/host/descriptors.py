"""Primitives for files and their descriptors: modes, reading in pieces, writing whole, renaming, temporary names."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from supervisor_core.common.errors import RefusedError

# A file system that can't sync a folder, or has no modes, isn't at fault.
NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
READ_AT_ONCE = 1 << 20

PRIVATE_FILE, PRIVATE_FOLDER = 0o600, 0o700
"""The modes of everything in the state folder."""

# On Windows a rename fails for a moment while another program (a scanner, a sync client) looks at the file.
BUSY_ON_WINDOWS = frozenset({5, 32, 33})  # access denied, sharing violation, lock violation
RENAME_ATTEMPTS = 12
RENAME_PAUSE_SECONDS = 0.02  # growing with each attempt: about a second and a half in all

_NAME_KEPT_BYTES = 64  # of the target's name in the temporary one, which must stay under the limit of 255


class UnreadableFileError(RefusedError):
    """The file isn't safe to use."""


def is_link(facts: os.stat_result) -> bool:
    """True for a symbolic link, and on Windows for a junction or any other redirection."""
    redirected = getattr(facts, "st_file_attributes", 0) & getattr(stat, "FILE_ATTRIBUTE_REPARSE_POINT", 0)
    return stat.S_ISLNK(facts.st_mode) or bool(redirected)


def set_mode(descriptor: int, mode: int) -> None:
    """Give exactly `mode`, whatever the umask; a drive without modes keeps what it gave at creation."""
    if sys.platform == "win32":
        return
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        if error.errno != errno.EPERM and error.errno not in NOT_SUPPORTED:
            raise


def write_all(descriptor: int, data: bytes) -> None:
    remaining = memoryview(data)
    while remaining:
        remaining = remaining[os.write(descriptor, remaining) :]


def chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """The content up to the limit, whatever size the file claims to have."""
    while limit > 0 and (chunk := os.read(descriptor, min(limit, READ_AT_ONCE))):
        limit -= len(chunk)
        yield chunk


def retry_rename(rename: Callable[[], object], *, pause: Callable[[float], None] = time.sleep) -> None:
    """Rename a file. On Windows, retry a limited number of times while another program has it open."""
    for attempt in range(1, RENAME_ATTEMPTS + 1):
        try:
            rename()
        except OSError as error:
            busy = getattr(error, "winerror", None) in BUSY_ON_WINDOWS
            if not busy or attempt == RENAME_ATTEMPTS:
                raise
            pause(RENAME_PAUSE_SECONDS * attempt)
        else:
            return


def temporary_name(name: str, *, only_writer: bool) -> str:
    """The name of a temporary file: unique, or always the same for an only writer."""
    prefix = os.fsencode(name)[:_NAME_KEPT_BYTES].decode(errors="ignore")
    if not only_writer:
        return f".{prefix}.{os.urandom(6).hex()}.tmp"
    return f".{prefix}.{hashlib.sha256(os.fsencode(name)).hexdigest()[:12]}.tmp"


def refused(path: Path, problem: str) -> UnreadableFileError:
    """The error for a path that holds something other than a usable regular file."""
    return UnreadableFileError(f"{path} {problem}.", remedy="Replace it with a regular file, or remove it.")
