"""How one typed word becomes the value of a parameter, and whether it looks like one at all."""

from __future__ import annotations

import re

from supervisor_core.domain.durations import EXPECTED, nearest_duration, parse_duration
from supervisor_core.domain.mistakes import GrammarError
from supervisor_core.domain.parameters import Kind, Parameter, ParameterError, check_value
from supervisor_core.domain.words import Word, quoted, shown

_NUMBER = re.compile(r"\+?[0-9]+")
_NUMBER_BEGUN = re.compile(r"[+-]?([0-9]{1,9})")
_STARTS_LIKE_NUMBER = re.compile(r"[+-]?\d")
_TASK_WORD = re.compile(r"task_[A-Za-z0-9_-]{1,123}")
_OPTION = re.compile(r"--[^\W\d_]")


def is_option(word: Word) -> bool:
    """`--reset` and its like; a lone `--`, or one before a number, is text."""
    return not word.quoted and _OPTION.match(word.text) is not None


def is_task_word(text: str) -> bool:
    """Whether a bare word is a task id rather than the beginning of a label."""
    return _TASK_WORD.fullmatch(text) is not None


def looks_like(parameter: Parameter, word: Word) -> bool:
    """Whether a word is meant for this parameter: then it is an error where it is not right, and no label."""
    match parameter.kind:
        case Kind.NUMBER | Kind.DURATION:
            return not word.quoted and _STARTS_LIKE_NUMBER.match(word.text) is not None
        case Kind.TASK_ID:
            return not word.quoted and is_task_word(word.text)
        case Kind.CHOICE:
            known = word.text.lower() in parameter.choices
            return not word.quoted and (known or _STARTS_LIKE_NUMBER.match(word.text) is not None)
        case _:
            return False


def read_word(parameter: Parameter, word: Word) -> object:
    """The value of one word; `GrammarError` with the nearest right word where it has none."""
    try:
        match parameter.kind:
            case Kind.NUMBER:
                return check_value(parameter, _number(parameter, word.text))
            case Kind.DURATION:
                return check_value(parameter, _duration(parameter, word.text))
            case Kind.PERSON:
                return check_value(parameter, word.mention or word.text)
            case _:
                return check_value(parameter, word.text)
    except ParameterError as error:
        nearest = None if error.nearest is None else parameter.spelled(error.nearest)
        if nearest is not None and parameter.kind is Kind.CRON:
            nearest = quoted(nearest)
        raise GrammarError(error.typed, instead=nearest) from None


def _number(parameter: Parameter, text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(text)
    begun = _NUMBER_BEGUN.match(text)
    nearest = max(parameter.low, min(parameter.high, int(begun[1]))) if begun else None
    raise GrammarError(
        f"{parameter.word} must be a whole number from {parameter.low} to {parameter.high}, "
        f"not {shown(text)}; a label that starts with a number goes into double quotes.",
        instead=None if nearest is None else str(nearest),
    )


def _duration(parameter: Parameter, text: str) -> int:
    seconds = parse_duration(text)
    if seconds is not None:
        return seconds
    nearest = nearest_duration(text)
    if nearest is not None:
        nearest = max(parameter.low, min(parameter.high, nearest))
    raise GrammarError(
        f"{shown(text)} is no duration, which is {EXPECTED}. "
        f"A reason that starts with a number goes into double quotes.",
        instead=None if nearest is None else parameter.spelled(nearest),
    )
