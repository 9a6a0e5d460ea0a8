"""The last runs of a worker and the decision after the newest one, kept in the state folder.

A launch is known by its generation, so that its end counts once, whoever notices it, and however often.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import Any

from supervisor_core.common.times import from_text, to_text
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.descriptors import PRIVATE_FOLDER
from supervisor_core.host.disks import memory_kills
from supervisor_core.host.files import read_json, write_json
from supervisor_core.processes.finding import FoundWorker
from supervisor_core.processes.records import WorkerRecord
from supervisor_core.workers.restarts.policy import (
    LONGEST_PAUSE_SECONDS,
    Next,
    RestartDecision,
    RestartReason,
    WorkerRun,
)

MOST_LIVES = 64
"""The longest series of failures that affects a pause."""


LONGEST_GRACE_SECONDS = 3600.0
"""The longest age of a new launch. The clock may have been set since an older one, so its age is unknown."""


class RestartHistory:
    """The history for the worker's actor, in one thread at a time."""

    def __init__(self, state_dir: Path, worker_id: str) -> None:
        self._path = state_dir / "workers" / f"{worker_id}.lives"
        document = read_json(self._path, tolerant=True) or {}
        self.lives: list[WorkerRun] = _lives(document.get("lives"))
        self.decision: RestartDecision | None = _decision(document.get("decision"))
        """The decision about the newest end; None before there is one."""
        self._current = str(document.get("generation") or "")
        self._asked = document.get("asked") is True
        self._ended = str(document.get("ended") or "")
        self._begun: float | None = None
        self._kills = _count(document.get("memory_kills"))

    @property
    def failed_after_seconds(self) -> float:
        """The length of the short run that the current one follows automatically; 0 if that says nothing about it."""
        last = self.lives[-1] if self.lives and not self._asked else None
        return last.seconds if last is not None and last.blames_itself else 0.0

    def began(self, record: WorkerRecord, now: datetime, *, asked: bool) -> None:
        """Note a start. `asked` means that a person or a change of the configuration requested it."""
        if record.generation == self._current:
            return
        self._current, self._asked, self.decision = record.generation, asked, None
        try:
            age = (now - from_text(record.started_at)).total_seconds()
        except ValueError:
            age = 0.0
        self._begun = time.monotonic() - (age if 0 <= age <= LONGEST_GRACE_SECONDS else 0.0)
        self._kills = memory_kills()
        self._keep()

    def ended(
        self, record: WorkerRecord, exit_code: int | None, now: datetime, ago_seconds: float = 0.0
    ) -> WorkerRun | None:
        """Note an exit that was some seconds ago; None if it was counted before.

        `decided` then writes it to disk with the decision. If that doesn't happen, the exit is found and counted again.
        """
        if record.generation == self._ended:
            return None
        known = record.generation == self._current
        lived = max(0.0, time.monotonic() - ago_seconds - self._begun) if known and self._begun is not None else None
        started = from_text(record.started_at) if record.started_at else now
        asked, kills, total = known and self._asked, None, memory_kills()
        if known and total is not None and self._kills is not None and total >= self._kills:  # else, as after a reboot
            kills = total - self._kills
        life = WorkerRun(min(started, now), now, exit_code, start_asked=asked, lived_seconds=lived, memory_kills=kills)
        self._ended = record.generation
        return self._add(life)

    def failed_to_start(self, now: datetime, *, asked: bool) -> WorkerRun:
        """Note a start without a process, as a run without length."""
        life = self._add(WorkerRun(now, now, None, start_asked=asked, lived_seconds=0.0))
        self._keep()
        return life

    def decided(self, decision: RestartDecision) -> None:
        """Keep a decision. The note of a run that follows at once is the same file and is synced."""
        self.decision = decision
        self._keep(synced=decision.what is not Next.START)

    def forget_decision(self) -> None:
        """Forget the decision, since somebody stopped or started the worker."""
        if self.decision is not None:
            self.decision = None
            self._keep()

    def _add(self, life: WorkerRun) -> WorkerRun:
        self.lives = [*self.lives, life][-MOST_LIVES:]
        self.decision = None
        return life

    def _keep(self, *, synced: bool = True) -> None:
        self._path.parent.mkdir(mode=PRIVATE_FOLDER, exist_ok=True)
        decision = self.decision
        document = {
            "generation": self._current,
            "asked": self._asked,
            "ended": self._ended,
            "memory_kills": self._kills,
            "lives": [
                {**asdict(run), "started_at": to_text(run.started_at), "ended_at": to_text(run.ended_at)}
                for run in self.lives
            ],
            "decision": decision and {**asdict(decision), "due_at": decision.due_at and to_text(decision.due_at)},
        }
        write_json(self._path, document, synced=synced)


def read_history(state_dir: Path, worker_id: str) -> tuple[list[WorkerRun], RestartDecision | None]:
    """The past runs, newest last, and the decision after the newest one, for observers."""
    found = RestartHistory(state_dir, worker_id)
    return found.lives, found.decision


def finished_reason(state_dir: Path, worker: WorkerSettings, found: FoundWorker) -> str:
    """The words for a job that is done: a daemon saw its process exit with code 0, and its policy leaves it at that.

    Empty for any other worker.
    """
    if found.identity is not None or worker.restart.policy != "on-failure":
        return ""
    document = read_json(state_dir / "workers" / f"{worker.id}.lives", tolerant=True) or {}
    decision = _decision(document.get("decision"))
    if found.record is None or found.record.generation != document.get("ended"):
        return ""
    return decision.words if decision is not None and decision.reason is RestartReason.ENDED_WELL else ""


def _lives(found: object) -> list[WorkerRun]:
    """The readable runs. Anything else in the file is skipped."""
    lives = []
    for each in found if isinstance(found, list) else []:
        try:
            lived = None if each["lived_seconds"] is None else _finite(each["lived_seconds"])
            life = WorkerRun(
                from_text(each["started_at"]),
                from_text(each["ended_at"]),
                None if each["exit_code"] is None else int(each["exit_code"]),
                start_asked=each["start_asked"] is True,
                lived_seconds=lived,
                memory_kills=_count(each.get("memory_kills")),
            )
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError):
            continue
        lives.append(life)
    return lives[-MOST_LIVES:]


def _decision(found: object) -> RestartDecision | None:
    if not isinstance(found, Mapping):
        return None
    try:
        due = found["due_at"]
        decision = RestartDecision(Next(found["what"]), RestartReason(found["reason"]), str(found["words"]))
        pause = min(_finite(found["pause_seconds"]), LONGEST_PAUSE_SECONDS)
        return replace(decision, due_at=from_text(due) if due else None, pause_seconds=pause)
    except (KeyError, TypeError, ValueError, OverflowError):
        return None


def _count(found: object) -> int | None:
    return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None


def _finite(found: Any) -> float:  # noqa: ANN401 (whatever stands in the file)
    """A finite duration, else `ValueError`."""
    seconds = float(found)
    if not math.isfinite(seconds):
        raise ValueError(f"{found!r} isn't a duration")
    return seconds
