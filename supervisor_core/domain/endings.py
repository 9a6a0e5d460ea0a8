"""How workers ended by themselves, in words, and since when they have been doing so. Pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from datetime import datetime

from supervisor_core.domain.explanation import Facts
from supervisor_core.domain.phrases import span
from supervisor_core.domain.restarts import Life

KILLED = (-9, 137)
"""SIGKILL as Python tells of it, and as a shell does that ran the worker."""


def was_killed(life: Life) -> bool:
    """Whether it was ended by SIGKILL, which no program can send itself by mistake, nor catch."""
    return life.exit_code in KILLED


def failing(facts: Facts) -> Sequence[Life]:
    """The last lives that ended badly, one after the other, without a person's start or a good end between."""
    row: list[Life] = []
    for life in reversed(facts.lives):
        if not life.failed:
            break
        row.insert(0, life)
        if life.start_asked:
            break
    return row


def began(facts: Facts) -> datetime | None:
    """When the row of bad ends began; None where there is none."""
    row = failing(facts)
    return row[0].ended_at if row else None


def in_words(life: Life) -> str:
    """`ended with exit code 1 after 2 s`."""
    lived = f" after {span(life.seconds)}" if life.seconds else " at its start"
    if life.exit_code is None:
        return f"ended{lived}, and nobody saw how"
    if was_killed(life):
        return f"was killed (SIGKILL){lived}"
    if life.exit_code < 0:
        return f"was ended by {_signal(-life.exit_code)}{lived}"
    return f"ended with exit code {life.exit_code}{lived}"


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
