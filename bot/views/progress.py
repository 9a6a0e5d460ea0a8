"""How far a command has come: a bar, and the steps that were taken with their times. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from bot.views.text import escape, fit
from bot.views.told import moment
from supervisor_core.domain.jobs import FINAL, MOST_PROGRESS, Job, JobState, Progress
from supervisor_core.domain.phrases import span

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
"""How many steps a command usually takes on one worker. A longer one fills its bar more slowly, and never before its
end."""

SHOWN = 5
"""Steps on a card; of those before them it says how many there were."""

STEP = 250  # characters


def bar(jobs: Sequence[Job]) -> str:
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


def steps(job: Job) -> str:
    """The newest steps, a line each: how long each took, and since when the last one is under way."""
    taken = job.progress
    if not taken or job.state in FINAL:
        return ""
    if len(taken) >= MOST_PROGRESS:  # how long those before it took is not known
        return f"… {len(taken) - 1} steps or more before\n{_newest(taken[-1])}"
    lines = [f"… {len(taken) - SHOWN} steps before"] if len(taken) > SHOWN else []
    for step, following in list(pairwise(taken))[-(SHOWN - 1) :]:
        lines.append(f":white_small_square: {_words(step)} · {span((following.at - step.at).total_seconds())}")
    return "\n".join([*lines, _newest(taken[-1])])


def _newest(step: Progress) -> str:
    return f":arrow_forward: {_words(step)} · since {moment(step.at)}"


def _share(job: Job) -> float:
    """How much of a job is done, as far as one can tell."""
    if job.state in FINAL:
        return 1.0
    taken = len(job.progress)
    usual = USUAL_STEPS.get(job.handler, 1)
    return taken / (max(usual, taken) + 1)


def _words(step: Progress) -> str:
    return fit(escape(step.words), STEP)
