"""Loads the installed plug-ins once for each program, and keeps what is wrong with those that can't be used."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import CommandDefinition, Extension, Output
from supervisor_core.common.errors import describe
from supervisor_core.common.text import one_line
from supervisor_core.plugins import GROUP, PluginCommand
from supervisor_core.plugins.rules import (
    LONGEST_SECONDS,
    PLACES,
    ROLES,
    added_command,
    command_name_fault,
    digest_of,
    option_name_fault,
)

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LONGEST_PROBLEM = 300  # characters


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plug-ins of this program."""

    commands: tuple[CommandDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence about each that can't be used, beginning with its name."""


_loaded: Plugins | None = None
_loading = threading.Lock()


def load_plugins() -> Plugins:
    """The plug-ins, whose commands are in the catalog from the first call on. It never raises."""
    global _loaded  # noqa: PLW0603 (a program has its plug-ins once)
    with _loading:
        if _loaded is None:
            _loaded = _load()
            CATALOG.extend(GROUP, _loaded.commands)
        return _loaded


def _are_there() -> bool:
    """False if no installed distribution names the group. `importlib.metadata` takes ten times as long to say so, which
    each program that reads the configuration would pay."""
    if any(hasattr(each, "find_distributions") and each is not PathFinder for each in sys.meta_path):
        return True  # a finder that keeps distributions elsewhere
    return any(map(_names_group, sys.path))


def _names_group(place: str) -> bool:
    """True for a folder with a distribution that names the group, and for anything that isn't a folder."""
    try:
        with os.scandir(place or ".") as found:
            names = [each.path for each in found if each.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    return any(map(_has_group, names))


def _has_group(folder: str) -> bool:
    try:
        return GROUP.encode() in Path(folder, "entry_points.txt").read_bytes()
    except OSError:
        return False


def _load() -> Plugins:
    if not _are_there():
        return Plugins()
    from importlib.metadata import entry_points

    commands: dict[str, CommandDefinition] = {}
    problems = []
    for entry in sorted(entry_points(group=GROUP), key=lambda each: each.name):
        origin = _origin(entry)
        try:
            definition = _definition(entry.load(), origin)
            if definition.name in commands:
                other = commands[definition.name].extension
                raise ValueError(f"its command {definition.name} is one of {other.origin if other else 'another'}")
            commands[definition.name] = definition
        except (Exception, SystemExit) as error:  # noqa: BLE001 (the edge: whatever a plug-in does, the program goes on)
            why = str(error) if type(error) is ValueError else describe(error)
            problems.append(one_line(f"{entry.name} of {origin} can't be used: {why}.", LONGEST_PROBLEM))
    return Plugins(tuple(commands.values()), tuple(problems))


def _origin(entry: EntryPoint) -> str:
    return f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value


def _definition(found: object, origin: str) -> CommandDefinition:
    """The command of a plug-in; `ValueError` for one that isn't valid."""
    if not isinstance(found, PluginCommand):
        raise ValueError(f"it's {type(found).__name__}, not a PluginCommand")  # noqa: TRY004 (told like the others)
    if fault := command_name_fault(found.name, origin):
        raise ValueError(f"{found.name!a} {fault}")
    for each in found.parameters:
        if fault := option_name_fault(each.name):
            raise ValueError(f"{each.name!a} {fault}")
    if found.role not in ROLES or found.runs not in PLACES or not 0 < found.timeout <= LONGEST_SECONDS:
        raise ValueError(f"its role, its place or its time limit (up to {LONGEST_SECONDS:g} s) isn't valid")
    extension = Extension(
        origin,
        "",
        function=found.function,
        timeout=found.timeout,
        output=Output(found.output),
        on_host=found.runs == "host",
    )
    options = [repr(each) for each in found.parameters]
    facts = {"origin": origin, "name": found.name, "options": options, "timeout": found.timeout}
    digest = digest_of({**facts, "output": found.output, "runs": found.runs})
    return added_command(
        found.name,
        found.summary,
        found.parameters,
        replace(extension, digest=digest),
        role=found.role,
        approval=bool(found.approval),
        changes=bool(found.changes),
    )
