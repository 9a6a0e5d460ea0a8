"""Sections of a document as frozen values, checked by the annotations of their fields.

The names and meanings are those of pydantic, as far as a configuration needs them. Pydantic itself would be 10 MB of a
daemon and 70 ms of each start, and the checks are ours anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import (
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

from supervisor_core.common.section_checks import (
    BAD,
    Check,
    Context,
    Flaw,
    Place,
    SecretStr,
    ValidationError,
    compile_check,
    is_section,
    refuse,
)

UNDEFINED: Final = object()
"""The default of a required field."""

_FIELDS_SET = "_fields_set"
_MODE = "_section_mode"


class FieldInfo:
    """A field of a section: its default, its key in the document, and its words for the reference."""

    __slots__ = ("_check", "_hint", "alias", "default", "default_factory", "description", "examples", "name", "owner")
    name: str
    owner: type[Section]

    def __init__(
        self,
        default: Any,  # noqa: ANN401 (of any type)
        factory: Callable[[], Any] | None,
        alias: str,
        description: str,
        examples: list[Any],
    ) -> None:
        self.default: Any = default
        self.default_factory = factory
        self.alias, self.description, self.examples = alias, description, examples
        self._hint: object = UNDEFINED
        self._check: Check | None = None

    @property
    def key(self) -> str:
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
        return get_args(self.hint)[1:] if get_origin(self.hint) is Annotated else ()

    @property
    def hint(self) -> Any:  # noqa: ANN401
        """Its whole annotation. Those of a class are resolved on first use."""
        if self._hint is UNDEFINED:
            hints = get_type_hints(self.owner, include_extras=True)
            for name, each in self.owner.model_fields.items():
                if each.owner is self.owner:
                    each._hint = hints[name]  # noqa: SLF001 (of the same class)
        return self._hint

    @property
    def check(self) -> Check:
        if self._check is None:
            self._check = compile_check(self.hint)
        return self._check


@dataclass(frozen=True, slots=True)
class _Private:
    default: object
    factory: Callable[[], Any] | None


def Field(  # noqa: N802 (as pydantic's)
    *,
    default: Any = UNDEFINED,  # noqa: ANN401
    default_factory: Callable[[], Any] | None = None,
    alias: str = "",
    description: str = "",
    examples: list[Any] | None = None,
) -> Any:  # noqa: ANN401 (stands in the place of a value)
    return FieldInfo(default, default_factory, alias, description, examples or [])


def PrivateAttr(  # noqa: N802 (as pydantic's)
    default: Any = UNDEFINED,  # noqa: ANN401
    *,
    default_factory: Callable[[], Any] | None = None,
) -> Any:  # noqa: ANN401
    """An attribute that isn't part of the document."""
    return _Private(default, default_factory)


Function = TypeVar("Function")


def model_validator(*, mode: Literal["before", "after"]) -> Callable[[Function], Function]:
    """Mark a class method that converts the document, or a method that checks the finished section."""

    def mark(function: Function) -> Function:
        setattr(getattr(function, "__func__", function), _MODE, mode)
        return function

    return mark


@dataclass_transform(kw_only_default=True, field_specifiers=(Field, PrivateAttr))
class Section:
    """A section: every key known, nothing changed later, its missing sections filled with their defaults.

    An empty section means its defaults. They are checked as if they were written, with the same context.
    """

    model_fields: ClassVar[dict[str, FieldInfo]] = {}
    _privates: ClassVar[dict[str, _Private]] = {}
    _validators: ClassVar[dict[str, tuple[str, ...]]] = {"before": (), "after": ()}

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        cls.model_fields, cls._privates = dict(cls.model_fields), dict(cls._privates)
        for name, value in list(vars(cls).items()):
            if isinstance(value, FieldInfo):
                value.name, value.owner = name, cls
                cls.model_fields[name] = value
            elif isinstance(value, _Private):
                cls._privates[name] = value
            if isinstance(value, FieldInfo | _Private):
                delattr(cls, name)
        marks = {name: getattr(getattr(value, "__func__", value), _MODE, "") for name, value in vars(cls).items()}
        # The newest of those before and the oldest of those after come first.
        own = {mode: tuple(name for name, found in marks.items() if found == mode) for mode in ("before", "after")}
        before, after = cls._validators["before"], cls._validators["after"]
        cls._validators = {"before": (*reversed(own["before"]), *before), "after": (*after, *own["after"])}

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
            for name in cls._validators["before"]:
                given = getattr(cls, name)(given)
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
        made.model_post_init(context)
        try:
            for name in cls._validators["after"]:
                getattr(made, name)()
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
        for name, private in cls._privates.items():
            value = private.factory() if private.factory else private.default
            if value is not UNDEFINED:
                made.__dict__[name] = value
        return made

    @property
    def model_fields_set(self) -> frozenset[str]:
        given: frozenset[str] = self.__dict__[_FIELDS_SET]
        return given

    def model_post_init(self, context: Context, /) -> None:
        """Called with the context of the validation, before the validators of the finished section."""

    @classmethod
    def model_construct(cls, **values: Any) -> Self:  # noqa: ANN401 (any field)
        """A section of these values and the defaults, unchecked."""
        defaults = {name: field.get_default() for name, field in cls.model_fields.items() if name not in values}
        return cls._made({**defaults, **values}, frozenset(values))

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        """The same section with other values in some fields, unchecked."""
        made = type(self).__new__(type(self))
        made.__dict__.update({**self.__dict__, **update, _FIELDS_SET: self.model_fields_set | update.keys()})
        return made

    def model_dump(self, *, mode: Literal["python", "json"] = "python", exclude: set[str] | None = None) -> Any:  # noqa: ANN401
        """The section as a dictionary; with `json`, of values that JSON has, secrets masked."""
        names = [name for name in self.model_fields if name not in (exclude or ())]
        return {name: _dump(getattr(self, name), json=mode == "json") for name in names}

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise ValueError(f"{type(self).__name__} is frozen")
        self.__dict__[name] = value

    def __delattr__(self, name: str) -> None:
        raise ValueError(f"{type(self).__name__} is frozen")

    def _compared(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != _FIELDS_SET}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Section) and type(self) is type(other) and self._compared() == other._compared()

    def __hash__(self) -> int:
        return hash((type(self), *(getattr(self, name) for name in self.model_fields)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in self.model_fields)})"


def _dump(value: Any, *, json: bool) -> Any:  # noqa: ANN401 (any setting)
    if isinstance(value, Section):
        return value.model_dump(mode="json" if json else "python")
    if isinstance(value, Mapping):
        return {key: _dump(each, json=json) for key, each in value.items()}
    if isinstance(value, tuple):
        items = [_dump(each, json=json) for each in value]
        return items if json else tuple(items)
    return str(value) if json and isinstance(value, Path | SecretStr) else value
