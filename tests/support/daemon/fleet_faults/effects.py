"""The starts and stops that a worker's jobs explain. Pure.

What a job that succeeded did is certain; of one that was cut off or failed, each part of it may have happened. A worker
that is down without being paused is started by its host.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

START, STOP = "start", "stop"
PAUSE, RESUME, RESTART = "pause", "resume", "restart_watcher"
ACTING = (PAUSE, RESUME, RESTART)
NOTHING = "Nothing was done."
"""The end of the words about a job that was refused, such as one whose deadline had passed."""


class Moment(NamedTuple):
    """A possible state of a worker after some of its notes."""

    noted: int
    """The number of notes that are explained."""
    running: bool
    paused: bool


def explained(notes: Sequence[str], jobs: Iterable[Mapping[str, Any]]) -> bool:
    """True if its first start and these jobs, in the order in which they started, lead to exactly these notes."""
    moments = _do(Moment(0, running=False, paused=False), [START], notes, paused=False)
    for job in jobs:
        if job["handler"] in ACTING and job["started_at"] is not None and not str(job["error"]).endswith(NOTHING):
            moments = {after for moment in moments for after in _after(job, moment, notes)}
            moments = _started_by_host(notes, moments)
    return any(moment.noted == len(notes) for moment in moments)


def _after(job: Mapping[str, Any], moment: Moment, notes: Sequence[str]) -> set[Moment]:
    handler = job["handler"]
    whole: tuple[str, ...] = {PAUSE: (STOP,), RESUME: (START,), RESTART: (STOP, START)}[handler]
    done = tuple(each for each in whole if each == (STOP if moment.running else START) or whole == (STOP, START))
    if whole == (STOP, START) and not moment.running:
        done = (START,)
    paused = {PAUSE: True, RESUME: False, RESTART: moment.paused}[handler]
    if job["success"]:
        return _do(moment, done, notes, paused=paused)
    found = set[Moment]()
    for count in range(len(done) + 1):
        for flag in {paused, moment.paused}:
            found |= _do(moment, done[:count], notes, paused=flag)
    return found


def _do(moment: Moment, effects: Sequence[str], notes: Sequence[str], *, paused: bool) -> set[Moment]:
    """The moment after these effects, if they are what the worker noted next."""
    noted, running = moment.noted, moment.running
    for effect in effects:
        if notes[noted : noted + 1] != [effect]:
            return set()
        noted, running = noted + 1, effect == START
    return {Moment(noted, running, paused)}


def _started_by_host(notes: Sequence[str], moments: set[Moment]) -> set[Moment]:
    """These moments, and those after the host has started a worker that is down without being paused."""
    down = {each for each in moments if not each.running and not each.paused}
    return moments | {after for each in down for after in _do(each, [START], notes, paused=False)}
