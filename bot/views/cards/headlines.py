"""The headline of a command's card: its sign, its color, its title, and the one fact for a lock screen. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from bot.views.blocks import Color
from bot.views.cards.next_steps import CardContext, is_degraded, may_be_undone
from bot.views.cards.outcome import (
    changed_code,
    changed_nothing,
    commit_ref,
    degraded_watch,
    details_of,
    error_of,
    error_parts,
    has_ended,
    has_failed,
    is_interrupted,
    leaves_down,
    paused_instead,
    place_of,
    sizes,
    step_text,
    tried,
    turns_of,
    was_reverted,
    was_skipped,
)
from bot.views.text import inert, mention, named_or_counted, when
from supervisor_core.code.change_plan import count
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.jobs.model import FINAL, Job, JobState, not_begun

LINE = 300  # characters
NAMED = 3  # workers

SHORT = 60
"""Characters of the step of one of several workers, so that the lines of all find room on the card."""

WORDS: Mapping[str, tuple[str, str, str]] = {
    "pause": ("Pausing {}", "{} paused", "Pause of {}"),
    "resume": ("Resuming {}", "{} resumed", "Resume of {}"),
    "restart_watcher": ("Restarting {}", "{} restarted", "Restart of {}"),
    "diagnostics": ("Writing a report on {}", "Report on {} written", "Report on {}"),
    "verify_db": ("Checking the database of {}", "Database of {} verified", "Database check of {}"),
    "update_code": ("Updating {}", "{} updated", "Update of {}"),
    "update_code_deps": ("Updating {} with packages", "{} updated with packages", "Update of {} with packages"),
    "rollback_code": ("Rolling back {}", "{} rolled back", "Rollback of {}"),
    "undo_code": ("Undoing a change to {}", "Change to {} undone", "Undo of a change to {}"),
}
"""Each command while it runs, once it's done, and as a noun."""

MOMENT = timedelta(seconds=1)
"""For so long a card doesn't tell a command that waits from one that runs: most have ended by then."""

_DEGRADED: Mapping[str, str] = {"update_code": "the update", "update_code_deps": "the update"}
"""The change after which a worker degraded. The others are named with their commits."""


def headline(jobs: Sequence[Job], now: datetime, about: CardContext) -> str:
    sign, _ = look(jobs, about)
    if degraded_worker(jobs, about):
        return f"{sign} {_degraded(jobs[0], now, about)}"
    title = f"*{inert(title_of(jobs), LINE)}*"
    if (by := _undone_by(jobs, about)) is not None:
        return f"{sign} {title}, undone by {mention(by.issuer)}"
    if len(jobs) == 1 and (resumed := about.resumed.get(jobs[0].worker_id)) is not None:
        if jobs[0].handler == "pause":
            title = f"*{inert(place_of(jobs[0]), LINE)} was paused*"
        return f"{sign} {title}; {mention(resumed.issuer)} resumed it"
    return f"{sign} {title}{_fact(jobs, now)}"


def degraded_worker(jobs: Sequence[Job], about: CardContext) -> str:
    bake = degraded_watch(about.bakes, jobs[0].worker_id)
    return bake.worker_id if bake and len(jobs) == 1 and is_degraded(jobs[0], about) else ""


def title_of(jobs: Sequence[Job]) -> str:
    """The command and its state, without markup: `OrionMX rolled back 2 commits`."""
    jobs = [job for job in jobs if not was_skipped(job)] or jobs
    names = named_or_counted([place_of(job) for job in jobs], NAMED)
    doing, done, _ = _words(jobs[0])
    failed, left = tried(jobs), sum(map(not_begun, jobs))
    if not has_ended(jobs):
        back = _commits_back(jobs[0])
        return f"Rolling back {back} on {names}" if back else doing.format(names)
    if left == len(jobs):
        return f"{_noun(jobs[0], names)} not started"
    if not failed:
        if all(map(changed_nothing, jobs)):
            return f"{_noun(jobs[0], names)}: nothing to do"
        return f"{done.format(names)} {_commits_back(jobs[0])}".rstrip()
    if all(map(paused_instead, failed)):
        whose = names if len(jobs) == 1 else f"{len(failed):,} of {len(jobs):,} workers"
        return f"{whose} paused during the restart"
    word = "interrupted" if any(map(is_interrupted, failed)) else "failed"
    if len(jobs) == 1:
        return f"{_noun(jobs[0], names)} {word}{' and was reverted' if was_reverted(jobs[0]) else ''}"
    rest = f", not started on {left:,}" if left else ""
    return f"{jobs[0].command.capitalize()} {word} on {len(failed):,} of {len(jobs):,} workers{rest}"


def line_of(job: Job, about: CardContext) -> str:
    name = inert(place_of(job), LINE)
    if job.state not in FINAL:
        if job.state is not JobState.STARTED:
            return f":white_medium_square: {name}"
        return f":hourglass_flowing_sand: *{name}* {step_text(job, SHORT)}".rstrip()
    first = inert(error_parts(error_of(job)).first, LINE) if has_failed(job) else ""
    if not_begun(job):
        said = "not started"
    elif paused_instead(job):
        said = "paused during the restart"
    elif is_interrupted(job):
        said = "interrupted"
    elif has_failed(job):
        said = f"failed: {first}" if first else "failed"
    elif was_skipped(job):
        said = "left alone: quarantined in the configuration"
    else:
        said = "nothing to do" if changed_nothing(job) else short_words(job)
    return f"{look([job], about)[0]} {name} {said}"


def look(jobs: Sequence[Job], about: CardContext) -> tuple[str, Color]:
    if not has_ended(jobs):
        return ":hourglass_flowing_sand:", Color.ACTIVE
    if all(not_begun(job) or was_skipped(job) for job in jobs):
        return ":fast_forward:", Color.QUIET
    if any(map(leaves_down, jobs)):
        return ":x:", Color.CRITICAL
    if (failed := tried(jobs)) and all(map(paused_instead, failed)):
        return ":double_vertical_bar:", Color.QUIET
    if tried(jobs) or any(is_degraded(job, about) for job in jobs):
        return ":warning:", Color.WARNING
    if _undone_by(jobs, about) is not None:
        return ":leftwards_arrow_with_hook:", Color.QUIET
    if jobs[0].handler == "pause":
        return ":double_vertical_bar:", Color.QUIET
    return ":white_check_mark:", Color.GOOD


def _words(job: Job) -> tuple[str, str, str]:
    name = job.command
    return WORDS.get(job.handler, (f"Running {name} on {{}}", f"Ran {name} on {{}}", f"{name} on {{}}"))


def short_words(job: Job) -> str:
    """Its state where its name stands before it: `rolled back 2 commits`."""
    done = _words(job)[1]
    short = done.removeprefix("{} ") if done.startswith("{} ") else "undone" if "undo" in job.handler else "done"
    return f"{short} {_commits_back(job)}".rstrip()


def _noun(job: Job, names: str) -> str:
    back = _commits_back(job)
    return f"Rollback of {back} on {names}" if back else _words(job)[2].format(names)


def _commits_back(job: Job) -> str:
    if job.handler != "rollback_code":
        return ""
    details = details_of(job)
    number = details.get("commits_reverted", len(details.get("commits") or ())) if not has_failed(job) else 0
    number = number or job.params.get("commits_back")
    return count(number, "commit") if isinstance(number, int) else ""


def _fact(jobs: Sequence[Job], now: datetime) -> str:
    job, several = jobs[0], len(jobs) > 1
    if not has_ended(jobs):
        if several:
            return f": {sum(1 for each in jobs if each.state in FINAL)} of {len(jobs)} done"
        said = step_text(job) or ("" if is_new([job], now) else _progress(job))
        return f": {said}" if said else ""
    if not several and tried(jobs):
        return "" if paused_instead(job) else _failure_fact(job)
    if not several and changed_code(job) and "update" in job.handler:
        details = details_of(job)
        commits, _ = sizes(details)
        new = f", {count(commits, 'new commit')}" if commits else ""
        return f" to {commit_ref(details.get('after'), details.get('commit_page'))}{new}"
    if job.handler == "pause" and job.label and not tried(jobs):
        return f": {inert(job.label, LINE)}"
    return ""


def _progress(job: Job) -> str:
    """The state of a job without a step. One that was sent to another host waits until that host starts it."""
    if job.state is JobState.CLAIMED and is_address(job.worker_id):
        return f"waiting for {inert(address_of(job.worker_id).host, LINE)}"
    return "queued" if job.state is JobState.QUEUED else "running"


def is_new(jobs: Sequence[Job], now: datetime) -> bool:
    return timedelta(0) <= now - jobs[0].filed_at < MOMENT


def _failure_fact(job: Job) -> str:
    turns = turns_of(job)
    if was_reverted(job) and turns:
        running = sum(1 for turn in turns.values() if turn.get("new_pid"))
        if len(turns) == 1:
            return f", {inert(job.worker_id, LINE)} is {'running' if running else 'down'}"
        return f", {'all' if running == len(turns) else f'{running} of'} {len(turns)} workers running"
    first = error_parts(error_of(job)).first
    return f": {inert(first, LINE)}" if first else ""


def _degraded(job: Job, now: datetime, about: CardContext) -> str:
    bake = degraded_watch(about.bakes, job.worker_id)
    since = f" since {when(bake.decided_at, now)}" if bake and bake.decided_at else ""
    after = _DEGRADED.get(job.handler) or f"rolling back {_commits_back(job)}"
    return f"*{inert(degraded_worker([job], about), LINE)} degraded*{since} after {after}"


def _undone_by(jobs: Sequence[Job], about: CardContext) -> Job | None:
    """The command that undid this one, once it did so for all of its workers."""
    changed = [job for job in jobs if may_be_undone(job)]
    by = [about.undone[job.worker_id].by for job in changed if job.worker_id in about.undone]
    return by[0] if changed and len(by) == len(changed) and all(by) else None
