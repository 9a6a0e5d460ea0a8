"""Waiting for a condition instead of sleeping for as long as it usually takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

STEP_SECONDS = 0.01


def wait_until(condition: Callable[[], T], timeout: float = 10.0, message: str = "the condition") -> T:
    """The first true answer of the condition; an `AssertionError` that names it when the time is over."""
    deadline = time.monotonic() + timeout
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"waited {timeout:g} s in vain for {message}; the last answer was {answer!r}")
        time.sleep(STEP_SECONDS)
