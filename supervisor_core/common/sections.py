"""Sections of a document as frozen values, checked by the annotations of their fields.

The names and meanings are those of pydantic, as far as a configuration needs them. Pydantic itself would be 10 MB of a
daemon and 70 ms of each start, and the checks are ours anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from dataclasses import field as dataclass_field
from functools import cache, cached_property
from types import UnionType
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

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


Check = Callable[[Any, Context, Place, list[Flaw]], Any]
"""Checks a value of a document at a place, adds what is wrong with it, and returns what it becomes."""


def is_section(hint: object) -> bool:
    """True for the type of a section."""
    return isinstance(hint, type) and issubclass(hint, Section)


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


UNDEFINED: Final = object()
"""The default of a required field."""

_FIELDS_SET = "_fields_set"


@cache
def _hints(section: type[Section]) -> dict[str, Any]:
    return get_type_hints(section, include_extras=True)


@dataclass(eq=False)
class FieldInfo:
    """A field of a section: its default, its key in the document, and its words for the reference."""

    default: Any
    default_factory: Callable[[], Any] | None
    alias: str
    description: str
    examples: list[Any]
    name: str = ""
    owner: type[Section] = dataclass_field(init=False)

    @property
    def key(self) -> str:
        """Its name in the document."""
        return self.alias or self.name

    def get_default(self) -> Any:  # noqa: ANN401 (of any field)
        """Its default, or `UNDEFINED`. It isn't checked."""
        return self.default_factory() if self.default_factory else self.default

    @property
    def annotation(self) -> Any:  # noqa: ANN401 (a type, or what typing makes)
        """Its type, without the validators."""
        return get_args(self.hint)[0] if get_origin(self.hint) is Annotated else self.hint

    @property
    def metadata(self) -> tuple[object, ...]:
        """Its validators and descriptions."""
        return get_args(self.hint)[1:] if get_origin(self.hint) is Annotated else ()

    @property
    def hint(self) -> Any:  # noqa: ANN401
        """Its whole annotation. Those of a class are resolved on first use."""
        return _hints(self.owner)[self.name]  # type: ignore[arg-type]  # any class has a hash

    @cached_property
    def check(self) -> Check:
        """Checks a value of this field."""
        return compile_check(self.hint)


def Field(  # noqa: N802 (as pydantic's)
    *,
    default: Any = UNDEFINED,  # noqa: ANN401
    default_factory: Callable[[], Any] | None = None,
    alias: str = "",
    description: str = "",
    examples: list[Any] | None = None,
) -> Any:  # noqa: ANN401 (stands in the place of a value)
    """A field of a section."""
    return FieldInfo(default, default_factory, alias, description, examples or [])


@dataclass_transform(kw_only_default=True, field_specifiers=(Field,))
class Section:
    """A section: every key known, nothing changed later, its missing sections filled with their defaults.

    An empty section means its defaults. They are checked as if they were written, with the same context.
    """

    model_fields: ClassVar[dict[str, FieldInfo]] = {}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.model_fields = dict(cls.model_fields)
        for name, value in list(vars(cls).items()):
            if isinstance(value, FieldInfo):
                value.name, value.owner = name, cls
                cls.model_fields[name] = value
                delattr(cls, name)

    def __init__(self, **given: Any) -> None:  # noqa: ANN401 (any field)
        self.__dict__.update(type(self).model_validate(given).__dict__)

    @classmethod
    def model_validate(cls, given: object, *, context: Context | None = None) -> Self:
        """The section that a document holds; `ValidationError` with all that is wrong."""
        found: list[Flaw] = []
        value = cls.check(given, context or {}, (), found)
        if found:
            raise ValidationError(cls.__name__, found)
        made: Self = value
        return made

    @classmethod
    def check(cls, given: Any, context: Context, place: Place, found: list[Flaw]) -> Any:  # noqa: ANN401
        """The section at this place of a document, or something else after adding what is wrong with it."""
        if isinstance(given, cls):
            return given
        try:
            given = cls.prepare(given)
        except ValueError as error:
            return refuse(error, place, found)
        given = {} if given is None else given
        if not isinstance(given, Mapping):
            found.append(Flaw("section", place, given=given))
            return BAD
        before = len(found)
        values = {
            name: field.check(value, context, (*place, field.key), found)
            for name, field, value in cls._given(given, place, found)
        }
        keys = {field.key for field in cls.model_fields.values()}
        found += [Flaw("extra", (*place, key)) for key in given if key not in keys]
        if len(found) > before:
            return BAD
        made = cls._made(values, frozenset(name for name, field in cls.model_fields.items() if field.key in given))
        made.complete(context)
        try:
            made.check_values()
        except ValueError as error:
            return refuse(error, place, found)
        return made

    @classmethod
    def _given(
        cls, given: Mapping[Any, Any], place: Place, found: list[Flaw]
    ) -> Iterator[tuple[str, FieldInfo, object]]:
        """Each field with the value that is given, or else with its default."""
        for name, field in cls.model_fields.items():
            value = given.get(field.key, UNDEFINED)
            if value is UNDEFINED:
                value = {} if is_section(field.annotation) else field.get_default()
            if value is UNDEFINED:
                found.append(Flaw("missing", (*place, field.key)))
            else:
                yield name, field, value

    @classmethod
    def _made(cls, values: Mapping[str, object], fields_set: frozenset[str]) -> Self:
        made = cls.__new__(cls)
        made.__dict__.update(values)
        made.__dict__[_FIELDS_SET] = fields_set
        return made

    def set_private(self, **values: object) -> None:
        """Set attributes that aren't part of the document, before anybody else has the section."""
        self.__dict__.update(values)

    @property
    def model_fields_set(self) -> frozenset[str]:
        """The fields that were given."""
        given: frozenset[str] = self.__dict__[_FIELDS_SET]
        return given

    @classmethod
    def prepare(cls, given: Any) -> Any:  # noqa: ANN401 (a document may hold anything)
        """Convert the part of the document before it is checked."""
        return given

    def complete(self, context: Context) -> None:
        """Set what doesn't come from the document, when all its values are right."""

    def check_values(self) -> None:
        """Raise `Invalid` for values that don't fit together."""

    @classmethod
    def model_construct(cls, **values: Any) -> Self:  # noqa: ANN401 (any field)
        """A section of these values and the defaults, unchecked."""
        defaults = {name: field.get_default() for name, field in cls.model_fields.items() if name not in values}
        return cls._made({**defaults, **values}, frozenset(values))

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same section with other values in some fields, unchecked."""
        made = type(self).__new__(type(self))
        made.__dict__.update({**self._values(), **update, _FIELDS_SET: self.model_fields_set | update.keys()})
        return made

    def model_dump(self, *, exclude: Container[str] = (), secrets: bool = False) -> dict[str, Any]:
        """The section as a dictionary of values that JSON has, secrets masked unless they are asked for."""
        names = [name for name in self.model_fields if name not in exclude]
        return {name: _plain(getattr(self, name), secrets=secrets) for name in names}

    def __setattr__(self, name: str, value: object) -> None:
        raise ValueError(f"{type(self).__name__} is frozen")

    def _values(self) -> dict[str, object]:
        """What it was made of, without what was worked out from that."""
        computed = {name for name in self.__dict__ if isinstance(getattr(type(self), name, None), cached_property)}
        return {name: value for name, value in self.__dict__.items() if name not in {_FIELDS_SET, *computed}}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Section) and type(self) is type(other) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.model_fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.model_fields)})"


def _plain(value: Any, *, secrets: bool) -> Any:  # noqa: ANN401 (any setting)
    if isinstance(value, Section):
        return value.model_dump(secrets=secrets)
    if isinstance(value, Mapping):
        return {str(key): _plain(each, secrets=secrets) for key, each in value.items()}
    if isinstance(value, tuple):
        return [_plain(each, secrets=secrets) for each in value]
    if isinstance(value, SecretStr) and secrets:
        return value.get_secret_value()
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
