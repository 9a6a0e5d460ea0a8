"""Rights as a test gives and takes them."""

from __future__ import annotations

from supervisor_core.commands.command import Command, Issuer
from supervisor_core.commands.definitions import Right
from supervisor_core.intake.approvals.rights import RightsUnknown


class FakeRights:
    """Everybody has every right that wasn't taken from them. Implements `Rights`."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, Right]] = set()
        self.unknown = ""
        """Why rights can't be verified; empty while they can."""

    def take(self, who: Issuer, right: Right) -> None:
        """Take a right from a person."""
        self.taken.add((who.id, right))

    def __call__(self, who: Issuer, command: Command, right: Right) -> str:
        """The reason for a refusal; empty if the person has the right."""
        if self.unknown:
            raise RightsUnknown(self.unknown)
        return f"They aren't allowed to use {command.name}." if (who.id, right) in self.taken else ""
