"""The outcome of a job for people: its error in parts, and the state that it left its worker in. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, NamedTuple

from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.catalog import HANDLERS, by_handler
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.text import capitalize, flatten, sentence
from supervisor_core.jobs.model import FINAL, Job, JobState, not_begun

FIRST, REST, LAST = 140, 700, 500
"""Characters of the parts of an error; what is longer is in the thread."""

HARMLESS = frozenset({"diagnostics", "verify_db"})
"""Handlers that touch no worker, beside those of commands that aren't built in."""


class ErrorParts(NamedTuple):
    first: str
    """Its first sentence, where that fits into a headline; without its stop."""
    rest: str
    """The consequence, in one line."""
    last: str
    """The last line of an error of several lines: mostly an exception, below its traceback."""
    cut: bool
    """True if the card shows only a part of it."""


def error_parts(error: str) -> ErrorParts:
    lines = [line for line in error.strip().splitlines() if line.strip()] or [""]
    first, _, rest = flatten(lines[0]).partition(". ")
    if len(first) > FIRST:
        first, rest = "", flatten(lines[0])
    if len(lines) > 1:  # what follows in the first line is the beginning of an output
        rest = "" if first else rest
    shown = rest[:REST]
    last = lines[-1].strip() if len(lines) > 1 else ""
    cut = len(lines) > 1 or len(rest) > REST
    return ErrorParts(first.rstrip("."), sentence(shown) if shown else "", last[:LAST], cut)


def error_of(job: Job) -> str:
    error = (job.outcome.error if job.outcome else None) or "No reason was given."
    return capitalize(error.removeprefix("Interrupted: ")) if is_interrupted(job) else error


def worker_errors(job: Job) -> dict[str, str]:
    details = details_of(job)
    failed = details.get("failed")
    if isinstance(failed, Mapping) and failed:
        return {str(name): str(error) for name, error in failed.items()}
    return {name: str(turn["error"]) for name, turn in turns_of(job).items() if turn.get("error")}


def turns_of(job: Job) -> dict[str, Mapping[str, Any]]:
    """The workers of the checkout that a change of code stopped and started, by worker."""
    told = details_of(job).get("workers")
    turns = told if isinstance(told, Mapping) else {}
    return {str(name): turn for name, turn in turns.items() if isinstance(turn, Mapping)}


def details_of(job: Job) -> Mapping[str, Any]:
    return job.outcome.details if job.outcome else {}


def has_failed(job: Job) -> bool:
    return job.outcome is not None and not job.outcome.success


def has_ended(jobs: Sequence[Job]) -> bool:
    return all(job.state in FINAL for job in jobs)


def tried(jobs: Sequence[Job]) -> list[Job]:
    """The failed ones whose turn came."""
    return [job for job in jobs if has_failed(job) and not not_begun(job)]


def is_interrupted(job: Job) -> bool:
    """True where the supervisor ended while it was running."""
    return job.state is JobState.INTERRUPTED


def was_reverted(job: Job) -> bool:
    """True for an update whose new version was put back because a worker failed with it."""
    details = details_of(job)
    return bool(has_failed(job) and details.get("tried") and details.get("before") == details.get("after"))


def leaves_down(job: Job) -> bool:
    """True for a failed job whose worker isn't known to run as it should."""
    details = details_of(job)
    if not has_failed(job) or touches_no_worker(job) or not_begun(job) or paused_instead(job):
        return False
    if is_interrupted(job) or details.get("survivors"):
        return True
    if turns := turns_of(job):
        return any(turn.get("error") for turn in turns.values())
    if job.handler in CODE_HANDLERS:  # refused before any worker was stopped
        return False
    return not details.get("pid")


def touches_no_worker(job: Job) -> bool:
    return job.handler in HARMLESS or job.handler not in HANDLERS


def place_of(job: Job) -> str:
    """The worker of a job, or the host of a command that runs on it."""
    definition = by_handler(job.handler)
    if definition is None or not definition.runs_on_host:
        return job.worker_id
    return address_of(job.worker_id).host if is_address(job.worker_id) else job.supervisor_id


def output_of(job: Job) -> tuple[str, bool]:
    output = details_of(job).get("output")
    return (str(output.get("text") or ""), bool(output.get("cut"))) if isinstance(output, Mapping) else ("", False)


def paused_instead(job: Job) -> bool:
    """True for a restart during which somebody paused the worker: it's stopped, as the newer command wants."""
    return has_failed(job) and bool(details_of(job).get("paused_meanwhile"))


def rests_paused(job: Job) -> bool:
    """True for a job that left its worker paused, as somebody wanted."""
    return paused_instead(job) or (job.handler == "pause" and job.outcome is not None and not has_failed(job))


def down_workers(job: Job) -> list[str]:
    """The workers that a failed job left down: of its checkout those that didn't start, else its own."""
    if not leaves_down(job):
        return []
    return [name for name, turn in turns_of(job).items() if turn.get("error")] or [job.worker_id]


def changed_code(job: Job) -> bool:
    """True where other commits are checked out now than before."""
    details = details_of(job)
    return bool(details.get("before")) and details.get("before") != details.get("after")


def seconds_of(jobs: Sequence[Job], now: datetime) -> float:
    """The duration since the jobs were filed: the time that people waited, without their own approval."""
    begun = min(job.filed_at for job in jobs)
    ended = max((job.finished_at or now) for job in jobs).astimezone(UTC)
    return (ended - begun).total_seconds()


def is_cut(job: Job) -> bool:
    return error_parts(error_of(job)).cut or any(error_parts(each).cut for each in worker_errors(job).values())


def was_skipped(job: Job) -> bool:
    """True for one worker of several that is quarantined in the configuration, so that the command left it alone."""
    return job.outcome is not None and bool(job.outcome.details.get("skipped"))


def changed_nothing(job: Job) -> bool:
    """True for a change of code that found nothing to do, so that no worker was stopped."""
    return job.handler in CODE_HANDLERS and "before" in details_of(job) and not changed_code(job) and not turns_of(job)
