"""The card: the one message of a command, from accepted to its outcome. Pure: rows in, a message out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from bot.blockkit import escape, fit
from supervisor_core.domain.catalog import by_handler
from supervisor_core.domain.command import Issuer
from supervisor_core.domain.jobs import FINAL, Job, JobState

WORDS: Mapping[str, tuple[str, str]] = {
    "pause": ("pausing", "paused"),
    "resume": ("resuming", "running again"),
    "restart_watcher": ("restarting", "restarted"),
}
"""What is said of a worker while it happens, and when it has happened."""

TITLE, LINE, ERROR = 250, 300, 1500
"""Characters; far below Slack's limits, and as much as one reads."""

WORKERS = 20
"""Lines of workers on a card; more of them are counted."""


def card(jobs: Sequence[Job], now: datetime) -> dict[str, Any]:
    """The message for these jobs of one command: `text` and `blocks` say the same."""
    first = jobs[0]
    title = _title(jobs)
    blocks: list[dict[str, Any]] = [_section(f"{_sign(jobs)} *{escape(title)}*")]
    if len(jobs) > 1:
        blocks.append(_section("\n".join(_lines(jobs))))
    problems = [job for job in jobs if job.outcome is not None and not job.outcome.success]
    blocks.extend(_section(f"```{_in_code(_error(job))}```") for job in problems[:3])
    facts = [f"asked by {who(first.issuer)}"]
    if first.label:
        facts.append(f"label: {escape(first.label)}")
    if _ended(jobs):
        facts.append(f"took {_seconds(jobs, now)}")
    facts.append(f"`{first.task_id}`")
    blocks.append({"type": "context", "elements": [{"type": "mrkdwn", "text": fit(" · ".join(facts), 1900)}]})
    return {"text": fit(f"{title} ({_word(jobs)})", TITLE + 50), "blocks": blocks}


def who(issuer: Issuer) -> str:
    """An issuer as people read it: in Slack by mention, elsewhere by name."""
    prefix, _, rest = issuer.id.partition(":")
    user = rest.rpartition("/")[2]
    if prefix == "slack" and user.isalnum():
        return f"<@{user}>"
    return f"{escape(fit(issuer.name or issuer.id, 80))} ({escape(prefix)})"


def _title(jobs: Sequence[Job]) -> str:
    names = ", ".join(job.worker_id for job in jobs[:3]) + (f" and {len(jobs) - 3} more" if len(jobs) > 3 else "")
    return fit(f"{names}: {_word(jobs)}", TITLE)


def _word(jobs: Sequence[Job]) -> str:
    """Where the command stands, in a word or two."""
    failed = sum(1 for job in jobs if job.outcome is not None and not job.outcome.success)
    if _ended(jobs) and failed:
        several = f" on {failed} of {len(jobs)}" if len(jobs) > 1 else ""
        word = "was interrupted" if any(job.state is JobState.INTERRUPTED for job in jobs) else "failed"
        return f"{_name(jobs[0])} {word}{several}"
    doing, done = WORDS.get(jobs[0].handler, (f"{_name(jobs[0])} under way", f"{_name(jobs[0])} done"))
    if _ended(jobs):
        return done
    return doing if any(job.state is not JobState.QUEUED for job in jobs) else f"{_name(jobs[0])} accepted"


def _sign(jobs: Sequence[Job]) -> str:
    if not _ended(jobs):
        return ":hourglass_flowing_sand:"
    return ":white_check_mark:" if all(job.outcome and job.outcome.success for job in jobs) else ":x:"


def _lines(jobs: Sequence[Job]) -> list[str]:
    lines = [f"{_sign([job])} {escape(fit(job.worker_id, LINE))}: {escape(_word([job]))}" for job in jobs[:WORKERS]]
    return lines if len(jobs) <= WORKERS else [*lines, f"… and {len(jobs) - WORKERS} more"]


def _name(job: Job) -> str:
    definition = by_handler(job.handler)
    return definition.name if definition else job.handler


def _ended(jobs: Sequence[Job]) -> bool:
    return all(job.state in FINAL for job in jobs)


def _seconds(jobs: Sequence[Job], now: datetime) -> str:
    begun = min(job.filed_at for job in jobs)
    ended = max((job.finished_at or now) for job in jobs).astimezone(UTC)
    return f"{max((ended - begun).total_seconds(), 0):.1f} s"


def _error(job: Job) -> str:
    return (job.outcome.error if job.outcome else None) or "no reason was given"


def _in_code(text: str) -> str:
    """Data in a code block: nothing in it ends the block or comes alive."""
    return fit(escape(text.replace("`", "'")), ERROR)


def _section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": {"type": "mrkdwn", "text": fit(text, 2900)}}
