"""Help texts, made from the catalog. The commands reference is made from the same parts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, Spread, TargetRule
from supervisor_core.commands.labels import MAX_LABEL

EXAMPLE, BEGUN = "OrionMX", 5
"""The worker in the examples of the catalog, and so many letters of it before the star of a pattern."""

TITLES = {
    Risk.READS: "To see (changes nothing)",
    Risk.CHANGES: "To act",
    Risk.DANGEROUS: "To change the code that a worker runs",
}
_TARGETS = {
    TargetRule.WORKERS: "a worker, team:NAME, a pattern such as a*, or all; "
    "left out: the only worker, or the default one",
    TargetRule.FILTER: "a worker, team:NAME, a pattern such as a*, or all; left out: everything",
}
_RIGHTS = {Right.VIEWER: "viewers", Right.OPERATOR: "operators", Right.APPROVER: "approvers"}
_SPREADS = {
    Spread.AT_ONCE: "Several workers: all at once.",
    Spread.IN_TURN: "Several workers: one after the other, in their order, up to the first failure.",
}
_LABEL = f"why, in up to {MAX_LABEL} letters, digits, spaces, hyphens and underscores"


def help_text(definition: CommandDefinition, worker: str = EXAMPLE) -> str:
    """All about one command. `worker`: one that its reader knows, to be named in the examples."""
    lines = [definition.usage, definition.summary]
    rows = argument_rows(definition)
    if rows:
        width = max(len(name) for name, _ in rows)
        lines += ["", *(f"  {name.ljust(width)}  {text}" for name, text in rows)]
    if definition.examples:
        of_pattern = f"{EXAMPLE[:BEGUN]}*", f"{worker[:BEGUN]}*"
        examples = [each.replace(EXAMPLE, worker).replace(*of_pattern) for each in definition.examples]
        lines += ["", "Examples:", *(f"  {example or '(nothing at all)'}" for example in examples)]
    lines += ["", *remarks(definition)]
    return "\n".join(lines)


def help_overview(definitions: Iterable[CommandDefinition]) -> str:
    """One line for each command, by what it may do."""
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
    return "\n\n".join([*parts, "help COMMAND says more about one."])


def argument_rows(definition: CommandDefinition) -> list[tuple[str, str]]:
    """The arguments of a command, each with its description."""
    rows = []
    if definition.target is not TargetRule.NONE:
        rows.append(("target", _TARGETS[definition.target]))
    parameters = definition.written
    rows += [(parameter.usage.strip("[]"), parameter.description) for parameter in parameters]
    if definition.takes_label:
        rows.append(("label…", _LABEL))
    return rows


def remarks(definition: CommandDefinition) -> list[str]:
    """Who may give a command, its order on several workers, its aliases and its audit action."""
    found = [f"For {_RIGHTS[definition.right]}."]
    if definition.target is TargetRule.WORKERS:
        found.append(_SPREADS[definition.spread])
    if definition.needs_approval:
        found.append("Needs an approval, unless the configuration says otherwise.")
    if definition.notes:
        found.append(definition.notes)
    if definition.aliases:
        found.append(f"Also: {', '.join(definition.aliases)}.")
    if definition.audit_action:
        found.append(f"In the audit trail: {definition.audit_action}.")
    return found
