"""A worker's history over a span of time, from the ledger: its conditions and its commands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Connection

from supervisor_core.alerts import flips
from supervisor_core.alerts.flips import ConditionSpan, Uptime, condition_spans, uptime
from supervisor_core.code.change_plan import count
from supervisor_core.commands.addresses import address_of, is_address
from supervisor_core.commands.catalog import by_handler
from supervisor_core.commands.definitions import Risk
from supervisor_core.commands.phrases import Phrase
from supervisor_core.common.times import format_span
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.problems import HUB
from supervisor_core.diagnosis.why.explanation import describe_command, describe_outcome
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.conditions import WORKER, Condition, Severity, Target, word_for

SPANS = {"24h": timedelta(hours=24), "7d": timedelta(days=7)}
"""The supported spans."""

_LENGTHS = {"24 hours": SPANS["24h"], "7 days": SPANS["7d"]}

TOLD = 12
"""Commands that are listed, the newest; the others are counted."""


@dataclass(frozen=True, slots=True)
class Mark:
    at: datetime
    name: str
    """`rollback`."""
    words: Phrase
    """The requester and the outcome."""


@dataclass(frozen=True, slots=True)
class History:
    """One worker between two moments."""

    worker_id: str
    since: datetime
    until: datetime
    stretches: tuple[ConditionSpan, ...]
    uptime: Uptime
    marks: tuple[Mark, ...] = ()
    more: int = 0
    """The number of older marks that are left out."""

    @property
    def length(self) -> str:
        whole = self.until - self.since
        return next((words for words, known in _LENGTHS.items() if known == whole), format_span(whole.total_seconds()))

    @property
    def numbered(self) -> tuple[Mark, ...]:
        """The marks that have a number, from 1 on."""
        return self.marks[-TOLD:]

    @property
    def changes(self) -> int:
        return max(len(self.stretches) - 1, 0)

    @property
    def known(self) -> bool:
        """True if the worker was observed in that time."""
        return any(stretch.condition is not Condition.UNKNOWN for stretch in self.stretches)

    @property
    def longest_trouble(self) -> ConditionSpan | None:
        """The longest time in which something was wrong, whatever it was at each moment."""
        found: list[ConditionSpan] = []
        for stretch in self.stretches:
            if stretch.condition.fine or stretch.condition is Condition.UNKNOWN:
                continue
            last = found[-1] if found else None
            if last is not None and last.until == stretch.since:
                worse = max(last.condition, stretch.condition, key=lambda each: each.rank)
                found[-1] = ConditionSpan(worse, last.since, stretch.until, last.reason or stretch.reason)
            else:
                found.append(stretch)
        return max(found, key=lambda each: each.length, default=None)


def slice_colors(history: History, slices: int) -> list[str]:
    """The worst of each of these equal parts of the time: `green`, `yellow` or `red`; `white` for paused or no data."""
    colors, width = [], (history.until - history.since) / slices
    for number in range(slices):
        begin, end = history.since + number * width, history.since + (number + 1) * width
        conditions = [span.condition for span in history.stretches if span.since < end and span.until > begin]
        troubles = [each for each in conditions if not each.fine and each is not Condition.UNKNOWN]
        if any(each.severity is Severity.CRITICAL for each in troubles):
            colors.append("red")
        elif troubles:
            colors.append("yellow")
        else:
            colors.append("green" if Condition.WELL in conditions else "white")
    return colors


def history_text(history: History) -> list[Phrase]:
    name, length = history.worker_id, history.length
    if not history.known:
        return [(f"{name}: nothing recorded in the last {length}",), *_done(history)]
    if history.uptime.share is None:
        up = "not expected to run"
    elif history.uptime.counted < LEAST_DATA:
        up = f"on record for only {format_span(history.uptime.counted.total_seconds())}"
    else:
        up = f"healthy {percent(history.uptime)} {'of the time' if _is_covered(history.uptime) else 'on record'}"
    often = count(history.changes, "condition change") if history.changes else "no condition changes"
    sentences: list[Phrase] = [(f"{name} in the last {length}: {up}, {often}",)]
    trouble = history.longest_trouble
    if trouble is not None:
        long = format_span(trouble.length.total_seconds())
        ongoing = ", ongoing" if trouble.until == history.until else ""
        sentences.append((f"Longest problem: {trouble.condition.word} for {long}{ongoing}, since ", trouble.since))
    now = history.stretches[-1]
    if now is not trouble:
        sentences.append((f"Now: {word_for(now.condition, now.reason)} since ", now.since))
    return [*sentences, *_done(history)]


def _done(history: History) -> list[Phrase]:
    """The commands of people and schedules."""
    shown = history.numbered
    left = len(history.marks) - len(shown) + history.more
    if not shown:
        return [("No commands in that time",)]
    earlier = f"; {left:,} earlier not listed" if left else ""
    return [
        (f"{count(len(shown) + left, 'command')}{earlier}",),
        *((f"{number}. ", mark.at, ": ", *mark.words) for number, mark in enumerate(shown, 1)),
    ]


def _percent(share: float) -> str:
    """Never 100 where something was missing."""
    if share >= 1:
        return "100%"
    return f"{min(share * 100, 99.99):.2f}%" if share > 0.99 else f"{share * 100:.1f}%"


LEAST_DATA = timedelta(minutes=10)
"""A share of less time says nothing about a worker."""

NO_PERCENT = "-"

COVERED = 0.9
"""The part of a span from which on a share is one of the span."""


def percent(uptime: Uptime) -> str:
    """The uptime, with the time that it stands on where that isn't nearly the whole span."""
    if uptime.share is None or uptime.counted < LEAST_DATA:
        return NO_PERCENT
    if _is_covered(uptime):
        return _percent(uptime.share)
    return f"{_percent(uptime.share)} of {format_span(uptime.counted.total_seconds())}"


def _is_covered(uptime: Uptime) -> bool:
    return uptime.counted >= COVERED * (uptime.counted + uptime.uncounted)


MOST = 20
"""The most workers of one answer."""

COMMANDS = 200
MARKS = 40
"""Of one worker that are shown; the others are counted."""


def histories(
    ledger: Ledger, config: SupervisorConfig, workers: Sequence[str], since: datetime, until: datetime
) -> list[History]:
    """Of the first of these workers that are configured. It blocks."""
    wanted = [each for each in workers if each in config.workers][:MOST]
    return ledger.read(lambda connection: [_of(connection, config, each, since, until) for each in wanted])


def _of(connection: Connection, config: SupervisorConfig, worker_id: str, since: datetime, until: datetime) -> History:
    found = _flips_of(connection, config, worker_id, since, until)
    held = tuple(condition_spans(found, since, until))
    done = [job for job in jobs.recent_for(connection, worker_id, since, COMMANDS) if _changes(job, since, until)]
    marks = sorted((_mark(job, worker_id) for job in done), key=lambda mark: mark.at)
    return History(
        worker_id,
        since,
        until,
        held,
        uptime(found, since, until),
        tuple(marks[-MARKS:]),
        max(len(marks) - MARKS, 0),
    )


def _flips_of(
    connection: Connection, config: SupervisorConfig, worker_id: str, since: datetime, until: datetime
) -> list[flips.Flip]:
    """The worker's condition changes. A hub has those of other hosts as copies, also of the time that it was away."""
    host, target = None, Target(WORKER, worker_id)
    if is_address(worker_id):
        address = address_of(worker_id)
        host, target = address.host, Target(WORKER, address.worker_id)
    elif config.fleet.role == HUB:
        host = config.supervisor.id
    return flips.flips_of_target(connection, target, since, until, host)


def _changes(job: Job, since: datetime, until: datetime) -> bool:
    definition = by_handler(job.handler)
    return definition is not None and definition.risk is not Risk.READS and since <= _at(job) <= until


def _mark(job: Job, worker_id: str) -> Mark:
    return Mark(_at(job), job.command, (f"{describe_command(job, worker_id)} by ", job.issuer, *describe_outcome(job)))


def _at(job: Job) -> datetime:
    return job.finished_at or job.filed_at
