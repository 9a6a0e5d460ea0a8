"""The evidence that a change of code broke a worker, from nothing to strong.

An exception whose frames lie in files that the change touched is strong evidence. An exit of the worker's own, soon
after the change, is some. A kill, an out-of-memory kill and a stop signal are none: they come from outside.

What may have broken a worker that lived before: a lack of memory, a change of its code.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import IntEnum

from supervisor_core.code.change_plan import short
from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.command import Command
from supervisor_core.commands.phrases import Phrase, format_span
from supervisor_core.common.errors import Verbatim
from supervisor_core.common.text import times
from supervisor_core.diagnosis.why.model import Cause, CodeChange, Facts, Found, began, failing, in_words, was_killed
from supervisor_core.diagnosis.why.running_causes import unwell_since
from supervisor_core.host.logging import excerpts as log_lines
from supervisor_core.workers.health import Health
from supervisor_core.workers.restarts.policy import from_outside


class Weight(IntEnum):
    """How much the evidence says."""

    NONE = 0
    SOME = 1
    STRONG = 2


@dataclass(frozen=True, slots=True)
class Evidence:
    """What points to a change, with the words for it."""

    weight: Weight
    words: Phrase = ()


def evidence(facts: Facts, change: CodeChange) -> Evidence:
    """What is known against this change."""
    if facts.runs and facts.health is Health.FROZEN:
        return Evidence(Weight.NONE)
    own = [life for life in failing(facts) if not from_outside(life) and life.ended_at >= change.job.filed_at]
    if not facts.runs and not own:
        return Evidence(Weight.NONE)
    touched = _touched(log_lines.traceback_files(facts.lines, change.job.filed_at), change)
    if touched:
        return Evidence(Weight.STRONG, (f"Its traceback goes through {touched}, which that command changed",))
    since = facts.since if facts.runs else own[0].ended_at
    if since is None:
        return Evidence(Weight.SOME)
    after = format_span((since - change.at).total_seconds())
    what = "it became so" if facts.runs else "it exited"
    return Evidence(
        Weight.SOME, (f"No traceback points to the changed files. The evidence is that {what} {after} later",)
    )


def cleared(facts: Facts) -> tuple[Phrase, ...]:
    """What is said of the newest change where every end came from outside."""
    change, row = facts.change, failing(facts)
    if change is None or facts.runs or not row or row[0].ended_at < change.job.filed_at:
        return ()
    if evidence(facts, change).weight is not Weight.NONE:
        return ()
    ago = format_span((facts.at - change.at).total_seconds())
    return ((f"Code last changed {ago} ago; the exits don't point to it",),)


def _touched(frames: Iterable[str], change: CodeChange) -> str:
    """The innermost file of a traceback that the change touched; empty where there is none."""
    details: Mapping[str, object] = change.job.outcome.details if change.job.outcome else {}
    listed = details.get("files")
    files = [str(each.get("path")) for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    for frame in reversed(list(frames)):
        for file in files:
            if _ends_with(frame, file) or _ends_with(file, frame):
                return file
    return ""


def _ends_with(path: str, end: str) -> bool:
    """Whether one path is the other, seen from a folder further up."""
    return path == end or path.endswith(f"/{end}")


BLAMED = timedelta(hours=1)
"""What lived for longer with its new code did not break by it, as far as anybody can tell."""

DID = {
    "update_code": "the update",
    "update_code_deps": "the update with what it requires",
    "rollback_code": "the rollback",
    "undo_code": "the undo",
}


def out_of_memory(facts: Facts) -> Found | None:
    """By its own last words, or by the kernel's count; a kill alone proves nothing."""
    name, life = facts.worker_id, facts.last
    if facts.runs and facts.fine:
        return None
    since = unwell_since(facts) if facts.runs else began(facts)
    said = log_lines.newest_match(facts.lines, log_lines.NO_MEMORY, since)
    if facts.runs and not said:
        return None
    more = "Give it more memory or less to do at a time, or find what keeps so much; then restart it."
    remedies = (Command.for_worker("restart", name),)
    ended: Phrase = (" at ", life.ended_at) if life and not facts.runs else ()
    counted = life.memory_kills if life and not facts.runs and was_killed(life) else None
    if counted:
        kills = "1 process was" if counted == 1 else f"{counted} processes were"
        words: Phrase = (
            f"{name} ran out of memory, most likely: it was killed",
            *ended,
            " and nobody here asked for it, while the kernel counts that ",
            f"{kills} killed for lack of memory on this host during its life",
        )
        todo: Phrase = ("On the host, ", Verbatim("dmesg | grep -i oom"), f" names which. {more}")
        return Found(Cause.OUT_OF_MEMORY, words, todo, remedies, since, (*cleared(facts), *_given_up(facts)))
    if said:
        how = "it runs on and is not well" if facts.runs else f"it {in_words(life)}" if life else "it does not run"
        words = (f"{name} ran out of memory: {how}", *ended, ", and it wrote ", Verbatim(said))
        return Found(Cause.OUT_OF_MEMORY, words, (more,), remedies, since, _also(facts))
    return None


def the_change(facts: Facts) -> Found | None:
    """A change of its code, where its trouble began with it, had not been there before, and the evidence points to
    it."""
    change, since = broken_by(facts), _since(facts)
    if change is None or since is None:
        return None
    name = facts.worker_id
    found = evidence(facts, change)
    likely = "Most likely" if found.weight is Weight.STRONG else "Possibly"
    also = (*((found.words,) if found.words else ()), *_given_up(facts))
    words: Phrase = (
        f"{likely} {DID.get(change.job.handler, 'a change of its code')} by ",
        change.job.issuer,
        " at ",
        change.at,
        f" broke {name}: ",
        *_what(facts, since),
    )
    if change.undoable and not change.undone:
        undo = Command.for_worker("undo", change.asked_for, {"task_id": change.job.task_id})
        back = short(str(change.job.outcome.details.get("before"))) if change.job.outcome else ""
        whose = f", which {change.asked_for} shares with it," if change.asked_for != name else ""
        todo: Phrase = (f"Undo puts its code{whose} back to {back}. Or mend it, and update again.",)
        return Found(Cause.DEPLOY, words, todo, (undo,), since, also)
    todo = ("Mend the code and update, or roll back to commits that are known to work.",)
    update, rollback = (Command.for_worker(each, name) for each in ("update", "rollback"))
    return Found(Cause.DEPLOY, words, todo, (update, rollback), since, also)


def broken_by(facts: Facts) -> CodeChange | None:
    """The newest change, if the trouble came with it, right after it or while it was watched, and not from outside."""
    change, since = facts.change, _since(facts)
    if change is None or since is None or facts.fine or since < change.job.filed_at:
        return None
    bad = change.baked is BakeState.DEGRADED or since - change.at <= BLAMED
    if not bad or _was_so_before(facts, change.job.filed_at):
        return None
    return change if evidence(facts, change).weight else None


def _was_so_before(facts: Facts, filed_at: datetime) -> bool:
    """Whether it ended in the same way in the hour before: then the change has mended nothing, and broken nothing."""
    return any(life.failed and timedelta(0) <= filed_at - life.ended_at <= BLAMED for life in facts.lives)


def _since(facts: Facts) -> datetime | None:
    return unwell_since(facts) if facts.runs else began(facts)


def _what(facts: Facts, since: datetime) -> Phrase:
    """What has been so since the change."""
    error = log_lines.last_error(facts.lines, since)
    quoted: Phrase = (": ", Verbatim(error)) if error else ()
    if facts.runs:
        return ("since ", since, f" {facts.reason.removeprefix('running, but ')}", *quoted)
    row = failing(facts)
    often = "" if len(row) == 1 else f"ended {times(len(row))}; the last time it "
    return (f"since then it {often}{in_words(row[-1])}", *quoted)


def _given_up(facts: Facts) -> tuple[Phrase, ...]:
    return ((f"It is not started again by itself: {facts.given_up}",),) if facts.given_up else ()


def _also(facts: Facts) -> tuple[Phrase, ...]:
    """The change of code before it may be why it needs more."""
    change = broken_by(facts)
    did: Phrase = ()
    if change is not None:
        did = (f"Shortly before came {DID.get(change.job.handler, 'a change of its code')} by ", change.job.issuer)
        did = (*did, " at ", change.at, ": it may need more memory since")
    return (*((did,) if did else ()), *_given_up(facts))
