"""Whatever JSON arrives, the checker answers with problems and never with an exception."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from playground.tests.support import blockkit_samples
from slack_playground.blockkit.messages import check_message, check_options
from slack_playground.blockkit.views import check_view

WORDS = sorted(
    {"type", "text", "blocks", "elements", "element", "accessory", "options", "option_groups", "fields"}
    | {"attachments", "metadata", "modal", "home", "section", "actions", "rich_text", "title"}
    | {"plain_text", "mrkdwn", "initial_option", "initial_options", "initial_date", "min_value", "max_value", "color"}
    | {"block_id", "action_id", "number_input", "input", "markdown"}
)
LEAVES = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.sampled_from(WORDS))
JSON = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(WORDS) | st.text(max_size=5), inner, max_size=6)
    ),
    max_leaves=30,
)
SAMPLES = [*blockkit_samples.MESSAGES.values(), *blockkit_samples.VIEWS.values()]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, inner in value.items():
            found += places(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += places(inner, (*path, index))
    return found


@given(JSON)
def test_any_json_is_answered_with_problems(value: Any) -> None:
    for answer in (check_message(value), check_message(value, update=True), check_view(value), check_options(value)):
        assert all(problem.code and str(problem) for problem in answer)


@given(st.sampled_from(SAMPLES), st.data())
def test_a_sample_with_one_place_replaced_is_answered_with_problems(
    sample: dict[str, Any], data: st.DataObject
) -> None:
    broken: Any = copy.deepcopy(sample)
    *way, last = data.draw(st.sampled_from(places(broken)[1:]))
    target: Any = broken
    for step in way:
        target = target[step]
    target[last] = data.draw(JSON)
    for answer in (check_message(broken), check_view(broken)):
        assert all(problem.code and problem.what for problem in answer)


def test_a_nesting_beyond_reason_is_a_problem_and_no_exception() -> None:
    deep: dict[str, Any] = {"type": "modal"}
    for _ in range(100_000):
        deep = {"type": "modal", "blocks": [deep]}
    assert check_view(deep)
