"""What somebody may be offered: in help, in a picker of commands, as buttons."""

from __future__ import annotations

from bot.access import Person, may_give, may_see
from bot.judging import Judging
from bot.mistakes import may_press
from supervisor_core.config import SupervisorConfig
from supervisor_core.config.context import example_worker
from supervisor_core.domain.catalog import CATALOG, OVERVIEW
from supervisor_core.domain.command import Command
from supervisor_core.domain.definitions import CommandDefinition, TargetRule

WITHOUT_A_FORM = frozenset({OVERVIEW, "help"})
"""What a menu of commands does not offer: it is one itself."""


class Offering:
    """By the configuration that is in force, and by what Slack says of people."""

    def __init__(self, config: SupervisorConfig, judging: Judging) -> None:
        self._config = config
        self._judging = judging

    @property
    def example(self) -> str:
        """A worker of this host, for what shows how commands are typed."""
        return example_worker(self._config)

    def known(self, person: Person | None) -> list[CommandDefinition]:
        """All commands that this person may give to some worker at least."""
        return [each for each in CATALOG.values() if may_see(person, each, self._judging.rules)]

    def in_a_form(self, person: Person | None) -> list[CommandDefinition]:
        """Those for which a form can be opened here."""
        return [
            each
            for each in self.known(person)
            if each.name not in WITHOUT_A_FORM
            if self._config.workers or each.target is not TargetRule.WORKERS
        ]

    async def to_user(self, user: str) -> list[CommandDefinition]:
        """What a form may offer the person with this id."""
        return self.in_a_form(await self._judging.known(user))

    def may_press(self, person: Person | None, name: str, worker_id: str, channel: str) -> bool:
        """Whether a button with this command for this worker would do so for them there."""
        return self.may_give(person, Command(name, workers=(worker_id,)), channel)

    def may_give(self, person: Person | None, command: Command, channel: str) -> bool:
        """Whether a button with exactly this command would do so."""
        return may_press(person, command, channel, self._judging.rules)

    def may_fill_in(self, person: Person | None, name: str, worker_id: str) -> bool:
        """Whether the form of a command for this worker would do so for them, in a place where commands are taken."""
        command = Command(name, workers=(worker_id,))
        return may_give(person, command, self._judging.rules) is None

    def asks(self, name: str) -> bool:
        """Whether a command needs an approval when it is given in Slack."""
        return self._config.needs_approval(name, "slack")
