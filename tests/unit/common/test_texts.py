"""Text that a message is made of."""

from __future__ import annotations

import string
from collections import Counter

import pytest

from supervisor_core.common.text import capitalize, flatten, random_id


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("it ended with exit code 1", "It ended with exit code 1"),
        ("mailer is no longer paused", "mailer is no longer paused"),
        ("mailers are many", "Mailers are many"),
        ("mailer: gone", "mailer: gone"),
        ("", ""),
    ],
)
def test_a_sentence_begins_with_a_capital_letter_and_a_name_keeps_its_case(text: str, said: str) -> None:
    assert capitalize(text, "mailer") == said


def test_a_text_of_several_lines_becomes_one() -> None:
    assert flatten("It crashed. Last output:\nusage: w.py\r\n  error") == "It crashed. Last output: usage: w.py error"


def test_each_letter_of_an_id_is_equally_likely() -> None:
    counted = Counter(random_id(32 * 1000))
    assert counted.keys() == set(string.ascii_lowercase + "234567")
    assert all(700 < number < 1300 for number in counted.values()), "each a thousand times, give or take ten deviations"
    assert [len(random_id(letters)) for letters in (1, 8, 9)] == [1, 8, 9]
