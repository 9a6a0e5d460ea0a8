"""Edits of a configuration file: one value is set, and the rest of the text stays as it is."""

from __future__ import annotations

import pytest
import yaml

from supervisor_core.fleet.setup import set_value

BLOCK = "# Mine\nsupervisor:\n  # the folder\n  state_dir: ./var  # local\nworkers: {}\n"
OLD = "supervisor:\n  id: old  # why\n  state_dir: x\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "supervisor:\n  id: web-1\n"),
        ("workers: {}\n", "workers: {}\n\nsupervisor:\n  id: web-1\n"),
        ("supervisor: {state_dir: x}\n", "supervisor: {id: web-1, state_dir: x}\n"),
        ("supervisor: {}\n", "supervisor: {id: web-1}\n"),
        ("supervisor:\nworkers: {}\n", "supervisor: {id: web-1}\nworkers: {}\n"),
        (OLD, OLD.replace("old", "web-1")),
        (BLOCK, BLOCK.replace("state_dir", "id: web-1\n  state_dir")),
        ("{workers: {}}\n", "{supervisor: {id: web-1}, workers: {}}\n"),
    ],
)
def test_a_value_is_set_in_the_style_of_its_section_and_comments_stay(text: str, expected: str) -> None:
    assert set_value(text, "supervisor", "id", "web-1") == expected


@pytest.mark.parametrize("value", ["007", "no", "1e3", "a: b", "", 'a"b', True, False])
def test_a_value_is_read_back_as_it_was_given(value: str | bool) -> None:
    assert yaml.safe_load(set_value(BLOCK, "supervisor", "id", value))["supervisor"]["id"] == value
