"""Answers to mistakes: what was expected, and the nearest right command as a button or a menu."""

from __future__ import annotations

from bot.access.rules import AccessRules, Person, refusal
from bot.requests.request import TAB, Request
from bot.views.answers.help import TargetMenu, mistake
from bot.views.blocks import Content
from supervisor_core.commands.catalog import CATALOG, find
from supervisor_core.commands.command import Command
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.targets import ALL, TEAM
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig, grammar_context

MOST_CHOICES = 100
"""Options of a menu."""

FEW = 50
"""Workers that stand before the teams in a menu; of more of them not all may find room in it."""

LONGEST_BLOCK_ID = 255


class Mistakes:
    """Offers only what its reader may do here, and help where that is nothing."""

    def __init__(self, config: SupervisorConfig, rules: AccessRules) -> None:
        self._config = config
        self._rules = rules
        self._context = grammar_context(config)

    def answer(self, request: Request, error: GrammarError, person: Person | None) -> Content:
        """The message, for whoever made the mistake alone."""
        if isinstance(error, NeedsTarget):
            return mistake(error.message, request.nonce, choice=self._choice(request, error, person))
        said = [error.suggestion, error.otherwise if isinstance(error, NearMiss) else None]
        meant = [text for text in said if text]
        commands = [command for text in meant if (command := self._offered(text, request, person))]
        needs = None if meant else self._needs_target(error)
        choice = self._choice(request, needs, person) if needs else None
        offered = commands or ([] if choice else self._help(request, person))
        return mistake(error.message, request.nonce, meant, [(each, self._asks(each)) for each in offered], choice)

    def may_for_one(self, request: Request, error: NeedsTarget, person: Person | None) -> bool:
        """Whether this person may give the command to one of the workers at least."""
        commands = (Command.for_worker(error.name, worker) for worker in error.choices)
        return any(may_press(person, each, request.channel, self._rules) for each in commands)

    def _needs_target(self, error: GrammarError) -> NeedsTarget | None:
        """Where what was meant is clear but for whom: that."""
        try:
            parse(error.repair or "", self._context)
        except NeedsTarget as needs:
            return needs
        except SupervisorError:
            return None
        return None

    def _help(self, request: Request, person: Person | None) -> list[Command]:
        """What helps whoever meant nothing that can be offered: all about the command that they named, or about all."""
        typed = request.text.split()
        definition = find(" ".join(typed[:2])) or find(" ".join(typed[:1]))
        command = Command("help", params={"topic": definition.name} if definition else {})
        return [command] if may_press(person, command, request.channel, self._rules) else []

    def _offered(self, text: str, request: Request, person: Person | None) -> Command | None:
        try:
            command = parse(text, self._context)
        except SupervisorError:  # what is meant is not right either: it is shown, and not offered
            return None
        return command if may_press(person, command, request.channel, self._rules) else None

    def _asks(self, command: Command) -> bool:
        return self._config.needs_approval(command.name, "slack")

    def _choice(self, request: Request, error: NeedsTarget, person: Person | None) -> TargetMenu | None:
        """A menu of targets; None where what was typed is too long to be remembered by one."""
        block_id = f"{request.nonce} {error.before}{TAB}{error.after}"
        if len(block_id) > LONGEST_BLOCK_ID or not error.choices:
            return None
        try:
            command = parse(error.complete(error.choices[0]), self._context)
        except SupervisorError:  # there is more wrong with it: that is told once a target is named
            return None
        teams = [f"{TEAM}{name}" for name, members in self._context.teams.items() if members]
        # What stands for several comes first where not all of them fit.
        several = [*teams, ALL]
        targets = [*error.choices, *several] if len(error.choices) <= FEW else [*several, *error.choices]
        may = [each for each in targets if self._may_for(command, each, request, person)]
        left = max(len(may) - MOST_CHOICES, 0)
        return TargetMenu(block_id, command, may[:MOST_CHOICES], self._asks(command), left) if may else None

    def _may_for(self, command: Command, target: str, request: Request, person: Person | None) -> bool:
        workers = self._context.teams.get(target.removeprefix(TEAM), (target,))
        if target == ALL:
            workers = self._context.workers
        return may_press(person, Command(command.name, target, tuple(workers)), request.channel, self._rules)


def may_press(person: Person | None, command: Command, channel: str, rules: AccessRules) -> bool:
    """Whether a button that gives this command would do so for this person here."""
    return refusal(person, CATALOG[command.name], command, channel, rules) is None
