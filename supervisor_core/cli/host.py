"""Shared by the subcommands: the approvals of this host, its daemon, its person, and the option `--since`."""

from __future__ import annotations

import os
from dataclasses import replace

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.errors import UsageError
from supervisor_core.common.times import EXPECTED, parse_since
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.intake.approvals.observed_state import Previews
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.storage.store import Ledger


def approvals_of(config: SupervisorConfig, ledger: Ledger) -> Approvals:
    """The approvals of this host."""

    def observe(command: Command) -> Previews:
        from supervisor_core.intake.approvals.observed_state import observer
        from supervisor_core.workers.context import open_doors

        host = replace(open_doors(config), ledger=ledger)
        return observer(lambda: host)(command)

    return Approvals(ledger, lambda: config, observe)


def wake(config: SupervisorConfig) -> bool:
    """Have it look at what is new; False where none runs. One that does not answer in time finds it by itself."""
    try:
        ask(str(config.state_dir), {"do": "wake"})
    except NotRunningError:
        return False
    except UnresponsiveError:
        return True
    return True


def shell_issuer() -> Issuer:
    """`cli:anna`, by the user that the system knows, not by what the environment claims."""
    try:
        import pwd

        name = pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        import getpass

        name = getpass.getuser() if os.name == "nt" else str(os.getuid())
    return Issuer(f"cli:{name}", name)


def since_option(text: str | None) -> str | None:
    """The option `--since` as the grammar has it; `UsageError` where it is no time."""
    if text is None:
        return None
    since = parse_since(text)
    if since is None:
        raise UsageError(f"--since {text!a} is no time: it is {EXPECTED}, or a date such as 2026-01-31.")
    return since
