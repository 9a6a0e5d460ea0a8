"""The chat of a daemon. The core imports none: a distribution registers a plugin under an entry point."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Protocol

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service import Service
from supervisor_core.config.load import SupervisorConfig

if TYPE_CHECKING:
    from supervisor_core.commands.command import Command, Issuer
    from supervisor_core.commands.definitions import Right
    from supervisor_core.config.slack_credentials import SlackCredentials
    from supervisor_core.doctor.checks import Check
    from supervisor_core.fleet.hosts import Hosts
    from supervisor_core.intake.approvals.rights import Rights
    from supervisor_core.intake.approvals.service import Approvals
    from supervisor_core.intake.schedules.rules import Schedule
    from supervisor_core.intake.schedules.runner import ScheduledAnswer
    from supervisor_core.storage.store import Ledger

GROUP = "supervisor.chat"
"""The entry point group in which a distribution registers its chat."""

CHAT = "slack"
"""The entry point that the configuration's section `slack` belongs to."""


class Chat(Service, ABC):
    """The service in which people give commands and see their results."""

    def figures(self) -> Mapping[str, float]:
        return {}

    @abstractmethod
    def configured(self, config: SupervisorConfig) -> None:
        """These workers and teams are active from now on."""


class ChatConnection(Protocol):
    """A chat before it runs, with what others ask it from any thread."""

    def check_right(self, who: Issuer, command: Command, right: Right) -> str:
        """The reason for a refusal now; empty if the person has the right."""

    def answer(self, schedule: Schedule, command: Command) -> ScheduledAnswer:
        """The answer of a scheduled command; a retryable error if there's none now."""

    def service(self, approvals: Approvals, hosts: Hosts) -> Chat: ...


class ChatPlugin(Protocol):
    def connect(
        self, config: SupervisorConfig, ledger: Ledger, credentials: SlackCredentials, host_rights: Rights
    ) -> ChatConnection:
        """Prepare the service; `host_rights` decides where the chat is away."""

    def checks(self) -> Sequence[Check]:
        """The rows for the table of `supervisor doctor`."""

    def manifest(self) -> str:
        """The manifest of the chat's app, to be pasted by an administrator."""

    def run_demo(self, port: int, *, tour: bool, fleet: bool) -> int:
        """Run `supervisor demo`; returns its exit code."""


def installed_chat() -> ChatPlugin:
    """Load the chat that is installed beside the core."""
    for entry in entry_points(group=GROUP, name=CHAT):
        plugin: ChatPlugin = entry.load()()
        return plugin
    raise SupervisorError(
        f"No chat is installed: no package provides the entry point {CHAT} in the group {GROUP}.",
        remedy="Reinstall supervisor-chatops. In a checkout: python -m pip install --no-deps --editable .",
    )
