"""The trace of a command: a span for each stage of its way, made from its rows once it has ended.

The ids are made from the command id, so a trace that is sent twice is the same trace.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from supervisor_core.jobs.model import Job, Progress

ROOT, APPROVAL, ANSWER = "command", "approval", "answer"
"""The keys of the spans that a command has at most once."""


@dataclass(frozen=True, slots=True)
class CommandRecord:
    """The rows of a command that has ended."""

    jobs: Sequence[Job]
    requested_at: datetime | None = None
    """When its approval was requested, if it needed one."""
    decided_at: datetime | None = None
    answered_at: datetime | None = None
    """When its card was last edited."""


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """A stage of a command."""

    key: str
    """Unique in its trace."""
    name: str
    start: datetime
    end: datetime
    parent: str = ""
    """The key of the span that it is a part of; empty for the command itself."""
    attributes: Mapping[str, str | int | bool] = field(default_factory=dict)
    steps: Sequence[Progress] = ()
    error: str = ""
    """Why it failed; empty if it succeeded."""


def trace_id(task_id: str) -> int:
    """The id of the trace of this command: 128 bits."""
    return _number(task_id, 16)


def span_id(task_id: str, key: str) -> int:
    """The id of one of its spans: 64 bits."""
    return _number(f"{task_id}\0{key}", 8)


def spans_of(record: CommandRecord) -> list[TraceSpan]:
    """The command, its approval, the wait and the work of each worker, and the answer."""
    jobs = record.jobs
    begun = min(filter(None, [*(each.filed_at for each in jobs), record.requested_at]))
    done = max(each.finished_at or each.filed_at for each in jobs)
    answered = record.answered_at if record.answered_at and record.answered_at >= done else None
    return [_whole(record, begun, answered or done), *_parts(record, done, answered)]


def _whole(record: CommandRecord, begun: datetime, end: datetime) -> TraceSpan:
    first = record.jobs[0]
    failed = [each for each in record.jobs if _error(each)]
    several = len(record.jobs) > 1
    words = f"{len(failed)} of {len(record.jobs)} workers failed" if several else "".join(map(_error, failed))
    return TraceSpan(
        ROOT,
        first.command,
        begun,
        end,
        attributes={
            "supervisor.command.id": first.task_id,
            "supervisor.command.name": first.command,
            "supervisor.command.source": first.door,
            "supervisor.command.label": first.label or "",
            "supervisor.command.workers": len(record.jobs),
            "enduser.id": first.issuer.id,
        },
        error=words if failed else "",
    )


def _parts(record: CommandRecord, done: datetime, answered: datetime | None) -> Iterator[TraceSpan]:
    if record.requested_at is not None:
        yield TraceSpan(APPROVAL, "approval", record.requested_at, record.decided_at or record.requested_at, ROOT)
    for each in record.jobs:
        about = {"supervisor.worker": each.worker_id, "host.name": each.supervisor_id}
        end = each.finished_at or each.filed_at
        begun = each.started_at or end
        yield TraceSpan(f"wait {each.worker_id}", f"wait {each.worker_id}", each.filed_at, begun, ROOT, about)
        if each.started_at is not None:
            name = f"{each.command} {each.worker_id}"
            yield TraceSpan(f"work {each.worker_id}", name, begun, end, ROOT, about, each.progress, _error(each))
    if answered is not None:
        yield TraceSpan(ANSWER, "answer", done, answered, ROOT)


def _error(job: Job) -> str:
    if job.outcome is None or job.outcome.success:
        return ""
    return job.outcome.error or "failed"


def _number(text: str, size: int) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:size]) or 1
