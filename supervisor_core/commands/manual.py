"""Help in plain words, and the reference page of all commands: both follow from the catalog. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import CommandDefinition, Right, Risk, Spread, TargetRule
from supervisor_core.commands.labels import MAX_LABEL

EXAMPLE, BEGUN = "OrionMX", 5
"""The worker in the examples of the catalog, and so many letters of it before the star of a pattern."""

_TITLES = {
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
_PREFACE = """\
# Commands

The same words work as `/supervisor …` in Slack, in a mention of the bot, in a direct message to it, and in
`supervisor send '…'`. In brackets is what may be left out. `help COMMAND`, given in the same way, says the same as
this page.

- **Target**: a worker id, `team:NAME`, a pattern such as `a*`, or `all`, right after the command. A word that
  nearly names a worker is asked about, never guessed.
- **Quotes**: words in double quotes are always text: a label, a reason, a name. Two double quotes in a row
  inside them are one. Where a number or a duration may stand, what starts like one is one; a label or reason
  that starts like one goes into double quotes.
- **Label**: up to 100 letters A-Z, digits, spaces, hyphens and underscores. It goes into the audit trail.
- **One line** of at most 2,000 characters.

This page is made from the catalog of commands, with
`python -m supervisor_core.commands.manual > docs/reference/commands.md`.
"""


def help_text(definition: CommandDefinition, worker: str = EXAMPLE) -> str:
    """All about one command. `worker`: one that its reader knows, to be named in the examples."""
    lines = [definition.usage, definition.summary]
    rows = _rows(definition)
    if rows:
        width = max(len(name) for name, _ in rows)
        lines += ["", *(f"  {name.ljust(width)}  {text}" for name, text in rows)]
    if definition.examples:
        of_pattern = f"{EXAMPLE[:BEGUN]}*", f"{worker[:BEGUN]}*"
        examples = [each.replace(EXAMPLE, worker).replace(*of_pattern) for each in definition.examples]
        lines += ["", "Examples:", *(f"  {example or '(nothing at all)'}" for example in examples)]
    lines += ["", *_remarks(definition)]
    return "\n".join(lines)


def help_overview(definitions: Iterable[CommandDefinition]) -> str:
    """One line for each command, by what it may do."""
    every = tuple(definitions)
    width = max((len(definition.usage) for definition in every), default=0)
    parts = []
    for risk, title in _TITLES.items():
        lines = [
            f"  {definition.usage.ljust(width)}  {definition.summary}"
            for definition in every
            if definition.risk is risk
        ]
        if lines:
            parts.append("\n".join([title, *lines]))
    return "\n\n".join([*parts, "help COMMAND says more about one."])


def reference_page(definitions: Iterable[CommandDefinition]) -> str:
    """The page docs/reference/commands.md, in Markdown."""
    every = tuple(definitions)
    parts = [_PREFACE]
    for risk, title in _TITLES.items():
        parts.append(f"## {title}\n")
        parts.extend(_entry(definition) for definition in every if definition.risk is risk)
    return "\n".join(parts)


def _entry(definition: CommandDefinition) -> str:
    lines = [f"### {definition.name}", "", f"`{definition.usage}`", "", definition.summary, ""]
    rows = _rows(definition)
    if rows:
        lines += ["| argument | what it is |", "| --- | --- |"]
        lines += [f"| `{_cell(name)}` | {_cell(text)} |" for name, text in rows]
        lines.append("")
    examples = [f"`{example}`" for example in definition.examples if example]
    if examples:
        lines += [f"Examples: {' · '.join(examples)}", ""]
    lines += [" ".join(_remarks(definition)), ""]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _rows(definition: CommandDefinition) -> list[tuple[str, str]]:
    rows = []
    if definition.target is not TargetRule.NONE:
        rows.append(("target", _TARGETS[definition.target]))
    parameters = definition.written
    rows += [(parameter.usage.strip("[]"), parameter.description) for parameter in parameters]
    if definition.takes_label:
        rows.append(("label…", _LABEL))
    return rows


def _remarks(definition: CommandDefinition) -> list[str]:
    remarks = [f"For {_RIGHTS[definition.right]}."]
    if definition.target is TargetRule.WORKERS:
        remarks.append(_SPREADS[definition.spread])
    if definition.needs_approval:
        remarks.append("Needs an approval, unless the configuration says otherwise.")
    if definition.notes:
        remarks.append(definition.notes)
    if definition.aliases:
        remarks.append(f"Also: {', '.join(definition.aliases)}.")
    if definition.audit_action:
        remarks.append(f"In the audit trail: {definition.audit_action}.")
    return remarks


if __name__ == "__main__":
    import sys

    sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]
    sys.stdout.write(reference_page(CATALOG.values()))
