"""The types of options that added commands have. Each makes the parameter of the command."""

from __future__ import annotations

import re
from dataclasses import replace

from supervisor_core.commands.parameters import Parameter, ParameterKind, check_value
from supervisor_core.common.times import DAY, MINUTE

ANY_WORD = r"[A-Za-z0-9][A-Za-z0-9._-]*"
"""The form of a text without a pattern: one word, and no path out of a folder."""

LONGEST_TEXT = 200
"""The characters of a text without a limit of its own."""

LONGEST_LIMIT = 1000


def option_of(name: str) -> str:
    """`--dry-run` for `dry_run`."""
    return f"--{name.replace('_', '-')}"


def text(
    name: str,
    help: str,  # noqa: A002 (the word of the configuration and of argparse)
    *,
    pattern: str = ANY_WORD,
    longest: int = LONGEST_TEXT,
    default: str | None = None,
    required: bool = False,
) -> Parameter:
    """A text of this form, which never begins with a hyphen."""
    re.compile(pattern)
    if not 1 <= longest <= LONGEST_LIMIT:
        raise ValueError(f"a text has 1 to {LONGEST_LIMIT} characters")
    kind = ParameterKind.ARGUMENT
    made = Parameter(name, kind, "TEXT", help, default, high=longest, pattern=pattern)
    return _checked(made, required=required)


def number(
    name: str,
    help: str,  # noqa: A002
    *,
    low: int,
    high: int,
    default: int | None = None,
    required: bool = False,
) -> Parameter:
    """A whole number between two bounds, both included; the lower one isn't negative."""
    if not 0 <= low <= high:
        raise ValueError("the lower bound must be 0 or more, and not above the upper one")
    return _checked(Parameter(name, ParameterKind.NUMBER, "N", help, default, low, high), required=required)


def choice(
    name: str,
    help: str,  # noqa: A002
    *,
    choices: tuple[str, ...],
    default: str | None = None,
    required: bool = False,
) -> Parameter:
    """One of a few words."""
    if not choices or not all(re.fullmatch(r"[a-z0-9][a-z0-9._-]{0,39}", option) for option in choices):
        raise ValueError("choices are words of lowercase letters, digits, dots, hyphens and underscores")
    made = Parameter(name, ParameterKind.CHOICE, "|".join(choices), help, default, choices=tuple(choices))
    return _checked(made, required=required)


def duration(
    name: str,
    help: str,  # noqa: A002
    *,
    low: int = MINUTE,
    high: int = DAY,
    default: int | None = None,
    required: bool = False,
) -> Parameter:
    """A time in whole minutes, such as `2h`. The bounds and the value are in seconds."""
    if not MINUTE <= low <= high:
        raise ValueError("a duration is at least a minute, and the shorter bound comes first")
    return _checked(Parameter(name, ParameterKind.DURATION, "2h", help, default, low, high), required=required)


def flag(name: str, help: str) -> Parameter:  # noqa: A002
    """An option without a value."""
    return Parameter(name, ParameterKind.FLAG, option_of(name), help, default=False)


def _checked(one: Parameter, *, required: bool) -> Parameter:
    """The parameter with its option; `ValueError` for a default that isn't valid."""
    if required and one.default is not None:
        raise ValueError("a required option has no default")
    if one.default is not None:
        check_value(one, one.default)
    return replace(one, keyword=option_of(one.name), required=required)
