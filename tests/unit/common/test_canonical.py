"""Canonical JSON: the same value gives the same text, in ASCII, wherever and however often it is written."""

from __future__ import annotations

import json
import subprocess
import sys
from types import MappingProxyType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from supervisor_core.common.text import canonical_json

any_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
    max_leaves=10,
)


@given(any_json)
def test_it_reads_back_as_the_same_value_and_is_written_the_same_again(value: Any) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value
    assert canonical_json(json.loads(text)) == text
    assert text.isascii()


@given(st.dictionaries(st.text(), st.integers()))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert canonical_json(dict(reversed(value.items()))) == canonical_json(value)


def test_it_is_written_without_spaces_with_sorted_keys_and_escaped() -> None:
    value = {"b": [1, 2.5, None, True], "a": {"z": "é\n\0\ud800", "y": ()}}
    assert canonical_json(value) == r'{"a":{"y":[],"z":"\u00e9\n\u0000\ud800"},"b":[1,2.5,null,true]}'


def test_our_own_kinds_are_written_as_plain_json() -> None:
    value = {"m": MappingProxyType({"k": (1,)}), "s": {"c", "a", "b"}, "f": frozenset({2, 1})}
    assert canonical_json(value) == '{"f":[1,2],"m":{"k":[1]},"s":["a","b","c"]}'


def test_sets_are_the_same_text_in_every_process() -> None:
    """The order of a set changes with the hash seed of its process."""
    code = "from supervisor_core.common.text import canonical_json as c; print(c(set('abcdefgh')))"
    seen = {
        subprocess.run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}, capture_output=True).stdout
        for seed in ("1", "2")
    }
    assert seen == {b'["a","b","c","d","e","f","g","h"]\n'}
