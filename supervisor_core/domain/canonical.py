"""One written form for JSON: sorted keys, no spaces, ASCII only. What is hashed, signed or compared goes through it."""

from __future__ import annotations

import json
from typing import Any


def canonical_json(value: Any) -> str:  # noqa: ANN401 (JSON of any shape)
    """The same value gives the same text, on every machine and in every database."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, default=_plain)


def _plain(value: object) -> object:
    """What JSON does not know but our values use: mappings and tuples that are not dict and list."""
    if hasattr(value, "items"):
        return dict(value.items())
    if isinstance(value, (set, frozenset)):
        return sorted(value)
    return str(value)
