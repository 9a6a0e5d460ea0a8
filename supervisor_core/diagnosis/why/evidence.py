"""The evidence that a change of code broke a worker.

An exception whose frames lie in files that the change touched is strong evidence. An exit of the worker's own, soon
after the change, is some. A kill, an out-of-memory kill and a stop signal are none: they come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum

from supervisor_core.code.watch.rules import BakeState
from supervisor_core.commands.phrases import Phrase
from supervisor_core.common.times import format_span
from supervisor_core.diagnosis.why.model import RecentChange, WorkerFacts
from supervisor_core.host.logging import excerpts
from supervisor_core.workers.health import Health
from supervisor_core.workers.restarts.policy import from_outside

BLAMED = timedelta(hours=1)
"""A worker that ran for longer with new code or settings didn't fail because of them, as far as anybody can tell."""


class Weight(IntEnum):
    NONE = 0
    SOME = 1
    STRONG = 2


@dataclass(frozen=True, slots=True)
class ChangeEvidence:
    """The evidence against a change, in words."""

    weight: Weight
    words: Phrase = ()


def evidence(facts: WorkerFacts, change: RecentChange) -> ChangeEvidence:
    if facts.runs and facts.health is Health.FROZEN:
        return ChangeEvidence(Weight.NONE)
    own = [run for run in facts.failed_runs if not from_outside(run) and run.ended_at >= change.job.filed_at]
    if not facts.runs and not own:
        return ChangeEvidence(Weight.NONE)
    touched = _touched(excerpts.traceback_files(facts.lines, change.job.filed_at), change)
    if touched:
        return ChangeEvidence(Weight.STRONG, (f"Its traceback points to {touched}, which that command changed",))
    since = facts.since if facts.runs else own[0].ended_at
    if since is None:
        return ChangeEvidence(Weight.SOME)
    after = format_span((since - change.at).total_seconds())
    what = "it became unhealthy" if facts.runs else "it exited"
    words = f"No traceback points to the changed files. The only evidence: {what} {after} later"
    return ChangeEvidence(Weight.SOME, (words,))


def breaking_change(facts: WorkerFacts) -> RecentChange | None:
    """Return the newest change if the problem began right after it or while it was watched, and not from outside."""
    change, since = facts.change, facts.trouble_since
    if change is None or since is None or facts.fine or since < change.job.filed_at:
        return None
    bad = change.baked is BakeState.DEGRADED or since - change.at <= BLAMED
    # One that ended in the same way in the hour before was neither mended nor broken by the change.
    before = any(run.failed and timedelta(0) <= change.job.filed_at - run.ended_at <= BLAMED for run in facts.lives)
    return change if bad and not before and evidence(facts, change).weight else None


def _touched(frames: Iterable[str], change: RecentChange) -> str:
    """Return the innermost changed file of a traceback; empty if there is none."""
    details: Mapping[str, object] = change.job.outcome.details if change.job.outcome else {}
    listed = details.get("files")
    files = [str(each.get("path")) for each in listed if isinstance(each, Mapping)] if isinstance(listed, list) else []
    for frame in reversed(list(frames)):
        for file in files:
            if _ends_with(frame, file) or _ends_with(file, frame):
                return file
    return ""


def _ends_with(path: str, end: str) -> bool:
    return path == end or path.endswith(f"/{end}")
