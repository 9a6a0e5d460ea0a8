"""The configuration reference, from the models of the settings."""

from __future__ import annotations

import re
from typing import Any

import yaml

from supervisor_core.config.fields import MONTH, WEEK
from supervisor_core.config.raw import MAX_BYTES, MAX_DEPTH, MAX_NODES
from supervisor_core.config.worker_settings import LAUNCH
from tests.reference.markdown import code, code_list, fill, table
from tests.reference.settings import SectionPage, Setting, sections

PLAIN = re.compile(r"[A-Za-z0-9./][A-Za-z0-9./@ _-]*")
"""Text that may need no quotes in YAML."""

HEAD = ("key", "type", "default", "description")


def page() -> str:
    first, *others = sections()
    examples = {each.key: each.examples for section in others for each in section.settings if each.is_list}
    return fill(
        "configuration.md",
        {
            "outermost": _table(SectionPage("", "", tuple(each for each in first.settings if each.model is None))),
            "sections": "\n\n".join(_section(each, examples.get(each.key.removesuffix("[]"), [])) for each in others),
            "restarting": code_list(LAUNCH),
            "bounds": f"{MAX_BYTES:,} bytes, {MAX_DEPTH} levels and {MAX_NODES:,} values",
            "longest": f"{WEEK:,} seconds (a week) or {MONTH:,} minutes (a month)",
        },
    )


def _section(section: SectionPage, examples: list[Any]) -> str:
    level = "##" if "." not in section.key or section.key in ("workers.ID", "teams.NAME", "commands.NAME") else "###"
    parts = [f"{level} {section.key}", section.description, _table(section)]
    if section.key.endswith("[]") and examples:
        name = section.key.removesuffix("[]").rpartition(".")[2]
        items = "\n".join(f"  - {in_yaml(each)}" for each in examples)
        parts.append(f"```yaml\n{name}:\n{items}\n```")
    return "\n\n".join(parts)


def _table(section: SectionPage) -> str:
    return table(HEAD, ((code(each.key), each.kind, _default(each), _description(each)) for each in section.settings))


def _default(setting: Setting) -> str:
    if setting.field.default is None and "[]" in setting.key:
        return "none"
    return "required" if setting.field.required else code(in_yaml(setting.default))


def _description(setting: Setting) -> str:
    if not setting.description:
        raise ValueError(f"{setting.key} has no description: write a docstring below it in supervisor_core/config")
    return setting.description


def in_yaml(value: Any) -> str:
    """A value on one line of YAML; text that is no plain word is in double quotes."""
    if isinstance(value, str):
        plain = PLAIN.fullmatch(value) and yaml.safe_load(value) == value
        return value if plain else f'"{value}"'
    if isinstance(value, list):
        items = list(map(in_yaml, value))
        if any(item.startswith('"') for item in items):  # a mixture is hard to read
            items = [item if item.startswith('"') else f'"{item}"' for item in items]
        return f"[{', '.join(items)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {in_yaml(each)}" for key, each in value.items()) + "}"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)
