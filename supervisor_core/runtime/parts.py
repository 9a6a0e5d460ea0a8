"""What the daemon's services share."""

from __future__ import annotations

from dataclasses import dataclass

from supervisor_core.handlers import Host
from supervisor_core.ledger.store import Ledger


@dataclass(slots=True)
class Parts:
    """The host's doors and its ledger.

    With a new configuration `host` is replaced in one assignment, so it is read anew each time; its doors stay.
    """

    host: Host
    ledger: Ledger
