"""Help texts, made from the catalog. The commands reference is made from the same parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, Spread, TargetRule
from supervisor_core.commands.labels import MAX_LABEL
from supervisor_core.common.times import format_span

EXAMPLE, BEGUN = "OrionMX", 5
"""The worker in the examples of the catalog, and so many letters of it before the star of a pattern."""

TITLES = {
    Risk.READS: "View",
    Risk.CHANGES: "Actions",
    Risk.DANGEROUS: "Code changes",
}
_TARGET = "a worker, team:NAME, host:NAME, a pattern such as a*, all, or where state=stale"
_RIGHTS = {Right.VIEWER: "viewer", Right.OPERATOR: "operator", Right.APPROVER: "approver"}
_SPREADS = {
    Spread.AT_ONCE: "Runs on several workers at once.",
    Spread.IN_TURN: "Runs on several workers one after the other, and stops at the first failure.",
    Spread.LIMITED: "Runs on up to `supervisor.parallel` workers at once. After a failure, no new ones begin.",
}
_LABEL = f"a reason of up to {MAX_LABEL} letters, digits, spaces, hyphens and underscores"


def help_text(definition: CommandDefinition, worker: str = EXAMPLE, workers: int = 2) -> str:
    """The help for one command, with a worker for its examples and the number of workers on the host."""
    lines = [definition.usage, definition.summary]
    rows = argument_rows(definition, workers)
    if rows:
        width = max(len(name) for name, _ in rows)
        lines += ["", *(f"  {name.ljust(width)}  {text}" for name, text in rows)]
    if definition.examples:
        of_pattern = f"{EXAMPLE[:BEGUN]}*", f"{worker[:BEGUN]}*"
        options = [each.option for each in definition.spread_options if workers <= 1]
        examples = [each for each in definition.examples if not any(option in each for option in options)]
        examples = [each.replace(EXAMPLE, worker).replace(*of_pattern) for each in examples]
        lines += ["", "Examples:", *(f"  {example or '(no command)'}" for example in examples)]
    lines += ["", *remarks(definition, workers)]
    return "\n".join(lines)


def help_overview(definitions: Iterable[CommandDefinition]) -> str:
    """One line for each command, grouped by its risk."""
    every = tuple(definitions)
    width = max((len(definition.usage) for definition in every), default=0)
    parts = []
    for risk, title in TITLES.items():
        lines = [
            f"  {definition.usage.ljust(width)}  {definition.summary}"
            for definition in every
            if definition.risk is risk
        ]
        if lines:
            parts.append("\n".join([title, *lines]))
    return "\n\n".join([*parts, "help COMMAND shows all arguments and examples."])


def argument_rows(definition: CommandDefinition, workers: int = 2) -> list[tuple[str, str]]:
    """The arguments of a command, each with its description."""
    rows = []
    if definition.target is not TargetRule.NONE:
        rows.append(("target", f"{_TARGET}{_default_target(definition, workers)}"))
    parameters = (*definition.written_for(workers), *definition.note_parameters)
    rows += [(parameter.usage.strip("[]"), parameter.description) for parameter in parameters]
    if definition.takes_label:
        rows.insert(-1, ("label…", _LABEL))
    return rows


def _default_target(definition: CommandDefinition, workers: int) -> str:
    if workers == 1:
        return ""
    return " (default: all)" if definition.risk is Risk.READS else " (default: the only or the configured worker)"


def remarks(definition: CommandDefinition, workers: int = 2) -> list[str]:
    """The role that a command needs, its order on several workers, its approval and its aliases."""
    found = [f"Requires the {_RIGHTS[definition.right]} role."]
    added = definition.extension
    if definition.runs_on_host:
        found.append("Runs once for each host of the target.")
    elif definition.handler is not None and workers > 1:
        found.append(_SPREADS[definition.spread])
    if definition.needs_approval:
        found.append("Requires an approval by default.")
    if added is not None:
        found.append(f"Defined in {added.origin}; time limit {format_span(added.timeout)}.")
    aliases = [alias for alias in definition.aliases if "_" not in alias]  # the others are names of handlers
    if aliases:
        found.append(f"Aliases: {', '.join(aliases)}.")
    return found
