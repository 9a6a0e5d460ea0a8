"""Loads the installed plug-ins once for each program, and holds the rules for every added command: its names, its
options and its definition in the catalog. What is wrong with a plug-in that can't be used is kept."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any, NamedTuple

from supervisor_core.commands.catalog import CATALOG, FAMILIES, HANDLERS, find
from supervisor_core.commands.definitions import (
    CommandDefinition,
    Extension,
    Output,
    Right,
    Risk,
    TargetRule,
    Tier,
)
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.commands.targets import ALL
from supervisor_core.common.errors import describe
from supervisor_core.common.text import canonical_json, one_line
from supervisor_core.plugins import GROUP, PluginCommand

LONGEST_PROBLEM = 300  # characters

LONGEST_SECONDS = 3600.0
"""Longest time limit of an added command: a stop of the daemon may have to wait for it."""

COMMAND_NAME = re.compile(r"(?=.{2,40}$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
OPTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")

SHELL_WORDS = frozenset(
    {"backup", "completion", "config", "daemon", "db", "demo", "doctor", "fleet", "import", "init", "once"}
    | {"playground", "restore", "run", "send", "start", "stop", "top", "version"}
)
"""Commands of the shell alone."""

TAKEN_OPTIONS = frozenset(
    {"batch", "config", "definition", "healthy", "help", "if_state", "json", "keep_going", "label", "max_failures"}
    | {"note", "preview", "python", "start_before", "state", "target", "timeout", "wait", "worker_id"}
)
"""Names of other parameters, options and placeholders."""

ROLES = ("viewer", "operator", "approver")
RUNS_ON = ("worker", "host")


class Plugins(NamedTuple):
    """The plug-ins of this program."""

    commands: tuple[CommandDefinition, ...] = ()
    problems: tuple[str, ...] = ()
    """A sentence about each that can't be used, beginning with its name."""


_loading = threading.Lock()


def load_plugins() -> Plugins:
    """The plug-ins, whose commands are in the catalog from the first call on. It never raises."""
    with _loading:
        return _load()


@cache
def _load() -> Plugins:
    # `importlib.metadata` takes ten times as long to say that there are none, which each program that reads the
    # configuration would pay. Another finder may keep distributions elsewhere.
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
            problem = str(error) if type(error) is ValueError else describe(error)
            problems.append(one_line(f"{entry.name} of {origin} can't be used: {problem}.", LONGEST_PROBLEM))
    CATALOG.extend(GROUP, commands.values())
    return Plugins(tuple(commands.values()), tuple(problems))


def _may_have_plugins(folder: str) -> bool:
    """True for a folder with a distribution that names the group, and for anything that isn't a folder."""
    try:
        paths = [
            Path(folder, name, "entry_points.txt")
            for name in os.listdir(folder or ".")
            if name.endswith((".dist-info", ".egg-info"))
        ]
    except NotADirectoryError:
        return True
    except OSError:
        return False
    for path in paths:
        with suppress(OSError):
            if GROUP.encode() in path.read_bytes():
                return True
    return False


def _definition(command: object, origin: str) -> CommandDefinition:
    """The command of a plug-in; `ValueError` for one that isn't valid."""
    if not isinstance(command, PluginCommand):
        raise ValueError(f"it's {type(command).__name__}, not a PluginCommand")  # noqa: TRY004 (reported like the others)
    if fault := command_name_fault(command.name, origin):
        raise ValueError(f"{command.name!a} {fault}")
    for parameter in command.parameters:
        if fault := option_name_fault(parameter.name):
            raise ValueError(f"{parameter.name!a} {fault}")
    if command.role not in ROLES or command.runs not in RUNS_ON or not 0 < command.timeout <= LONGEST_SECONDS:
        raise ValueError(f"its role, its place or its time limit (up to {LONGEST_SECONDS:g} s) isn't valid")
    options = command.parameters
    facts = {"origin": origin, "name": command.name, "options": list(map(repr, options)), "timeout": command.timeout}
    extension = Extension(
        origin,
        digest_of({**facts, "output": command.output, "runs": command.runs}),
        function=command.function,
        timeout=command.timeout,
        output=Output(command.output),
        on_host=command.runs == "host",
    )
    role, approval, changes = command.role, bool(command.approval), bool(command.changes)
    return added_command(
        command.name, command.summary, options, extension, role=role, approval=approval, changes=changes
    )


def command_name_fault(name: str, origin: str) -> str | None:
    """The reason why a command of this origin can't have this name, in words that follow it; None for a free one."""
    if not COMMAND_NAME.fullmatch(name):
        return "isn't a command's name: use 2 to 40 lowercase letters, digits and hyphens, starting with a letter"
    known = find(name)
    if known is not None and known.extension is not None:
        return None if known.extension.origin == origin else f"is a command of {known.extension.origin}"
    if known is not None or name in FAMILIES or name.replace("-", "_") in HANDLERS or name in SHELL_WORDS:
        also = f" ({known.name})" if known is not None and known.name != name else ""
        return f"is a built-in command{also}; choose another name"
    return "means every worker; choose another name" if name == ALL else None


def option_name_fault(name: str) -> str | None:
    """The same for an option."""
    if not OPTION_NAME.fullmatch(name):
        return "isn't a parameter's name: use up to 30 lowercase letters, digits and underscores, a letter first"
    return "is the name of another option or placeholder; choose another one" if name in TAKEN_OPTIONS else None


def digest_of(facts: Mapping[str, Any]) -> str:
    """The digest of all that decides what a command does."""
    return hashlib.sha256(canonical_json(facts).encode()).hexdigest()[:16]


def added_command(
    name: str,
    summary: str,
    parameters: Iterable[Parameter],
    extension: Extension,
    *,
    role: str,
    approval: bool,
    changes: bool,
) -> CommandDefinition:
    def example(option: Parameter) -> str:
        if option.choices:
            return option.choices[0]
        return "TEXT" if option.kind is ParameterKind.ARGUMENT else option.spelled(option.low)

    options = tuple(parameters)
    needed = [f"{option.keyword} {example(option)}" for option in options if option.required]
    return CommandDefinition(
        name,
        summary,
        handler=name.replace("-", "_"),
        parameters=options,
        takes_label=True,
        target=TargetRule.WORKERS,
        risk=Risk.CHANGES if changes else Risk.READS,
        needs_approval=approval,
        right=Right(role),
        tier=Tier.LIFECYCLE if changes else Tier.REPORT,
        schedulable=True,
        examples=(" ".join([name, *needed]),),
        extension=extension,
    )
