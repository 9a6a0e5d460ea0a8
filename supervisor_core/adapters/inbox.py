"""The inbox on the drive: what lies there, claimed by a rename before anything else happens to it.

    <inbox>/NAME  →  <inbox>/processing/NAME.TOKEN  →  gone, or  <inbox>/rejected/NAME with its reason

The token is a fresh task id. It makes the claimed name unique, so that no claim overwrites another, and it is the
task id of a flag that brought none: after a crash the same file still means the same command.
"""

from __future__ import annotations

import itertools
import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from supervisor_core.adapters.files import read_limited, sync_folder, write_atomically
from supervisor_core.domain import crashpoints
from supervisor_core.domain.flags import MAX_BYTES, SUFFIX, is_task_id
from supervisor_core.domain.texts import storable

PROCESSING, REJECTED = "processing", "rejected"

LONGEST_NAME = 255
"""Bytes that a file system takes for a name. A right flag's name, with its token, is never longer."""

CUT = "…"
"""Where the middle of a name was left out: no right flag has it, so what is cut can't become one."""

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""A file's time may be anything; what every database takes lies between these."""


@dataclass(frozen=True, slots=True)
class Claimed:
    """A flag that is ours: nobody else can find it any more. `name` is as it was, where that could be kept."""

    name: str
    token: str
    path: Path


@dataclass(frozen=True, slots=True)
class Facts:
    """What the file system knows of a flag. The owner is a hint, not an identity."""

    filed_at: datetime
    owner: str


class Inbox:
    """The doors to one inbox. Every call touches the drive, and may hang as long as the drive does."""

    def __init__(self, folder: Path, file_mode: int) -> None:
        self.folder = folder
        self._processing = folder / PROCESSING
        self._rejected = folder / REJECTED
        self._mode = file_mode

    def prepare(self) -> None:
        """Make the folders, below a drive that was seen to be there."""
        for folder in (self._processing, self._rejected):
            folder.mkdir(parents=True, exist_ok=True)

    def names(self) -> list[str]:
        """The names that may be flags, in the order of their file times, and none before one that came earlier.

        A folder that is read while others write into it may show a later file and not an earlier one. So it is read
        twice: what the second look finds and is not newer than the newest of the first has all its forerunners there.
        """
        first = self._dated()
        if not first:
            return []
        newest = max(first)[0]
        return [name for moment, name in sorted(self._dated()) if moment <= newest]

    def _dated(self) -> list[tuple[int, str]]:
        found = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                if entry.name.endswith(SUFFIX):
                    with suppress(FileNotFoundError):  # somebody else's, and gone
                        found.append((entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        return found

    def fingerprint(self, name: str) -> str:
        """Changes when the file does."""
        facts = (self.folder / name).lstat()
        return f"{facts.st_ino}:{facts.st_size}:{facts.st_mtime_ns}"

    def peek(self, name: str) -> bytes:
        """What is in an unclaimed flag, never through a link and never from a pipe."""
        return read_limited(self.folder / name, MAX_BYTES)

    def claim(self, name: str, token: str) -> Claimed | None:
        """Take the flag; None where somebody was faster."""
        kept = _keepable(name, token)
        path = self._processing / f"{kept}.{token}"
        crashpoints.reach("flag.claim:before")
        try:
            (self.folder / name).rename(path)
        except FileNotFoundError:
            return None
        crashpoints.reach("flag.claim:after")
        return Claimed(kept, token, path)

    def settle(self) -> None:
        """Make the claims last through a loss of power, before anything is done because of them."""
        sync_folder(self._processing)
        sync_folder(self.folder)

    def leftovers(self) -> list[Claimed]:
        """Flags that somebody claimed and did not finish; whoever holds the worker's lock may go on with them."""
        found = []
        for name in sorted(os.listdir(self._processing)):
            flag, separator, token = name.rpartition(f"{SUFFIX}.")
            if separator and is_task_id(token):
                found.append(Claimed(flag + SUFFIX, token, self._processing / name))
        return found

    def strays(self) -> list[str]:
        """Flags in `processing` without a token: put there by another program or by hand."""
        return [name for name in sorted(os.listdir(self._processing)) if name.endswith(SUFFIX)]

    def adopt(self, name: str, token: str) -> None:
        """Give a stray a token, so that it is a leftover."""
        with suppress(FileNotFoundError):  # whoever put it there took it away
            (self._processing / name).rename(self._processing / f"{_keepable(name, token)}.{token}")

    def read(self, flag: Claimed) -> bytes:
        """What is in a claimed flag."""
        return read_limited(flag.path, MAX_BYTES)

    def facts(self, flag: Claimed) -> Facts:
        """When it was filed and whose file it is."""
        found = flag.path.lstat()
        return Facts(_moment(found.st_mtime), _user_name(found.st_uid))

    def remove(self, flag: Claimed) -> None:
        """It has been taken over into the ledger."""
        crashpoints.reach("flag.remove:before")
        flag.path.unlink(missing_ok=True)
        crashpoints.reach("flag.remove:after")

    def reject(self, flag: Claimed, reason: str) -> Path:
        """Put it aside with its reason, for a person to look at."""
        names = itertools.chain([flag.name], (f"{flag.name}.{number}" for number in itertools.count(2)))
        target = next(path for path in map(self._rejected.joinpath, names) if not os.path.lexists(path))
        write_atomically(target.with_name(f"{target.name}.reason.txt"), f"{storable(reason)}\n", mode=self._mode)
        crashpoints.reach("flag.reject:before")
        with suppress(FileNotFoundError):
            flag.path.rename(target)
        crashpoints.reach("flag.reject:after")
        return target


def _keepable(name: str, token: str) -> str:
    """The name itself, unless it is no text or leaves no room for the token: then what can be kept of it."""
    text = os.fsencode(name).decode("utf-8", "replace")
    data, most = text.encode(), LONGEST_NAME - len(f".{token}")
    if len(data) <= most:
        return text
    half = (most - len(CUT.encode())) // 2
    return f"{data[:half].decode(errors='ignore')}{CUT}{data[-half:].decode(errors='ignore')}"


def _moment(seconds: float) -> datetime:
    try:
        return min(max(datetime.fromtimestamp(seconds, UTC), EARLIEST), LATEST)
    except (ValueError, OverflowError, OSError):  # no date has so large a number
        return EARLIEST if seconds < 0 else LATEST


def _user_name(uid: int) -> str:
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):  # Windows has no such names, and not every number has one
        return str(uid)
