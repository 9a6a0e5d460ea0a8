"""The last runs of a worker, its automatic starts and its quarantine, kept in the state folder.

A launch is known by its generation, so that its end counts once, whoever notices it, and however often. Passes and the
daemon count starts together. A quarantine outlives the daemon and a reboot, until a person ends it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from supervisor_core.common.errors import RefusedError
from supervisor_core.common.text import one_line
from supervisor_core.common.text import times as count_times
from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER, UnreadableFileError
from supervisor_core.host.disks import memory_kills
from supervisor_core.host.drive import Drive, DriveUnavailable
from supervisor_core.host.files import read_json, write_json
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.processes.records import WorkerRecord
from supervisor_core.workers.restarts.policy import WINDOW, Next, RestartDecision, RestartReason, WorkerRun

T = TypeVar("T")

MOST_RUNS = 64
"""The longest series of failures that affects a pause."""

LONGEST_GRACE_SECONDS = 3600.0
"""The longest age of a new launch. The clock may have been set since an older one, so its age is unknown."""


class RestartHistory:
    """The history of one worker, used by one thread at a time."""

    def __init__(self, state_dir: Path, worker_id: str) -> None:
        self._path = state_dir / "workers" / f"{worker_id}.lives"
        document = read_json(self._path, tolerant=True) or {}
        runs = document.get("lives")
        read = [_convert(run, WorkerRun) for run in runs] if isinstance(runs, list) else []
        self.lives = [run for run in read if run is not None][-MOST_RUNS:]
        self.decision = _convert(document.get("decision"), RestartDecision)
        """The decision about the newest end; None before there is one."""
        self._current = str(document.get("generation") or "")
        self._start_requested = document.get("asked") is True
        self.ended_generation = str(document.get("ended") or "")
        self._started: float | None = None
        self._kills = _convert(document.get("memory_kills"), int)

    @property
    def failed_after_seconds(self) -> float:
        """The length of the short run that the current one follows automatically; 0 if that says nothing about it."""
        last = self.lives[-1] if self.lives and not self._start_requested else None
        return last.seconds if last is not None and last.blames_itself else 0.0

    def began(self, record: WorkerRecord, now: datetime, *, asked: bool) -> None:
        """Note a start. `asked` means that a person or a change of the configuration requested it."""
        if record.generation == self._current:
            return
        self._current, self._start_requested, self.decision = record.generation, asked, None
        try:
            age = (now - from_text(record.started_at)).total_seconds()
        except ValueError:
            age = 0.0
        self._started = time.monotonic() - (age if 0 <= age <= LONGEST_GRACE_SECONDS else 0.0)
        self._kills = memory_kills()
        self._keep()

    def ended(
        self, record: WorkerRecord, exit_code: int | None, now: datetime, ago_seconds: float = 0.0
    ) -> WorkerRun | None:
        """Note an exit that was some seconds ago; None if it was counted before.

        `decided` then writes it to disk with the decision. If that doesn't happen, the exit is found and counted again.
        """
        if record.generation == self.ended_generation:
            return None
        known = record.generation == self._current
        seconds, kills, total = None, None, memory_kills()
        if known and self._started is not None:
            seconds = max(0.0, time.monotonic() - ago_seconds - self._started)
        if known and total is not None and self._kills is not None and total >= self._kills:  # else, as after a reboot
            kills = total - self._kills
        started = min(from_text(record.started_at), now) if record.started_at else now
        self.ended_generation = record.generation
        asked = known and self._start_requested
        return self._add(
            WorkerRun(started, now, exit_code, start_asked=asked, lived_seconds=seconds, memory_kills=kills)
        )

    def failed_to_start(self, now: datetime, *, asked: bool) -> None:
        """Note a start without a process, as a run without length."""
        self._add(WorkerRun(now, now, None, start_asked=asked, lived_seconds=0.0))
        self._keep()

    def decided(self, decision: RestartDecision) -> None:
        """Keep a decision. The note of a run that follows at once is the same file and is synced."""
        self.decision = decision
        self._keep(synced=decision.what is not Next.START)

    def forget_decision(self) -> None:
        """Forget the decision, since somebody stopped or started the worker."""
        if self.decision is not None:
            self.decision = None
            self._keep()

    def _add(self, run: WorkerRun) -> WorkerRun:
        self.lives = [*self.lives, run][-MOST_RUNS:]
        self.decision = None
        return run

    def _keep(self, *, synced: bool = True) -> None:
        self._path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        document = {
            "generation": self._current,
            "asked": self._start_requested,
            "ended": self.ended_generation,
            "memory_kills": self._kills,
            "lives": self.lives,
            "decision": self.decision,
        }
        write_json(self._path, msgspec.to_builtins(document), synced=synced)


def read_history(state_dir: Path, worker_id: str) -> tuple[list[WorkerRun], RestartDecision | None]:
    """The past runs, newest last, and the decision after the newest one, for observers."""
    history = RestartHistory(state_dir, worker_id)
    return history.lives, history.decision


def finished_reason(state_dir: Path, worker: WorkerSettings, observed: FoundWorker) -> str:
    """The words for a job that is done: a daemon saw its process exit with code 0, and its policy leaves it at that.

    Empty for any other worker.
    """
    if observed.identity is not None or observed.record is None or worker.restart.policy != "on-failure":
        return ""
    history = RestartHistory(state_dir, worker.id)
    decision = history.decision
    is_newest = observed.record.generation == history.ended_generation
    return decision.words if is_newest and decision and decision.reason is RestartReason.ENDED_WELL else ""


def _convert(value: object, to: type[T]) -> T | None:
    """The value as it was kept; None for anything else."""
    try:
        return msgspec.convert(value, to)
    except msgspec.ValidationError:
        return None


def read_starts(state_dir: Path, worker_id: str) -> list[datetime]:
    """The recorded starts; empty if there are none, or if the file can't be read."""
    texts = (read_json(_path(state_dir, worker_id), tolerant=True) or {}).get("starts")
    times = []
    for text in texts if isinstance(texts, list) else []:
        try:
            times.append(from_text(text))
        except (TypeError, ValueError):  # what a hand wrote there is no start
            continue
    return times


def write_starts(state_dir: Path, worker_id: str, times: Sequence[datetime]) -> None:
    """Record exactly these starts. The note of the run that follows is in the same folder and syncs it; a power cut
    before that ends the run as well."""
    path = _path(state_dir, worker_id)
    path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
    write_json(path, {"starts": [to_text(start) for start in times]}, synced=False)


def _path(state_dir: Path, worker_id: str) -> Path:
    return state_dir / "workers" / f"{worker_id}.starts"


LONGEST = 500  # characters of the reason of a quarantine


class Quarantine(NamedTuple):
    """The beginning of a quarantine, and its reason in words."""

    at: str
    words: str

    def __str__(self) -> str:
        return self.words


class Quarantines:
    """The quarantines of one host's workers. A file that can't be read counts as a quarantine."""

    def __init__(self, state_dir: Path) -> None:
        self._state_dir = state_dir
        self._home = state_dir / "desired"

    def read(self, worker_id: str) -> Quarantine | None:
        path = self._path(worker_id)
        try:
            document = read_json(path)
        except (UnreadableFileError, OSError):
            return Quarantine("", f"quarantined; the reason in {path} can't be read")
        if document is None:
            return None
        at, kept_reason = (document.get(name) for name in Quarantine._fields)
        reason = kept_reason if isinstance(kept_reason, str) and kept_reason else "quarantined"
        return Quarantine(at if isinstance(at, str) else "", one_line(reason, LONGEST))

    def begin(self, worker_id: str, reason: str, now: datetime) -> None:
        """Quarantine the worker until `end`."""
        self._home.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        write_json(self._path(worker_id), {"at": to_text(now), "words": one_line(reason, LONGEST)})

    def end(self, worker_id: str) -> bool:
        """End the quarantine and reset the count of starts. Returns whether there was one."""
        path = self._path(worker_id)
        existed = path.exists()
        path.unlink(missing_ok=True)
        _path(self._state_dir, worker_id).unlink(missing_ok=True)
        return existed

    def _path(self, worker_id: str) -> Path:
        return self._home / f"{worker_id}.quarantine"


class TooManyStarts(RefusedError):
    """It was started automatically too often."""


def restarts_count(drive: Drive) -> bool:
    """False while the shared drive is away: the exit may not be the worker's fault, so its restart doesn't count."""
    try:
        drive.check()
    except (DriveUnavailable, OSError):
        return False
    return True


def note_start(state_dir: Path, worker: WorkerSettings, now: datetime) -> None:
    """Record an automatic start that is about to happen; `TooManyStarts`, without a record, if the limit is reached.

    It comes before the start, so that failed starts count too. If it can't be recorded, that's an `OSError`: an
    uncounted start must not be repeated.
    """
    # One in the future is from a wrong clock, and would count forever.
    times = [start for start in read_starts(state_dir, worker.id) if now - WINDOW < start <= now]
    limit = worker.restart.max_per_hour
    if len(times) >= limit:
        key = f"workers.{worker.id}.restart.max_per_hour"
        reason = f"Automatic starts are off ({key} is 0)."
        if times:
            reason = f"It was restarted automatically {count_times(len(times))} in an hour ({key} allows no more)."
        raise TooManyStarts(reason, remedy=f"Check its log. To start it by hand: restart {worker.id}.")
    write_starts(state_dir, worker.id, (*times, now))
