"""The card: the one message of a command, from accepted to its outcome. Pure: rows in, a message out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from bot.views.blocks import Content, actions, context, section
from bot.views.buttons import command_button
from bot.views.cards.approval import ApprovalDetails, votes_text
from bot.views.cards.progress import degraded_watch, progress_bar, step_lines, watch_lines
from bot.views.text import escape, first_lines, fit, in_code, mention, requester, shorten
from supervisor_core.code.change_plan import STATE_PARAM, count, short
from supervisor_core.code.watch.rules import Bake
from supervisor_core.commands.command import NOTE_KEY, Command
from supervisor_core.commands.definitions import KEEP_GOING
from supervisor_core.commands.grammar import render
from supervisor_core.common.text import one_line, sentence
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import FINAL, Job, JobState, not_begun

WORDS: Mapping[str, tuple[str, str]] = {
    "pause": ("pausing", "paused"),
    "resume": ("resuming", "running again"),
    "restart_watcher": ("restarting", "restarted"),
    "diagnostics": ("writing a report", "report written"),
    "verify_db": ("verifying the database", "database verified"),
    "update_code": ("updating", "updated"),
    "update_code_deps": ("updating with what it requires", "updated with what it requires"),
    "rollback_code": ("rolling back", "rolled back"),
    "undo_code": ("undoing", "undone"),
}
"""The state of a worker during and after each command."""

UNDOABLE = frozenset({"update_code", "update_code_deps", "rollback_code"})

SAID_BY_THE_TITLE = (" is paused", " is running")

TITLE, LINE, ERROR, TEXT = 250, 300, 1500, 3000
"""Characters; far below Slack's limits, and as much as one reads."""

SHORT = 60
"""Characters of what one of several workers is doing, so that the lines of all find room on the card."""

COMMITS, FILES = 5, 5
"""Of what changed; the thread has all."""

ERRORS = 3
"""Errors in full, and commands to type; the thread has all."""

NOTES = 5  # of one command, beside its message
WORKERS = 20
"""Lines of workers on a card; more of them are counted."""

RESTARTS_NAMED = 3
UNDO_BUTTONS = 5  # in a row; for more workers it is typed


@dataclass(frozen=True, slots=True)
class UndoState:
    """The state of undoing a command on one worker."""

    tries: int = 0
    """Undo commands that have ended. The button works once for each."""
    by: Job | None = None
    """The one that succeeded."""
    under_way: bool = False


@dataclass(frozen=True, slots=True)
class CardContext:
    """The approval, undo commands and watches of a command, beside its jobs."""

    details: ApprovalDetails | None = None
    undone: Mapping[str, UndoState] | None = None
    """By worker."""
    bakes: Sequence[Bake] = ()
    """The watches that it started."""
    undo_asks: bool = False
    """An undo needs an approval."""


NOTHING_ELSE = CardContext()


def command_card(jobs: Sequence[Job], now: datetime, about: CardContext = NOTHING_ELSE) -> Content:
    """The message for these jobs of one command: `text` and `blocks` say the same."""
    title, doing = title_of(jobs), _doing(jobs[0], TITLE) if len(jobs) == 1 else ""
    blocks = [section(f"{_sign(jobs, about)} *{escape(title)}*")]
    if far := progress_bar(jobs):
        blocks.append(section("\n".join(filter(None, [far, step_lines(jobs[0]) if len(jobs) == 1 else ""]))))
    if len(jobs) > 1:
        blocks.append(section("\n".join(_lines(jobs))))
    notes = _notes(jobs, about)
    if notes:
        blocks.append(section("\n".join(notes)))
    watched = watch_lines(about.bakes)
    if watched:
        blocks.append(section("\n".join(watched)))
    failed = [job for job in jobs if job.outcome is not None and not job.outcome.success]
    tried = [job for job in failed if not not_begun(job)]
    blocks.extend(section(f"```{in_code(error_of(job), ERROR)}```") for job in tried[:ERRORS])
    if _ended(jobs) and (len(tried) > ERRORS or any(is_cut(job) for job in tried)):
        blocks.append(context("All that went wrong is in the thread."))
    if step := _next_step(jobs, failed, about):
        blocks.append(section(step))
    if buttons := _undo_buttons(jobs, about):
        blocks.append(actions("undo", buttons))
        if others := len(_undoable(jobs, about)) - len(buttons):
            blocks.append(context(f"For the other {others}: `/supervisor undo WORKER {jobs[0].task_id}`"))
    if about.details is not None and about.details.votes:
        blocks.append(context(" · ".join(votes_text(about.details.votes).split("\n"))))
    blocks.append(context(" · ".join(_facts(jobs, now))))
    unwell = [line for line in watched if "degraded" in line]
    return {
        "text": _text([escape(title) + doing, *notes[:1], *unwell, *map(_why_failed, tried[:ERRORS])]),
        "blocks": blocks,
    }


def _text(lines: Sequence[str]) -> str:
    return fit("\n".join(lines), TEXT)


def _why_failed(job: Job) -> str:
    return escape(one_line(" ".join(error_of(job).split()), LINE))


def _facts(jobs: Sequence[Job], now: datetime) -> list[str]:
    first = jobs[0]
    facts = [f"asked by {requester(first.issuer)}"]
    if first.label:
        facts.append(f"label: {escape(first.label)}")
    if note := str(first.params.get(NOTE_KEY) or ""):
        facts.append(f"note: {escape(note)}")
    if _ended(jobs):
        facts.append(f"took {format_span(seconds_of(jobs, now))}")
    return [*facts, f"`{first.task_id}`"]


def _undo_buttons(jobs: Sequence[Job], about: CardContext) -> list[dict[str, Any]]:
    """One for each worker whose code was changed and is still so."""
    return [_undo_button(job, about, named=len(jobs) > 1) for job in _undoable(jobs, about)[:UNDO_BUTTONS]]


def _undoable(jobs: Sequence[Job], about: CardContext) -> list[Job]:
    """The jobs with an undo button, degraded workers first: they need it most."""
    found = [job for job in jobs if _may_be_undone(job) and not _is_undone(job, about)]
    return sorted(found, key=lambda job: degraded_watch(about.bakes, job.worker_id) is None)


def _undo_button(job: Job, about: CardContext, *, named: bool) -> dict[str, Any]:
    undone = (about.undone or {}).get(job.worker_id, UndoState())
    command = Command.for_worker("undo", job.worker_id, {"task_id": job.task_id})
    details: Mapping[str, Any] = job.outcome.details if job.outcome else {}
    before, after = short(str(details.get("before"))), short(str(details.get("after")))
    effect = (
        f"Its code goes from {after} back to what it was at {before}{_reversed(details)}. {_restarts(job, details)}"
    )
    unwell = degraded_watch(about.bakes, job.worker_id) is not None
    name, style = ("Rollback", "danger") if unwell else ("Undo", "")
    whole, part = f"{name} {job.worker_id}", job.worker_id if named else ""
    return command_button(
        command,
        f"{job.task_id}.{undone.tries}",
        whole if named else name,
        about=whole,
        effect=effect,
        style=style,
        asks=about.undo_asks,
        part=part,
    )


def _reversed(details: Mapping[str, Any]) -> str:
    """The size of what an undo reverses: `: 2 commits, 12 files`."""
    found = []
    for thing in ("commit", "file"):
        number = max(int(details.get(f"{thing}_count") or 0), len(details.get(f"{thing}s") or ()))
        found += [count(number, thing)] if number else []
    return f": {', '.join(found)}" if found else ""


def _restarts(job: Job, details: Mapping[str, Any]) -> str:
    """The workers that an undo restarts: all that run from the checkout."""
    told = details.get("workers")
    names = sorted(told) if isinstance(told, Mapping) and told else [job.worker_id]
    who = shorten(names, RESTARTS_NAMED)
    return f"{who} {'restarts' if len(names) == 1 else 'restart'} unless paused."


def _may_be_undone(job: Job) -> bool:
    details: Mapping[str, Any] = job.outcome.details if job.outcome and job.outcome.success else {}
    return job.handler in UNDOABLE and details.get("before") != details.get("after")


def _is_undone(job: Job, about: CardContext) -> bool:
    undone = (about.undone or {}).get(job.worker_id)
    return undone is not None and (undone.by is not None or undone.under_way)


def _notes(jobs: Sequence[Job], about: CardContext) -> list[str]:
    """Notes on a success: undone since, no change, the commits and files, a drive that is away."""
    notes = [
        f":leftwards_arrow_with_hook: {escape(worker_id)} was undone by {mention(undone.by.issuer)}: "
        f"`{undone.by.task_id}`"
        for worker_id, undone in (about.undone or {}).items()
        if undone.by is not None
    ]
    for job in jobs:
        details = job.outcome.details if job.outcome and job.outcome.success else {}
        message = str(details.get("message") or "")
        if message and len(jobs) == 1 and not message.endswith(SAID_BY_THE_TITLE):
            notes.append(escape(sentence(fit(message, LINE))))
        if len(jobs) == 1:
            notes += _changed(details)
        if len(jobs) == 1:
            notes += [escape(fit(str(note), LINE)) for note in list(details.get("notes") or ())[:NOTES]]
        if details.get("report_path") and len(jobs) == 1:
            notes.append(f"The report: `{in_code(str(details['report_path']), ERROR)}`")
        if details.get("drive"):
            notes.append(f":warning: {escape(fit(str(details['drive']), LINE))}")
    return [note for note in notes if note.strip()][:WORKERS]


def _changed(details: Mapping[str, Any]) -> list[str]:
    """The commits and files of a change of code, the first of them."""
    commits, files = list(details.get("commits") or ()), list(details.get("files") or ())
    number = max(int(details.get("commit_count") or 0), len(commits))
    lines = [f"• `{short(str(each['hash']))}` {escape(fit(str(each['subject']), LINE))}" for each in commits[:COMMITS]]
    if number > len(lines):
        lines.append(f"• … and {number - len(lines)} more, in the thread")
    total = max(int(details.get("file_count") or 0), len(files))
    if total:
        paths = ", ".join(f"`{in_code(str(each['path']), LINE)}`" for each in files[:FILES])
        more = f" and {total - FILES} more, in the thread" if total > FILES else ""
        lines.append(f"{count(total, 'file')}: {paths}{more}")
    return lines


def _next_step(jobs: Sequence[Job], failed: Sequence[Job], about: CardContext) -> str:
    """The next step for a person; empty where there is none."""
    if not _ended(jobs):
        return ""
    if not failed:
        return _afterwards(jobs[0]) if len(jobs) == 1 else ""
    look, again = _command(failed, "status"), _again(failed)
    if any(STATE_PARAM in job.params for job in failed) and about.details is None:
        return f"How it is now: {look}."  # asked for by what a preview showed: a new one comes first
    if about.details is not None:
        again += "; what it would do by then is shown first"
    if any(job.state is JobState.INTERRUPTED for job in failed):
        return f"*What to do:* {look}, then if need be {again}."
    if jobs[0].handler == "undo_code":  # what is said is often another way, after which there is nothing to undo
        return f"*What to do:* what is said here, then if need be {again}. How it is now: {look}."
    return f"*What to do:* put right what is said here, then ask again: {again}. How it is now: {look}."


def _afterwards(job: Job) -> str:
    """The command that ends a pause."""
    return f"To let it work again: {_command([job], 'resume')}." if job.handler == "pause" else ""


def _command(jobs: Sequence[Job], name: str) -> str:
    said = [f"`/supervisor {name} {job.worker_id}`" for job in jobs[:ERRORS]]
    return ", ".join(said) + (" …" if len(jobs) > ERRORS else "")


def _again(jobs: Sequence[Job]) -> str:
    """The same commands as they are typed once more, with all that was asked for of one worker."""
    asked = {name: value for name, value in jobs[0].params.items() if name != KEEP_GOING.name}
    typed = [Command.for_worker(job.command, job.worker_id, asked, job.label) for job in jobs[:ERRORS]]
    said = ", ".join(f"`/supervisor {in_code(render(command), ERROR)}`" for command in typed)
    others = ", ".join(f"`{job.worker_id}`" for job in jobs[ERRORS : ERRORS + WORKERS])
    return f"{said}; and the same for {others}{' …' if len(jobs) > ERRORS + WORKERS else ''}" if others else said


def title_of(jobs: Sequence[Job]) -> str:
    """The workers of a command, and its state."""
    names = shorten([job.worker_id for job in jobs], 3)
    return fit(f"{names}: {_word(jobs)}", TITLE)


def _word(jobs: Sequence[Job]) -> str:
    left = sum(1 for job in jobs if not_begun(job))
    failed = sum(1 for job in jobs if job.outcome is not None and not job.outcome.success) - left
    if left == len(jobs):
        return "not begun"
    if _ended(jobs) and failed:
        several = f" on {failed} of {len(jobs)}" if len(jobs) > 1 else ""
        several += f", not begun on {left}" if left else ""
        word = "was interrupted" if any(job.state is JobState.INTERRUPTED for job in jobs) else "failed"
        return f"{jobs[0].command} {word}{several}"
    doing, done = WORDS.get(jobs[0].handler, (f"{jobs[0].command} under way", f"{jobs[0].command} done"))
    if _ended(jobs):
        return done
    if all(job.state is JobState.QUEUED for job in jobs):
        return f"{jobs[0].command} accepted"
    ended = sum(1 for job in jobs if job.state in FINAL)
    return f"{doing}, {ended} of {len(jobs)} done" if len(jobs) > 1 else doing


def _doing(job: Job, most: int) -> str:
    """The newest progress of a running job."""
    under_way = job.state is JobState.STARTED and job.progress
    return f" — {fit(escape(job.progress[-1].words), most)}" if under_way else ""


def _sign(jobs: Sequence[Job], about: CardContext = NOTHING_ELSE) -> str:
    if not _ended(jobs):
        return ":hourglass_flowing_sand:"
    if all(not_begun(job) for job in jobs):
        return ":fast_forward:"
    if not all(job.outcome and job.outcome.success for job in jobs):
        return ":x:"
    unwell = any(degraded_watch(about.bakes, job.worker_id) and not _is_undone(job, about) for job in jobs)
    return ":warning:" if unwell else ":white_check_mark:"


def _lines(jobs: Sequence[Job]) -> list[str]:
    return first_lines([line_of(job) for job in jobs], WORKERS, "… and {} more, in the thread")


def line_of(job: Job) -> str:
    """One of several workers, and where it stands."""
    return f"{_sign([job])} {escape(fit(job.worker_id, LINE))}: {escape(_word([job]))}{_doing(job, SHORT)}"


def _ended(jobs: Sequence[Job]) -> bool:
    return all(job.state in FINAL for job in jobs)


def seconds_of(jobs: Sequence[Job], now: datetime) -> float:
    """The duration since the jobs were filed: the time that people waited, without their own approval."""
    begun = min(job.filed_at for job in jobs)
    ended = max((job.finished_at or now) for job in jobs).astimezone(UTC)
    return (ended - begun).total_seconds()


def is_cut(job: Job) -> bool:
    """True where the card has room for only a part of the error."""
    return len(escape(error_of(job))) > ERROR


def error_of(job: Job) -> str:
    """The reason for the failure."""
    return (job.outcome.error if job.outcome else None) or "no reason was given"
