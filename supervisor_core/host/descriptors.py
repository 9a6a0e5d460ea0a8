"""Open files, by their descriptor: read in pieces, written whole, with exactly the rights that were asked for."""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator

# A file system that can't sync a folder, or has no modes, isn't at fault.
NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
READ_AT_ONCE = 1 << 20


def is_link(facts: os.stat_result) -> bool:
    """Whether these are the facts of a symbolic link, or on Windows of a junction or any other redirection."""
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
    """Write everything, however little the system takes at a time."""
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    """The content up to the limit, whatever size the file claims to have."""
    while limit > 0 and (chunk := os.read(descriptor, min(limit, READ_AT_ONCE))):
        limit -= len(chunk)
        yield chunk


def known_flags(*names: str) -> int:
    """Those of the flags that this system knows, together."""
    together = 0
    for name in names:
        together |= getattr(os, name, 0)
    return together
