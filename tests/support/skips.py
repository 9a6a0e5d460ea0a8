"""Skipping, which is said with its reason on a bare machine and is a failure where everything must be there."""

from __future__ import annotations

import os
from typing import NoReturn

import pytest


def skip_or_fail(reason: str) -> NoReturn:
    """Skip this test, or fail it where SUPERVISOR_TESTS_FORBID_SKIPS says that nothing may be missing."""
    if os.environ.get("SUPERVISOR_TESTS_FORBID_SKIPS"):
        pytest.fail(f"may not be skipped here: {reason}")
    pytest.skip(reason)
