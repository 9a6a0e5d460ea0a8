"""Whether a worker is meant to rest, by whose word: a flag on the drive, and a copy at home for when that is away.

The flag on the drive is what workers and people see, and may be made or removed by hand. The copy is what holds
while the drive can't be asked, and what a change of ours waits in until the drive has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.adapters.drive import Drive, DriveUnavailable
from supervisor_core.adapters.files import read_json, write_json
from supervisor_core.domain import crashpoints
from supervisor_core.domain.texts import one_line
from supervisor_core.domain.times import from_text

PRIVATE = 0o600
HOME = "desired"

LONGEST_SAID = 128
"""Characters of a hand-made flag that are repeated; a task id or an actor has no more."""


class Pause(NamedTuple):
    """Who paused a worker, when, and what they called it; empty where a flag was made by hand."""

    by: str = ""
    at: str = ""
    label: str = ""
    task_id: str = ""

    def __str__(self) -> str:
        who = f" by {self.label or self.by}" if self.label or self.by else ""
        return f"paused{who}{f' since {_readable(self.at)}' if self.at else ''}"


def _readable(moment: str) -> str:
    """A moment to the minute; as it stands where a hand wrote it otherwise."""
    try:
        return f"{from_text(moment):%Y-%m-%d %H:%M} UTC"
    except ValueError:
        return moment


class Written(NamedTuple):
    """What came of a change: in force at once, and on the drive as soon as that can be reached."""

    on_drive: bool
    problem: str = ""


def pause_flag_path(state_folder: Path, worker_id: str) -> Path:
    """Where the flag of this worker lies."""
    return state_folder / f"supervisor_pause_{worker_id}.flag"


def is_watcher_paused(state_folder: Path, worker_id: str) -> bool:
    """Whether the flag is there, whatever is in it."""
    return pause_flag_path(state_folder, worker_id).is_file()


class Pauses:
    """The pauses of one host's workers.

    `read`, `set` and `settle` are for whoever has the worker in hand (its actor, or a pass): two at a time would write
    over each other. Everybody else may `look`.
    """

    def __init__(self, state_dir: Path, state_folder: Path, drive: Drive, file_mode: int) -> None:
        self._home = state_dir / HOME
        self._folder = state_folder
        self._drive = drive
        self._mode = file_mode

    def look(self, worker_id: str, flag: Pause | None, *, flag_known: bool) -> Pause | None:
        """What holds, for whoever only looks: what is on its way to the drive, else the flag, else the copy."""
        copy = self._copy(worker_id)
        stays = copy.get("waits") or (flag is None and self._is_of_another_drive(copy))
        return flag if flag_known and not stays else _pause(copy.get("pause"))

    def unsettled(self, worker_id: str) -> bool:
        """Whether the drive does not know yet what holds."""
        return bool(self._copy(worker_id).get("waits"))

    def changed_at(self, worker_id: str) -> datetime | None:
        """When this worker was last paused or resumed, as far as is known here; None where it never was."""
        try:
            return datetime.fromtimestamp((self._home / f"{worker_id}.json").stat().st_mtime, UTC)
        except OSError:
            return None

    def read(self, worker_id: str) -> Pause | None:
        """Why this worker rests, or None. Asks the drive where it answers, and brings the copy up to date."""
        return self._read(worker_id, surely=False)

    def read_surely(self, worker_id: str) -> Pause | None:
        """The same, for whoever is about to start it; `DriveUnavailable` or `OSError` where the drive can't be asked.

        The copy knows no flag that was made by hand since, so it may say "rest", but not "run".
        """
        return self._read(worker_id, surely=True)

    def _read(self, worker_id: str, *, surely: bool) -> Pause | None:
        copy = self._copy(worker_id)
        held = _pause(copy.get("pause"))
        if copy.get("waits"):
            written = self.settle(worker_id)
            if surely and held is None and not written.on_drive:
                raise DriveUnavailable(written.problem)
            return held
        try:
            found = self._ask(worker_id)
        except (DriveUnavailable, OSError):
            if surely and held is None:
                raise
            return held
        if found is None and self._is_of_another_drive(copy):
            self._tell(worker_id, held)
            return held
        news = found != held or (found is not None and copy.get("drive") != self._drive_id())
        if news and self._copy(worker_id) == copy:  # else it was changed meanwhile
            self._write_copy(worker_id, found, waits=False)
        return found

    def set(self, worker_id: str, pause: Pause | None) -> Written:
        """Let the worker rest, or no longer. It holds from now on, whether or not the drive can be told yet."""
        self._write_copy(worker_id, pause, waits=True)
        crashpoints.reach("pause.copy:after")
        return self._tell(worker_id, pause)

    def settle(self, worker_id: str) -> Written:
        """Tell the drive what it does not know yet."""
        copy = self._copy(worker_id)
        if not copy.get("waits"):
            return Written(on_drive=True)
        return self._tell(worker_id, _pause(copy.get("pause")))

    def _ask(self, worker_id: str) -> Pause | None:
        """What the drive says. Asked before and after: one that went away between the two has no flag to show."""
        self._drive.check()
        found = self._drive.call(read_flag, self._folder, worker_id)
        if found is None:
            self._drive.check()
        return found

    def _is_of_another_drive(self, copy: Mapping[str, Any]) -> bool:
        """Whether the drive was replaced since: one that never heard of a pause does not end it by having no flag."""
        return bool(copy.get("pause") and copy.get("drive")) and copy.get("drive") != self._drive_id()

    def _drive_id(self) -> str:
        try:
            return self._drive.identity.noted() if self._drive.identity else ""
        except DriveUnavailable:
            return ""

    def _tell(self, worker_id: str, pause: Pause | None) -> Written:
        try:
            self._drive.make_folder(self._folder)
            self._drive.call(_write_flag, self._folder, worker_id, pause, self._mode)
        except (DriveUnavailable, OSError) as error:
            return Written(on_drive=False, problem=str(error))
        crashpoints.reach("pause.flag:after")
        self._write_copy(worker_id, pause, waits=False)
        return Written(on_drive=True)

    def _copy(self, worker_id: str) -> Mapping[str, Any]:
        return read_json(self._home / f"{worker_id}.json", tolerant=True) or {}

    def _write_copy(self, worker_id: str, pause: Pause | None, *, waits: bool) -> None:
        self._home.mkdir(mode=0o700, exist_ok=True)
        document = {"pause": pause._asdict() if pause else None, "waits": waits, "drive": self._drive_id()}
        write_json(self._home / f"{worker_id}.json", document, mode=PRIVATE)


def told_of_a_pause(state_dir: Path) -> bool:
    """Whether a drive whose id nobody noted was told of a pause that holds."""
    copies = (read_json(path, tolerant=True) or {} for path in (state_dir / HOME).glob("*.json"))
    return any(copy.get("pause") and not copy.get("waits") and not copy.get("drive") for copy in copies)


def _pause(document: object) -> Pause | None:
    if not isinstance(document, dict):
        return None
    return Pause(*(_said(document.get(name)) for name in Pause._fields))


def _said(value: object) -> str:
    """What stands in a flag, which anybody may have written: text in one line, or nothing."""
    return one_line(value, LONGEST_SAID) if isinstance(value, str) else ""


def read_flag(folder: Path, worker_id: str) -> Pause | None:
    """What the flag on the drive says; None where there is none. May hang as long as the drive does."""
    path = pause_flag_path(folder, worker_id)
    if not path.is_file():
        return None
    return _pause(read_json(path, tolerant=True)) or Pause()


def _write_flag(folder: Path, worker_id: str, pause: Pause | None, mode: int) -> None:
    path = pause_flag_path(folder, worker_id)
    if pause is None:
        path.unlink(missing_ok=True)
        return
    write_json(path, {"worker_id": worker_id, **pause._asdict()}, mode=mode)
