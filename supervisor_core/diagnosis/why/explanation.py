"""`explain`: from what is known of a worker to why it is so, what to do, and what happened before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Risk
from supervisor_core.commands.phrases import Phrase
from supervisor_core.common.errors import Identifier
from supervisor_core.common.text import flatten, one_line
from supervisor_core.common.times import COUNTDOWN, format_span
from supervisor_core.diagnosis.why.model import (
    Cause,
    Circumstance,
    Explanation,
    Finding,
    PastEvent,
    WorkerFacts,
)
from supervisor_core.diagnosis.why.rules import find_cause
from supervisor_core.host.logging import excerpts
from supervisor_core.jobs.model import FINAL, Job, JobState
from supervisor_core.workers.conditions import word_for
from supervisor_core.workers.restarts.policy import run_in_words

BEFORE, SINCE = 5, 3
"""The number of events to show from before the problem, and of the newest ones since it began."""

AT_ONCE = timedelta(seconds=2)
"""Events so soon after the start of the problem count as before it: an exit is noticed a moment later."""

ERROR = 200  # characters of why a command failed

QUIET = frozenset({Cause.WELL, Cause.PAUSED, Cause.NOT_ENABLED, Cause.SET_ASIDE, Cause.UNDER_WAY, Cause.ENDED_WELL})
"""Nothing is wrong, so no line of its log is held against it."""


def explain(facts: WorkerFacts) -> Explanation:
    found = find_cause(facts)
    lines = () if found.cause in QUIET else excerpts.important_lines(facts.lines, found.since)
    if not lines and found.cause not in QUIET and not facts.runs and facts.failed_runs:
        lines = excerpts.newest_lines(facts.lines, found.since)
    return Explanation(
        worker_id=facts.worker_id,
        at=facts.at,
        fine=facts.fine and found.cause in (*QUIET, Cause.BACK),
        found=found,
        conditions=tuple(_conditions(facts, found)),
        before=_before(facts, found),
        lines=lines,
        log=facts.log,
        unknown=facts.unknown,
    )


def _conditions(facts: WorkerFacts, found: Finding) -> Iterator[Circumstance]:
    if facts.runs:
        yield Circumstance(f"running, pid {facts.seen.pid}", facts.seen.started_at)
    elif facts.state is not facts.seen.state and not facts.given_up:
        yield Circumstance(str(facts.state).replace("_", " "), found.since)
    else:
        yield Circumstance("not running", facts.lives[-1].ended_at if facts.lives else facts.since)
    if not facts.fine:
        yield Circumstance(
            str(facts.health) if facts.given_up else f"{facts.health}: {one_line(flatten(_reason(facts)), ERROR)}",
            found.since,
        )
    if facts.paused is not None:
        yield Circumstance("paused", facts.paused.at)
    if facts.given_up:
        yield Circumstance("quarantined", facts.given_up_at)
    if facts.drive_problem:
        yield Circumstance("drive unreachable", None)
    if facts.resting:
        yield Circumstance("monitoring paused", facts.resting_since)
    yield from facts.alerts


def _reason(facts: WorkerFacts) -> str:
    """The reason of its health, with a countdown that is right now."""
    if facts.due_at is None:
        return facts.reason
    seconds = (facts.due_at - facts.at).total_seconds()
    return COUNTDOWN.sub(f"restarting in {format_span(seconds)}" if seconds > 0 else "restarting now", facts.reason)


def _before(facts: WorkerFacts, found: Finding) -> tuple[PastEvent, ...]:
    """The last events before the problem, and the newest since then; without a problem, all count as before it."""
    begun = found.since + AT_ONCE if found.since and found.cause not in QUIET else facts.at
    commands = list(_commands(facts))
    events = sorted([*commands, *_settings(facts), *_ends(facts), *_flips(facts, commands)], key=lambda each: each.at)
    before = [event for event in events if event.at <= begun]
    since = [event for event in events if begun < event.at <= facts.at]
    return (*before[-BEFORE:], *since[-SINCE:])


def _commands(facts: WorkerFacts) -> Iterator[PastEvent]:
    for job in facts.jobs:
        definition = by_handler(job.handler)
        if definition is not None and definition.risk is not Risk.READS:
            at = job.finished_at or job.filed_at
            yield PastEvent(at, (f"{describe_command(job, facts.worker_id)} by ", job.issuer, *describe_outcome(job)))


def describe_command(job: Job, worker_id: str) -> str:
    """The command, as it concerns this worker: `rollback of mailer (shares its code)`."""
    return job.command if job.worker_id == worker_id else f"{job.command} of {job.worker_id} (shares its code)"


def describe_outcome(job: Job) -> Phrase:
    """Describe the outcome, with the label and the command id."""
    if job.state is JobState.INTERRUPTED:
        came = " was interrupted"
    elif job.state not in FINAL or job.outcome is None:
        came = f": {job.state}"
    elif job.outcome.success:
        came = " left it alone" if job.outcome.details.get("skipped") else " succeeded"
    else:
        came = f" failed: {_first_line(job.outcome.error or '')}"
    label = f" “{job.label}”" if job.label else ""
    return (f"{label}{came} (", Identifier(job.task_id), ")")


def _first_line(error: str) -> str:
    """The first line of an error, without the announcement of the worker's output that follows it."""
    first = next(iter(error.strip().splitlines()), "")
    return one_line(first.removesuffix(excerpts.LAST_OUTPUT).rstrip(), ERROR)


def _settings(facts: WorkerFacts) -> Iterator[PastEvent]:
    new = facts.settings
    if new is not None:
        changes = ", ".join(new.changes)
        words = f"configuration ({one_line(changes, ERROR)}) by "
        yield PastEvent(new.begun_at, (words, new.by, " (", Identifier(new.config_id), ")"))


def _ends(facts: WorkerFacts) -> Iterator[PastEvent]:
    for life in facts.lives:
        yield PastEvent(life.ended_at, (run_in_words(life),))


def _flips(facts: WorkerFacts, commands: Sequence[PastEvent]) -> Iterator[PastEvent]:
    """Condition changes that no exit and no command explains."""
    for flip in facts.flips:
        asked_for = flip.new.fine and any(abs(flip.at - each.at) <= AT_ONCE for each in commands)
        if flip.new.value not in ("down", "unknown") and not asked_for:
            if flip.new.value == "paused" and any(abs(flip.at - life.ended_at) <= AT_ONCE for life in facts.lives):
                continue
            word, (reason, *_) = word_for(flip.new, flip.reason), flatten(flip.reason).split(". ")
            reason = one_line(reason, ERROR)
            yield PastEvent(flip.at, (f"became {reason if reason.startswith(word) else f'{word}: {reason}'}",))
