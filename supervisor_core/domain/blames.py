"""What may have broken a worker that lived before: a lack of memory, a change of its code. Pure."""

from __future__ import annotations

from datetime import datetime, timedelta

from supervisor_core.domain import log_lines
from supervisor_core.domain.baking import BakeState
from supervisor_core.domain.causes_running import unwell_since
from supervisor_core.domain.change_evidence import Weight, cleared, evidence
from supervisor_core.domain.code import short
from supervisor_core.domain.command import Command
from supervisor_core.domain.endings import began, failing, in_words, was_killed
from supervisor_core.domain.explanation import Cause, CodeChange, Facts, Found
from supervisor_core.domain.phrases import Phrase
from supervisor_core.domain.texts import times
from supervisor_core.domain.typed import Typed

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
    said = log_lines.about(facts.lines, log_lines.NO_MEMORY, since)
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
        todo: Phrase = ("On the host, ", Typed("dmesg | grep -i oom"), f" names which. {more}")
        return Found(Cause.OUT_OF_MEMORY, words, todo, remedies, since, (*cleared(facts), *_given_up(facts)))
    if said:
        how = "it runs on and is not well" if facts.runs else f"it {in_words(life)}" if life else "it does not run"
        words = (f"{name} ran out of memory: {how}", *ended, ", and it wrote ", Typed(said))
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
    quoted: Phrase = (": ", Typed(error)) if error else ()
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
