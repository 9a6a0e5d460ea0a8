"""Sections of the configuration as msgspec structs, and the reader that makes them of a document."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path as FilePath
from types import MappingProxyType, UnionType
from typing import Annotated, Any, ClassVar, Literal, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import FieldInfo

from supervisor_core.common.text import nearest
from supervisor_core.config.document import Path, scalar
from supervisor_core.config.raw import Substituted, format_path

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


def checked(check: Callable[[Any], Any], kind: str = "") -> Meta:
    """A setting that this function checks and converts; `kind` is its type in the reference."""
    return Meta(extra={"check": check, "kind": kind})


def resolved(resolve: Callable[[Any, Reader, Path], Any], kind: str = "") -> Meta:
    """The same, by a function that also gets the reader and the path of the setting."""
    return Meta(extra={"resolve": resolve, "kind": kind})


class Reader:
    """Makes sections of a document, and collects everything that is wrong with it."""

    def __init__(
        self, root: type[Section], folder: FilePath, *, commands: frozenset[str], removed: Mapping[str, str]
    ) -> None:
        self.root = root
        self.folder = folder
        """The folder of the file, where relative paths start."""
        self.commands = commands
        """The names of the configuration's own commands."""
        self.removed = removed
        """Settings of earlier versions, and what replaced them."""
        self.given: set[Path] = set()
        """The settings that the document has."""
        self.problems: list[tuple[Path, str]] = []

    def read_section(self, kind: type[S], given: Any, path: Path, key: str = "") -> S | None:  # noqa: ANN401
        """The section at this path, its missing settings filled with their defaults; None if something is wrong."""
        before = len(self.problems)
        given = EMPTY if given is None else given
        if not isinstance(given, Mapping):
            self.problems.append((path, f"must be a section with settings, but is {kind_of(given)}"))
            return None
        try:
            given = kind.prepare(given)
        except Invalid as error:
            self.problems.append((path, str(error)))
            return None
        values: dict[str, Any] = {kind.KEY: key} if kind.KEY else {}
        names = {}
        for field in settings_of(kind):
            names[field.encode_name] = field
            inner = (*path, field.encode_name)
            if field.encode_name in given:
                self.given.add(inner)
                values[field.name] = self.read(field.type, given[field.encode_name], inner)
            elif field.required:
                example = f"; example: {kind.EXAMPLE}" if kind.EXAMPLE else ""
                self.problems.append((inner, f"is missing{example}"))
            else:  # checked as if it were written, which makes its paths absolute
                values[field.name] = self.read(field.type, EMPTY if is_section(field.type) else field.default, inner)
        for name in given.keys() - names:
            self.problems.append(((*path, name), self._describe_unknown(kind, name, path)))
        if len(self.problems) > before:
            return None
        section = kind(**values)
        try:
            section.check_values()
        except Invalid as error:
            self.problems.append(((*path, error.key) if error.key else path, str(error)))
        return section

    def read(self, hint: Any, value: Any, path: Path) -> Any:  # noqa: ANN401
        """The value of a setting with this type."""
        try:
            return self._convert(hint, value, path)
        except Invalid as error:
            self.problems.append((path, str(error)))
            return None

    def _convert(self, hint: Any, value: Any, path: Path) -> Any:  # noqa: ANN401
        kind, rules = split_rules(hint)
        is_checked = False
        for extra in (rule.extra for rule in rules if rule.extra):
            if "check" in extra:
                value, is_checked = extra["check"](value), True
            elif "resolve" in extra:
                value, is_checked = extra["resolve"](value, self, path), True
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is tuple:
            if not isinstance(value, list | tuple):
                raise Invalid(f"must be a list such as [a, b], but is {kind_of(value)}")
            return tuple(self.read(arguments[0], item, (*path, number)) for number, item in enumerate(value))
        if origin is Mapping:
            return self._convert_mapping(arguments[0], arguments[1], value, path)
        if is_checked:
            return value
        if origin in (Union, UnionType):
            return None if value is None else self._convert(arguments[0], value, path)
        if is_section(kind):
            return self.read_section(kind, value, path)
        if kind is str:
            return line(value)
        if kind is SecretStr:
            return value if isinstance(value, SecretStr) else SecretStr(free_text(value))
        return convert_scalar(hint, value)

    def _convert_mapping(self, of_key: Any, of_value: Any, given: Any, path: Path) -> Mapping[str, Any]:  # noqa: ANN401
        given = EMPTY if given is None else given
        if not isinstance(given, Mapping):
            raise Invalid(f"must be a section with settings, but is {kind_of(given)}")
        values: dict[str, Any] = {}
        for name, value in given.items():
            inner = (*path, name)
            key = self.read(of_key, name, inner)
            if key in values and key is not None:
                raise Invalid(f"names {key} twice (aliases and handlers count as names)")
            is_inner_section = is_section(of_value)
            values[key] = (
                self.read_section(of_value, value, inner, name)
                if is_inner_section
                else self.read(of_value, value, inner)
            )
        return MappingProxyType(values)

    def _describe_unknown(self, kind: type[Section], key: str, path: Path) -> str:
        removed = self.removed.get(".".join(str(part) for part in (*path, key) if not isinstance(part, int)))
        if removed:
            return removed
        known = [field.encode_name for field in settings_of(kind)]
        what = "section" if kind is self.root else "role" if path == ("slack", "access") else "setting"
        if near := nearest(key, known):
            return f"isn't a {what}; did you mean {near}?"
        elsewhere = [other for other in setting_paths(self.root) if other[-1] == key]
        if len(elsewhere) == 1:
            return f"isn't a {what} here; it belongs in {format_path(elsewhere[0][:-1]) or 'the top level'}"
        return f"isn't a {what}; expected {', '.join(known)}"


def convert_scalar(hint: Any, value: Any) -> Any:  # noqa: ANN401
    """A number, a truth value, or one of a few words, as msgspec checks them."""
    kind, rules = split_rules(hint)
    given = value
    if kind in (bool, int, float) and isinstance(value, Substituted) and value.plain:
        given = scalar(value)
    if isinstance(given, float):  # not the subclass that a document has
        given = int(given) if kind is int and given.is_integer() else float(given)
    elif isinstance(given, int) and not isinstance(given, bool):
        given = int(given)
    with suppress(msgspec.ValidationError, OverflowError):
        return msgspec.convert(given, hint)
    if get_origin(kind) is Literal:
        raise Invalid(describe_choice(line(value), get_args(kind), value))
    if kind is bool:
        raise Invalid(f"must be true or false, but is {kind_of(value)}")
    meta = rules[0]
    unit = (meta.extra or {}).get("unit")
    text = f"must be a {'whole ' if kind is int else ''}number{f' of {unit}' if unit else ''}"
    is_number = isinstance(given, int | float) and not isinstance(given, bool)
    raise Invalid(f"{text} from {meta.ge:g} to {meta.le:.12g}" + ("" if is_number else f", but is {kind_of(value)}"))


def describe_choice(text: str, names: tuple[str, ...], value: object) -> str:
    """The error of a text that is none of these names."""
    near = nearest(text, names) if quotable(value) else None
    meant = f"; did you mean {near}?" if near else ""
    return f"must be one of {', '.join(filter(None, names))}, not{quotable(value) or ' this'}{meant}"


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


def setting_paths(section: type[Section], path: Path = ()) -> Iterator[Path]:
    """Every setting; `ID` and `NAME` stand for the keys that people choose."""
    for field in settings_of(section):
        inner = (*path, field.encode_name)
        yield inner
        if kind := section_within(field.type):
            is_named = get_origin(split_rules(field.type)[0]) is Mapping
            yield from setting_paths(kind, (*inner, "ID" if kind.KEY == "id" else "NAME") if is_named else inner)


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


def kind_of(value: object) -> str:
    kinds: tuple[tuple[type | tuple[type, ...], str], ...] = (
        (bool, "true or false"),
        ((int, float), "a number"),
        (str, "text"),
        ((list, tuple), "a list"),
        (Mapping, "a section"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "empty")


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
