"""The desk as a shell works at it: with the doors of this host, which are opened only where they are needed."""

from __future__ import annotations

from dataclasses import replace

from supervisor_core.config import SupervisorConfig
from supervisor_core.desk.approvals import Approvals
from supervisor_core.desk.observing import Previews
from supervisor_core.domain.command import Command
from supervisor_core.ledger.store import Ledger


def approvals_of(config: SupervisorConfig, ledger: Ledger) -> Approvals:
    """The approvals of this host."""

    def observe(command: Command) -> Previews:
        from supervisor_core.desk.observing import observer  # with the next one, dear to import: not all look at code
        from supervisor_core.runtime.doors import open_doors

        host = replace(open_doors(config), ledger=ledger)
        return observer(lambda: host)(command)

    return Approvals(ledger, lambda: config, observe)
