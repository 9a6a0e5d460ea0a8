"""The card of a command: its one message, from accepted to its outcome. Pure: rows in, a message out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime

from bot.views.blocks import LONGEST, Content, Json, actions, card, code_block, context, fields, join_lines, section
from bot.views.cards.headlines import degraded_worker, headline, line_of, look
from bot.views.cards.many import LOOKS, NAMED, is_many, overview, rolling_buttons, rolling_headline
from bot.views.cards.next_steps import CardContext, is_degraded, is_undone, next_steps, undoable
from bot.views.cards.outcome import (
    changed_code,
    checklist,
    commit_lines,
    commit_ref,
    details_of,
    down_seconds,
    error_of,
    error_parts,
    files_text,
    has_ended,
    has_failed,
    is_cut,
    output_of,
    seconds_of,
    size_text,
    sizes,
    tried,
    turns_of,
    was_reverted,
    watch_counts,
    watch_fact,
    watch_lines,
    worker_errors,
)
from bot.views.text import escape, first_lines, in_code, in_span, inert, mention, requester, shorten
from supervisor_core.commands.command import NOTE_KEY
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.text import capitalize, flatten, sentence
from supervisor_core.common.times import format_span
from supervisor_core.intake.approvals.rules import Choice
from supervisor_core.jobs.model import Job, RollingState

NOTHING_ELSE = CardContext()

_OBVIOUS = (" is paused", " is running")
"""Ends of messages that the headline says already."""

LINE = 300  # characters
COMMITS, FILES = 5, 4
"""Of what changed; the thread has all."""

PRINTED = 2600  # characters
ERRORS = 3
"""Workers whose errors are shown; the thread has all."""

NOTES = 5  # of one command, beside its message
WORKERS = 20
"""Lines of workers on a card; more of them are counted."""

VOTERS = 20


def command_card(jobs: Sequence[Job], now: datetime, about: CardContext = NOTHING_ELSE) -> Content:
    one = jobs[0] if len(jobs) == 1 else None
    many = is_many(jobs, about) and one is None
    notes = [*_notes(jobs, about)]
    if not many:
        notes = [*watch_lines(about.bakes, now, degraded_worker(jobs, about)), *notes]
    elif about.rolling is None or about.rolling.state is not RollingState.RUNNING:
        # While batches go on, their own watch is the one that matters.
        failures = about.rolling.failures if about.rolling else ()
        notes = [*watch_counts([bake for bake in about.bakes if bake.worker_id not in failures], now), *notes]
    said = [section("\n".join(notes[:WORKERS]))] if notes else []
    if one is None:
        lines = overview(jobs, about, now) if many else [line_of(job, about) for job in jobs]
        lines = lines if many else first_lines(lines, WORKERS, "… and {} more, in the thread")
        blocks = [section(each) for each in join_lines(lines, LONGEST)]
        blocks += said if many else [*_failures(jobs), *fields(watch_fact(about.bakes, now)), *said]
    elif has_ended(jobs):
        blocks = [*fields(_facts(one, now, about)), *_failures(jobs), *_changes(one, about), *said]
        output, cut = output_of(one)
        blocks += [code_block(in_code(output, PRINTED))] if output else []
        blocks += [context("More in the thread")] if cut else []
        if is_degraded(one, about):  # then the reason matters most
            blocks = [*said, *blocks[: -len(said)]]
    else:
        blocks = [section(steps)] if (steps := checklist(one)) else []
    change = about.rolling
    elements = rolling_buttons(jobs, change, about) if change else next_steps(jobs, about)
    blocks += [actions("next", elements)] if elements else []
    if change is None and (others := len(undoable(jobs, about)) - len(elements)) > 0:
        blocks.append(context(f"For the other {others}: `/supervisor undo WORKER {jobs[0].task_id}`"))
    blocks.append(context(" · ".join(_small_print(jobs, now, about))))
    if change is not None and change.state in LOOKS:
        return card(rolling_headline(jobs, change, about), LOOKS[change.state][1], blocks)
    return card(headline(jobs, now, about), look(jobs, about)[1], blocks)


def _failures(jobs: Sequence[Job]) -> list[Json]:
    """The errors of ended jobs, where the headline or the line of the worker doesn't say all of it."""
    blocks: list[Json] = []
    for job in tried(jobs)[:ERRORS]:
        errors = worker_errors(job)
        if was_reverted(job) or len(errors) > 1:
            for name, error in list(errors.items())[:ERRORS]:
                blocks += _error(error, "" if len(errors) == 1 else name, headline=False)
        else:
            blocks += _error(error_of(job), job.worker_id if len(jobs) > 1 else "", headline=True)
    return blocks


def _error(error: str, name: str, *, headline: bool) -> list[Json]:
    """`headline`: its first sentence stands above already."""
    parts = error_parts(error)
    said = [sentence(parts.first)] if parts.first and not headline and name else []
    said += [parts.rest] if parts.rest else []
    text = inert(capitalize(" ".join(said)), LINE * 3)
    head = f"*{inert(name, LINE)}* " if name and text else ""
    blocks = [section(f"{head}{text}")] if text else []
    return [*blocks, code_block(in_code(parts.last, LINE * 2))] if parts.last else blocks


def _facts(job: Job, now: datetime, about: CardContext) -> dict[str, str]:
    details = details_of(job)
    down = down_seconds(job) if job.handler in CODE_HANDLERS else None
    if has_failed(job):
        errors = worker_errors(job)
        first = error_parts(next(iter(errors.values()))).first if len(errors) == 1 and was_reverted(job) else ""
        return {
            "Failed": inert(first, LINE),
            "Down for": f"at most {format_span(down)}" if down and was_reverted(job) else "",
        }
    if not changed_code(job):
        return watch_fact(about.bakes, now)
    page = details.get("commit_page")
    seconds = seconds_of([job], now)
    took = format_span(seconds)
    started = [inert(name, LINE) for name, turn in turns_of(job).items() if turn.get("new_pid")]
    environments = details.get("packages")
    packages: dict[str, None] = {}
    for one in environments if isinstance(environments, list) else ():
        changed = one.get("changed") if isinstance(one, Mapping) else None
        packages |= dict.fromkeys(map(str, changed)) if isinstance(changed, list) else {}
    verb = {"rollback_code": "Reverted", "undo_code": "Undone"}.get(job.handler, "Added")
    return {
        "Version": f"{commit_ref(details.get('before'), page)} → {commit_ref(details.get('after'), page)}",
        verb: size_text(*sizes(details)),
        "Restarted": f"{shorten(started, 3)} (same checkout)" if len(started) > 1 else "",
        "Took": f"{took}, {format_span(min(down, seconds))} down" if down else took,
        **watch_fact(about.bakes, now),
        "Packages": shorten([inert(name, LINE) for name in packages], 3),
    }


def _changes(job: Job, about: CardContext) -> list[Json]:
    """The first commits and files of a change of code, while it's in force."""
    if has_failed(job) or is_undone(job, about):
        return []
    details = details_of(job)
    number, total = sizes(details)
    rest = ", in the thread"
    lines = commit_lines(details.get("commits") or (), number, COMMITS, details.get("commit_page"), rest)
    blocks = [section("\n".join(lines))] if lines else []
    files = files_text(details.get("files") or (), total, FILES, rest)
    return [*blocks, context(files)] if files else blocks


def _notes(jobs: Sequence[Job], about: CardContext) -> list[str]:
    notes = []
    if is_many(jobs, about):
        undone = [job.worker_id for job in jobs if is_undone(job, about)]
        notes = [f":leftwards_arrow_with_hook: {len(undone):,} undone: {shorten(undone, NAMED)}"] if undone else []
    elif len(jobs) > 1:
        notes = [
            f":leftwards_arrow_with_hook: {inert(name, LINE)} undone by {mention(undone.by.issuer)}"
            for name, undone in about.undone.items()
            if undone.by is not None
        ]
        resumed = about.resumed.items()
        notes += [f":arrow_forward: {inert(name, LINE)} resumed by {mention(by.issuer)}" for name, by in resumed]
    for job in jobs:
        details = details_of(job) if not has_failed(job) else {}
        if len(jobs) == 1:
            notes += _own_notes(job)
        if details.get("drive"):
            notes.append(f":warning: {inert(flatten(str(details['drive'])), LINE)}")
    return notes


def _own_notes(job: Job) -> list[str]:
    details = details_of(job)
    if has_failed(job):
        return []
    notes = []
    message = flatten(str(details.get("message") or ""))
    known = changed_code(job) or (details.get("new_pid") and not details.get("paused"))
    if message and not known and not message.endswith(_OBVIOUS):
        notes.append(inert(sentence(message[:LINE]), LINE + 1))
    for name, turn in turns_of(job).items():
        if turn.get("rests") and not turn.get("new_pid"):
            notes.append(f"{inert(name, LINE)} wasn't started: {inert(str(turn['rests']), LINE)}")
    more = [flatten(str(details.get(key) or "")) for key in ("packages_said", "push_error")]
    notes += [inert(sentence(each), LINE) for each in more if each]
    notes += [inert(flatten(str(note)), LINE) for note in list(details.get("notes") or ())[:NOTES]]
    return [note for note in notes if note.strip()]


def _small_print(jobs: Sequence[Job], now: datetime, about: CardContext) -> list[str]:
    first = jobs[0]
    people = f"requested by {requester(first.issuer)}"
    votes = about.details.votes if about.details else ()
    if agreed := [mention(vote.voter) for vote in votes if vote.choice is Choice.APPROVE]:
        people += f", approved by {', '.join(first_lines(agreed, VOTERS, 'and {} more'))}"
    said = [people]
    failed = tried(jobs)
    paused = has_ended(jobs) and not failed and first.handler == "pause"
    resumed = len(jobs) == 1 and first.worker_id in about.resumed
    if first.label and (resumed or not paused):  # the headline of a pause ends with it, until it names who resumed
        said.append(f"label: {inert(first.label, LINE)}")
    if note := first.params.get(NOTE_KEY):
        said.append(f"note: {inert(str(note), LINE)}")
    if has_ended(jobs):
        details = details_of(first)
        if paused and len(about.resumed) < len(jobs):
            said.append("stays paused until resumed")
        if len(jobs) > 1 or not changed_code(first) or has_failed(first):
            said.append(f"took {format_span(seconds_of(jobs, now))}")
        if len(jobs) == 1 and (pid := turns_of(first).get(first.worker_id, details).get("new_pid")):
            said.append(f"pid {inert(str(pid), LINE)}")
        if details.get("report_path") and len(jobs) == 1:
            said.append(f"report: {in_span(str(details['report_path']), LINE)}")
        if failed and (len(failed) > ERRORS or any(map(is_cut, failed))):
            said.append("full error in the thread")
    return [*said, f"`{escape(first.task_id)}`"]
