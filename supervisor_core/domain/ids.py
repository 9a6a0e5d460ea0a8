"""Random ids that people can read and type."""

from __future__ import annotations

import secrets
import string

SHORT = 8
"""Letters of an id that people type: 2.8 million million of them."""

_ALPHABET = string.ascii_lowercase + string.digits


def random_id(letters: int = SHORT) -> str:
    """Lowercase letters and digits; nobody can guess the next one."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(letters))
