"""Answers to mistakes: what was expected, with the command that was probably meant, or a menu of targets."""

from __future__ import annotations

from contextlib import suppress
from itertools import islice

from bot.access.rules import AccessRules, Person, refusal
from bot.requests.request import TAB, Request
from bot.views.answers.help import TargetMenu, mistake
from bot.views.blocks import Content
from bot.views.form_fields import groups_of
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.grammar import parse
from supervisor_core.commands.grammar_errors import GrammarError, NeedsTarget
from supervisor_core.commands.targets import ALL, HOST, TEAM
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig, grammar_context

MOST_CHOICES = 100
"""Options of a menu."""

FEW = 50
"""With up to this many workers, the menu lists them before the teams; with more, not all may fit."""

LONGEST_BLOCK_ID = 255


class Mistakes:
    """Offers only what the person may do here."""

    def __init__(self, config: SupervisorConfig, rules: AccessRules, facts: FactSource | None = None) -> None:
        self._config = config
        self._rules = rules
        self._context = grammar_context(config, facts)

    def answer(self, request: Request, error: GrammarError, person: Person | None) -> Content:
        """The message, for the person who made the mistake."""
        if isinstance(error, NeedsTarget):
            return mistake(error.message, request.nonce, choice=self._choice(request, error, person))
        command, suggestion = None, error.suggestion or ""
        with suppress(SupervisorError):  # with other mistakes, it's shown without a button
            command = parse(suggestion, self._context) if suggestion else None
        if command is not None and not may_press(person, command, request.channel, self._rules):
            command = None
        return mistake(error.message, request.nonce, suggestion, command, asks=bool(command and self._asks(command)))

    def may_for_one(self, request: Request, error: NeedsTarget, person: Person | None) -> bool:
        """True if the person may give the command to at least one of the workers."""
        commands = (Command.for_worker(error.name, worker) for worker in error.choices)
        return any(may_press(person, each, request.channel, self._rules) for each in commands)

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
        shown = list(islice(may, MOST_CHOICES + 1))
        more = len(shown) > MOST_CHOICES
        return TargetMenu(block_id, command, shown[:MOST_CHOICES], self._asks(command), more) if shown else None

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
