"""Answers to mistakes: what was expected, with the nearest valid command as a button or a menu."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from bot.access.rules import AccessRules, Person, refusal
from bot.requests.request import TAB, Request
from bot.views.answers.help import TargetMenu, mistake
from bot.views.blocks import Content
from bot.views.form_fields import groups_of
from supervisor_core.commands.catalog import CATALOG, find
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError, LabelError, NearMiss, NeedsTarget
from supervisor_core.commands.targets import ALL, HOST, TEAM
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig, grammar_context

MOST_CHOICES = 100
"""Options of a menu."""

FEW = 50
"""With up to this many workers, the menu lists them before the teams; with more, not all may fit."""

COUNTED = 500
"""With more targets than this, the menu says how many there are, and not for how many the person has the right."""

LONGEST_BLOCK_ID = 255


class Mistakes:
    """Offers only what the person may do here, or help if that is nothing."""

    def __init__(self, config: SupervisorConfig, rules: AccessRules, facts: FactSource | None = None) -> None:
        self._config = config
        self._rules = rules
        self._context = grammar_context(config, facts)

    def answer(self, request: Request, error: GrammarError, person: Person | None) -> Content:
        """The message, for the person who made the mistake."""
        if isinstance(error, NeedsTarget):
            return mistake(error.message, request.nonce, choice=self._choice(request, error, person))
        said = [error.suggestion, error.otherwise if isinstance(error, NearMiss) else None]
        meant = [text for text in said if text]
        commands = [command for text in meant if (command := self._offered(text, request, person))]
        needs = None if meant else self._needs_target(error)
        choice = self._choice(request, needs, person) if needs else None
        offered = commands or ([] if choice else self._help(request, person))
        use = f"Use `{error.label}`?" if commands and isinstance(error, LabelError) else ""
        offers = [(each, self._asks(each)) for each in offered]
        return mistake(error.message, request.nonce, meant, offers, choice, use=use)

    def may_for_one(self, request: Request, error: NeedsTarget, person: Person | None) -> bool:
        """True if the person may give the command to at least one of the workers."""
        commands = (Command.for_worker(error.name, worker) for worker in error.choices)
        return any(may_press(person, each, request.channel, self._rules) for each in commands)

    def _needs_target(self, error: GrammarError) -> NeedsTarget | None:
        """The question for the worker, if only that is missing from the repaired text."""
        try:
            parse(error.repair or "", self._context)
        except NeedsTarget as needs:
            return needs
        except SupervisorError:
            return None
        return None

    def _help(self, request: Request, person: Person | None) -> list[Command]:
        """Help for the typed command, or for all commands, where there's nothing else to offer."""
        typed = request.text.split()
        definition = find(" ".join(typed[:2])) or find(" ".join(typed[:1]))
        command = Command("help", params={"topic": definition.name} if definition else {})
        return [command] if may_press(person, command, request.channel, self._rules) else []

    def _offered(self, text: str, request: Request, person: Person | None) -> Command | None:
        try:
            command = parse(text, self._context)
        except SupervisorError:  # the suggestion isn't valid here: it's shown without a button
            return None
        return command if may_press(person, command, request.channel, self._rules) else None

    def _asks(self, command: Command) -> bool:
        return self._config.needs_approval(command.name, "slack")

    def _choice(self, request: Request, error: NeedsTarget, person: Person | None) -> TargetMenu | None:
        """A menu of targets; None if the typed text is too long for the menu to keep."""
        block_id = f"{request.nonce} {error.before}{TAB}{error.after}"
        if len(block_id) > LONGEST_BLOCK_ID or not error.choices:
            return None
        try:
            command = parse(error.complete(error.choices[0]), self._context)
        except SupervisorError:  # there are other mistakes, which come up once a target is named
            return None
        # Teams, `all` and hosts come first if not everything fits.
        several = groups_of(self._context)
        targets = [*error.choices, *several] if len(error.choices) <= FEW else [*several, *error.choices]
        may = (each for each in targets if self._may_for(command, each, request, person))
        shown = list(islice(may, MOST_CHOICES))
        left = 0 if len(shown) < MOST_CHOICES else self._left(may, len(targets))
        return TargetMenu(block_id, command, shown, self._asks(command), left) if shown else None

    def _left(self, may: Iterator[str], known: int) -> int:
        """The number of further targets; with thousands, they aren't counted one by one."""
        return known - MOST_CHOICES if known > COUNTED else sum(1 for _ in may)

    def _may_for(self, command: Command, target: str, request: Request, person: Person | None) -> bool:
        workers = self._context.teams.get(target.removeprefix(TEAM), (target,))
        if target.startswith(HOST):
            workers = self._context.hosts[target.removeprefix(HOST)]
        if target == ALL:
            workers = self._context.workers
        return may_press(person, Command(command.name, target, tuple(workers)), request.channel, self._rules)


def may_press(person: Person | None, command: Command, channel: str, rules: AccessRules) -> bool:
    """True if a button with this command works for this person here."""
    return refusal(person, CATALOG[command.name], command, channel, rules) is None
