"""The answer of a source that says who is on call: read as a whole, or not at all."""

from __future__ import annotations

import pytest

from supervisor_core.alerts.oncall import MOST_PEOPLE, OnCallError, parse_people


@pytest.mark.parametrize(
    ("text", "people"),
    [
        ('["anna@example.com", "U0BEA"]', ("anna@example.com", "U0BEA")),
        ("anna@example.com\r\n\n  U0BEA  \n", ("anna@example.com", "U0BEA")),
        ("U0BEA\nU0BEA\n", ("U0BEA",)),
        (' ["W0CARL"]\n', ("W0CARL",)),
    ],
)
def test_a_list_of_addresses_and_ids_is_read_as_json_or_lines(text: str, people: tuple[str, ...]) -> None:
    assert parse_people(text) == people


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "names nobody"),
        ("[]", "names nobody"),
        ("U0BEA\nnobody\n", "something else"),
        ("U0BEA, U0CARL", "something else"),
        ("<html><body>Log in</body></html>", "something else"),
        ('{"people": ["U0BEA"]}', "something else"),
        ('["U0BEA", 7]', "something else"),
        ('["U0BEA"', "invalid JSON"),
        ("[" * 100_000, "invalid JSON"),
        ("S0GROUP", "something else"),
        ("C0CHANNEL", "something else"),
        ("*", "something else"),
        ("oncall:0123456789ab", "something else"),
        ("<!channel>@example.com", "something else"),
        ("a@b@example.com", "something else"),
        ("\n".join(f"U{number}" for number in range(MOST_PEOPLE + 1)), "more than 50 people"),
    ],
)
def test_an_answer_with_anything_else_names_nobody(text: str, words: str) -> None:
    with pytest.raises(OnCallError, match=words):
        parse_people(text)
