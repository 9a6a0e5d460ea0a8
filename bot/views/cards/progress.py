"""The progress of a command as a checklist, and the watch after a change of code. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise

from bot.views.text import ago, first_lines, inert, when
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.common.text import capitalize, sentence
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import FINAL, MOST_PROGRESS, Job, JobState, Progress

Plan = Sequence[tuple[str, tuple[str, ...]]]
"""The usual steps: what each is called before it begins, and the verbs of its progress."""

_CHECK, _STOP, _START = ("Check the code", ("checking",)), ("Stop {}", ("stopping",)), ("Start {}", ("starting",))
_BRING = ("Update the code", ("fast-forwarding", "merging", "resetting"))

PLANS: Mapping[str, Plan] = {
    "pause": [_STOP],
    "resume": [_START],
    "restart_watcher": [_STOP, _START],
    "update_code": [("Check for new commits", ("checking",)), _STOP, _BRING, _START],
    "update_code_deps": [
        ("Check for new commits", ("checking",)),
        _STOP,
        _BRING,
        ("Install packages", ("installing",)),
        _START,
    ],
    "rollback_code": [_CHECK, _STOP, ("Revert commits", ("reverting",)), _START],
    "undo_code": [_CHECK, _STOP, ("Restore the files", ("undoing", "restoring")), _START],
}

_COUNTED = re.compile(r"\(\d+ of \d+\)$")
"""The end of a step that counts its own parts: `reverting 1a2b3c4 Fix it (3 of 4)`."""

_DONE: Mapping[str, str] = {
    "checking": "Checked",
    "stopping": "Stopped",
    "starting": "Started",
    "fast-forwarding": "Fast-forwarded",
    "merging": "Merged",
    "resetting": "Reset",
    "reverting": "Reverted",
    "installing": "Installed",
    "undoing": "Undid",
    "restoring": "Restored",
    "pushing": "Pushed",
}
"""The verb of a step once it's done."""

SHOWN = 6
"""Steps that are done and current; the earlier ones are counted."""

STEP = 200  # characters


def checklist(job: Job) -> str:
    taken = job.progress
    if job.state in FINAL or not taken:
        return ""
    lines = []
    if len(taken) >= MOST_PROGRESS:  # the steps between weren't kept, so nobody knows how long any of them took
        lines.append(f":white_check_mark: {len(taken) - 1} or more earlier steps")
    else:
        done = [_done_line(step, following) for step, following in pairwise(taken)]
        hidden = len(done) - (SHOWN - 1)
        lines = [*([f":white_check_mark: {hidden} earlier steps"] if hidden > 0 else []), *done[-(SHOWN - 1) :]]
    lines.append(f":hourglass_flowing_sand: *{_words(taken[-1])}* · started {ago(taken[-1].at)}")
    return "\n".join([*lines, *(f":white_medium_square: {step}" for step in steps_to_come(job))])


def step_text(job: Job, most: int = STEP) -> str:
    """The current step and its number: `stopping OrionMX (2 of 4)`; empty where none is known. A step that counts
    itself has no other number."""
    if not job.progress or job.state is not JobState.STARTED:
        return ""
    number = len(job.progress)
    words = job.progress[-1].words
    counted = 1 < number < MOST_PROGRESS and not _COUNTED.search(words)
    known = f" ({number} of {number + len(steps_to_come(job))})" if counted else ""
    return f"{inert(words, most)}{known}"


def steps_to_come(job: Job) -> list[str]:
    plan = PLANS.get(job.handler, ())
    begun = {step.words.partition(" ")[0] for step in job.progress}
    reached = max((number for number, (_, verbs) in enumerate(plan, 1) if begun & set(verbs)), default=0)
    if reached == 0 and begun:
        return []
    return [name.format(inert(job.worker_id, STEP)) for name, _ in plan[reached:]]


def down_seconds(job: Job) -> float | None:
    """The most that its worker can have been down for: from the end of its stop to the end of the command."""
    stops = [number for number, step in enumerate(job.progress) if step.words.startswith("stopping ")]
    if not stops or job.finished_at is None or len(job.progress) >= MOST_PROGRESS:
        return None
    after = job.progress[stops[0] + 1 :]
    return (job.finished_at - after[0].at).total_seconds() if after else None


def _done_line(step: Progress, following: Progress) -> str:
    verb, _, rest = step.words.partition(" ")
    words = inert(f"{_DONE[verb]} {rest}".rstrip() if verb in _DONE else capitalize(step.words), STEP)
    return f":white_check_mark: {words} · {format_span((following.at - step.at).total_seconds())}"


def _words(step: Progress) -> str:
    # Bold text with a space at an end isn't bold.
    return capitalize(inert(step.words, STEP)).strip() or "Working"


REASON = 300  # characters
WATCHED_SHOWN = 10
"""Workers; those who have degraded come first."""


def watch_fact(bakes: Sequence[Bake], now: datetime) -> dict[str, str]:
    """The watch as one fact, where it is the same for all of its workers and all is well."""
    if not bakes or len({(bake.state, bake.until) for bake in bakes}) > 1:
        return {}
    if bakes[0].state is BakeState.WATCHING:
        return {"Watching": f"until {when(bakes[0].until, now)}"}
    return {"Watched": f"OK until {when(bakes[0].until, now)}"} if bakes[0].state is BakeState.WELL else {}


def watch_lines(bakes: Sequence[Bake], now: datetime, said: str = "") -> list[str]:
    """A line for each watched worker, where they differ or one of them isn't well. The headline says
    already that the worker `said` degraded."""
    if not bakes or watch_fact(bakes, now):
        return []
    ordered = sorted(bakes, key=lambda bake: (bake.state is not BakeState.DEGRADED, bake.worker_id))
    return first_lines([_watch_line(bake, now, said) for bake in ordered], WATCHED_SHOWN)


def watch_counts(bakes: Sequence[Bake], now: datetime) -> list[str]:
    lines = []
    for state, words in ((BakeState.WATCHING, ":eyes: {:,} watched"), (BakeState.WELL, ":seedling: {:,} OK")):
        if some := [bake for bake in bakes if bake.state is state]:
            lines.append(f"{words.format(len(some))} until {when(max(bake.until for bake in some), now)}")
    unwell = [bake for bake in bakes if bake.state in (BakeState.DEGRADED, BakeState.RECOVERED)]
    unwell.sort(key=lambda bake: (bake.state is not BakeState.DEGRADED, bake.worker_id))
    return first_lines([_watch_line(bake, now, "") for bake in unwell], WATCHED_SHOWN) + lines


def degraded_watch(bakes: Sequence[Bake], worker_id: str) -> Bake | None:
    return next((bake for bake in bakes if bake.asked_for == worker_id and bake.state is BakeState.DEGRADED), None)


def _watch_line(bake: Bake, now: datetime, said: str) -> str:
    who, why = inert(bake.worker_id, REASON), inert(bake.reason, REASON)
    match bake.state:
        case BakeState.WATCHING:
            return f":eyes: {who}: watching until {when(bake.until, now)}"
        case BakeState.WELL:
            return f":seedling: {who}: OK until {when(bake.until, now)}"
        case BakeState.DEGRADED:
            if bake.worker_id == said:
                return f"{sentence(capitalize(why))} The code wasn't changed back automatically."
            at = f" since {when(bake.decided_at, now)}" if bake.decided_at else ""
            return f":warning: *{who} degraded*{at}: {sentence(why)}"
        case BakeState.RECOVERED:
            at = f" at {when(bake.decided_at, now)}" if bake.decided_at else ""
            return f":seedling: {who}: recovered{at}. Before: {why}"
        case BakeState.OVERTAKEN | BakeState.ENDED:
            return f":double_vertical_bar: {who}: stopped watching: {why}"
