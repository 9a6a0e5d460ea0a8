"""A command as a list of the newest ones has it: one value, however many workers it was for."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from supervisor_core.domain.command import Issuer


@dataclass(frozen=True, slots=True)
class Recent:
    """A command, and how far it is with its workers."""

    task_id: str
    handler: str
    issuer: Issuer
    label: str | None
    filed_at: datetime
    workers: tuple[str, ...]
    """The first few by name."""
    count: int
    ended: int = 0
    failed: int = 0
    """Of those that have ended."""
    interrupted: int = 0
    """Of those that have failed."""
