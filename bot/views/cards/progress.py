"""The progress of a command: a bar, its steps, and the watch after a change of code. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from bot.views.text import escape, first_lines, fit, moment
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import FINAL, MOST_PROGRESS, Job, JobState, Progress

CELLS = 10
FULL, EMPTY = "▰", "▱"

USUAL_STEPS: Mapping[str, int] = {
    "pause": 1,
    "resume": 1,
    "restart_watcher": 2,
    "update_code": 4,
    "update_code_deps": 6,
    "rollback_code": 4,
    "undo_code": 4,
}
"""The usual number of steps on one worker. With more steps the bar fills more slowly, and never before the end."""

SHOWN = 5
"""Steps on a card; of those before them it says how many there were."""

STEP = 250  # characters


def progress_bar(jobs: Sequence[Job]) -> str:
    """`▰▰▰▱▱▱▱▱▱▱ 1 of 3 workers`, or the steps of the only worker; empty before it began and after its end."""
    if all(job.state in FINAL for job in jobs) or all(job.state is JobState.QUEUED for job in jobs):
        return ""
    share = sum(_share(job) for job in jobs) / len(jobs)
    full = min(int(share * CELLS), CELLS - 1)
    drawn = f"{FULL * full}{EMPTY * (CELLS - full)}"
    if len(jobs) == 1:
        taken = len(jobs[0].progress)
        later = " or later" if taken >= MOST_PROGRESS else ""  # of more than that, the newest alone is kept
        return f"{drawn} {f'step {taken}{later}' if taken else 'begun'}"
    ended = sum(1 for job in jobs if job.state in FINAL)
    return f"{drawn} {ended} of {len(jobs)} workers"


def step_lines(job: Job) -> str:
    """The newest steps, a line each: how long each took, and since when the last one is under way."""
    taken = job.progress
    if not taken or job.state in FINAL:
        return ""
    if len(taken) >= MOST_PROGRESS:  # how long those before it took is not known
        return f"… {len(taken) - 1} steps or more before\n{_newest(taken[-1])}"
    lines = [f"… {len(taken) - SHOWN} steps before"] if len(taken) > SHOWN else []
    for step, following in list(pairwise(taken))[-(SHOWN - 1) :]:
        lines.append(f":white_small_square: {_words(step)} · {format_span((following.at - step.at).total_seconds())}")
    return "\n".join([*lines, _newest(taken[-1])])


def _newest(step: Progress) -> str:
    return f":arrow_forward: {_words(step)} · since {moment(step.at)}"


def _share(job: Job) -> float:
    if job.state in FINAL:
        return 1.0
    taken = len(job.progress)
    usual = USUAL_STEPS.get(job.handler, 1)
    return taken / (max(usual, taken) + 1)


def _words(step: Progress) -> str:
    return fit(escape(step.words), STEP)


REASON = 300  # characters
WATCHED_SHOWN = 10
"""Workers; those who have degraded come first."""


def watch_lines(bakes: Sequence[Bake]) -> list[str]:
    """A line for each; where all are well, one for all of them."""
    if not bakes:
        return []
    if len(bakes) > 1 and len({(bake.state, bake.until) for bake in bakes}) == 1:
        if bakes[0].state is BakeState.WATCHING:
            return [f":eyes: All {len(bakes)} are watched until {moment(bakes[0].until)}."]
        if bakes[0].state is BakeState.WELL:
            return [f":seedling: All {len(bakes)} have been well with it since."]
    ordered = sorted(bakes, key=lambda bake: (bake.state is not BakeState.DEGRADED, bake.worker_id))
    return first_lines([_line(bake) for bake in ordered], WATCHED_SHOWN)


def degraded_watch(bakes: Sequence[Bake], worker_id: str) -> Bake | None:
    """The watch of this worker's command that found a degraded worker."""
    return next((bake for bake in bakes if bake.asked_for == worker_id and bake.state is BakeState.DEGRADED), None)


def _line(bake: Bake) -> str:
    who, why = escape(bake.worker_id), escape(fit(bake.reason, REASON))
    match bake.state:
        case BakeState.WATCHING:
            return f":eyes: {who} is watched until {moment(bake.until)}."
        case BakeState.WELL:
            return f":seedling: {who} has been well with it since."
        case BakeState.DEGRADED:
            at = f" at {moment(bake.decided_at)}" if bake.decided_at else ""
            return f":warning: *{who} has degraded since*{at}: {why}. Nothing was changed back by itself."
        case BakeState.RECOVERED:
            at = f" since {moment(bake.decided_at)}" if bake.decided_at else ""
            return f":seedling: {who} is well again{at}. Before: {why}."
        case BakeState.OVERTAKEN:
            return f":fast_forward: {who} is not watched any more: {why}."
        case BakeState.ENDED:
            return f":double_vertical_bar: {who} is not watched any more: {why}."
