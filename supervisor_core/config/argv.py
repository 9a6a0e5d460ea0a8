"""Placeholders in a command: `{python}`, `{config}` and `{worker_id}`; a brace itself is written twice."""

from __future__ import annotations

import re
from collections.abc import Mapping

from supervisor_core.domain.nearest import nearest

PLACEHOLDERS = ("python", "config", "worker_id")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def fill(word: str, values: Mapping[str, str]) -> str:
    """One word of a command with its placeholders filled; it was checked by `fault` before."""
    return _PIECE.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], word)


def fault(word: str, *, quote: bool) -> str | None:
    """What is wrong with the placeholders of a word; with `quote` false the word is a secret."""
    for match in _PIECE.finditer(word):
        if match[0] in ("{{", "}}") or match[1] in PLACEHOLDERS:
            continue
        name = match[1]
        known = "{python}, {config} and {worker_id}"
        if name is None or not re.fullmatch(r"[A-Za-z_-]{1,30}", name) or not quote:
            return f"has a brace that is no placeholder: these are {known}; a brace itself is written twice"
        near = nearest(name, PLACEHOLDERS)
        meant = f"did you mean {{{near}}}?" if near else f"there are {known}"
        return f"has the placeholder {{{name}}}, which is none; {meant}"
    return None
