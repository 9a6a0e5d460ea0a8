"""The facts of a job for people: its commits and files, its steps, its watch, its outcome. Pure: rows in, text out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

from bot.views.text import ago, first_lines, in_span, inert, when
from supervisor_core.code.change_plan import count, short
from supervisor_core.code.watch.rules import Bake, BakeState
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.catalog import HANDLERS, by_handler
from supervisor_core.commands.definitions import CODE_HANDLERS
from supervisor_core.common.text import capitalize, flatten, sentence
from supervisor_core.common.times import format_span
from supervisor_core.jobs.model import FINAL, MOST_PROGRESS, Job, JobState, not_begun

Details = Mapping[str, Any]

LINE = 200
"""Characters of a subject or a path that somebody else wrote."""

AUTHOR = 60  # characters

_HASH = re.compile(r"[0-9a-f]{7,64}", re.ASCII)
_PAGE = re.compile(r"https://[\w.:/~-]+/", re.ASCII)


def commit_ref(commit: object, page: object) -> str:
    """A commit by its short hash; a link where the address of its page is known."""
    name, address = str(commit or ""), str(page or "")
    if _HASH.fullmatch(name) and _PAGE.fullmatch(address):
        return f"<{address}{name}|{short(name)}>"
    return in_span(short(name), AUTHOR)


def commit_lines(commits: Sequence[Details], total: int, most: int, page: object, rest: str = "") -> list[str]:
    """A line for each of the first commits; `rest` says where the others are."""
    lines = [commit_line(each, page) for each in commits[:most]]
    return [*lines, f"• … and {total - len(lines)} more{rest}"] if total > len(lines) else lines


def commit_line(commit: Details, page: object) -> str:
    """`• 1a2b3c4 Read faster · Ada`."""
    merge = " (merge)" if commit.get("merge") else ""
    author = f" · {inert(str(commit['author']), AUTHOR)}" if commit.get("author") else ""
    subject = inert(str(commit.get("subject") or ""), LINE)
    return f"• {commit_ref(commit.get('hash'), page)} {subject}{merge}{author}"


def file_line(change: Details) -> str:
    was = f" (was {in_span(str(change['was']), LINE)})" if change.get("was") else ""
    return f"• {inert(str(change.get('change') or ''), AUTHOR)} {_path(change)}{was}"


def _path(change: Details) -> str:
    """A file with its added and removed lines, where they were counted: `a.py +12 -3`."""
    path, added, removed = in_span(str(change.get("path") or ""), LINE), change.get("added"), change.get("removed")
    return f"{path} +{added} -{removed}" if isinstance(added, int) and isinstance(removed, int) else path


def files_text(files: Sequence[Details], total: int, most: int, rest: str = "") -> str:
    """`3 files: a.py +12 -3, b.py +1 -1 and 1 more`; empty without files."""
    if not total:
        return ""
    named = ", ".join(_path(each) for each in files[:most])
    more = f" and {total - min(len(files), most)} more{rest}" if total > min(len(files), most) else ""
    return f"{count(total, 'file')}: {named}{more}" if named else count(total, "file")


def sizes(details: Details) -> tuple[int, int]:
    commits = max(int(details.get("commit_count") or 0), len(details.get("commits") or ()))
    return commits, max(int(details.get("file_count") or 0), len(details.get("files") or ()))


def size_text(commits: int, files: int) -> str:
    """`3 commits, 4 files`; empty for none of both."""
    said = [count(commits, "commit")] if commits else []
    return ", ".join([*said, *([count(files, "file")] if files else [])])


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
        done = []
        for step, following in pairwise(taken):
            verb, _, rest = step.words.partition(" ")
            words = inert(f"{_DONE[verb]} {rest}".rstrip() if verb in _DONE else capitalize(step.words), STEP)
            done.append(f":white_check_mark: {words} · {format_span((following.at - step.at).total_seconds())}")
        hidden = len(done) - (SHOWN - 1)
        lines = [*([f":white_check_mark: {hidden} earlier steps"] if hidden > 0 else []), *done[-(SHOWN - 1) :]]
    current = capitalize(inert(taken[-1].words, STEP)).strip() or "Working"  # bold text doesn't end with a space
    lines.append(f":hourglass_flowing_sand: *{current}* · started {ago(taken[-1].at)}")
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
    touches_no_worker = job.handler in HARMLESS or job.handler not in HANDLERS
    if not has_failed(job) or touches_no_worker or not_begun(job) or paused_instead(job):
        return False
    if is_interrupted(job) or details.get("survivors"):
        return True
    if turns := turns_of(job):
        return any(turn.get("error") for turn in turns.values())
    if job.handler in CODE_HANDLERS:  # refused before any worker was stopped
        return False
    return not details.get("pid")


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
