"""The inbox on the drive: each flag is claimed by a rename before anything else happens to it.

    <inbox>/NAME  →  <inbox>/processing/NAME.TOKEN  →  gone, or  <inbox>/rejected/NAME with its reason

The token is a fresh task id. It makes the claimed name unique, so that no claim overwrites another, and it is the
task id of a flag that brought none: after a crash the same file still means the same command.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from supervisor_core.commands.flags import MAX_BYTES, SUFFIX, is_task_id
from supervisor_core.common import crashpoints
from supervisor_core.common.text import storable
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import UnreadableFileError
from supervisor_core.host.files import json_text
from supervisor_core.host.permissions import user_name

PROCESSING, REJECTED = "processing", "rejected"

REPORT = "report_"

KEPT_REJECTED, KEPT_REPORTS, KEPT_PROCESSING = 1000, 100, 10_000
"""The number of files kept: in `rejected`, of its reports, and in `processing` for workers of other hosts."""

REMOVED_AT_ONCE = 5000

LISTED = 100_000
"""The most flags listed at once. If there are more, some wait until others are gone."""

LONGEST_NAME = 255
"""The longest file name in bytes. A valid flag's name with its token is never longer."""

CUT = "…"
"""Marks a shortened name. No valid flag name has it, so a shortened name can't be taken for a flag."""

EARLIEST, LATEST = datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 12, 31, tzinfo=UTC)
"""The range of times that every database takes. A file's time may be anything."""


class ClaimedFlag(NamedTuple):
    """A flag that we claimed, so that nobody else takes it. `name` is its original name if that could be kept."""

    name: str
    token: str
    path: Path


class UnclaimedFlag(NamedTuple):
    name: str
    size: int
    moment: int
    inode: int

    @property
    def fingerprint(self) -> str:
        """Changes when the file does."""
        return f"{self.inode}:{self.size}:{self.moment}"


class FlagContent(NamedTuple):
    """A claimed flag with its content, or with the error of reading it, and with the facts of the file system."""

    flag: ClaimedFlag
    content: bytes | Exception
    filed_at: datetime
    owner: str
    """A hint, not an identity."""


class Inbox:
    """One inbox. Every call touches the drive and may hang as long as the drive does."""

    def __init__(self, root: Path, folder: Path, file_mode: int) -> None:
        self.folder = folder
        self._root = root
        self._processing = folder / PROCESSING
        self._rejected = folder / REJECTED
        self._mode = file_mode

    def prepare(self) -> None:
        """Make the folders. The caller has checked that the drive is there."""
        for folder in (self._processing, self._rejected):
            drive_files.make_folder(self._root, folder)

    def unclaimed(self, is_own: Callable[[str], bool]) -> list[UnclaimedFlag]:
        """The flags with these names, in the order of their file times, with no earlier one left out.

        A listing that runs while others write may contain a later file and lack an earlier one. So there are two: of
        the second one, the files that aren't newer than the newest of the first are complete.
        """
        first = self._list_unclaimed(is_own)
        if not first:
            return []
        known = {flag.name for flag in first}
        newest = max(flag.moment for flag in first)
        second = self._list_unclaimed(lambda name: name in known or is_own(name))
        return sorted((flag for flag in second if flag.moment <= newest), key=lambda flag: (flag.moment, flag.name))

    def _list_unclaimed(self, is_own: Callable[[str], bool]) -> list[UnclaimedFlag]:
        flags = []
        with drive_files.open_folder(self._root, self.folder) as folder:
            for entry in folder.entries():
                if entry.name.endswith(SUFFIX) and is_own(entry.name):
                    with suppress(FileNotFoundError):
                        facts = entry.stat(follow_symlinks=False)
                        flags.append(UnclaimedFlag(entry.name, facts.st_size, facts.st_mtime_ns, facts.st_ino))
                if len(flags) >= LISTED:
                    break
        return flags

    def peek_all(self, names: Sequence[str]) -> dict[str, bytes | Exception]:
        """The content of unclaimed flags, or the error of reading it. No link is followed, and no pipe is read."""
        contents: dict[str, bytes | Exception] = {}
        with drive_files.open_folder(self._root, self.folder) as folder:
            for name in names:
                try:
                    contents[name] = folder.read(name, MAX_BYTES)
                except (FileNotFoundError, PermissionError, UnreadableFileError) as error:
                    contents[name] = error
        return contents

    def claim_all(self, flags: Sequence[tuple[str, str]]) -> list[tuple[str, ClaimedFlag | PermissionError | None]]:
        """Claim many flags, by name and token; None for one that is gone."""
        results: list[tuple[str, ClaimedFlag | PermissionError | None]] = []
        with (
            drive_files.open_folder(self._root, self.folder) as source,
            drive_files.open_folder(self._root, self._processing) as target,
        ):
            for name, token in flags:
                short_name = _keepable(name, token)
                path = self._processing / f"{short_name}.{token}"
                crashpoints.reach("flag.claim:before")
                try:
                    source.rename(name, target, path.name)
                except FileNotFoundError:
                    results.append((name, None))
                except PermissionError as error:
                    results.append((name, error))
                else:
                    results.append((name, ClaimedFlag(short_name, token, path)))
                crashpoints.reach("flag.claim:after")
        return results

    def settle(self) -> None:
        """Make the claims survive a power cut, before anybody acts on them."""
        drive_files.sync_folder(self._root, self._processing)
        drive_files.sync_folder(self._root, self.folder)

    def leftovers(self) -> list[ClaimedFlag]:
        """Flags that somebody claimed and didn't finish. The holder of the worker's lock may finish them."""
        flags = []
        for name in self._claimed_names():
            flag, separator, token = name.rpartition(f"{SUFFIX}.")
            if separator and is_task_id(token):
                flags.append(ClaimedFlag(flag + SUFFIX, token, self._processing / name))
        return flags

    def strays(self) -> list[str]:
        """Flags in `processing` without a token, put there by another program or by hand."""
        return [name for name in self._claimed_names() if name.endswith(SUFFIX)]

    def _claimed_names(self) -> list[str]:
        with drive_files.open_folder(self._root, self._processing) as folder:
            return sorted(folder.names())

    def adopt(self, name: str, token: str) -> None:
        """Give a stray a token, which makes it a leftover."""
        with suppress(FileNotFoundError):  # whoever put it there took it away
            target = self._processing / f"{_keepable(name, token)}.{token}"
            drive_files.move(self._root, self._processing / name, target)

    def read_all(self, flags: Sequence[ClaimedFlag]) -> list[FlagContent]:
        """The content of claimed flags, without those that somebody removed."""
        contents = []
        with drive_files.open_folder(self._root, self._processing) as folder:
            for flag in flags:
                content: bytes | Exception
                try:
                    facts = folder.look(flag.path.name)
                    content = folder.read(flag.path.name, MAX_BYTES)
                except FileNotFoundError:
                    continue
                except UnreadableFileError as error:  # the file moves on, so its present path would lead nowhere
                    message = error.message.replace(str(flag.path), "The file")
                    content = UnreadableFileError(message, remedy=error.remedy)
                except PermissionError as error:
                    content = error
                contents.append(FlagContent(flag, content, _file_time(facts.st_mtime), user_name(facts.st_uid)))
        return contents

    def remove(self, flag: ClaimedFlag) -> None:
        crashpoints.reach("flag.remove:before")
        drive_files.remove(self._root, flag.path)
        crashpoints.reach("flag.remove:after")

    def reject(self, flag: ClaimedFlag, reason: str) -> Path:
        """Move a flag to `rejected` with its reason, for a person to read."""
        names = itertools.chain([flag.name], (f"{flag.name}.{number}" for number in itertools.count(2)))
        target = next(path for path in map(self._rejected.joinpath, names) if not drive_files.exists(self._root, path))
        explanation = target.with_name(f"{target.name}.reason.txt")
        drive_files.write(self._root, explanation, f"{storable(reason)}\n".encode(), self._mode)
        crashpoints.reach("flag.reject:before")
        with suppress(FileNotFoundError):
            drive_files.move(self._root, flag.path, target)
        crashpoints.reach("flag.reject:after")
        return target

    def put_aside(self, flags: Sequence[ClaimedFlag]) -> None:
        """Move many into `rejected`; a report has their reasons."""
        with (
            drive_files.open_folder(self._root, self._processing) as source,
            drive_files.open_folder(self._root, self._rejected) as target,
        ):
            for flag in flags:
                with suppress(FileNotFoundError):
                    source.rename(flag.path.name, target, flag.path.name)

    def report(self, name: str, document: object) -> None:
        drive_files.write(self._root, self._rejected / name, json_text(document).encode(), self._mode)

    def bound_rejected(self) -> None:
        """Remove the oldest rejected flags and reports beyond the number that is kept."""
        self._bound(self._rejected, KEPT_REJECTED, lambda name: not name.startswith(REPORT))
        self._bound(self._rejected, KEPT_REPORTS, lambda name: name.startswith(REPORT))

    def bound_processing(self, own_names: Collection[str]) -> None:
        """Remove the oldest claimed files of other hosts that nobody finishes; `own_names` are those of our flags."""

        def is_foreign(name: str) -> bool:
            return name.rpartition(f"{SUFFIX}.")[0] + SUFFIX not in own_names and name not in own_names

        self._bound(self._processing, KEPT_PROCESSING, is_foreign)

    def _bound(self, path: Path, limit: int, concerns: Callable[[str], bool]) -> None:
        """Remove the oldest of these files beyond a number. In a folder with too many to list, any part comes first."""
        with drive_files.open_folder(self._root, path) as folder:
            names = [name for name in folder.names() if concerns(name)]
            surplus = min(len(names) - limit, REMOVED_AT_ONCE)
            if surplus <= 0:
                return
            aged = []
            for name in names[: limit + REMOVED_AT_ONCE]:
                with suppress(FileNotFoundError):
                    aged.append((folder.look(name).st_mtime_ns, name))
            for _, name in sorted(aged)[:surplus]:
                with suppress(OSError):  # a folder that isn't empty stays
                    folder.remove_any(name)


def _keepable(name: str, token: str) -> str:
    """The name, shortened if it leaves no room for the token, without bytes that aren't text."""
    text = os.fsencode(name).decode("utf-8", "replace")
    data, limit = text.encode(), LONGEST_NAME - len(f".{token}")
    if len(data) <= limit:
        return text
    half = (limit - len(CUT.encode())) // 2
    return f"{data[:half].decode(errors='ignore')}{CUT}{data[-half:].decode(errors='ignore')}"


def _file_time(seconds: float) -> datetime:
    try:
        return min(max(datetime.fromtimestamp(seconds, UTC), EARLIEST), LATEST)
    except (ValueError, OverflowError, OSError):  # no date has so large a number
        return EARLIEST if seconds < 0 else LATEST
