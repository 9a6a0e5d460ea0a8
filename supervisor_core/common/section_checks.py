"""The checks of values by their annotations: validators, types, and what they find."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

Context = Mapping[str, Any]
"""What a validation knows beside the document."""

Place = tuple[str | int, ...]
BAD: Final = object()
"""Stands for a value that was refused."""


class Invalid(ValueError):
    """The error of a value; its text continues a sentence that begins with the key.

    The validator of a whole section names the key that is wrong in it."""

    def __init__(self, text: str, key: str = "") -> None:
        super().__init__(text)
        self.key = key


@dataclass(frozen=True, slots=True)
class Flaw:
    """An error with its place in the document."""

    kind: Literal["said", "value", "extra", "missing", "list", "section"]
    place: Place
    text: str = ""
    given: object = None


class ValidationError(ValueError):
    """Everything that is wrong in a document. Its text quotes no value."""

    def __init__(self, title: str, flaws: list[Flaw]) -> None:
        super().__init__(f"{title}: {', '.join('.'.join(map(str, each.place)) or 'all' for each in flaws)}")
        self.flaws = flaws


@dataclass(frozen=True, slots=True)
class BeforeValidator:
    """Checks and converts a value before its type does. With `context`, it also gets the context."""

    func: Callable[..., Any]
    context: bool = False


@dataclass(frozen=True, slots=True)
class AfterValidator:
    """Checks and converts a value of the right type."""

    func: Callable[[Any], Any]


class SecretStr:
    """A text that is shown only to who asks for it by name."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        return self._value

    def _display(self) -> str:
        return "**********" if self._value else ""

    def __bool__(self) -> bool:
        return bool(self._value)

    def __len__(self) -> int:
        return len(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and type(self) is type(other) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return self._display()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._display()!r})"


Check = Callable[[Any, Context, Place, list[Flaw]], Any]
"""Checks a value of a document at a place, adds what is wrong with it, and returns what it becomes."""


def is_section(hint: object) -> bool:
    return isinstance(hint, type) and hasattr(hint, "model_fields")


def refuse(error: ValueError, place: Place, found: list[Flaw]) -> object:
    if isinstance(error, Invalid) and error.key:
        place = (*place, error.key)
    found.append(Flaw("said" if isinstance(error, Invalid) else "value", place, str(error)))
    return BAD


def compile_check(hint: Any) -> Check:  # noqa: ANN401 (a type, or what typing makes)
    """The check of an annotation. One of a text or a number has a validator before it."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _annotated(compile_check(arguments[0]), arguments[1:])
    if origin in (Union, UnionType):
        return _optional(compile_check(next(each for each in arguments if each is not type(None))))
    if origin is tuple:
        return _items(compile_check(arguments[0]))
    if origin is Mapping:
        return _mapping(compile_check(arguments[0]), compile_check(arguments[1]))
    if is_section(hint):
        check: Check = hint.check
        return check
    if isinstance(hint, type) and issubclass(hint, SecretStr):
        secret = hint
        return lambda value, _context, _place, _found: value if isinstance(value, secret) else secret(value)
    return _instance(arguments[0].__class__ if origin is Literal else hint)


def _instance(kind: type) -> Check:
    """Takes only values of this type: what a validator before it has made."""

    def check(value: Any, _context: Context, place: Place, found: list[Flaw]) -> Any:  # noqa: ANN401
        if isinstance(value, kind):
            return value
        found.append(Flaw("value", place))
        return BAD

    return check


def _annotated(inner: Check, metadata: tuple[object, ...]) -> Check:
    before = [each for each in reversed(metadata) if isinstance(each, BeforeValidator)]
    after = [each for each in metadata if isinstance(each, AfterValidator)]

    def check(value: Any, context: Context, place: Place, found: list[Flaw]) -> Any:  # noqa: ANN401
        try:
            for each in before:
                value = each.func(value, context) if each.context else each.func(value)
            count = len(found)
            value = inner(value, context, place, found)
            if len(found) == count:
                for last in after:
                    value = last.func(value)
        except ValueError as error:
            return refuse(error, place, found)
        return value

    return check


def _optional(inner: Check) -> Check:
    def check(value: Any, context: Context, place: Place, found: list[Flaw]) -> Any:  # noqa: ANN401
        return None if value is None else inner(value, context, place, found)

    return check


def _items(inner: Check) -> Check:
    def check(value: Any, context: Context, place: Place, found: list[Flaw]) -> Any:  # noqa: ANN401
        if not isinstance(value, list | tuple):
            found.append(Flaw("list", place, given=value))
            return BAD
        return tuple(inner(each, context, (*place, number), found) for number, each in enumerate(value))

    return check


def _mapping(of_key: Check, of_value: Check) -> Check:
    def check(value: Any, context: Context, place: Place, found: list[Flaw]) -> Any:  # noqa: ANN401
        if not isinstance(value, Mapping):
            found.append(Flaw("section", place, given=value))
            return BAD
        return {
            of_key(key, context, (*place, key), found): of_value(each, context, (*place, key), found)
            for key, each in value.items()
        }

    return check


def frozen(values: Mapping[Any, Any]) -> Mapping[Any, Any]:
    return MappingProxyType(dict(values))
