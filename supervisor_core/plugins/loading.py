"""Loads the installed plug-ins once for each program, and keeps what is wrong with those that can't be used."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from dataclasses import dataclass
from importlib.machinery import PathFinder
from pathlib import Path

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


def _may_have_plugins(folder: str) -> bool:
    """True for a folder with a distribution that names the group, and for anything that isn't a folder."""
    try:
        with os.scandir(folder or ".") as entries:
            infos = [entry.path for entry in entries if entry.name.endswith((".dist-info", ".egg-info"))]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    for info in infos:
        with suppress(OSError):
            if GROUP.encode() in Path(info, "entry_points.txt").read_bytes():
                return True
    return False


def _load() -> Plugins:
    # `importlib.metadata` takes ten times as long to say that there are none, which each program that reads the
    # configuration would pay. A finder of somebody else may keep distributions elsewhere.
    finders = any(hasattr(finder, "find_distributions") and finder is not PathFinder for finder in sys.meta_path)
    if not finders and not any(map(_may_have_plugins, sys.path)):
        return Plugins()
    from importlib.metadata import entry_points

    commands: dict[str, CommandDefinition] = {}
    problems = []
    for entry in sorted(entry_points(group=GROUP), key=lambda entry: entry.name):
        origin = f"{entry.dist.name} {entry.dist.version}" if entry.dist is not None else entry.value
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


def _definition(found: object, origin: str) -> CommandDefinition:
    """The command of a plug-in; `ValueError` for one that isn't valid."""
    if not isinstance(found, PluginCommand):
        raise ValueError(f"it's {type(found).__name__}, not a PluginCommand")  # noqa: TRY004 (told like the others)
    if fault := command_name_fault(found.name, origin):
        raise ValueError(f"{found.name!a} {fault}")
    for parameter in found.parameters:
        if fault := option_name_fault(parameter.name):
            raise ValueError(f"{parameter.name!a} {fault}")
    if found.role not in ROLES or found.runs not in PLACES or not 0 < found.timeout <= LONGEST_SECONDS:
        raise ValueError(f"its role, its place or its time limit (up to {LONGEST_SECONDS:g} s) isn't valid")
    options = [repr(parameter) for parameter in found.parameters]
    facts = {"origin": origin, "name": found.name, "options": options, "timeout": found.timeout}
    extension = Extension(
        origin,
        digest_of({**facts, "output": found.output, "runs": found.runs}),
        function=found.function,
        timeout=found.timeout,
        output=Output(found.output),
        on_host=found.runs == "host",
    )
    return added_command(
        found.name,
        found.summary,
        found.parameters,
        extension,
        role=found.role,
        approval=bool(found.approval),
        changes=bool(found.changes),
    )
