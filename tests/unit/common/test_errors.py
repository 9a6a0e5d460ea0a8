"""An exception in one line: our own words as they are, all others with their type."""

from __future__ import annotations

import pytest

from supervisor_core.common.errors import TemporaryError, describe


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TemporaryError("The disk is full.", remedy="Make room."), "The disk is full. Make room."),
        (ValueError("two\n  lines"), "ValueError: two lines"),
        (OSError(28, "No space left on device"), "OSError: [Errno 28] No space left on device"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_an_error_is_described_in_one_line(error: Exception, words: str) -> None:
    assert describe(error) == words
