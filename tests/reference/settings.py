"""The settings as the configuration's models define them: key, type, default, description."""

from __future__ import annotations

import datetime as dt
import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from msgspec import Meta
from msgspec.structs import FieldInfo

from supervisor_core.config.fields import MONTH, TICK, WEEK, SecretUrl
from supervisor_core.config.schema import Settings
from supervisor_core.config.sections import SecretStr, Section, section_within, settings_of, split_rules
from tests.reference.markdown import attribute_docs

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
    description: str

    @property
    def name(self) -> str:
        return self.key.rpartition(".")[2]

    @property
    def is_section(self) -> bool:
        return self.model is not None and not self.is_list

    @property
    def is_list(self) -> bool:
        return get_origin(split_rules(self.field.type)[0]) is tuple

    @property
    def default(self) -> Any:
        """The default as YAML has it, of a setting that isn't required."""
        if self.key == "nas.file_mode":
            return f"{self.field.default:04o}"
        return _plain(self.field.default)

    @property
    def examples(self) -> list[Any]:
        return next((rule.examples for rule in split_rules(self.field.type)[1] if rule.examples), [])

    @property
    def kind(self) -> str:
        return kind_of(self.field.type)


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
    docs = {name: text for base in reversed(model.__mro__[:-3]) for name, text in attribute_docs(base).items()}
    for field in settings_of(model):
        description = " ".join(docs.get(field.name, "").split())
        yield Setting(f"{path}{field.encode_name}", field, section_within(field.type), description)


def kind_of(annotation: Any) -> str:
    """The type of a setting in words; the annotation and its rules know it."""
    annotation, rules = split_rules(annotation)
    for rule in rules:
        if kind := (rule.extra or {}).get("kind"):
            return str(kind)
        if rule.ge is not None:
            return _number(rule, is_whole=annotation is int)
    inner, origin = get_args(annotation), get_origin(annotation)
    if origin is Literal:
        return " | ".join(f"`{name}`" for name in inner if name)
    if origin is tuple:
        return "list of sections" if section_within(inner[0]) else _list_of(kind_of(inner[0]))
    if origin is Mapping:
        return "map"
    if type(None) in inner:
        return kind_of(inner[0])
    words = {bool: "true | false", str: "text", Path: "path", SecretStr: "secret", SecretUrl: "URL"}
    return words.get(annotation, "text")


def _list_of(kind: str) -> str:
    if "`" in kind or kind == "text":
        return f"list of {kind}"
    return f"list of {kind}{'es' if kind.endswith('s') else 's'}"


def _number(rule: Meta, *, is_whole: bool) -> str:
    unit = (rule.extra or {}).get("unit") or ("integer" if is_whole else "number")
    low, high = (None if bound in UNBOUNDED else bound for bound in (rule.ge, rule.le))
    if low is None and high is None:
        return unit
    if high is None:
        return f"{unit}, at least {low:,}"
    return f"{unit}, {rule.ge:,} to {high:,}"


def _plain(value: Any) -> Any:
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
