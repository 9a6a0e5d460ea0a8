"""Problems of a configuration as sentences for people, with key and line: flaws that the checks found, and settings
that contradict each other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, get_args

from supervisor_core.commands.addresses import is_address
from supervisor_core.commands.targets import ALL, PATTERN, TEAM
from supervisor_core.commands.targets import HOST as HOST_TARGET
from supervisor_core.common.sections import Flaw, Section, ValidationError, is_section
from supervisor_core.common.text import nearest
from supervisor_core.config.command_settings import command_findings
from supervisor_core.config.document import Path, Problem
from supervisor_core.config.drive_settings import FolderSettings, layout_of
from supervisor_core.config.fields import kind_of, quotable
from supervisor_core.config.models import Settings
from supervisor_core.config.names import FLEET_NAME, FLEET_NAME_WORDS, host_id
from supervisor_core.config.raw import RawConfig, format_path
from supervisor_core.config.worker_settings import EXAMPLE

HUB, HOST = "hub", "host"
"""The roles in a fleet."""

SQLITE = "sqlite"
"""The beginning of a URL that names a file, not a server."""

_OF_EMAIL = "was removed; email goes through alerts.notify, as mailtos://USER:PASSWORD@HOST?from=FROM&to=TO"
REMOVED = {
    **{f"alerts.{place}.{key}": _OF_EMAIL for place in ("webhook", "receivers") for key in ("user", "from", "to")},
    "traces": "was removed; each line of the log has the id of its command",
}
"""Settings of earlier versions, without the numbers of list items, and what replaced them."""

_CHOSEN: Mapping[Path, str] = {
    ("workers",): "ID",
    ("teams",): "NAME",
    ("commands",): "NAME",
    ("commands", "NAME", "parameters"): "NAME",
}


def problems_of(error: ValidationError, raw: RawConfig) -> list[Problem]:
    """Every flaw with its line."""
    return [(raw.line_of(each.place), each.place, _sentence(each)) for each in error.flaws]


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
    section: type[Section] = Settings  # keys of workers and teams, and places in lists, stay inside a section
    key = str(path[-1])
    for part in path[:-1]:
        field = next((field for name, field in section.model_fields.items() if part in (name, field.alias)), None)
        section = next(sections(field.annotation), section) if field else section
    removed = REMOVED.get(".".join(str(part) for part in path if not isinstance(part, int)))
    if removed:
        return removed
    known = [field.key for field in section.model_fields.values()]
    what = "section" if section is Settings else "role" if path[:-1] == ("slack", "access") else "setting"
    near = nearest(key, known)
    if near:
        return f"isn't a {what}; did you mean {near}?"
    elsewhere = [place for place in places(Settings, ()) if place[-1] == key]
    if len(elsewhere) == 1:
        return f"isn't a {what} here; it belongs in {format_path(elsewhere[0][:-1]) or 'the top level'}"
    return f"isn't a {what}; expected {', '.join(known)}"


def places(section: type[Section], path: Path) -> Iterator[Path]:
    """Every setting there is; `ID` and `NAME` stand for the keys that people choose."""
    for field in section.model_fields.values():
        here = (*path, field.key)
        yield here
        inner = next(sections(field.annotation), None)
        if inner is not None:
            yield from places(inner, (*here, _CHOSEN[here]) if here in _CHOSEN else here)


def as_mapping(value: Any) -> Mapping[str, Any]:  # noqa: ANN401 (a document may hold anything)
    """A part of a document that should be a section, as one; anything else is complained of elsewhere."""
    return value if isinstance(value, Mapping) else {}


def is_of_cornerstone(data: Mapping[str, Any]) -> bool:
    """True for a configuration of Cornerstone Archive, which has the same name and some of the same sections."""
    return {"database", "nas", "logging"} <= data.keys() and "host" in as_mapping(data["database"])


Finding = tuple[Path, str]


def cross_check(raw: RawConfig) -> list[Problem]:
    """Find settings that contradict each other, with their lines."""
    data = raw.data
    findings = (
        _names_fit(data),
        _folders_differ(data),
        _targets_exist(data),
        _fits_fleet(data),
        command_findings(data),
    )
    return [(raw.line_of(path), path, text) for path, text in chain.from_iterable(findings)]


def _names_fit(data: Mapping[str, Any]) -> Iterator[Finding]:
    workers, teams = as_mapping(data.get("workers")), as_mapping(data.get("teams"))
    seen: dict[str, str] = {}
    for worker_id, worker in workers.items():
        first = seen.setdefault(worker_id.casefold(), worker_id)
        if first != worker_id:
            words = f"differs from {first} only in case, which can lead to the same file names"
            yield ("workers", worker_id), words
        team = as_mapping(worker).get("team")
        if isinstance(team, str) and team and team not in teams:
            yield ("workers", worker_id, "team"), _nobody(team, teams, "team")
    default = as_mapping(data.get("supervisor")).get("default_worker")
    if isinstance(default, str) and default and default not in workers:
        yield ("supervisor", "default_worker"), _nobody(default, workers, "worker")


def _folders_differ(data: Mapping[str, Any]) -> Iterator[Finding]:
    section = as_mapping(data.get("nas"))
    given, usual = as_mapping(section.get("folders")), layout_of(section)
    seen: dict[str, str] = {}
    for name in FolderSettings.model_fields:
        folder = given.get(name, usual.get(name))
        if not isinstance(folder, str) or not folder:
            continue
        place = "/".join(part for part in folder.replace("\\", "/").split("/") if part not in ("", ".")).casefold()
        first = seen.setdefault(place, name)
        if first != name:
            chosen, other = (name, first) if name in given else (first, name)
            yield ("nas", "folders", chosen), f"is the same folder as {other}"


def _targets_exist(data: Mapping[str, Any]) -> Iterator[Finding]:
    workers, teams = as_mapping(data.get("workers")), as_mapping(data.get("teams"))
    windows = as_mapping(data.get("alerts")).get("maintenance")
    for place, window in enumerate(windows if isinstance(windows, list) else []):
        target = as_mapping(window).get("target")
        if not isinstance(target, str) or target == ALL or target in workers or PATTERN.intersection(target):
            continue
        if target.startswith(HOST_TARGET) or is_address(target):  # hosts come and go
            continue
        path = ("alerts", "maintenance", place, "target")
        if not target.startswith(TEAM):
            yield path, _nobody(target, workers, "worker")
        elif target.removeprefix(TEAM) not in teams:
            yield path, _nobody(target.removeprefix(TEAM), teams, "team")


def _nobody(name: str, known: Iterable[str], what: str) -> str:
    choices = [choice for choice in known if choice.isprintable()]
    near = nearest(name, choices) if quotable(name) else None
    if near:
        return f"names a {what} that isn't configured; did you mean {near}?"
    listed = f"; configured: {', '.join(choices[:8])}" if choices else ""
    added = f"; add it: `{what}s: {{{name}: {{}}}}`" if what == "team" and quotable(name) else ""
    return f"names a {what} that isn't configured{listed}{added}"


def _fits_fleet(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Find settings that a hub or a host in a fleet can't have, or lacks."""
    section = as_mapping(data.get("fleet"))
    role = section.get("role")
    if role not in (HUB, HOST):
        return
    needed = ("url", "credentials", "hub_key") if role == HOST else ("url", "credentials")
    for name in needed:
        if section.get(name) in ("", None):
            command = "join" if role == HOST else "init"
            yield ("fleet", name), f"is needed with fleet.role: {role}; `supervisor fleet {command}` writes it"
    name = as_mapping(data.get("supervisor")).get("id") or host_id()
    if isinstance(name, str) and not FLEET_NAME.fullmatch(name):
        yield ("supervisor", "id"), f"must be {FLEET_NAME_WORDS}, with fleet.role: {role}"
    url = str(as_mapping(data.get("database")).get("url") or "")
    if role == HUB and url.startswith("mysql"):
        yield ("database", "url"), "must be PostgreSQL or SQLite with fleet.role: hub; it's the hub's ledger"
    if role == HUB and url and not url.startswith(SQLITE) and as_mapping(data.get("workers")):
        yield ("workers",), "must be empty on a hub with a database server (database.url); run a host on this machine"
    if role == HOST and str(as_mapping(data.get("slack")).get("enabled", True)).casefold() != "false":
        yield ("slack", "enabled"), "must be false with fleet.role: host; the hub runs the bot"
