"""Flaws that the checks found, as sentences for people: key, line, and what is expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, get_args

from supervisor_core.common.section_checks import Flaw, ValidationError, is_section
from supervisor_core.common.sections import Section
from supervisor_core.common.text import nearest
from supervisor_core.config.document import Path, Problem
from supervisor_core.config.fields import kind_of
from supervisor_core.config.models import Settings
from supervisor_core.config.raw import RawConfig, format_path
from supervisor_core.config.worker_settings import EXAMPLE

_CHOSEN: Mapping[Path, str] = {("workers",): "ID", ("teams",): "NAME"}


def problems_of(error: ValidationError, raw: RawConfig) -> list[Problem]:
    """Every flaw with its line."""
    return [(raw.line_of(each.place), each.place, _sentence(each)) for each in error.flaws]


def keys_of(section: type[Section]) -> tuple[str, ...]:
    """The keys of a section, as they are written."""
    return tuple(field.key for field in section.model_fields.values())


def sections(annotation: object) -> Iterator[type[Section]]:
    """The kind of section that a setting holds: itself, or the items of its list or mapping."""
    if isinstance(annotation, type) and is_section(annotation):
        yield annotation
        return
    for argument in get_args(annotation):
        yield from sections(argument)


def _sentence(flaw: Flaw) -> str:
    match flaw.kind:
        case "extra":
            return _unknown(flaw.place)
        case "missing":
            example = f"; example: {EXAMPLE}" if flaw.place[-1] == "command" else ""
            return f"is missing{example}"
        case "list":
            return f"must be a list such as [a, b], but is {kind_of(flaw.given)}"
        case "section":
            return f"must be a section with settings, but is {kind_of(flaw.given)}"
        case "said":
            return flaw.text
    return "has an invalid value"


def _unknown(path: Path) -> str:
    section = _section_at(path[:-1])
    key = str(path[-1])
    known = keys_of(section)
    what = "section" if section is Settings else "role" if path[:-1] == ("slack", "access") else "setting"
    near = nearest(key, known)
    if near:
        return f"isn't a {what}; did you mean {near}?"
    elsewhere = [place for place in places(Settings, ()) if place[-1] == key]
    if len(elsewhere) == 1:
        return f"isn't a {what} here; it belongs in {format_path(elsewhere[0][:-1]) or 'the top level'}"
    return f"isn't a {what}; expected {', '.join(known)}"


def _section_at(path: Path) -> type[Section]:
    """The section that a path leads to; keys of workers and teams, and places in lists, stay inside it."""
    current: type[Section] = Settings
    for part in path:
        field = next((field for name, field in current.model_fields.items() if part in (name, field.alias)), None)
        inner = next(sections(field.annotation), None) if field else None
        current = inner or current
    return current


def places(section: type[Section], path: Path) -> Iterator[Path]:
    """Every setting there is; `ID` and `NAME` stand for the keys that people choose."""
    for field in section.model_fields.values():
        here = (*path, field.key)
        yield here
        inner = next(sections(field.annotation), None)
        if inner is not None:
            yield from places(inner, (*here, *_chosen(here)))


def _chosen(path: Path) -> tuple[str, ...]:
    return (_CHOSEN[path],) if path in _CHOSEN else ()


def as_mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 (a document may hold anything)
    """A part of a document that should be a section, as one; anything else is complained of elsewhere."""
    return value if isinstance(value, Mapping) else {}


def is_of_cornerstone(data: Mapping[str, Any]) -> bool:
    """True for a configuration of Cornerstone Archive, which has the same name and some of the same sections."""
    return {"database", "nas", "logging"} <= data.keys() and "host" in as_mapping(data["database"])
