"""The program that an added command would run: its arguments, its folder and its environment."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from supervisor_core.commands.catalog import CATALOG, definition_objection
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Extension
from supervisor_core.common.errors import RefusedError
from supervisor_core.common.text import one_line
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.schema import fill_arguments
from supervisor_core.config.worker_settings import WorkerSettings
from supervisor_core.host.logging.masking import Masking

LONGEST_WORDS = 500
"""Characters of a program with its arguments on a card; the audit trail has the parameters in full."""


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """One execution of an added command."""

    definition: CommandDefinition
    extension: Extension
    argv: tuple[str, ...]
    """Empty for a function of a plug-in."""
    folder: Path
    env: Mapping[str, str] = field(repr=False)

    def text(self, masking: Masking) -> str:
        """The program as somebody would type it, or the function's plug-in; masked before it's cut."""
        typed = shlex.join(self.argv) if self.argv else f"{self.definition.name} of {self.extension.origin}"
        return one_line(masking.text(typed), LONGEST_WORDS)


def plan_run(config: SupervisorConfig, worker: WorkerSettings, name: str, params: Mapping[str, Any]) -> PlannedRun:
    """Fill in what the command would run; `RefusedError` if its definition isn't the one that was requested."""
    definition = CATALOG.get(name)
    extension = definition.extension if definition else None
    if objection := definition_objection(name, params):
        raise RefusedError(objection, remedy="Compare `commands` in the configurations, or send the command again.")
    if definition is None or extension is None:
        raise RefusedError(f"{name} is a built-in command.")
    folder = config.path.parent if extension.on_host else worker.cwd
    settings = config.commands.get(name)
    if settings is None:
        return PlannedRun(definition, extension, (), folder, config.safe_environment)
    own = {variable: value.get_secret_value() for variable, value in settings.env.items()}
    values = {"python": config.python_for(worker), "config": str(config.path), "worker_id": worker.id}
    given = _arguments(definition, params, settings.flag_arguments())
    argv = fill_arguments(extension.argv, {**values, **given})
    return PlannedRun(definition, extension, argv, folder, {**config.safe_environment, **own})


def _arguments(
    definition: CommandDefinition, params: Mapping[str, Any], flags: Mapping[str, str]
) -> dict[str, str | None]:
    """The text of each parameter; None for one that isn't given."""
    found: dict[str, str | None] = {}
    for parameter in definition.parameters:
        value = params.get(parameter.name)
        if parameter.name in flags:
            found[parameter.name] = flags[parameter.name] if value is True else None
        else:
            found[parameter.name] = None if value is None else str(value)
    return found


def would_run(config: SupervisorConfig, worker: WorkerSettings, command: Command) -> dict[str, Any]:
    """The preview of an added command for a worker, with its `facts`, or the reason why it's refused; empty for a
    built-in command."""
    if CATALOG.on_record(command.name).extension is None and command.name in CATALOG:
        return {}
    try:
        planned = plan_run(config, worker, command.name, command.params)
    except RefusedError as error:
        return {"ok": False, "refused": str(error)}
    facts = run_facts(planned, worker.id, command.params)
    masking = Masking(config.secrets, public=(*config.workers, config.supervisor.id))
    shown = {"would_run": planned.text(masking), "folder": str(planned.folder), "origin": planned.extension.origin}
    return {**shown, "facts": facts}


def run_facts(planned: PlannedRun, worker_id: str, params: Mapping[str, Any]) -> dict[str, Any]:
    """The facts that a preview shows, in full: if one changes, the preview is out of date."""
    meant = {each.name: params.get(each.name) for each in planned.definition.parameters}
    facts = {"worker": worker_id, "argv": list(planned.argv), "folder": str(planned.folder)}
    return {**facts, "params": meant, "definition": planned.extension.digest}
