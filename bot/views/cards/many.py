"""The parts of a card of a command for many workers: a bar, the workers by state, equal results together. Pure.

A card for ten workers is as long as one for a thousand: what a phone shows. The thread has the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime

from bot.views.blocks import Color, Json
from bot.views.buttons import command_button
from bot.views.cards.headlines import short_words
from bot.views.cards.next_steps import CardContext, is_undone, may_be_undone
from bot.views.cards.outcome import (
    changed_code,
    changed_nothing,
    commit_ref,
    details_of,
    error_of,
    error_parts,
    has_ended,
    has_failed,
)
from bot.views.text import FEW, inert, named_or_counted, shorten, when
from supervisor_core.commands.addresses import is_address, name_of
from supervisor_core.commands.command import Command
from supervisor_core.common.text import capitalize
from supervisor_core.common.times import format_span
from supervisor_core.intake.rolling.rules import RollingChange, unanswered
from supervisor_core.jobs.model import FINAL, Job, JobState, RollingState, not_begun

MOST = 8
"""Workers that have a line each; more are counted by state."""

NAMED = 3  # workers of a state or of a result
BAR = 10  # characters: with its words it fits into a line of a phone
GROUPS = 4
"""Different results that are shown."""

LINE = 200  # characters of an error
BACK = "Roll back"

COMMITTING = frozenset({"rollback_code", "undo_code"})
"""Handlers that make a commit, which has another id on each host."""

DONE, FAILED, AT_WORK, WAITING, NOT_STARTED = "done", "failed", "at work", "waiting", "not started"
_SIGNS = {
    FAILED: ":x:",
    AT_WORK: ":hourglass_flowing_sand:",
    WAITING: ":white_medium_square:",
    NOT_STARTED: ":fast_forward:",
    DONE: ":white_check_mark:",
}

LOOKS = {
    RollingState.RUNNING: (":hourglass_flowing_sand:", Color.ACTIVE),
    RollingState.PAUSED: (":double_vertical_bar:", Color.QUIET),
    RollingState.HALTED: (":warning:", Color.WARNING),
    RollingState.ABORTED: (":fast_forward:", Color.QUIET),
}
"""The sign and color of a rolling change. A finished one looks like any other command."""

NOTHING = "nothing to do"


def is_many(jobs: Sequence[Job], about: CardContext) -> bool:
    """True for a command whose workers are counted rather than listed."""
    return len(jobs) > MOST or about.rolling is not None


def rolling_headline(jobs: Sequence[Job], change: RollingChange, about: CardContext) -> str:
    """The title of a rolling change that isn't finished, and the facts for a lock screen: the failed workers first."""
    sign, _ = LOOKS[change.state]
    listed = "," in change.target  # as a rollback of those that were changed
    target = named_or_counted([job.worker_id for job in jobs], NAMED) if listed else change.target
    name = inert(f"{jobs[0].command.capitalize()} of {target}", LINE)
    word = "" if change.state is RollingState.RUNNING else f" {change.state}"
    parts = by_state(jobs, change)
    done, failed = parts[DONE], [job.worker_id for job in parts[FAILED]]
    lost = f"{inert(named_or_counted(failed, NAMED), LINE)} failed, " if failed else ""
    undone = " and undone" if done and all(is_undone(job, about) for job in done) else ""
    place = f", batch {change.released} of {change.batches}"
    return f"{sign} *{name}{word}*: {lost}{len(done):,} of {len(jobs):,} done{undone}{place}"


def overview(jobs: Sequence[Job], about: CardContext, now: datetime) -> list[str]:
    """The lines of the card: a bar while it goes on, the workers by state, and equal results together."""
    change, lines = about.rolling, []
    parts = by_state(jobs, change)
    open_ = change is not None and change.state in (RollingState.RUNNING, RollingState.PAUSED, RollingState.HALTED)
    if open_ or parts[AT_WORK] or parts[WAITING]:
        ended = len(parts[DONE]) + len(parts[FAILED])
        full = ended * BAR // len(jobs)
        left = change.batches - change.released if change else 0
        more = f" · {left} {'batch' if left == 1 else 'batches'} to go" if change else ""
        lines.append(f"`{'█' * full}{'░' * (BAR - full)}` {ended:,} of {len(jobs):,}{more}")
    if change is not None and change.state is RollingState.RUNNING:
        batch = [job for job in jobs if job.batch == change.released]
        span = change.terms.healthy.total_seconds()
        if batch and span and has_ended(batch):
            then = " before the next one" if change.released < change.batches else ""
            lines.append(f":eyes: Batch {change.released} must stay healthy for {format_span(span)}{then}")
    if change is not None and (hosts := unanswered(change, jobs, now)):
        named = shorten([inert(host, LINE) for host in hosts], NAMED)
        lines.append(f":warning: *No answer from {named}* since {when(change.released_at, now)}. Abort it, or wait.")
    for state, some in parts.items():
        if some:
            on = {job.worker_id.partition("/")[0] for job in some if "/" in job.worker_id}
            where = f" on {len(on):,} hosts" if len(on) > 1 else ""
            names = "" if state in (WAITING, DONE) and len(some) > FEW else f": {_names(some)}"
            lines.append(f"{_SIGNS[state]} *{len(some):,} {state}*{where}{names}")
            lines += _reasons(some, change) if state == FAILED else _results(some) if state == DONE else []
    if len(jobs) > MOST and has_ended(jobs):
        lines.append("Each worker is listed in the thread.")
    return lines


def _reasons(failed: Sequence[Job], change: RollingChange | None) -> list[str]:
    def reason(job: Job) -> str:
        if change and (unhealthy := inert(change.failures.get(job.worker_id, ""), LINE)):
            return unhealthy
        parts = error_parts(error_of(job))
        return inert((parts.first or parts.rest or "failed").removeprefix(f"{name_of(job.worker_id)} "), LINE)

    alike = _alike(failed, reason)
    if len(alike) == 1:
        return [f"• {capitalize(alike[0][0])}"]
    return [f"• {_names(some)}: {why}" for why, some in alike[:GROUPS]]


def by_state(jobs: Iterable[Job], change: RollingChange | None = None) -> dict[str, list[Job]]:
    """The jobs by their state, the failed ones first. Of a rolling change, those that didn't stay healthy failed."""
    failures = change.failures if change else ()
    found: dict[str, list[Job]] = {state: [] for state in _SIGNS}
    for job in jobs:
        if job.worker_id in failures:
            state = FAILED
        elif job.state not in FINAL:  # one that was sent to another host waits until that host starts it
            here = job.state is JobState.CLAIMED and not is_address(job.worker_id)
            state = AT_WORK if here or job.state is JobState.STARTED else WAITING
        elif not_begun(job):
            state = NOT_STARTED
        else:
            state = FAILED if has_failed(job) else DONE
        found[state].append(job)
    return found


def rolling_buttons(jobs: Sequence[Job], change: RollingChange, about: CardContext) -> list[Json]:
    """The decisions that people have about a rolling change, the likely one first."""
    state = change.state
    names = {
        RollingState.RUNNING: ["pause", "abort"],
        RollingState.PAUSED: ["continue", "abort"],
        RollingState.HALTED: ["continue", "abort"],
    }.get(state, [])
    buttons = [_button(name, change, primary=name == "continue" and state is RollingState.PAUSED) for name in names]
    changed = [job for job in jobs if may_be_undone(job) and not is_undone(job, about)]
    if not changed or state in (RollingState.RUNNING, RollingState.PAUSED):
        return buttons
    tries = sum(about.undone[job.worker_id].tries for job in jobs if job.worker_id in about.undone)
    workers = named_or_counted([job.worker_id for job in changed], NAMED)
    unfinished = state in (RollingState.HALTED, RollingState.ABORTED)
    text = BACK if unfinished and jobs[0].command not in ("rollback", "undo") else "Undo"
    undo = command_button(
        Command("rolling undo", params={"task_id": change.task_id}),
        f"{change.task_id}.rolling{tries}",
        text,
        about=f"{text} {workers}" if text == BACK else f"{text} the change of {workers}",
        effect=f"Restores the previous code of {len(changed):,} of {len(jobs):,} workers and restarts them.",
        style="primary" if state is RollingState.HALTED else "",
        asks="undo" in about.asks,
    )
    return [undo, *buttons]


def _button(name: str, change: RollingChange, *, primary: bool) -> Json:
    command = Command(f"rolling {name}", params={"task_id": change.task_id})
    text = name.capitalize()
    whose = f"{text} the change of {change.target}"
    return command_button(
        command, f"{change.task_id}.{change.mark}", text, about=whose, style="primary" if primary else ""
    )


def _names(jobs: Sequence[Job]) -> str:
    return shorten([inert(job.worker_id, LINE) for job in jobs], NAMED)


def _results(done: Sequence[Job]) -> Iterator[str]:
    """`47 the same: …, 3 different:` and each of the different ones."""
    groups = _alike(done, _result)
    if len(groups) == 1 and len(done) > 1:
        result = groups[0][0]
        yield f"• All {len(done):,}{':' if result == NOTHING else ''} {result}"
    elif len(groups) > 1:
        said, same = groups[0]
        yield f"• {len(same):,} the same: {said}"
        yield f"• {len(done) - len(same):,} different:"
        yield from (f"    ◦ {_names(some)}: {other}" for other, some in groups[1:GROUPS])
        if len(groups) > GROUPS:
            yield f"    ◦ … and {len(groups) - GROUPS:,} more, in the thread"


def _alike(jobs: Iterable[Job], key: Callable[[Job], str]) -> list[tuple[str, list[Job]]]:
    """The jobs with equal results together, the most frequent result first."""
    found: dict[str, list[Job]] = {}
    for job in jobs:
        found.setdefault(key(job), []).append(job)
    return sorted(found.items(), key=lambda each: -len(each[1]))


def _result(job: Job) -> str:
    if changed_nothing(job):
        return NOTHING
    if not changed_code(job):
        return short_words(job)
    details = details_of(job)
    page = details.get("commit_page")
    if job.handler in COMMITTING:
        return f"{short_words(job)} from {commit_ref(details.get('before'), page)}"
    return f"{short_words(job)}, {commit_ref(details.get('before'), page)} → {commit_ref(details.get('after'), page)}"
