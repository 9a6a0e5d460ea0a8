"""The one door for files that other processes read: written whole or not at all, read without a trap."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import stat
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from supervisor_core.domain.errors import RefusedError

MAX_JSON_BYTES = 4 * 1024 * 1024  # far above any document of ours, far below what would hurt

# On Windows a replace fails for a moment while another program (a scanner, a sync client) looks at the file.
BUSY_ON_WINDOWS = frozenset({5, 32, 33})  # access denied, sharing violation, lock violation
REPLACE_ATTEMPTS = 12
REPLACE_PAUSE_SECONDS = 0.02  # growing with each attempt: about a second and a half in all

# A drive whose file system has no such thing as syncing a folder, or as modes, is not at fault.
_NOT_SUPPORTED = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS})
_NAME_KEPT_BYTES = 64  # of the target's name in the temporary one, which must stay under the limit of 255


class UnreadableError(RefusedError):
    """This file can't be used as it is."""


def write_atomically(path: str | Path, data: bytes | str, *, mode: int = 0o640, only_writer: bool = False) -> None:
    """Replace `path` by a file with exactly this content: a reader sees the old one or the new one.

    The temporary file lies in the same folder, begins with a dot and ends with `.tmp`, so that no scanner
    takes it for a flag; it is gone after a failure. When this returns, the content survives a power cut.
    The file never has wider rights than `mode`. A symbolic link at `path` is replaced, not followed. `only_writer`:
    nobody else writes this file at the same time, so what a crash left of an earlier try is taken away.
    """
    target = Path(path)
    payload = data.encode() if isinstance(data, str) else data
    with _naming(target):
        temporary = _temporary(target, only_writer=only_writer)
        _write_temporary(temporary, payload, mode)
        try:
            replace_patiently(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        sync_folder(target.parent)


def write_json(path: str | Path, document: object, *, mode: int = 0o640) -> None:
    """Write a JSON document atomically. What is not JSON (a NaN) fails before the disk is touched."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    write_atomically(path, text + "\n", mode=mode)


def read_json(path: str | Path, *, tolerant: bool = False, max_bytes: int = MAX_JSON_BYTES) -> dict[str, Any] | None:
    """The JSON object in a file, or None where there is no file.

    One that is no regular file, too big, or no JSON object is an `UnreadableError`; with `tolerant` it is
    None as well, for readers to whom a broken file says as little as a missing one. A drive that is away or
    refuses stays an `OSError` either way: that is no statement about the file.
    """
    try:
        return _parse(Path(path), read_limited(path, max_bytes))
    except FileNotFoundError:
        return None
    except UnreadableError:
        if tolerant:
            return None
        raise


def read_limited(path: str | Path, max_bytes: int) -> bytes:
    """All bytes of a regular file of at most `max_bytes`.

    A link at the end of the path is not followed, a FIFO or a device is never waited for, and a file that
    grows while it is read can't exceed the limit: each is an `UnreadableError` that says which.
    """
    name = Path(path)
    _check_regular(name, name.lstat())  # before opening: to open a device can already have an effect
    try:
        descriptor = os.open(name, os.O_RDONLY | _flags("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY"))
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise UnreadableError(f"{name} is a symbolic link.", remedy="Put a regular file there.") from None
        raise
    try:
        _check_regular(name, os.fstat(descriptor))
        content = b"".join(_chunks(descriptor, max_bytes + 1))
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise UnreadableError(
            f"{name} has more than {max_bytes} bytes.", remedy="No file of this kind is so big; look at it."
        )
    return content


def sync_folder(folder: Path) -> None:
    """Make the names in a folder survive a power cut, where the system knows how."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY | _flags("O_DIRECTORY", "O_CLOEXEC"))
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _NOT_SUPPORTED:
            raise
    finally:
        os.close(descriptor)


def replace_patiently(
    source: Path,
    target: Path,
    *,
    replace: Callable[[Path, Path], object] = Path.replace,
    pause: Callable[[float], None] = time.sleep,
) -> None:
    """Rename over the target; on Windows again, a bounded number of times, while somebody looks at it."""
    for attempt in range(1, REPLACE_ATTEMPTS + 1):
        try:
            replace(source, target)
        except OSError as error:
            busy = getattr(error, "winerror", None) in BUSY_ON_WINDOWS
            if not busy or attempt == REPLACE_ATTEMPTS:
                raise
            pause(REPLACE_PAUSE_SECONDS * attempt)
        else:
            return


def _temporary(target: Path, *, only_writer: bool) -> Path:
    """A name beside the target: one that nobody else has, or for an only writer always the same, and free."""
    kept = target.name.encode()[:_NAME_KEPT_BYTES].decode(errors="ignore")
    if not only_writer:
        return target.with_name(f".{kept}.{os.urandom(6).hex()}.tmp")
    whole = hashlib.sha256(target.name.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    temporary = target.with_name(f".{kept}.{whole}.tmp")
    temporary.unlink(missing_ok=True)
    return temporary


def _write_temporary(temporary: Path, payload: bytes, mode: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _flags("O_NOFOLLOW", "O_CLOEXEC", "O_BINARY")
    descriptor = os.open(temporary, flags, mode)
    try:
        try:
            _set_mode(descriptor, mode)
            rest = memoryview(payload)
            while rest:
                rest = rest[os.write(descriptor, rest) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)  # on a network drive this is where a full disk is told
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _set_mode(descriptor: int, mode: int) -> None:
    """Give exactly `mode`, whatever the umask; a drive without modes keeps what it gave at creation."""
    if sys.platform == "win32":
        return
    try:
        os.fchmod(descriptor, mode)
    except OSError as error:
        if error.errno != errno.EPERM and error.errno not in _NOT_SUPPORTED:
            raise


def _check_regular(name: Path, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kind = "a symbolic link" if stat.S_ISLNK(status.st_mode) else "no regular file"
    raise UnreadableError(f"{name} is {kind}.", remedy="Put a regular file there.")


def _chunks(descriptor: int, limit: int) -> Iterator[bytes]:
    while limit > 0 and (chunk := os.read(descriptor, min(limit, 1 << 20))):
        limit -= len(chunk)
        yield chunk


def _parse(name: Path, content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content.decode("utf-8-sig"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise UnreadableError(f"{name} is not JSON: {error}.", remedy="Repair it or remove it.") from None
    if not isinstance(document, dict):
        raise UnreadableError(
            f"{name} holds {type(document).__name__}, not a JSON object.", remedy="Repair it or remove it."
        )
    return document


def _refuse_constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON number")


def _flags(*names: str) -> int:
    """Those of the flags that this system knows, together."""
    together = 0
    for name in names:
        together |= getattr(os, name, 0)
    return together


@contextlib.contextmanager
def _naming(target: Path) -> Iterator[None]:
    """Let an error from the system (a full disk) name the file, which `write` and `fsync` do not."""
    try:
        yield
    except OSError as error:
        if error.filename is None:
            error.filename = os.fspath(target)
        raise
