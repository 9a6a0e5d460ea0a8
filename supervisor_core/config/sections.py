"""Sections of the configuration as msgspec structs, and the reader that makes them of a document."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from supervisor_core.common.text import nearest
from supervisor_core.config.raw import RawConfig, SettingPath, Substituted, format_path, scalar

LONGEST_QUOTE = 40  # characters of a value that a message repeats
MAX_LINE = 4096  # characters: no name, path or address is longer
EMPTY: Mapping[str, Any] = MappingProxyType({})


class Section(Struct, frozen=True):
    """A part of the configuration: every key known, never changed. A docstring below a field describes it."""

    KEY: ClassVar[str] = ""
    """The field that holds the section's own key in the mapping around it."""
    INTERNAL: ClassVar[frozenset[str]] = frozenset()
    """Further fields that aren't settings."""
    EXAMPLE: ClassVar[str] = ""
    """An example of its required setting."""

    @classmethod
    def prepare(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Convert or refuse this part of the document before its settings are checked."""
        return given

    def check_values(self) -> None:
        """Raise `Invalid` for values that don't fit together."""


S = TypeVar("S", bound=Section)


class SecretStr:
    """A text that is shown only to those who ask for it by name."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value

    def get_secret_value(self) -> str:
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SecretStr) and type(self) is type(other) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __str__(self) -> str:
        return "**********" if self._value else ""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"


class Invalid(ValueError):
    """The error of a value; its text continues a sentence that begins with the key, and quotes no secret."""

    def __init__(self, text: str, key: str = "") -> None:
        super().__init__(text)
        self.key = key
        """The setting of a section that is wrong."""


def pattern(form: str, expected: str, kind: str = "", *, empty: bool = False) -> Meta:
    """The form of a line of text; `expected` completes "must be", and `kind` is its type in the reference."""
    return Meta(
        pattern=f"^(?:{form}|)$" if empty else f"^(?:{form})$",
        extra={"expected": expected + (", or empty" if empty else ""), "kind": kind},
    )


def number(low: float, high: float, unit: str = "") -> Meta:
    """The bounds of a number, both included."""
    return Meta(ge=low, le=high, extra={"unit": unit})


def checked(check: Callable[[Any], Any], kind: str = "") -> Meta:
    """A setting that this function checks and converts."""
    return Meta(extra={"check": check, "kind": kind})


upper = checked(lambda value: value.upper() if isinstance(value, str) else value)
"""Words in either case."""


def resolved(resolve: Callable[[Any, Reader, SettingPath], Any], kind: str = "") -> Meta:
    """The same, by a function that also gets the reader and the path of the setting."""
    return Meta(extra={"resolve": resolve, "kind": kind})


class Reader:
    """Makes sections of a document, and collects everything that is wrong with it."""

    def __init__(self, root: type[Section], raw: RawConfig, removed: Mapping[str, str]) -> None:
        self.root = root
        self.folder = raw.folder
        """The folder of the file, where relative paths start."""
        commands = raw.data.get("commands")
        self.commands = frozenset(commands if isinstance(commands, dict) else ())
        """The names of the configuration's own commands."""
        self.removed = removed
        """Settings of earlier versions, and what replaced them."""
        self.explicit_settings: set[SettingPath] = set()
        """The settings that the document has."""
        self.problems: list[tuple[SettingPath, str]] = []

    def read_section(self, kind: type[S], given: Any, path: SettingPath, key: str = "") -> S | None:  # noqa: ANN401
        """The section at this path, its missing settings filled with their defaults; None if something is wrong."""
        before = len(self.problems)
        values: dict[str, Any] = {kind.KEY: key} if kind.KEY else {}
        try:
            given = kind.prepare(as_section(given))
            names = {}
            for field in settings_of(kind):
                name = field.encode_name
                names[name] = inner = (*path, name)
                if name in given:
                    self.explicit_settings.add(inner)
                    values[field.name] = self.read(field.type, given[name], inner)
                elif field.required:
                    example = f"; example: {kind.EXAMPLE}" if kind.EXAMPLE else ""
                    self.problems.append((inner, f"is missing{example}"))
                else:  # checked as if it were written, which makes its paths absolute
                    default = EMPTY if is_section(field.type) else field.default
                    values[field.name] = self.read(field.type, default, inner)
            for name in given.keys() - names:
                self.problems.append(((*path, name), self._describe_unknown(kind, name, path)))
            if len(self.problems) > before:
                return None
            section = kind(**values)
            section.check_values()
        except Invalid as error:
            self.problems.append(((*path, error.key) if error.key else path, str(error)))
            return None
        return section

    def read(self, hint: Any, value: Any, path: SettingPath) -> Any:  # noqa: ANN401
        """The value of a setting of this type; None after adding what is wrong with it."""
        try:
            return convert(hint, value, self, path)
        except Invalid as error:
            self.problems.append((path, str(error)))
            return None

    def read_mapping(self, of_key: Any, of_value: Any, given: Any, path: SettingPath) -> Mapping[str, Any]:  # noqa: ANN401
        values: dict[str, Any] = {}
        for name, value in as_section(given).items():
            inner = (*path, name)
            key = self.read(of_key, name, inner)
            if key in values and key is not None:
                raise Invalid(f"names {key} twice (aliases and handlers count as names)")
            if is_section(of_value):
                values[key] = self.read_section(of_value, value, inner, name)
            else:
                values[key] = self.read(of_value, value, inner)
        return MappingProxyType(values)

    def _describe_unknown(self, kind: type[Section], key: str, path: SettingPath) -> str:
        removed = self.removed.get(".".join(str(part) for part in (*path, key) if not isinstance(part, int)))
        if removed:
            return removed
        known = [field.encode_name for field in settings_of(kind)]
        noun = "section" if kind is self.root else "role" if path == ("slack", "access") else "setting"
        if suggestion := nearest(key, known):
            return f"isn't a {noun}; did you mean {suggestion}?"
        elsewhere = [other for other in setting_paths(self.root) if other[-1] == key]
        if len(elsewhere) == 1:
            return f"isn't a {noun} here; it belongs in {format_path(elsewhere[0][:-1]) or 'the top level'}"
        return f"isn't a {noun}; expected {', '.join(known)}"


def convert(hint: Any, given: Any, reader: Reader, path: SettingPath) -> Any:  # noqa: ANN401
    """A value of a document as this type, after the rules of the type; `Invalid` if it doesn't fit."""
    kind, rules = split_rules(hint)
    origin, arguments = get_origin(kind), get_args(kind)
    value, is_checked = apply_rules(rules, given, reader, path)
    if origin is tuple:
        if not isinstance(value, list | tuple):
            raise Invalid(f"must be a list such as [a, b], but is {kind_of(value)}")
        return tuple(reader.read(arguments[0], item, (*path, index)) for index, item in enumerate(value))
    if origin is Mapping:
        return reader.read_mapping(arguments[0], arguments[1], value, path)
    if origin is Literal:
        name = line(value)
        if name in arguments:
            return name
        suggestion = nearest(name, arguments) if quotable(given) else None
        names, hint_text = ", ".join(filter(None, arguments)), f"; did you mean {suggestion}?" if suggestion else ""
        raise Invalid(f"must be one of {names}, not{quotable(given) or ' this'}{hint_text}")
    if is_checked:
        return value
    if origin in (Union, UnionType):
        return None if value is None else convert(arguments[0], value, reader, path)
    if is_section(kind):
        return reader.read_section(kind, value, path)
    if kind is str:
        return line(value)
    if kind is SecretStr:
        return value if isinstance(value, SecretStr) else SecretStr(free_text(value))
    return convert_number(hint, value)


def apply_rules(
    rules: tuple[Meta, ...],
    value: Any,  # noqa: ANN401
    reader: Reader | None = None,
    path: SettingPath = (),
) -> tuple[Any, bool]:
    """The value after the checks of its type, and whether there are any."""
    is_checked = False
    for rule in rules:
        extra = rule.extra or {}
        if rule.pattern:
            value, is_checked = line(value), True
            if not re.search(rule.pattern, value):
                raise Invalid(f"must be {extra['expected']}")
        elif "check" in extra:
            value, is_checked = extra["check"](value), True
        elif "resolve" in extra:
            value, is_checked = extra["resolve"](value, reader, path), True
    return value, is_checked


def convert_number(hint: Any, given: Any) -> Any:  # noqa: ANN401
    """A number within its bounds, or a truth value, as msgspec checks them."""
    kind, rules = split_rules(hint)
    value = scalar(given) if isinstance(given, Substituted) and given.plain else given
    if isinstance(value, float):  # not the subclass that a document has
        value = int(value) if kind is int and value.is_integer() else float(value)
    elif isinstance(value, int) and not isinstance(value, bool):
        value = int(value)
    with suppress(msgspec.ValidationError, OverflowError):
        return msgspec.convert(value, hint)
    if kind is bool:
        raise Invalid(f"must be true or false, but is {kind_of(given)}")
    (bounds,) = rules
    unit = (bounds.extra or {}).get("unit")
    numbers = f"{'whole ' if kind is int else ''}number{f' of {unit}' if unit else ''}"
    expected = f"must be a {numbers} from {bounds.ge:.15g} to {bounds.le:.15g}"
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    raise Invalid(expected if is_number else f"{expected}, but is {kind_of(given)}")


@cache
def settings_of(section: type[Section]) -> tuple[FieldInfo, ...]:
    """The settings of a section, in order."""
    return tuple(
        field for field in msgspec.structs.fields(section) if field.name not in {section.KEY, *section.INTERNAL}
    )


def is_section(hint: object) -> bool:
    return isinstance(hint, type) and issubclass(hint, Section)


def section_within(hint: Any) -> type[Section] | None:  # noqa: ANN401
    """The kind of section that a setting holds: itself, or the items of its list or mapping."""
    if is_section(hint):
        kind: type[Section] = hint
        return kind
    return next(filter(None, map(section_within, get_args(hint))), None)


def setting_paths(section: type[Section], path: SettingPath = ()) -> Iterator[SettingPath]:
    """Every setting; `ID` and `NAME` stand for the keys that people choose."""
    for field in settings_of(section):
        inner = (*path, field.encode_name)
        yield inner
        if kind := section_within(field.type):
            is_mapping = get_origin(split_rules(field.type)[0]) is Mapping
            yield from setting_paths(kind, (*inner, "ID" if kind.KEY == "id" else "NAME") if is_mapping else inner)


def split_rules(hint: Any) -> tuple[Any, tuple[Meta, ...]]:  # noqa: ANN401
    """A type without its rules, and these."""
    return (hint.__origin__, hint.__metadata__) if get_origin(hint) is Annotated else (hint, ())


def as_plain(value: Any, *, secrets: bool = False) -> Any:  # noqa: ANN401
    """A setting or section as JSON has it; secrets are masked unless they are asked for."""
    if isinstance(value, Section):
        return {field.name: as_plain(getattr(value, field.name), secrets=secrets) for field in settings_of(type(value))}
    if isinstance(value, Mapping):
        return {str(key): as_plain(item, secrets=secrets) for key, item in value.items()}
    if isinstance(value, tuple):
        return [as_plain(item, secrets=secrets) for item in value]
    if isinstance(value, SecretStr) and secrets:
        return value.get_secret_value()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def as_section(given: object) -> Mapping[str, Any]:
    """A part of a document that must be a section; without settings it may be empty."""
    if given is None or isinstance(given, Mapping):
        return given or EMPTY
    raise Invalid(f"must be a section with settings, but is {kind_of(given)}")


def kind_of(value: object) -> str:
    names: dict[Any, str] = {bool: "true or false", int | float: "a number", str: "text", list | tuple: "a list"}
    names[Mapping] = "a section"
    return next((name for kind, name in names.items() if isinstance(value, kind)), "empty")


def quotable(value: object) -> str:
    """A value as a message may repeat it, after a space: short, printable, and not out of a variable."""
    if not isinstance(value, str) or isinstance(value, Substituted) or not value.isprintable():
        return ""
    return f" {value!r}" if 0 < len(value) <= LONGEST_QUOTE else ""


def free_text(value: object) -> str:
    if not isinstance(value, str):
        hint = "; put it in quotes" if isinstance(value, bool | int | float) else ""
        hint = '; write "" for an empty text' if value is None else hint
        raise Invalid(f"must be text, but is {kind_of(value)}{hint}")
    if "\0" in value:
        raise Invalid("must not contain a NUL character")
    return str(value)


def line(value: object) -> str:
    text = free_text(value).rstrip("\n")
    if len(text) > MAX_LINE or not text.isprintable():
        raise Invalid("must be one line of printable text")
    return text
