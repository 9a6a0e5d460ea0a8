"""`config.example.yaml`: every setting with its default, and the description above it."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from supervisor_core.config.schema import Settings
from supervisor_core.config.sections import Section
from tests.reference.configuration import in_yaml
from tests.reference.markdown import fill
from tests.reference.settings import CHOSEN, Setting, settings

NAMED = {"workers": "OrionMX", "teams": "archive", "commands": "clear-cache", "commands.NAME.parameters": "days"}
"""The names in the example."""

WIDTH = 118
SHORT = 110
"""Characters of a comment, unless its first sentence alone is longer."""

_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")
_SENTENCE = re.compile(r"(?<=[.!?]) (?=[A-Z0-9`])")


def page() -> str:
    return fill("config.example.yaml", {"settings": "\n".join(_section(Settings)).strip()})


def _section(model: type[Section], indent: str = "", path: str = "") -> Iterator[str]:
    for each in settings(model, path):
        if not indent and each.model is not None:
            yield ""
        if each.is_section and each.model is not None:
            yield from _comment(_short(each.model.__doc__ or ""), indent)
            yield f"{indent}{each.name}:"
            name, deeper, inner = NAMED.get(each.key, ""), f"{indent}  ", f"{each.key}."
            if name:
                yield f"{deeper}{name}:"
                deeper, inner = f"{deeper}  ", f"{each.key}.{CHOSEN[each.key]}."
            yield from _section(each.model, deeper, inner)
        else:
            yield from _setting(each, indent)


def _setting(setting: Setting, indent: str) -> Iterator[str]:
    yield from _comment(_short(setting.description), indent)
    examples = setting.examples
    if setting.model is not None:  # a list of sections: the items are shown, and aren't in force
        yield from (f"{indent}#   - {in_yaml(each)}" for each in examples)
        yield f"{indent}{setting.name}: []"
    else:
        if setting.field.required and not examples:
            raise ValueError(f"{setting.key} is required: give it an example")
        value = examples[0] if examples else setting.default
        yield f"{indent}{setting.name}: {in_yaml(value)}"


def _short(text: str) -> str:
    """The first sentence, and more while the comment stays short. Links become their words."""
    plain = _LINK.sub(r"\1", " ".join(text.split()).replace("`", ""))
    first, *others = _SENTENCE.split(plain)
    for each in others:
        if len(first) + len(each) >= SHORT:
            break
        first = f"{first} {each}"
    return first


def _comment(text: str, indent: str) -> list[str]:
    start = f"{indent}# "
    return textwrap.wrap(text, WIDTH, initial_indent=start, subsequent_indent=start, break_on_hyphens=False)
