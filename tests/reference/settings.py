"""The settings as the configuration's models define them: key, type, default, description."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from supervisor_core.common.sections import UNDEFINED, BeforeValidator, FieldInfo, SecretStr, Section
from supervisor_core.config.fields import MONTH, TICK, WEEK, Kind, Number, OneOf, SecretUrl
from supervisor_core.config.models import Settings

CHOSEN = {"workers": "ID", "teams": "NAME", "commands": "NAME", "commands.NAME.parameters": "NAME"}
"""The sections whose keys somebody chooses, and the word that stands for such a key."""

UNBOUNDED = {0, TICK, WEEK, MONTH, 10**12, 100_000}
"""Bounds that only exclude absurd values."""


@dataclass(frozen=True)
class Setting:
    """One setting, with its place in the file."""

    key: str
    """As a reader writes it: `workers.ID.probes[].http`."""
    field: FieldInfo
    model: type[Section] | None
    """The section that it holds, or that the items of its list are."""

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def is_section(self) -> bool:
        return self.model is not None and not self.is_list

    @property
    def is_list(self) -> bool:
        return get_origin(self.field.annotation) is tuple

    @property
    def default(self) -> Any:
        """The default as YAML has it; `UNDEFINED` for a required setting."""
        if self.key == "nas.file_mode":
            return f"{self.field.default:04o}"
        return _plain(self.field.get_default())

    @property
    def kind(self) -> str:
        return kind_of(self.field.annotation, tuple(self.field.metadata))


@dataclass(frozen=True)
class SectionPage:
    """A section: its key (empty for the outermost one), its description, and its settings."""

    key: str
    description: str
    settings: tuple[Setting, ...]


def sections(model: type[Section] = Settings, path: str = "") -> Iterator[SectionPage]:
    """Every section, the outer ones first."""
    found = tuple(settings(model, path))
    yield SectionPage(
        path.rstrip("."), inspect.getdoc(model) or "", tuple(each for each in found if not each.is_section)
    )
    for each in found:
        if each.model is not None:
            step = f".{CHOSEN[each.key]}" if each.key in CHOSEN else "[]" if each.is_list else ""
            yield from sections(each.model, f"{each.key}{step}.")


def settings(model: type[Section], path: str = "") -> Iterator[Setting]:
    """The settings directly in a section."""
    for field in model.model_fields.values():
        inner = next(_models(field.annotation), None)
        yield Setting(f"{path}{field.key}", field, inner)


def kind_of(annotation: Any, metadata: tuple[object, ...] = ()) -> str:
    """The type of a setting in words; the annotation and its validators know it."""
    for each in metadata:
        checks = each.func if isinstance(each, BeforeValidator) else each
        if isinstance(checks, Kind):
            return checks.name
        if isinstance(checks, Number):
            return _number(checks)
        if isinstance(checks, OneOf) and annotation is str:
            return " | ".join(f"`{name}`" for name in checks.names)
    inner = get_args(annotation)
    if hasattr(annotation, "__metadata__"):
        return kind_of(inner[0], tuple(annotation.__metadata__))
    origin = get_origin(annotation)
    if origin is Literal:
        return " | ".join(f"`{name}`" for name in inner)
    if origin is tuple:
        return "list of sections" if any(_models(inner[0])) else _list_of(kind_of(inner[0]))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        return "map"
    if type(None) in inner:
        return kind_of(next(each for each in inner if each is not type(None)), metadata)
    words = {bool: "true | false", str: "text", Path: "path", SecretStr: "secret", SecretUrl: "URL"}
    return words.get(annotation, "text")


def _list_of(kind: str) -> str:
    if "`" in kind or kind == "text":
        return f"list of {kind}"
    return f"list of {kind}{'es' if kind.endswith('s') else 's'}"


def _number(number: Number) -> str:
    unit = number.unit or ("integer" if number.whole else "number")
    low, high = (None if bound in UNBOUNDED else bound for bound in (number.low, number.high))
    if low is None and high is None:
        return unit
    if high is None:
        return f"{unit}, at least {low:,}"
    return f"{unit}, {number.low:,} to {high:,}"


def _models(annotation: Any) -> Iterator[type[Section]]:
    """The sections within the type of a setting."""
    if isinstance(annotation, type) and not get_args(annotation):
        if issubclass(annotation, Section):
            yield annotation
        return
    for argument in get_args(annotation):
        yield from _models(argument)


def _plain(value: Any) -> Any:
    if value is UNDEFINED:
        return value
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    if isinstance(value, Path):
        return value.as_posix() if value.is_absolute() or value == Path() else f"./{value.as_posix()}"
    if isinstance(value, dt.time):
        return value.strftime("%H:%M")
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float) and value == int(value):
        return int(value)
    if isinstance(value, Mapping):
        return dict(value)
    return "" if value is None else value
