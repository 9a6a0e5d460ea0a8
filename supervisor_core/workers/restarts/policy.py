"""The next step after a worker exited on its own, decided purely from its past runs, its policy and one `now`.

Each exit is decided once, and the decision is kept: `due_at` is for people and for the next daemon, while this one
waits for `pause_seconds` on the monotonic clock. A failed start is a run without length.
"""

from __future__ import annotations

import math
import re
import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Annotated

import msgspec

from supervisor_core.common.times import COUNTDOWN, format_span, require_aware
from supervisor_core.config.worker_settings import RestartSettings

HEALTHY_SECONDS = 60.0
"""The length of a run after which the restart is immediate."""

LONGEST_PAUSE_SECONDS = 300.0
"""The longest pause: a worker is back minutes after a drive or a database is repaired, not an hour later."""

JITTER = 0.25
"""The share by which pauses vary, so that workers that crashed together don't restart together."""

WINDOW = timedelta(hours=1)

UNCOUNTED_SECONDS = 1.0
"""The shortest first pause while restarts don't count, so that a worker without a backoff isn't restarted in a loop."""

_SIGNAL = re.compile(r"\bcrashed \((SIG[A-Z0-9]+)\)")
KILLED = (-9, 137)
"""SIGKILL, as Python reports it, and as a shell that ran the worker does."""

_OUTSIDE_SIGNALS = frozenset({"SIGHUP", "SIGINT", "SIGKILL", "SIGTERM", "SIGSTOP", "SIGTSTP"})
_MOST_DOUBLINGS = 64
"""Enough for the longest pause. A larger exponent doesn't fit into a float."""


@dataclass(frozen=True, slots=True)
class WorkerRun:
    """A run of a worker, from its start to its end. An unknown `exit_code` (None) counts as a failure.

    `lived_seconds` is its length by the monotonic clock; without it, the two times decide.
    """

    started_at: datetime
    ended_at: datetime
    exit_code: int | None = None
    start_asked: bool = False
    end_asked: bool = False
    """True if its end was requested: it didn't exit on its own."""
    lived_seconds: float | None = None
    memory_kills: int | None = None
    """The out-of-memory kills during the run; None if unknown."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "started_at", require_aware(self.started_at))
        object.__setattr__(self, "ended_at", require_aware(self.ended_at))

    @property
    def seconds(self) -> float:
        """Its length; 0 if a clock that was set back makes it negative."""
        by_clock = (self.ended_at - self.started_at).total_seconds()
        return max(0.0, by_clock if self.lived_seconds is None else self.lived_seconds)

    @property
    def never_ran(self) -> bool:
        """True for a start without a process, which is kept as a run without length."""
        return self.exit_code is None and not self.seconds

    @property
    def failed(self) -> bool:
        return not self.end_asked and self.exit_code != 0

    @property
    def blames_itself(self) -> bool:
        """True if the run was short and ended on its own or out of memory, so the next one may end the same way."""
        return self.short and not self.end_asked and (not from_outside(self) or bool(self.memory_kills))

    @property
    def short(self) -> bool:
        return self.seconds < HEALTHY_SECONDS


class Next(StrEnum):
    START = "start"
    WAIT = "wait"
    REST = "rest"
    QUARANTINE = "quarantine"


class RestartReason(StrEnum):
    FIRST_LIFE = "first_life"
    LIVED_LONG = "lived_long"
    NO_BACKOFF = "no_backoff"
    BACKING_OFF = "backing_off"
    ASKED_FOR = "asked_for"
    ENDED_WELL = "ended_well"
    POLICY_NEVER = "policy_never"
    EXIT_UNKNOWN = "exit_unknown"
    TOO_MANY_STARTS = "too_many_starts"


@dataclass(frozen=True, slots=True)
class RestartDecision:
    """The next step, its reason, and words for people. `due_at` is None if the worker isn't started."""

    what: Next
    reason: RestartReason
    words: str
    due_at: datetime | None = None
    pause_seconds: Annotated[float, msgspec.Meta(ge=0, le=LONGEST_PAUSE_SECONDS)] = 0.0

    @property
    def lasting_words(self) -> str:
        """The words with the time of the restart instead of a countdown, for what people read later."""
        due = self.due_at
        return COUNTDOWN.sub(f"restarting at {due:%Y-%m-%dT%H:%M:%SZ}", self.words) if due else self.words

    def at(self, now: datetime) -> RestartDecision:
        """The decision as read later: never further off than its pause, even if the clock was set since."""
        latest = require_aware(now) + timedelta(seconds=self.pause_seconds)
        return self if self.due_at is None or self.due_at <= latest else replace(self, due_at=latest)


UNCOUNTED = "not counted while the shared drive is away"


def automatic_starts(times: Iterable[datetime], now: datetime) -> int:
    """The number of these starts within an hour before or after `now`.

    Those after it are from before the clock was set back. They count, since they were recent. One that is further off
    says nothing, and would count forever.
    """
    return sum(1 for start in times if -WINDOW < now - start < WINDOW)


def decide(
    rules: RestartSettings, runs: Sequence[WorkerRun], starts: int | None, now: datetime, chance: float
) -> RestartDecision:
    """Decide the next step for a worker that does not run.

    `runs` are in the order in which they were lived. `starts` is the number of automatic ones within the last hour
    (`automatic_starts`); None where they don't count now, because the shared drive is away. `chance`, from 0 to 1, is
    the place of the pause within its bounds.
    """
    now = require_aware(now)
    if not 0 <= chance <= 1:
        raise ValueError(f"chance is {chance!r}; it must be a number from 0 to 1")
    last = runs[-1] if runs else None
    if last is not None and last.end_asked:
        return RestartDecision(Next.REST, RestartReason.ASKED_FOR, "stopped on request; not restarted")
    if last is not None:
        rest_reason, setting = None, f"policy: {rules.policy}"
        leaves_unknown = rules.on_unknown == "leave" and last.exit_code is None and not last.never_ran
        if rules.policy == "never":
            rest_reason = RestartReason.POLICY_NEVER
        elif rules.policy == "on-failure" and not last.failed:
            rest_reason = RestartReason.ENDED_WELL
        elif rules.policy == "on-failure" and leaves_unknown:
            rest_reason, setting = RestartReason.EXIT_UNKNOWN, "on_unknown: leave"
        if rest_reason is not None:
            return RestartDecision(Next.REST, rest_reason, f"{run_in_words(last)}; not restarted (restart.{setting})")
    start_count = starts if starts is not None else 0
    if start_count >= rules.max_per_hour:
        text = f"quarantined after {start_count} {'restart' if start_count == 1 else 'restarts'} in an hour"
        if rules.max_per_hour == 0:
            text = "quarantined, because automatic restarts are off (restart.max_per_hour: 0)"
        if last:
            text = f"{text}. The last time it {run_in_words(last)}"
        text = f"{text}. Its log has details; resume or restart ends the quarantine"
        return RestartDecision(Next.QUARANTINE, RestartReason.TOO_MANY_STARTS, text)
    if last is None:
        return RestartDecision(Next.START, RestartReason.FIRST_LIFE, "starting for the first time", now)
    backoff = rules.backoff_seconds if starts is not None else max(rules.backoff_seconds, UNCOUNTED_SECONDS)
    pause = pause_seconds(backoff, failures_in_a_row(runs), chance) if last.short else 0.0
    if pause == 0:
        reason = RestartReason.NO_BACKOFF if last.short else RestartReason.LIVED_LONG
        return RestartDecision(Next.START, reason, f"{run_in_words(last)}; restarting now", now)
    delay = format_span(pause) if pause >= 10 else f"{max(pause, 1):.0f} s"
    count = f"{start_count + 1} of {rules.max_per_hour} this hour" if starts is not None else UNCOUNTED
    text = f"{run_in_words(last)}; restarting in {delay} ({count})"
    return RestartDecision(Next.WAIT, RestartReason.BACKING_OFF, text, now + timedelta(seconds=pause), pause)


def failures_in_a_row(runs: Sequence[WorkerRun]) -> int:
    """The number of last runs that were short and failed, without a requested stop or start in between."""
    count = 0
    for run in reversed(runs):
        if not run.failed or not run.short:
            break
        count += 1
        if run.start_asked:
            break
    return count


def pause_seconds(backoff_seconds: float, failures: int, chance: float) -> float:
    """The pause before a start: the configured one after the first failure, then twice as long after each."""
    doublings = min(max(failures - 1, 0), _MOST_DOUBLINGS)
    middle = min(math.ldexp(backoff_seconds, doublings), LONGEST_PAUSE_SECONDS)
    return min(middle * (1 - JITTER + 2 * JITTER * chance), LONGEST_PAUSE_SECONDS)


def run_in_words(run: WorkerRun) -> str:
    """The run in words: `exited (code 1) after 2 s`, `failed to start`."""
    if run.never_ran:
        return "failed to start"
    if run.exit_code is None:  # neither is the time: it ended before somebody noticed
        return exit_in_words(None)
    return f"{exit_in_words(run.exit_code)} {f'after {format_span(run.seconds)}' if run.seconds else 'immediately'}"


def exit_in_words(code: int | None) -> str:
    """The exit in words: `exited (code 1)`, `crashed (SIGKILL)`. A negative code is a signal."""
    if code is None:
        return "exited (code unknown)"
    if code in KILLED:
        return "crashed (SIGKILL)"
    return f"exited (code {code})" if code >= 0 else f"crashed ({signal_name(-code)})"


def was_killed(run: WorkerRun) -> bool:
    """True for SIGKILL, which no program sends itself by mistake."""
    return run.exit_code in KILLED


def signal_name(number: int) -> str:
    """The name of a signal, such as `SIGTERM`, or `signal 40` for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def from_outside(run: WorkerRun) -> bool:
    """True if the end says nothing about the worker's code: a signal from outside, or an end that nobody saw."""
    code = run.exit_code
    if code is None:
        return True
    return signal_from_outside(-code if code < 0 else code - 128)  # as Python and a shell tell of a signal


def signal_from_outside(number: int) -> bool:
    """True if somebody else sends this signal. The others, such as SIGSEGV, are a program's own failure."""
    try:
        return signal.Signals(number).name in _OUTSIDE_SIGNALS
    except ValueError:
        return False


def signal_in(text: str) -> int | None:
    match = _SIGNAL.search(text)
    return getattr(signal, match[1], None) if match else None
