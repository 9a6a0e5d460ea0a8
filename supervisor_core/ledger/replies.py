"""What stands in the thread of another message, as rows: it is told once that message stands, and never before it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

FILE = "file"
"""The kind of outbox row that becomes a file: in a thread, in a channel, or with one person alone. Told once."""


def below(kind: str, subject: str) -> Mapping[str, Any]:
    """The place below a message: in its thread, wherever it stands by the time when this is told."""
    return {"below": {"kind": kind, "subject": subject}}
