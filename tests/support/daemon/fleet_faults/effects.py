"""The starts and stops that a worker's jobs explain. Pure.

What a job that succeeded did is certain; of one that was cut off or failed, each part of it may have happened. A worker
that is down without being paused is started by its host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

START, STOP = "start", "stop"
PAUSE, RESUME, RESTART = "pause", "resume", "restart_watcher"
ACTING = (PAUSE, RESUME, RESTART)
NOTHING = "Nothing was done."
"""The end of the words about a job that was refused, such as one whose deadline had passed."""


QUICK_SECONDS = 2.0
"""A worker that is stopped so soon after its start may not have noted either."""


class Moment(NamedTuple):
    """A possible state of a worker after some of its notes."""

    noted: int
    """The number of notes that are explained."""
    running: bool
    paused: bool
    unnoted: datetime | None = None
    """The time of its start, if that isn't among them."""


def explained(notes: Sequence[str], jobs: Iterable[Mapping[str, Any]]) -> bool:
    """True if its first start and these jobs, in the order in which they started, lead to exactly these notes."""
    moments = _do(Moment(0, running=False, paused=False), [START], notes, paused=False)
    for job in jobs:
        if job["handler"] in ACTING and job["started_at"] is not None and not str(job["error"]).endswith(NOTHING):
            moments = {after for moment in moments for after in _after(job, moment, notes)}
            moments = _started_by_host(notes, moments)
    return any(moment.noted == len(notes) and moment.unnoted is None for moment in moments)


def _after(job: Mapping[str, Any], moment: Moment, notes: Sequence[str]) -> set[Moment]:
    handler, found = job["handler"], set[Moment]()
    effects = _effects(handler, running=moment.running)
    if moment.unnoted is not None and effects:
        if effects[:1] != (STOP,) or job["started_at"] - moment.unnoted > timedelta(seconds=QUICK_SECONDS):
            return set()
        moment, effects = moment._replace(running=False, unnoted=None), effects[1:]
    paused = {PAUSE: True, RESUME: False, RESTART: moment.paused}[handler]
    if job["success"]:
        found = _do(moment, effects, notes, paused=paused)
        if effects[-1:] == (START,):
            before = _do(moment, effects[:-1], notes, paused=paused)
            found |= {each._replace(running=True, unnoted=job["finished_at"]) for each in before}
        return found
    for count in range(len(effects) + 1):
        for flag in {paused, moment.paused}:
            found |= _do(moment, effects[:count], notes, paused=flag)
    return found


def _effects(handler: str, *, running: bool) -> tuple[str, ...]:
    """The effects of a job that succeeds."""
    if handler == RESTART:
        return (STOP, START) if running else (START,)
    if handler == PAUSE:
        return (STOP,) if running else ()
    return () if running else (START,)


def _do(moment: Moment, effects: Sequence[str], notes: Sequence[str], *, paused: bool) -> set[Moment]:
    """The moment after these effects, if they are what the worker noted next."""
    noted, running = moment.noted, moment.running
    for effect in effects:
        if notes[noted : noted + 1] != [effect]:
            return set()
        noted, running = noted + 1, effect == START
    return {moment._replace(noted=noted, running=running, paused=paused)}


def _started_by_host(notes: Sequence[str], moments: set[Moment]) -> set[Moment]:
    """These moments, and those after the host has started a worker that is down without being paused."""
    down = {each for each in moments if not each.running and not each.paused}
    return moments | {after for each in down for after in _do(each, [START], notes, paused=False)}
