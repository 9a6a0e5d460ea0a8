"""What the daemon's services share."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor_core.handlers import Host
from supervisor_core.ledger.store import Ledger


@dataclass(frozen=True, slots=True)
class Parts:
    """The host's doors and its ledger."""

    host: Host
    ledger: Ledger
