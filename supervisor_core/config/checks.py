"""What only the whole configuration can tell: names that must exist elsewhere, names that must differ.

These look at the document and not at the models, so that they are reported together with everything else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from supervisor_core.config.document import Path, Problem
from supervisor_core.config.fields import quotable
from supervisor_core.config.models import Folders
from supervisor_core.config.problems import as_mapping
from supervisor_core.config.raw import RawConfig
from supervisor_core.domain.nearest import nearest
from supervisor_core.domain.targets import ALL, PATTERN, TEAM

Finding = tuple[Path, str]


def cross_check(raw: RawConfig) -> list[Problem]:
    """Everything that does not fit together, with its line."""
    data = raw.data
    findings = chain(
        _ids_differ(data),
        _default_exists(data),
        _teams_exist(data),
        _folders_differ(data),
        _targets_exist(data),
    )
    return [(raw.line_of(path), path, text) for path, text in findings]


def _ids_differ(data: Mapping[str, Any]) -> Iterator[Finding]:
    seen: dict[str, str] = {}
    for worker_id in as_mapping(data.get("workers")):
        first = seen.setdefault(worker_id.casefold(), worker_id)
        if first != worker_id:
            yield (
                ("workers", worker_id),
                f"differs from {first} only in case; the names of files could be the same",
            )


def _default_exists(data: Mapping[str, Any]) -> Iterator[Finding]:
    default = as_mapping(data.get("supervisor")).get("default_worker")
    if isinstance(default, str) and default and default not in as_mapping(data.get("workers")):
        yield (
            ("supervisor", "default_worker"),
            _nobody(default, as_mapping(data.get("workers")), "worker"),
        )


def _teams_exist(data: Mapping[str, Any]) -> Iterator[Finding]:
    teams = as_mapping(data.get("teams"))
    for worker_id, worker in as_mapping(data.get("workers")).items():
        team = as_mapping(worker).get("team")
        if isinstance(team, str) and team and team not in teams:
            yield ("workers", worker_id, "team"), _nobody(team, teams, "team")


def _folders_differ(data: Mapping[str, Any]) -> Iterator[Finding]:
    given = as_mapping(as_mapping(data.get("nas")).get("folders"))
    seen: dict[str, str] = {}
    for name, field in Folders.model_fields.items():
        folder = given.get(name, field.default)
        if not isinstance(folder, str):
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
        path = ("alerts", "maintenance", place, "target")
        if not target.startswith(TEAM):
            yield path, _nobody(target, workers, "worker")
        elif target.removeprefix(TEAM) not in teams:
            yield path, _nobody(target.removeprefix(TEAM), teams, "team")


def _nobody(name: str, known: Iterable[str], what: str) -> str:
    choices = [choice for choice in known if choice.isprintable()]
    near = nearest(name, choices) if quotable(name) else None
    if near:
        return f"names a {what} that is not configured; did you mean {near}?"
    listed = f"; there are {', '.join(choices[:8])}" if choices else f"; no {what} is"
    return f"names a {what} that is not configured{listed}"
