"""The Slack bot as a plugin of the supervisor, registered under the entry point group `supervisor.chat`.

Each method imports what it needs when it is called: the doctor needs no demo, and the daemon needs no doctor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from supervisor_core.config.load import SupervisorConfig
    from supervisor_core.config.slack_credentials import SlackCredentials
    from supervisor_core.daemon.chat import ChatConnection
    from supervisor_core.doctor.checks import Check
    from supervisor_core.intake.approvals.rights import Rights
    from supervisor_core.storage.store import Ledger


class SlackPlugin:
    """Provides the service, the rights, the answers to schedules, the doctor's checks and the demo."""

    def connect(
        self, config: SupervisorConfig, ledger: Ledger, credentials: SlackCredentials, host_rights: Rights
    ) -> ChatConnection:
        """Prepare the Slack service; `host_rights` decides where Slack is away."""
        from bot.service import ChatBridge

        return ChatBridge(config, ledger, credentials, host_rights)

    def checks(self) -> Sequence[Check]:
        """Slack's rows for the table of `supervisor doctor`."""
        from bot.doctor.table import SLACK_CHECKS

        return SLACK_CHECKS

    def manifest(self) -> str:
        from bot.scopes import manifest

        return manifest()

    def run_demo(self, port: int, *, tour: bool, fleet: bool) -> int:
        """Run `supervisor demo`; returns its exit code."""
        from bot.demo.command import run

        return run(port=port, guided=tour, fleet=fleet)
