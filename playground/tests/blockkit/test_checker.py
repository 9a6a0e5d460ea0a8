"""The checker accepts what Slack accepts, and refuses the rest with its place and Slack's own word."""

from __future__ import annotations

import pytest

from playground.tests.support import blockkit_mistakes, blockkit_samples
from playground.tests.support.blockkit_samples import Json, actions, button, message, modal, mrkdwn, options
from slack_playground.blockkit.messages import check_message, check_options
from slack_playground.blockkit.problems import Problem
from slack_playground.blockkit.views import check_view


def check(payload: Json) -> list[Problem]:
    return check_view(payload) if "type" in payload else check_message(payload)


@pytest.mark.parametrize("name", blockkit_samples.MESSAGES)
def test_a_valid_message_has_no_problem(name: str) -> None:
    assert check_message(blockkit_samples.MESSAGES[name]) == []


@pytest.mark.parametrize("name", blockkit_samples.VIEWS)
def test_a_valid_view_has_no_problem(name: str) -> None:
    assert check_view(blockkit_samples.VIEWS[name]) == []


@pytest.mark.parametrize("name", blockkit_mistakes.ALL)
def test_a_mistake_is_refused_and_its_place_is_named(name: str) -> None:
    payload, place = blockkit_mistakes.ALL[name]
    problems = check(payload)
    assert place in [problem.path for problem in problems], [str(problem) for problem in problems]


@pytest.mark.parametrize("name", blockkit_mistakes.LIMITS)
def test_a_single_limit_gives_a_single_kind_of_problem_that_says_what_was_expected(name: str) -> None:
    payload, place = blockkit_mistakes.LIMITS[name]
    for problem in check(payload):
        assert problem.path.startswith(place.split("[")[0])
        assert len(problem.what) > 10


@pytest.mark.parametrize(
    ("payload", "code"),
    [
        ({"blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
        ({"blocks": "[]"}, "invalid_blocks_format"),
        ({}, "no_text"),
        ({"text": ""}, "no_text"),
        ({"text": "x" * 40_001}, "msg_too_long"),
        ({"text": 5}, "invalid_arguments"),
        ({"text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
        ({"blocks": [{"type": "section", "text": mrkdwn("x" * 2700)}] * 5}, "msg_blocks_too_long"),
        ({"attachments": [{"text": "x"}] * 101}, "too_many_attachments"),
        ({"attachments": {"text": "x"}}, "invalid_attachments"),
        ({"text": "x", "metadata": {"event_type": ""}}, "invalid_metadata_format"),
        ({"text": "x", "metadata": "run"}, "invalid_metadata_format"),
        ({"type": "modal"}, "invalid_arguments"),
        (modal(*[{"type": "section", "text": mrkdwn("x" * 3000)}] * 90), "view_too_large"),
    ],
)
def test_a_problem_carries_the_word_that_slack_has_for_it(payload: Json, code: str) -> None:
    assert [problem.code for problem in check(payload)][-1] == code


def test_an_update_may_have_less_text_than_a_post() -> None:
    assert check_message({"text": "x" * 4000}, update=True) == []
    assert [problem.code for problem in check_message({"text": "x" * 4001}, update=True)] == ["msg_too_long"]


def test_the_same_action_id_may_stand_in_two_blocks() -> None:
    assert check_message(message(actions(button()), {**actions(button()), "block_id": "other"})) == []


def test_an_unknown_type_that_is_nearly_right_is_answered_with_the_right_one() -> None:
    (problem,) = check_message({"blocks": [{"type": "sektion"}]})
    assert "'section'" in problem.what


def test_a_place_can_be_said_as_a_json_pointer() -> None:
    assert Problem("blocks[2].elements[0].text", "").pointer == "/blocks/2/elements/0/text"
    assert Problem("", "").pointer == ""


def test_the_options_of_a_suggestion_are_judged_like_those_of_a_menu() -> None:
    assert check_options({"options": options(100)}) == []
    assert check_options({"options": []}) == []
    assert [problem.path for problem in check_options({"options": options(101)})] == ["options"]
    assert check_options({})
    assert check_options({"options": [], "option_groups": []})
