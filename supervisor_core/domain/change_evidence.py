"""The evidence that a change of code broke a worker, from nothing to strong. Pure.

An exception whose frames lie in files that the change touched is strong evidence. An exit of the worker's own, soon
after the change, is some. A kill, an out-of-memory kill and a stop signal are none: they come from outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from supervisor_core.domain import log_lines
from supervisor_core.domain.endings import failing
from supervisor_core.domain.explanation import CodeChange, Facts
from supervisor_core.domain.health import Health
from supervisor_core.domain.phrases import Phrase, span
from supervisor_core.domain.restarts import from_outside


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
    after = span((since - change.at).total_seconds())
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
    ago = span((facts.at - change.at).total_seconds())
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
