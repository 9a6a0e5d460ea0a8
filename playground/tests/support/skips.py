"""Skips with a reason on a bare machine, which fail where everything must be installed."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skip this test, or fail it where PLAYGROUND_TESTS_FORBID_SKIPS is set."""
    if os.environ.get("PLAYGROUND_TESTS_FORBID_SKIPS"):
        pytest.fail(f"may not be skipped here: {reason}")
    pytest.skip(reason)
