"""The arguments of one command: target, options and parameters in any order, then the label or reason, then the note.

Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from supervisor_core.commands.catalog import FAMILIES, check_params, find, nearest_command
from supervisor_core.commands.conditions import Clause, is_condition_word, read_clause
from supervisor_core.commands.definitions import NOTE, CommandDefinition, Risk, TargetRule
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.labels import clean_label
from supervisor_core.commands.parameters import (
    Parameter,
    ParameterError,
    ParameterKind,
    is_cron_field,
    is_option,
    looks_like,
    read_word,
    words_of_time,
)
from supervisor_core.commands.targets import (
    NO_CONDITION,
    NO_WORKERS,
    WORKER_ID,
    GrammarContext,
    ask_if_nearly,
    canonical_target,
    is_short_name,
    resolve,
    unknown_target,
    workers_named,
)
from supervisor_core.commands.words import Word, excerpt, join_words, with_word
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import nearest

_CRON_FIELDS = 5
_WHOLE_REST = (ParameterKind.COMMAND, ParameterKind.TOPIC)
_ANY_KIND = (ParameterKind.NAME, ParameterKind.CRON, ParameterKind.CHOICE)


class Arguments:
    """Reads the words of one command from left to right, and holds what they mean."""

    def __init__(
        self, definition: CommandDefinition, words: Sequence[Word], start: int, context: GrammarContext
    ) -> None:
        self.definition = definition
        self.words = words
        self.start = start
        self.context = context
        self.values: dict[str, Any] = {}
        self.label: str | None = None
        self.target: str | None = None
        self.workers: tuple[str, ...] = ()
        self._at = start
        self._first = True
        self._unknown: str | None = None
        """The word that would be a worker's id, if there were such a worker."""
        self._pending = [
            parameter
            for parameter in definition.parameters
            if not parameter.keyword and parameter.kind not in (ParameterKind.FLAG, ParameterKind.TEXT)
        ]

    def read(self) -> Sequence[Word]:
        """Read all words. Returns the words of a command inside this one, which the caller reads."""
        try:
            while self._at < len(self.words):
                word = self.words[self._at]
                if self._takes_rest() and not (word.is_note and self._pending[0].kind is ParameterKind.TOPIC):
                    return self._take_rest()
                if not self._argument(word):
                    break
            self._text(self.words[self._at :])
        except GrammarError as error:
            if error.instead:
                error.suggest(with_word(self.words, self._at, error.instead))
            raise
        return ()

    def choose_target(self) -> tuple[str, tuple[str, ...]]:
        """The target and its workers; `NeedsTarget` where the person must choose."""
        rule, workers = self.definition.target, self.context.workers
        if self.target is not None:
            return self.target, self.workers
        if rule is not TargetRule.WORKERS:
            return "", ()
        if not workers:
            raise GrammarError(NO_WORKERS)
        if self.definition.risk is Risk.READS:
            return self.context.every_worker, workers
        default = self.context.default
        if default is not None:
            return default, (default,)
        before, after = join_words(self.words[: self.start]), join_words(self.words[self.start :])
        raise NeedsTarget(self.definition.name, workers, before=before, after=after, unknown=self._unknown)

    def check_parameters(self) -> Mapping[str, Any]:
        """All parameters, by the same rules as those of a flag."""
        try:
            return check_params(self.definition, self.values)
        except ParameterError as error:
            raise GrammarError(f"{error.typed} Usage: {self.definition.usage}.") from None

    def _argument(self, word: Word) -> bool:
        """Take one argument; False where the label, the reason or the note begins."""
        if word.is_note:
            return False
        if is_option(word):
            self._option(word)
        elif not self._keyword(word) and not self._take_target(word):
            if not self._positional(word):
                return False
            self._first = False
        self._at += 1
        return True

    def _option(self, word: Word) -> None:
        said = word.text.lower().replace("_", "-")
        for parameter in self.definition.options:
            if parameter.option == said:
                self._take_option(parameter)
                return
        left_out = () if len(self.context.workers) > 1 else self.definition.spread_options
        known = [each.option for each in self.definition.options if each not in left_out]
        expected = f"Options: {', '.join(known)}." if known else "It has no options."
        raise GrammarError(
            f"{self.definition.name} has no option {excerpt(word.text)}. {expected} "
            f"If it's meant as text, put it in double quotes.",
            # Who writes --no-reset wants anything but --reset.
            instead=None if said.startswith("--no-") else nearest(said, known),
        )

    def _take_option(self, parameter: Parameter) -> None:
        """Take an option, with the value after it if it has one."""
        if parameter.kind is ParameterKind.FLAG:
            self.values[parameter.name] = True
            return
        value = self.words[self._at + 1] if self._at + 1 < len(self.words) else None
        if value is None or value.is_note or is_option(value):
            raise GrammarError(f"Add a value after {parameter.option}: {parameter.usage.strip('[]')}.")
        self._at += 1
        self.values[parameter.name] = read_word(parameter, value)

    def _keyword(self, word: Word) -> bool:
        if word.quoted:
            return False
        said = word.text.lower()
        parameter = self.definition.keywords.get(said)
        if parameter is None:
            return False
        if parameter.name in self.values:
            raise GrammarError(f"“{said}” appears twice.")
        value = self.words[self._at + 1] if self._at + 1 < len(self.words) else None
        if value is None or value.is_note or (not value.quoted and self._is_keyword(value.text)):
            raise GrammarError(f"Add a value after “{said}”: {said} {parameter.word}.")
        self._at += 1
        self.values[parameter.name] = read_word(parameter, value)
        return True

    def _is_keyword(self, text: str) -> bool:
        return text.lower() in self.definition.keywords

    def _take_target(self, word: Word) -> bool:
        rule = self.definition.target
        anywhere = rule is TargetRule.FILTER
        if rule is TargetRule.NONE or self.target is not None or word.quoted or not (self._first or anywhere):
            return False
        parameter = any(looks_like(parameter, word) for parameter in self._pending)
        if parameter and is_short_name(word.text, self.context):  # a worker “3” somewhere, in `rollback 3`
            return False
        text, length = (word.text, 1) if parameter else self._whole_target(word)
        workers = resolve(text, self.context)
        if workers is not None:
            self.target, self.workers, self._first = canonical_target(text, self.context), workers, False
            self._at += length - 1
            return True
        if not parameter:
            ask_if_nearly(word.text, self.context)
            self._unknown = word.text if WORKER_ID.fullmatch(word.text) else None
        return False

    def _whole_target(self, word: Word) -> tuple[str, int]:
        """The target that begins here, with its conditions, in one word; and the number of words that it takes."""
        typed = self._typed()
        found = read_clause(typed, has_base=word.text in self.context.workers)
        if found is None:
            return word.text, 1
        clause, length = found
        if clause.conditions:
            return clause.text, length
        self._ask_for_condition(clause, "".join(typed[length : length + 1]), length)
        return word.text, 1

    def _typed(self) -> list[str]:
        """The words from here on, those in quotes empty: they are no part of a target."""
        return ["" if each.quoted else each.text for each in self.words[self._at :]]

    def _ask_for_condition(self, clause: Clause, following: str, length: int) -> None:
        """Refuse `restart all where stale`, which would restart all of them with “where stale” as its label."""
        followed = self._at + length < len(self.words) and not self.words[self._at + length].is_note
        if followed and not is_condition_word(following):
            return
        with suppress(GrammarError):  # a base that is wrong itself is refused next
            if clause.base and resolve(clause.base, self.context) is None:
                return
        raise GrammarError(NO_CONDITION)

    def _positional(self, word: Word) -> bool:
        for index, parameter in enumerate(self._pending):
            if parameter.required or parameter.kind in _ANY_KIND or looks_like(parameter, word):
                self.values[parameter.name] = self._read(parameter, word)
                del self._pending[: index + 1]
                return True
        return False

    def _read(self, parameter: Parameter, word: Word) -> object:
        if parameter.kind is ParameterKind.CRON:
            fields = self.words[self._at : self._at + _CRON_FIELDS]
            if len(fields) == _CRON_FIELDS and all(is_cron_field(field.text) for field in fields):
                raise GrammarError("Put the cron expression in double quotes.")
            if words_of_time(self.words[self._at :]):
                raise GrammarError("Put the time in double quotes.")
        if parameter.kind is ParameterKind.CHOICE and not looks_like(parameter, word) and self.target is None:
            error = unknown_target(word.text, self.context)
            hint = f" The {parameter.name} is {' or '.join(parameter.choices)}."
            raise GrammarError(error.message + hint, instead=error.instead)
        return read_word(parameter, word)

    def _takes_rest(self) -> bool:
        return bool(self._pending) and self._pending[0].kind in _WHOLE_REST

    def _take_rest(self) -> Sequence[Word]:
        parameter, rest = self._pending.pop(0), self.words[self._at :]
        if parameter.kind is ParameterKind.COMMAND:
            return rest
        if rest[-1].is_note:
            self._read_note(rest[-1])
        said = " ".join(word.text for word in rest)
        definition = find(said)
        if definition is None and said.lower() not in FAMILIES:
            raise GrammarError(
                f"There's no command {excerpt(said)}. Type help to list them.", instead=nearest_command(rest[0].text)
            )
        self.values[parameter.name] = definition.name if definition else said.lower()
        return ()

    def _text(self, rest: Sequence[Word]) -> None:
        """The remaining words: a label or a reason, then a note; anything else is a mistake."""
        if rest and rest[-1].is_note and self.definition.free_text is None:
            self._read_note(rest[-1])
            rest = rest[:-1]
        rest = self._without_task_id(rest)
        if not rest:
            return
        self._ask_if_misplaced(rest[0])
        free = self.definition.free_text
        if self.definition.takes_label:
            self._read_label(rest)
        elif free is not None:
            self._read_reason(free, rest)
        else:
            raise self._unexpected(rest[0])

    def _read_note(self, word: Word) -> None:
        if not self.definition.takes_label:
            raise GrammarError(f"{self.definition.name} takes no note.")
        self.values[NOTE.name] = read_word(NOTE, word)

    def _read_label(self, rest: Sequence[Word]) -> None:
        text = " ".join(word.text for word in rest)
        try:
            self.label = clean_label(text)
        except UsageError as error:
            raise GrammarError(f"{error.message.rstrip('.')}, or put any text after -- as a note.") from None

    def _read_reason(self, free: Parameter, rest: Sequence[Word]) -> None:
        """A reason is any text already, so a note is a part of it."""
        text = " ".join(f"-- {word.text}" if word.is_note and len(rest) > 1 else word.text for word in rest)
        self.values[free.name] = read_word(free, Word(text, text, quoted=True))

    def _without_task_id(self, rest: Sequence[Word]) -> Sequence[Word]:
        """Take a command id out of the label: `undo wrong one task_1` must not undo the newest change instead."""
        for parameter in self._pending:
            for index, word in enumerate(rest):
                if parameter.kind is ParameterKind.TASK_ID and looks_like(parameter, word):
                    self.values[parameter.name] = read_word(parameter, word)
                    return (*rest[:index], *rest[index + 1 :])
        return rest

    def _ask_if_misplaced(self, word: Word) -> None:
        """Refuse `rollback 3 OrionMX2`, which would roll the default worker back with another worker as its label."""
        if word.quoted or self._first or self.definition.target is not TargetRule.WORKERS:
            return
        found = read_clause(self._typed(), has_base=False)
        if found and found[0].conditions and not found[0].base:
            raise GrammarError(
                f"{excerpt(word.text)} belongs to the target, which comes right after {self.definition.name}. "
                f"If it's meant as text, put it in double quotes."
            )
        workers = workers_named(word.text, self.context)
        if self.target is None and workers and workers != (self.context.default,):
            raise NearMiss(
                f"{excerpt(word.text)} is a worker, and the worker comes right after {self.definition.name}. "
                f"If it's meant as text, put it in double quotes."
            )

    def _unexpected(self, word: Word) -> GrammarError:
        if self.definition.target is not TargetRule.NONE and self.target is None and not word.quoted:
            return unknown_target(word.text, self.context)
        return GrammarError(f"Unexpected {excerpt(word.text)}. Usage: {self.definition.usage}.")
