"""The buttons of a command's card: the likely next step first, and only those that make sense. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from bot.views.blocks import Json, button
from bot.views.buttons import WITHDRAW, command_button, confirm
from bot.views.cards.approval import ApprovalDetails
from bot.views.cards.outcome import (
    changed_code,
    degraded_watch,
    details_of,
    down_workers,
    has_ended,
    is_cut,
    is_interrupted,
    leaves_down,
    paused_instead,
    rests_paused,
    size_text,
    sizes,
    tried,
    turns_of,
)
from bot.views.text import named_or_counted, shorten
from supervisor_core.code.change_plan import STATE_PARAM, short
from supervisor_core.code.watch.rules import Bake
from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CODE_HANDLERS, KEEP_GOING, ROLLING
from supervisor_core.intake.rolling.rules import RollingChange
from supervisor_core.jobs.model import Job, JobState

NAMED = 3  # workers

UNDOABLE = frozenset({"update_code", "update_code_deps", "rollback_code"})
STARTING = frozenset({"resume", "restart_watcher"})

OF_SEVERAL = frozenset({STATE_PARAM, KEEP_GOING.name, *(each.name for each in ROLLING)})
"""Parameters that make no sense for one of the workers alone."""

BUTTONS = 5  # in a row; for more workers the command is typed
RESTARTS_NAMED = 3


@dataclass(frozen=True, slots=True)
class UndoState:
    tries: int = 0
    """Undo commands that have ended. The button works once for each."""
    by: Job | None = None
    """The one that succeeded."""
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class CardContext:
    details: ApprovalDetails | None = None
    undone: Mapping[str, UndoState] = field(default_factory=dict)
    """By worker."""
    bakes: Sequence[Bake] = ()
    """The watches that it started."""
    asks: Collection[str] = ()
    """The commands that need an approval."""
    resumed: Mapping[str, Job] = field(default_factory=dict)
    """The command that resumed each paused worker since, by worker."""
    rolling: RollingChange | None = None


def next_steps(jobs: Sequence[Job], about: CardContext) -> list[Json]:
    if not has_ended(jobs):
        return [_cancel(jobs)] if any(map(is_held, jobs)) else []
    named = len(jobs) > 1
    undos = [_undo(job, about, named=named) for job in undoable(jobs, about)]
    failed = tried(jobs)
    if all(map(paused_instead, failed)) and any(map(rests_paused, jobs)):
        return _resumes(jobs, about, named=named)
    if failed:
        return [*undos, *_after_failure(failed, about, named=named, undo=bool(undos))][:BUTTONS]
    if undos:
        return [*undos, *([] if named else [_button(jobs[0], about, "logs", "Show log")])][:BUTTONS]
    return []


def is_held(job: Job) -> bool:
    return job.state is JobState.QUEUED and is_address(job.worker_id) and bool(job.progress)


def _cancel(jobs: Sequence[Job]) -> Json:
    workers = named_or_counted([job.worker_id for job in jobs if is_held(job)], NAMED)
    made = button(WITHDRAW, "Cancel", jobs[0].task_id, label=f"Cancel {jobs[0].command} of {workers}")
    effect = "It isn't sent to its host any more. Nothing is done there."
    return made | {"confirm": confirm(f"Cancel {jobs[0].command} of {workers}?", effect, "Cancel it")}


def _resumes(jobs: Sequence[Job], about: CardContext, *, named: bool) -> list[Json]:
    rests = [job for job in jobs if rests_paused(job) and job.worker_id not in about.resumed]
    resumes = [_button(job, about, "resume", named=named, style="" if named else "primary") for job in rests]
    return [*resumes, *([_button(jobs[0], about, "status")] if resumes and not named else [])][:BUTTONS]


def undoable(jobs: Sequence[Job], about: CardContext) -> list[Job]:
    """The jobs whose code was changed and still is, degraded workers first: they need it most."""
    found = [job for job in jobs if may_be_undone(job) and not is_undone(job, about)]
    return sorted(found, key=lambda job: not is_degraded(job, about))


def may_be_undone(job: Job) -> bool:
    """True for a change of code that isn't itself an undo."""
    return job.handler in UNDOABLE and job.outcome is not None and changed_code(job) and not is_interrupted(job)


def is_undone(job: Job, about: CardContext) -> bool:
    """True once it is undone, or is about to be."""
    undone = about.undone.get(job.worker_id)
    return undone is not None and (undone.by is not None or undone.under_way)


def is_degraded(job: Job, about: CardContext) -> bool:
    """True where a worker hasn't been well with the change."""
    return degraded_watch(about.bakes, job.worker_id) is not None and not is_undone(job, about)


def _after_failure(failed: Sequence[Job], about: CardContext, *, named: bool, undo: bool) -> list[Json]:
    first, elements = failed[0], []
    down = leaves_down(first)
    if any(map(is_interrupted, failed)):
        elements.append(_button(first, about, "status", style="primary"))
    elif down and (first.handler in STARTING or first.handler in CODE_HANDLERS):
        jobs_of = {worker: job for job in failed for worker in down_workers(job)}
        named_too = named or list(jobs_of) != [first.worker_id]
        style = "" if undo or named or len(jobs_of) > 1 else "primary"
        elements += [
            _button(job, about, "restart", named=named_too, style=style, worker=worker)
            for worker, job in jobs_of.items()
        ]
    wrote = down and first.handler in (*STARTING, *CODE_HANDLERS) and not is_interrupted(first)
    if not named and (is_cut(first) or wrote):
        elements.append(_button(first, about, "logs", "Show full log"))
    restarts = down and first.handler in STARTING  # which is the same again
    if not restarts:
        elements += [_retry(job, about, named=named) for job in failed]
    return elements


def _retry(job: Job, about: CardContext, *, named: bool) -> Json:
    """The same command for this worker alone, not bound to a preview: a new one is shown where it needs an approval."""
    params = {name: value for name, value in job.params.items() if name not in OF_SEVERAL}
    return command_button(
        Command.for_worker(job.command, job.worker_id, params, job.label),
        f"{job.task_id}.retry",
        f"Retry {job.worker_id}" if named else "Retry",
        about=f"Retry {job.command} on {job.worker_id}",
        asks=about.details is not None or job.command in about.asks,
        part=job.worker_id if named else "",
    )


def _button(
    job: Job, about: CardContext, name: str, text: str = "", *, named: bool = False, style: str = "", worker: str = ""
) -> Json:
    text, worker = text or name.capitalize(), worker or job.worker_id
    return command_button(
        Command.for_worker(name, worker),
        f"{job.task_id}.next",
        f"{text} {worker}" if named else text,
        about=f"{text} {worker}",
        style=style,
        asks=name in about.asks,
        part=worker if named else "",
    )


def _undo(job: Job, about: CardContext, *, named: bool) -> Json:
    undone = about.undone.get(job.worker_id, UndoState())
    details = details_of(job)
    before, after = short(str(details.get("before"))), short(str(details.get("after")))
    size = size_text(*sizes(details))
    restarts = sorted(turns_of(job)) or [job.worker_id]
    effect = (
        f"Restores the code from {after} to {before}{f' ({size})' if size else ''}. "
        f"Restarts {shorten(restarts, RESTARTS_NAMED)} unless paused."
    )
    likely = is_degraded(job, about) or leaves_down(job)
    return command_button(
        Command.for_worker("undo", job.worker_id, {"task_id": job.task_id}),
        f"{job.task_id}.{undone.tries}",
        f"Undo {job.worker_id}" if named else "Undo",
        about=f"Undo {job.worker_id}",
        effect=effect,
        style="primary" if likely and not named else "",
        asks="undo" in about.asks,
        part=job.worker_id if named else "",
    )
