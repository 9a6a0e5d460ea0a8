"""The names that added commands and their options can have, and the definition in the catalog that they get."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from supervisor_core.commands.catalog import FAMILIES, HANDLERS, find
from supervisor_core.commands.definitions import CommandDefinition, Extension, Right, Risk, TargetRule, Tier
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.commands.targets import ALL
from supervisor_core.common.text import canonical_json

LONGEST_SECONDS = 3600.0
"""Longest time limit of an added command: a stop of the daemon may have to wait for it."""

COMMAND_NAME = re.compile(r"(?=.{2,40}$)[a-z][a-z0-9]*(?:-[a-z0-9]+)*")
OPTION_NAME = re.compile(r"[a-z][a-z0-9_]{0,29}")

SHELL_WORDS = frozenset(
    {
        "backup",
        "completion",
        "config",
        "daemon",
        "db",
        "demo",
        "doctor",
        "fleet",
        "import",
        "init",
        "once",
        "playground",
    }
    | {"restore", "run", "send", "start", "stop", "top", "version"}
)
"""Commands of the shell alone."""

TAKEN_OPTIONS = frozenset(
    {"batch", "config", "definition", "healthy", "help", "if_state", "json", "keep_going", "label", "max_failures"}
    | {"note", "preview", "python", "start_before", "state", "target", "timeout", "wait", "worker_id"}
)
"""Names of other parameters, options and placeholders."""

ROLES = ("viewer", "operator", "approver")
PLACES = ("worker", "host")


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
    options = tuple(parameters)
    needed = [f"{each.keyword} {_example(each)}" for each in options if each.required]
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


def _example(parameter: Parameter) -> str:
    if parameter.choices:
        return parameter.choices[0]
    return "TEXT" if parameter.kind is ParameterKind.ARGUMENT else parameter.spelled(parameter.low)
