"""Rights as tests set them: who may, and whether that can be found out at all."""

from __future__ import annotations

from supervisor_core.desk.rights import RightsUnknown
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.definitions import Right


class FakeRights:
    """Everybody may everything, unless it was taken from them. Implements `Rights`."""

    def __init__(self) -> None:
        self.taken: set[tuple[str, Right]] = set()
        self.unknown = ""
        """Why nobody's rights can be found out; empty while they can."""

    def take(self, who: Issuer, right: Right) -> None:
        """From now on they may not."""
        self.taken.add((who.id, right))

    def __call__(self, who: Issuer, command: Command, right: Right) -> str:
        """Why they may not; empty where they may."""
        if self.unknown:
            raise RightsUnknown(self.unknown)
        return f"{command.name} is not for them." if (who.id, right) in self.taken else ""
