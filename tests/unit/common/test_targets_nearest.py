"""Suggestions for words that were nearly typed right."""

from __future__ import annotations

import pytest

from supervisor_core.common.text import close_names, nearest


def test_names_come_closest_first() -> None:
    assert close_names("worker1", ["worker22", "worker2", "Worker1"]) == ("Worker1", "worker2", "worker22")
    assert close_names("w3", ["w1", "web"]) == ("w1",), "one of two letters"
    assert close_names("hotfix", ["worker1", "OrionMX"]) == ()


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("rolback", "rollback"),
        ("RESTART", "restart"),
        ("diag", "diagnostics"),
        ("xyzzy", None),
        ("", None),
        ("p" * 99, None),
    ],
)
def test_a_suggestion_is_near_or_is_begun_or_is_none(word: str, found: str | None) -> None:
    assert nearest(word, ["restart", "rollback", "diagnostics", "pause"]) == found
