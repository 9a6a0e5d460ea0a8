"""The pauses of workers: a flag on the drive, and a copy in the state folder for when the drive is away.

Workers and people see the flag. The copy counts while the drive is away, and keeps a change until the drive has it.
Without `inbox.secret`, people may create and remove the flag by hand, and the copy follows. With a secret, writing to
the drive isn't enough: the copy counts, and the flag is restored. Either way, the change is recorded.
"""

from __future__ import annotations

import hmac
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from stat import S_ISREG
from typing import Any, NamedTuple

from supervisor_core.commands.flags import sign
from supervisor_core.commands.labels import SEPARATOR
from supervisor_core.common import crashpoints
from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.text import one_line
from supervisor_core.common.times import from_text, to_text
from supervisor_core.host import drive_files
from supervisor_core.host.descriptors import PRIVATE_FOLDER, UnreadableFileError
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.files import MAX_JSON_BYTES, json_text, parse_json, read_json, write_json

DESIRED = "desired"
"""The folder in the state folder that holds a copy of each pause."""

LONGEST_SAID = 200
"""The most characters of a field of a flag. A command id, an actor or an audit label isn't longer; a note is cut."""

RESTORED_AGAIN = timedelta(hours=1)
"""The time in which further restorations of a worker's flag are only logged: somebody may remove it every second."""

log = logging.getLogger(__name__)


class Pause(NamedTuple):
    """The author, time, label and note of a pause; empty where a flag was made by hand."""

    by: str = ""
    at: str = ""
    label: str = ""
    task_id: str = ""
    signature: str = ""
    """The signature of the other fields, the worker and the supervisor; empty without `inbox.secret`."""
    note: str = ""

    def facts(self) -> dict[str, str]:
        """The fields that are signed; an empty note isn't one, as in flags that were signed before there were notes."""
        facts = self._asdict()
        del facts["signature"]
        return facts if self.note else {name: value for name, value in facts.items() if name != "note"}

    def __str__(self) -> str:
        """`paused by root at 2026-02-05 06:08 UTC: disk is full`."""
        person, _, label = (self.label or self.by).partition(SEPARATOR)
        author = f" by {person}" if person else ""
        time = f" at {self.at}" if self.at else ""
        with suppress(ValueError):  # else as somebody wrote it by hand
            time = f" at {from_text(self.at):%Y-%m-%d %H:%M} UTC" if self.at else ""
        reason = "; ".join(filter(None, (label, self.note)))
        return f"paused{author}{time}{f': {reason}' if reason else ''}"


@dataclass(frozen=True, slots=True)
class PauseFlagChange:
    """A change of a pause flag on the drive that no command made."""

    worker_id: str
    path: Path
    flag: Pause | None
    """The flag as found; None if it was gone."""
    restored: Pause | None
    """The pause in force; None without one."""
    refused: bool
    """True if the flag was restored, because a secret is configured."""


class PauseResult(NamedTuple):
    """The result of a change: in force at once, and on the drive as soon as that can be reached."""

    on_drive: bool
    problem: str = ""


def pause_flag_path(state_folder: Path, worker_id: str) -> Path:
    return state_folder / f"supervisor_pause_{worker_id}.flag"


def paused_by(name: str) -> str | None:
    """The worker of a pause flag with this file name; None for another file."""
    inner = name.removeprefix("supervisor_pause_").removesuffix(".flag")
    return inner if inner and name == f"supervisor_pause_{inner}.flag" else None


def is_watcher_paused(state_folder: Path, worker_id: str) -> bool:
    """True if the pause flag exists, whatever its content."""
    return drive_files.is_file(state_folder, pause_flag_path(state_folder, worker_id))


class Pauses:
    """The pauses of one host's workers.

    `read`, `set` and `settle` are for the owner of the worker (its coroutine, or a pass): two at a time would overwrite
    each other. Everybody else may `look`.
    """

    def __init__(
        self,
        state_dir: Path,
        state_folder: Path,
        drive: Drive,
        file_mode: int,
        secret: str = "",
        supervisor_id: str = "",
    ) -> None:
        self._home = state_dir / DESIRED
        self._folder = state_folder
        self._drive = drive
        self._mode = file_mode
        self._secret = secret
        self._supervisor_id = supervisor_id
        self.hand_made: Callable[[PauseFlagChange], object] | None = None
        """Records changes without a command; called before the flag or the copy is changed."""

    def look(self, worker_id: str, flag: Pause | None, *, flag_known: bool) -> Pause | None:
        """The pause in force: the one on its way to the drive, else the flag, else the copy."""
        copy = self._read_copy(worker_id)
        return self._in_force(worker_id, copy, flag) if flag_known else _pause(copy.get("pause"))

    def differs(self, worker_id: str, flag: Pause | None) -> bool:
        """True if somebody has changed the flag by hand, so that `read` has something to do."""
        copy = self._read_copy(worker_id)
        if self._outlasts_flag(copy, flag):
            return False
        if self._secret:
            return flag != self._in_force(worker_id, copy, flag)
        return (flag is None) != (_pause(copy.get("pause")) is None)

    def changed_at(self, worker_id: str) -> datetime | None:
        """The time of the last known pause or resume; None without one."""
        try:
            return datetime.fromtimestamp((self._home / f"{worker_id}.json").stat().st_mtime, UTC)
        except OSError:
            return None

    def preview(self, worker_id: str) -> Pause | None:
        """The result of `read`, without changing anything, for callers that don't own the worker."""
        try:
            flag = self._read_flag(worker_id)
        except (DriveUnavailable, OSError):
            return self.look(worker_id, None, flag_known=False)
        return self.look(worker_id, flag, flag_known=True)

    def read(self, worker_id: str) -> Pause | None:
        """The pause of this worker, or None. Asks the drive if it responds, and updates the copy or restores the flag.

        While the drive is away, the copy decides. It doesn't know flags made by hand meanwhile; a worker that is
        started sees such a flag itself once the drive is back.
        """
        copy = self._read_copy(worker_id)
        known = _pause(copy.get("pause"))
        if copy.get("waits"):
            self.settle(worker_id)
            return known
        try:
            flag = self._read_flag(worker_id)
        except (DriveUnavailable, OSError):
            return known
        if self._outlasts_flag(copy, flag):
            self._write_flag(worker_id, known)
            return known
        pause = self._in_force(worker_id, copy, flag)
        if self._read_copy(worker_id) != copy:  # it was changed meanwhile
            return pause
        if flag != pause:
            self._restore(worker_id, copy, flag, pause)
        elif pause != known or (pause is not None and copy.get("drive") != self._drive_id()):
            came_or_went = not self._secret and (pause is None) != (known is None)
            if not came_or_went or self._record(worker_id, flag, flag, refused=False):
                self._write_copy(worker_id, pause, waits=False)
        return pause

    def set(self, worker_id: str, pause: Pause | None) -> PauseResult:
        """Pause or resume the worker. It counts from now on, also while the drive is away."""
        pause = self._signed(worker_id, pause) if pause else None
        self._write_copy(worker_id, pause, waits=True)
        crashpoints.reach("pause.copy:after")
        return self._write_flag(worker_id, pause)

    def settle(self, worker_id: str) -> PauseResult:
        """Write a pending change to the drive."""
        copy = self._read_copy(worker_id)
        if not copy.get("waits"):
            return PauseResult(on_drive=True)
        return self._write_flag(worker_id, _pause(copy.get("pause")), copy.get("restored_at"))

    def _outlasts_flag(self, copy: Mapping[str, Any], flag: Pause | None) -> bool:
        """True if the copy counts whatever the flag says: the drive doesn't have it yet, or was replaced since. A
        missing flag on a new drive doesn't end a pause."""
        is_of_other_drive = copy.get("pause") and copy.get("drive") and copy.get("drive") != self._drive_id()
        return bool(copy.get("waits") or (flag is None and is_of_other_drive))

    def _in_force(self, worker_id: str, copy: Mapping[str, Any], flag: Pause | None) -> Pause | None:
        """Without a secret, the flag counts; with one, the copy does. Without a copy, as in a new state folder, a flag
        that we signed counts."""
        if self._outlasts_flag(copy, flag) or (self._secret and copy):
            return _pause(copy.get("pause"))
        if not self._secret or flag is None:
            return flag
        signature = flag.signature.encode("utf-8", "backslashreplace")
        return flag if hmac.compare_digest(signature, self._signed(worker_id, flag).signature.encode()) else None

    def _restore(self, worker_id: str, copy: Mapping[str, Any], flag: Pause | None, pause: Pause | None) -> None:
        """Restore the flag. It's recorded once an hour, and logged each time."""
        last, now = copy.get("restored_at"), datetime.now(UTC)
        age = RESTORED_AGAIN
        with suppress(ValueError):
            age = now - from_text(str(last))
        if not timedelta() <= age < RESTORED_AGAIN:
            if not self._record(worker_id, flag, pause, refused=True):
                return
            last = to_text(now)
        log.error("the pause flag of %s was changed by hand on the drive; restored it", worker_id)
        self._write_copy(worker_id, pause, waits=True, restored_at=last)
        self._write_flag(worker_id, pause, restored_at=last)

    def _record(self, worker_id: str, flag: Pause | None, restored: Pause | None, *, refused: bool) -> bool:
        """True if the change is recorded. If that fails, the next `read` retries; the pause itself doesn't wait."""
        if self.hand_made is not None:
            path = pause_flag_path(self._folder, worker_id)
            try:
                self.hand_made(PauseFlagChange(worker_id, path, flag, restored, refused))
            except SupervisorError as error:
                log.warning("couldn't record that the pause flag of %s was changed by hand: %s", worker_id, error)
                return False
        return True

    def _signed(self, worker_id: str, pause: Pause) -> Pause:
        if not self._secret:
            return pause._replace(signature="")
        about = {"supervisor_id": self._supervisor_id, "worker_id": worker_id}
        return pause._replace(signature=sign({**pause.facts(), **about}, self._secret))

    def _drive_id(self) -> str:
        try:
            return self._drive.known_id()
        except DriveUnavailable:
            return ""

    def _read_flag(self, worker_id: str) -> Pause | None:
        def read() -> Pause | None:
            self._drive.confirm()
            (flag,) = read_flags(self._drive.root, self._folder, [worker_id])
            if flag is None:
                self._drive.confirm()  # one that was unmounted meanwhile has no flags
            return flag

        return self._drive.call(read)

    def _write_flag(self, worker_id: str, pause: Pause | None, restored_at: object = None) -> PauseResult:
        """Bring the flag to the drive, and note in the copy that it's there."""

        def write() -> None:
            name = pause_flag_path(self._folder, worker_id).name
            with drive_files.open_folder(self._drive.root, self._folder) as folder:
                folder.set_folder_aside(name)  # else it holds up every pause and resume
                if pause is None:
                    folder.remove(name)
                else:
                    document = {"worker_id": worker_id, **pause._asdict()}
                    folder.write(name, json_text(document).encode(), self._mode)

        try:
            self._drive.make_folder(self._folder)
            self._drive.call(write)
        except (DriveUnavailable, OSError) as error:
            return PauseResult(on_drive=False, problem=str(error))
        crashpoints.reach("pause.flag:after")
        self._write_copy(worker_id, pause, waits=False, restored_at=restored_at)
        return PauseResult(on_drive=True)

    def _read_copy(self, worker_id: str) -> Mapping[str, Any]:
        return read_json(self._home / f"{worker_id}.json", tolerant=True) or {}

    def _write_copy(self, worker_id: str, pause: Pause | None, *, waits: bool, restored_at: object = None) -> None:
        self._home.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        document: dict[str, Any] = {"pause": pause and pause._asdict(), "waits": waits, "drive": self._drive_id()}
        if restored_at is not None:
            document["restored_at"] = restored_at
        write_json(self._home / f"{worker_id}.json", document)


def _pause(document: object) -> Pause | None:
    if not isinstance(document, dict):
        return None
    texts = (document.get(name) for name in Pause._fields)  # the text of a flag may be anybody's
    return Pause(*(one_line(text, LONGEST_SAID) if isinstance(text, str) else "" for text in texts))


def read_flags(root: Path, folder: Path, worker_ids: Sequence[str]) -> list[Pause | None]:
    """The flags on the drive; None without one. The call may hang as long as the drive does.

    A link or a FIFO isn't a flag. A file that can't be read still pauses the worker.
    """
    flags: list[Pause | None] = [None] * len(worker_ids)
    with suppress(FileNotFoundError), drive_files.open_folder(root, folder) as opened:
        for number, worker_id in enumerate(worker_ids):
            name = pause_flag_path(folder, worker_id).name
            with suppress(FileNotFoundError):
                if S_ISREG(opened.look(name).st_mode):
                    flags[number] = Pause()
                    with suppress(UnreadableFileError):
                        document = parse_json(folder / name, opened.read(name, MAX_JSON_BYTES))
                        flags[number] = _pause(document) or Pause()
    return flags
