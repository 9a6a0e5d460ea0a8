"""The distance of words, compared with its plain definition; and suggestions that are no guesses."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from supervisor_core.common.text import edit_distance, nearest, nearly
from tests.support.sampling import examples

WORD = st.text(alphabet="abc", max_size=7)


def _plainly(one: str, other: str) -> int:
    table = {(row, 0): row for row in range(len(one) + 1)} | {(0, column): column for column in range(len(other) + 1)}
    for row in range(1, len(one) + 1):
        for column in range(1, len(other) + 1):
            options = [
                table[row - 1, column] + 1,
                table[row, column - 1] + 1,
                table[row - 1, column - 1] + (one[row - 1] != other[column - 1]),
            ]
            if row > 1 and column > 1 and one[row - 2] == other[column - 1] and one[row - 1] == other[column - 2]:
                options.append(table[row - 2, column - 2] + 1)
            table[row, column] = min(options)
    return table[len(one), len(other)]


@given(WORD, WORD, st.integers(0, 4))
@settings(max_examples=examples(400))
def test_the_banded_distance_is_the_distance_up_to_its_limit(one: str, other: str, limit: int) -> None:
    assert edit_distance(one, other, limit) == min(_plainly(one, other), limit + 1)


@pytest.mark.parametrize(
    ("one", "other", "distance"),
    [("ab", "ab", 0), ("ab", "ba", 1), ("abc", "ac", 1), ("abc", "axc", 1), ("", "ab", 2)],
)
def test_each_slip_counts_one(one: str, other: str, distance: int) -> None:
    assert edit_distance(one, other, 3) == distance


def test_names_come_nearest_first_and_otherwise_in_their_order() -> None:
    assert nearly("worker1", ["worker22", "worker2", "Worker1", "worker3"]) == (
        "Worker1",
        "worker2",
        "worker3",
        "worker22",
    )


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
