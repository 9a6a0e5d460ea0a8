"""Addresses as they may be told: a mask in the place of what may be a secret in them."""

from __future__ import annotations

import re

MASK = "****"

_QUERY = re.compile(r"(/[^\s?#]{0,500})\?[^\s#]+")
"""In which a signed address has its signature, and another one its token."""


def without_query(text: str) -> str:
    """A text whose addresses have no query, also where it tells but the end of one."""
    return _QUERY.sub(rf"\1?{MASK}", text)
