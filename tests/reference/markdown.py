"""Markdown from values: tables, units, and templates with places to fill."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

TEMPLATES = Path(__file__).with_name("templates")
_PLACE = re.compile(r"\{\{([a-z _-]+)\}\}")
_UNITS = ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second"))


def fill(template: str, places: Mapping[str, str]) -> str:
    """A template with every place filled. A place without text, or text without a place, is an error."""
    text = (TEMPLATES / template).read_text(encoding="utf-8")
    named = set(_PLACE.findall(text))
    if named != set(places):
        raise ValueError(f"{template} has places for {sorted(named)}, and there is text for {sorted(places)}")
    return _PLACE.sub(lambda match: places[match[1]].strip(), text).strip() + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table. A column that is empty in every row is left out."""
    every = [[cell(each) for each in row] for row in rows]
    shown = [place for place in range(len(head)) if any(row[place] for row in every)]
    lines = [
        [head[place] for place in shown],
        ["---"] * len(shown),
        *([row[place] for place in shown] for row in every),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())


def code(text: object) -> str:
    return f"`{text}`" if str(text) else ""


def code_list(words: Iterable[object]) -> str:
    return ", ".join(map(code, words))


def sentence(text: str) -> str:
    """Words with a capital letter at the beginning and a full stop at the end."""
    words = f"{text[:1].upper()}{text[1:]}"
    return words if not words or words.endswith((".", "?", "!", "…")) else f"{words}."


def duration(value: float | timedelta) -> str:
    """`90 days`, `1.5 seconds`: in the largest unit of which it is a whole number."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size and not seconds % size), (1, "second"))
    # A month is 30 days everywhere here; 7 days read better than a week.
    number = f"{seconds / size:g}"
    return f"{number} {unit}{'' if number == '1' else 's'}"


def interval(seconds: float) -> str:
    """`minute`, `2.5 seconds`: what stands behind *every*."""
    return duration(seconds).removeprefix("1 ")


def size(count: int) -> str:
    """`64 KB`; a thousand or 1024 of a unit alike."""
    for factor, unit in ((1024**2, "MiB"), (1024, "KiB"), (1000**2, "MB"), (1000, "KB")):
        if count >= factor and not count % factor:
            return f"{count // factor:,} {unit}"
    return f"{count:,} bytes"


def attribute_docs(owner: type) -> Mapping[str, str]:
    """The docstring below each member of an enumeration or field of a class, by its name."""
    [node] = ast.parse(inspect.getsource(owner)).body
    assert isinstance(node, ast.ClassDef)
    found = {}
    for before, after in zip(node.body, node.body[1:], strict=False):
        targets = [before.target] if isinstance(before, ast.AnnAssign) else getattr(before, "targets", [None])
        name = targets[0]
        if isinstance(name, ast.Name) and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            found[name.id] = inspect.cleandoc(str(after.value.value))
    return found
