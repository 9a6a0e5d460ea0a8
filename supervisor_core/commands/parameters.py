"""Parameters of commands: checked alike in a typed word and in a flag; and how a word becomes a value. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType
from typing import Any

from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.commands.labels import clean_note
from supervisor_core.commands.words import Word, excerpt
from supervisor_core.common.cron import EXAMPLE, CronError, parse_cron
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import nearest
from supervisor_core.common.times import (
    EXPECTED,
    format_duration,
    parse_duration,
    parse_since,
)

MAX_PERSON = 80  # characters: Slack's limit for a display name
MAX_SCHEDULED = 1000  # characters of a command inside a schedule
SHOWN = 60  # characters of a wrong value that an error repeats

_TOO_LARGE_TO_SAY = 10**15

TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_CRON_FIELD = re.compile(r"[A-Za-z0-9*/,?#-]{1,60}")
_STATE = re.compile(r"[0-9a-f]{64}(,[0-9a-f]{64})*")
_DIGEST = re.compile(r"[0-9a-f]{16}")
_SHARE = re.compile(r"[1-9][0-9]{0,3}|([1-9]|[1-9][0-9]|100)%")


class ParameterKind(Enum):
    """The type of a parameter's value, which decides how it is recognized and checked."""

    NUMBER = "a whole number"
    FLAG = "true or false"
    CHOICE = "one of a few words"
    DURATION = "a span of time in seconds"
    SINCE = "a duration or a date"
    TASK_ID = "a task id"
    PERSON = "a person"
    NAME = "a name"
    CRON = "a cron expression"
    COMMAND = "a command"
    TOPIC = "a command's name"
    TEXT = "text"
    NOTE = "a note"
    STATE = "a preview's state"
    SHARE = "a number or a share"
    ARGUMENT = "an argument of a program"
    DEFINITION = "a definition's digest"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter: `name` is its key in a flag's `params`, `word` is what the usage line calls it."""

    name: str
    kind: ParameterKind
    word: str
    help: str
    default: object = None
    low: int = 0
    high: int = 0
    choices: tuple[str, ...] = ()
    keyword: str = ""
    required: bool = False
    pattern: str = ""
    """The form of an argument, as a regular expression."""

    @property
    def option(self) -> str:
        """An option as it's typed, without its value."""
        return self.keyword or self.word

    @property
    def usage(self) -> str:
        text = f"{self.keyword} {self.word}".lstrip()
        return text if self.required else f"[{text}]"

    @property
    def description(self) -> str:
        """Its help, bounds and default."""
        parts = [self.help]
        if self.kind is ParameterKind.NUMBER:
            parts.append(f"{self.low} to {self.high}")
        if self.kind is ParameterKind.DURATION:
            parts.append(f"{format_duration(self.low)} to {format_duration(self.high)}")
        if self.kind in (ParameterKind.TEXT, ParameterKind.NOTE, ParameterKind.ARGUMENT):
            parts.append(f"up to {self.high} characters")
        if self.default is not None and self.kind is not ParameterKind.FLAG:
            parts.append(f"default {self.spelled(self.default)}")
        return ", ".join(parts)

    def spelled(self, value: object) -> str:
        return format_duration(value) if self.kind is ParameterKind.DURATION and isinstance(value, int) else str(value)


class ParameterError(UsageError):
    """The value of a parameter isn't valid."""

    def __init__(self, message: str, *, key: str, typed: str = "") -> None:
        super().__init__(message)
        self.key = key
        self.typed = typed or message
        """The message for a person, who knows the parameter by the word in the usage line."""


def check_value(parameter: Parameter, value: object) -> Any:  # noqa: ANN401 (parameters are JSON of several types)
    """The value as it's stored; `ParameterError` for one that isn't valid."""
    return _CHECKS[parameter.kind](parameter, value)


def check_all(
    owner: str, parameters: Iterable[Parameter], params: Mapping[str, Any] | None, untyped: Iterable[Parameter] = ()
) -> Mapping[str, Any]:
    """The values of all parameters; those that are missing or null have their defaults, and unknown ones are refused.

    Those in `untyped` are in the result only if given. The values may be any JSON.
    """
    given = {} if params is None else params
    if not isinstance(given, Mapping):
        raise ParameterError(f"params must be an object, not {type(given).__name__}.", key="params")
    known = {parameter.name: parameter for parameter in parameters}
    further = {parameter.name: parameter for parameter in untyped}
    for key in given:
        if key not in known and key not in further:
            raise _unknown_key(owner, str(key), tuple(known))
    judged = {name: check_value(each, given[name]) for name, each in further.items() if given.get(name) is not None}
    checked = {name: value for name, value in judged.items() if value is not False}
    for name, parameter in known.items():
        value = given.get(name)
        checked[name] = parameter.default if value is None else check_value(parameter, value)
        if checked[name] is None and parameter.required:
            typed = f"{owner} needs {parameter.usage}: {parameter.help}."
            raise ParameterError(f"{owner} needs {name}: {parameter.help}.", key=name, typed=typed)
    return MappingProxyType(checked)


def _unknown_key(owner: str, key: str, known: tuple[str, ...]) -> ParameterError:
    expected = f"It takes {', '.join(known)}." if known else "It takes none."
    found = nearest(key, known) or (known[0] if len(known) == 1 else None)
    hint = f" Did you mean {found}?" if found else ""
    return ParameterError(f"{owner} has no parameter {key[:SHOWN]!a}. {expected}{hint}", key=key)


def _number(parameter: Parameter, value: object) -> int:
    # True is an int to Python, and would be one commit back.
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(parameter, value, f"a whole number from {parameter.low} to {parameter.high}")
    if not parameter.low <= value <= parameter.high:
        raise _wrong(parameter, value, f"from {parameter.low} to {parameter.high}")
    return value


def _duration(parameter: Parameter, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong(parameter, value, f"{EXPECTED} (in a flag, a number of seconds)")
    if not parameter.low <= value <= parameter.high:
        raise _wrong(parameter, value, f"from {format_duration(parameter.low)} to {format_duration(parameter.high)}")
    return value


def _flag(parameter: Parameter, value: object) -> bool:
    if not isinstance(value, bool):
        raise _wrong(parameter, value, "true or false")
    return value


def _text(parameter: Parameter, value: object) -> str | None:
    limit = parameter.high or MAX_PERSON
    shown = isinstance(value, str) and (value.isprintable() or parameter.kind is ParameterKind.COMMAND)
    if not isinstance(value, str) or not shown or "\n" in value:
        raise _wrong(parameter, value, "one line of printable text")
    text = value.strip()
    if len(text) > limit:
        message = f"can have up to {limit} characters; this one has {len(text)}."
        typed = f"{parameter.word.rstrip('…')} {message}"
        raise ParameterError(f"{parameter.name} {message}", typed=typed, key=parameter.name)
    return text or None


def _argument(parameter: Parameter, value: object) -> str:
    """One argument of a program. It's never empty and never begins like an option."""
    text = _text(parameter, value)
    if not text or text.startswith("-"):
        raise _wrong(parameter, value, "text that doesn't begin with a hyphen")
    if not re.fullmatch(parameter.pattern, text):
        raise _wrong(parameter, value, f"of the form {parameter.pattern}")
    return text


def _note(parameter: Parameter, value: object) -> str | None:
    if not isinstance(value, str):
        raise _wrong(parameter, value, "text")
    try:
        return clean_note(value) or None
    except UsageError as error:
        raise ParameterError(error.message, key=parameter.name) from None


def _person(parameter: Parameter, value: object) -> str:
    text = _text(parameter, value.lstrip("@ ") if isinstance(value, str) else value)
    if not text:
        raise _wrong(parameter, value, "a person's name or mention")
    return text


def _since(parameter: Parameter, value: object) -> str:
    since = parse_since(value) if isinstance(value, str) else None
    if since is None:
        raise _wrong(parameter, value, f"{EXPECTED}, yesterday, or a date such as 2026-01-31, at most ten years back")
    return since


def _choice(parameter: Parameter, value: object) -> str:
    chosen = value.lower() if isinstance(value, str) else value
    if not isinstance(chosen, str) or chosen not in parameter.choices:
        raise _wrong(parameter, value, " or ".join(parameter.choices))
    return chosen


def _matching(pattern: re.Pattern[str], expected: str) -> Callable[[Parameter, object], str]:
    def check(parameter: Parameter, value: object) -> str:
        if not isinstance(value, str) or not pattern.fullmatch(value):
            raise _wrong(parameter, value, expected)
        return value

    return check


def is_cron_field(text: str) -> bool:
    return _CRON_FIELD.fullmatch(text) is not None


_MOST_WORDS_OF_TIME = 4  # every day at 03:00


def words_of_time(words: Sequence[Word]) -> int:
    """The number of words from the first one that name a time, such as `daily 03:00`; 0 for a single word."""
    for length in range(_MOST_WORDS_OF_TIME, 1, -1):
        time = words[:length]
        if len(time) == length and not any(word.quoted for word in time):
            with suppress(CronError):
                parse_cron(" ".join(word.text for word in time))
                return length
    return 0


def _cron(parameter: Parameter, value: object) -> str:
    if not isinstance(value, str):
        raise _wrong(parameter, value, f"five fields or a few words, such as {EXAMPLE}")
    try:
        return parse_cron(value)
    except CronError as error:
        words = f"{parameter.name}: {error.message}"
        raise ParameterError(words, typed=error.message, key=parameter.name) from None


def _wrong(parameter: Parameter, value: object, expected: str) -> ParameterError:
    if isinstance(value, int) and not isinstance(value, bool):
        got = parameter.spelled(value) if abs(value) < _TOO_LARGE_TO_SAY else "a far larger number"
    else:
        got = repr(value)
    got = got if len(got) <= SHOWN else f"{got[: SHOWN - 1]}…"
    word = parameter.keyword or (parameter.name if parameter.choices else parameter.word)
    word = "The duration" if parameter.kind is ParameterKind.DURATION else word
    return ParameterError(
        f"{parameter.name} must be {expected}, not {got}.",
        typed=f"{word} must be {expected}, not {got}.",
        key=parameter.name,
    )


_CHECKS: Mapping[ParameterKind, Callable[[Parameter, object], Any]] = {
    ParameterKind.NUMBER: _number,
    ParameterKind.FLAG: _flag,
    ParameterKind.CHOICE: _choice,
    ParameterKind.DURATION: _duration,
    ParameterKind.SINCE: _since,
    ParameterKind.TASK_ID: _matching(TASK_ID, "1 to 128 letters, digits, hyphens or underscores"),
    ParameterKind.PERSON: _person,
    ParameterKind.NAME: _matching(_NAME, "1 to 64 letters, digits, hyphens or underscores"),
    ParameterKind.CRON: _cron,
    ParameterKind.COMMAND: _text,
    ParameterKind.TOPIC: _text,
    ParameterKind.TEXT: _text,
    ParameterKind.NOTE: _note,
    ParameterKind.STATE: _matching(_STATE, "the state of a preview: 64 hexadecimal digits"),
    ParameterKind.SHARE: _matching(_SHARE, "a number from 1 to 9999, or a share from 1% to 100%"),
    ParameterKind.ARGUMENT: _argument,
    ParameterKind.DEFINITION: _matching(_DIGEST, "the digest of a definition: 16 hexadecimal digits"),
}

_NUMBER = re.compile(r"\+?[0-9]+")
_STARTS_LIKE_NUMBER = re.compile(r"[+-]?\d")
_NUMBER_WORDS = re.compile(
    "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|twenty|fifty|hundred|thousand", re.IGNORECASE
)
_TASK_WORD = re.compile(r"task_[A-Za-z0-9_-]{1,123}")
_OPTION = re.compile(r"--[^\W\d_]")


def is_option(word: Word) -> bool:
    """True for an option such as `--reset`; `--3` is text."""
    return not word.quoted and _OPTION.match(word.text) is not None


def is_task_word(text: str) -> bool:
    """True for a task id rather than the beginning of a label."""
    return _TASK_WORD.fullmatch(text) is not None


def looks_like(parameter: Parameter, word: Word) -> bool:
    """True for a word meant for this parameter: a wrong one is then an error, not a label."""
    match parameter.kind:
        case ParameterKind.NUMBER if _NUMBER_WORDS.fullmatch(word.text):
            return not word.quoted
        case ParameterKind.NUMBER | ParameterKind.DURATION:
            return not word.quoted and _STARTS_LIKE_NUMBER.match(word.text) is not None
        case ParameterKind.TASK_ID:
            return not word.quoted and is_task_word(word.text)
        case ParameterKind.CHOICE:
            known = word.text.lower() in parameter.choices
            return not word.quoted and (known or _STARTS_LIKE_NUMBER.match(word.text) is not None)
        case _:
            return False


def read_word(parameter: Parameter, word: Word) -> object:
    """The value of one word; `GrammarError` where it has none."""
    try:
        match parameter.kind:
            case ParameterKind.NUMBER:
                return check_value(parameter, _read_number(parameter, word.text))
            case ParameterKind.DURATION:
                return check_value(parameter, _read_duration(word.text))
            case ParameterKind.PERSON:
                return check_value(parameter, word.mention or word.text)
            case _:
                return check_value(parameter, word.text)
    except ParameterError as error:
        raise GrammarError(error.typed) from None


def _read_number(parameter: Parameter, text: str) -> int:
    if _NUMBER.fullmatch(text):
        return int(text)
    raise GrammarError(
        f"{parameter.option} must be a whole number in digits, from {parameter.low} to {parameter.high}, "
        f"not {excerpt(text)}. If it starts a label, put the label in double quotes."
    )


def _read_duration(text: str) -> int:
    seconds = parse_duration(text)
    if seconds is not None:
        return seconds
    raise GrammarError(
        f"{excerpt(text)} isn't a duration. Try 90s, 30m, 2h or 1w. "
        "If it starts a reason, put the reason in double quotes."
    )
