"""The commands reference, from the catalog."""

from __future__ import annotations

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.labels import MAX_LABEL, MAX_NOTE
from supervisor_core.commands.manual import TITLES, argument_rows, remarks
from supervisor_core.commands.words import MAX_TEXT
from tests.reference.markdown import code, fill, sentence, table


def page() -> str:
    return fill(
        "commands.md",
        {
            "overview": table(("command", "description"), (_row(each) for each in CATALOG.values())),
            "commands": "\n\n".join(map(_section, TITLES)),
            "longest label": str(MAX_LABEL),
            "longest note": str(MAX_NOTE),
            "longest command": f"{MAX_TEXT:,}",
        },
    )


def _row(definition: CommandDefinition) -> tuple[str, str]:
    return f"[`{definition.name}`](#{definition.name.replace(' ', '-')})", definition.summary


def _section(risk: object) -> str:
    entries = (_entry(each) for each in CATALOG.values() if each.risk is risk)
    return "\n\n".join([f"## {TITLES[risk]}", *entries])  # type: ignore[index]


def _entry(definition: CommandDefinition) -> str:
    arguments = [(code(name), sentence(text)) for name, text in argument_rows(definition)]
    examples = [each for each in definition.examples if each]
    parts = [f"### {definition.name}", definition.summary, f"```text\n{definition.usage}\n```"]
    if arguments:
        parts.append(table(("argument", "description"), arguments))
    if len(examples) > 1:
        parts.append("Examples:\n\n```text\n" + "\n".join(examples) + "\n```")
    recorded = f"Recorded as `{definition.audit_action}`." if definition.audit_action else ""
    return "\n\n".join([*parts, " ".join(filter(None, [*remarks(definition), recorded]))])
