"""The strict Block Kit checker, asked about everything that a bot sends; its finds in the form of Slack's answers."""

from __future__ import annotations

from collections.abc import Sequence

from slack_playground.blockkit import Problem, check_message, check_view
from slack_playground.values import Json, SlackError


def message(payload: Json) -> None:
    """Refuse a message that Slack would refuse."""
    _raise(check_message(payload), {})


def view(payload: Json) -> None:
    """Refuse a view that Slack would refuse; for views Slack's word is `invalid_arguments`."""
    _raise(check_view(payload), {"invalid_blocks": "invalid_arguments"})


def _raise(problems: Sequence[Problem], codes: dict[str, str]) -> None:
    if not problems:
        return
    words = [f"{problem.what} [json-pointer:{problem.pointer}]" for problem in problems]
    code = codes.get(problems[0].code, problems[0].code)
    raise SlackError(code, *words, **({"errors": words} if code == "invalid_blocks" else {}))
