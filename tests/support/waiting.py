"""Waiting for a condition instead of sleeping for as long as it usually takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STEP_SECONDS = 0.02
LONGEST_STEP_SECONDS = 0.12
PAUSES = 4.0
"""A condition that takes long is looked at less often: it costs processor time, often that of the daemon it asks."""


def wait_until(condition: Callable[[], T], timeout: float = 10.0, message: str = "the condition") -> T:
    """The first true answer of the condition; an `AssertionError` that names it when the time is over."""
    deadline = time.monotonic() + timeout
    while True:
        begun = time.monotonic()
        answer = condition()
        if answer:
            return answer
        now = time.monotonic()
        if now >= deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {message}; the last answer was {answer!r}")
        time.sleep(min(max(STEP_SECONDS, PAUSES * (now - begun)), LONGEST_STEP_SECONDS))
