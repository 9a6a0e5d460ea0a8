"""The arguments of one command: target, options and parameters in any order, then the label or reason, then the note.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from supervisor_core.commands.addresses import SEPARATOR, name_of
from supervisor_core.commands.catalog import CATALOG, FAMILIES, check_params, find, nearest_command
from supervisor_core.commands.conditions import Clause, nearest_condition, read_clause
from supervisor_core.commands.definitions import NOTE, CommandDefinition, Risk, TargetRule
from supervisor_core.commands.grammar_errors import GrammarError, LabelError, NearMiss, NeedsTarget, WrongNumber
from supervisor_core.commands.labels import clean_label, nearest_label
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
    find_worker,
    is_short_name,
    resolve,
    unknown_target,
    workers_named,
)
from supervisor_core.commands.words import Word, excerpt, join_words, quote
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import nearest

_CRON_FIELDS = 5
_WHOLE_REST = (ParameterKind.COMMAND, ParameterKind.TOPIC)
_ANY_KIND = (ParameterKind.NAME, ParameterKind.CRON, ParameterKind.CHOICE)

Value = TypeVar("Value")


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
        self._task_id: tuple[Word, ...] = ()
        """The command id that was taken out of the label."""
        self._pending = [
            parameter
            for parameter in definition.parameters
            if not parameter.keyword and parameter.kind not in (ParameterKind.FLAG, ParameterKind.TEXT)
        ]

    def read(self) -> Sequence[Word]:
        """Read all words. Returns the words of a command inside this one, which the caller reads."""
        while self._at < len(self.words):
            word = self.words[self._at]
            if self._takes_rest() and not (word.is_note and self._pending[0].kind is ParameterKind.TOPIC):
                return self._take_rest()
            if not self._argument(word):
                break
        self._text(self.words[self._at :])
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
        name = said[2:]
        for parameter in self.definition.options:
            if parameter.option == said:
                self._take_option(parameter)
                return
        left_out = () if len(self.context.workers) > 1 else self.definition.spread_options
        known = [each.option for each in self.definition.options if each not in left_out]
        if name == "help":
            repair: str | None = f"help {self.definition.name}"
        else:
            # Who writes --no-reset wants anything but --reset.
            found = None if name.startswith("no-") else nearest(said, known)
            repair = self._with(found or "")
        expected = f"Options: {', '.join(known)}." if known else "It has no options."
        raise GrammarError(
            f"{self.definition.name} has no option {excerpt(word.text)}. {expected} "
            f"If it's meant as text, put it in double quotes.",
            repair=repair,
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
        self.values[parameter.name] = self._with_repair(read_word, parameter, value)

    def _keyword(self, word: Word) -> bool:
        if word.quoted:
            return False
        said = word.text.lower()
        parameter = self.definition.keywords.get(said)
        if parameter is None:
            return False
        if parameter.name in self.values:
            raise GrammarError(f"“{said}” appears twice.", repair=self._with("", length=2))
        value = self.words[self._at + 1] if self._at + 1 < len(self.words) else None
        if value is None or value.is_note or (not value.quoted and self._is_keyword(value.text)):
            raise GrammarError(f"Add a value after “{said}”: {said} {parameter.word}.", repair=self._with(""))
        self._at += 1
        self.values[parameter.name] = self._with_repair(read_word, parameter, value)
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
        workers = self._with_repair(resolve, text, self.context, length=length)
        if workers is not None:
            self.target, self.workers, self._first = canonical_target(text, self.context), workers, False
            self._at += length - 1
            return True
        if not parameter:
            self._with_repair(self._ask_if_nearly, word)
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
        meant = nearest_condition(following)
        if meant is None and self._at + length < len(self.words) and not self.words[self._at + length].is_note:
            return
        with suppress(GrammarError):  # a base that is wrong itself is refused next
            if clause.base and resolve(clause.base, self.context) is None:
                return
        complete = clause._replace(conditions=(meant,)).text if meant else ""
        raise GrammarError(NO_CONDITION, repair=self._with(complete, length=length + 1) if complete else None)

    def _ask_if_nearly(self, word: Word) -> None:
        ask_if_nearly(word.text, self.context, otherwise=self._with(quote(word.text)))

    def _positional(self, word: Word) -> bool:
        for index, parameter in enumerate(self._pending):
            if parameter.required or parameter.kind in _ANY_KIND or looks_like(parameter, word):
                self.values[parameter.name] = self._with_repair(self._read, parameter, word)
                del self._pending[: index + 1]
                return True
        return False

    def _read(self, parameter: Parameter, word: Word) -> object:
        if parameter.kind is ParameterKind.CRON:
            fields = self.words[self._at : self._at + _CRON_FIELDS]
            if len(fields) == _CRON_FIELDS and all(is_cron_field(field.text) for field in fields):
                raise GrammarError(
                    "Put the cron expression in double quotes.",
                    repair=self._with(quote(" ".join(field.text for field in fields)), length=_CRON_FIELDS),
                )
            if length := words_of_time(self.words[self._at :]):
                said = " ".join(each.text for each in self.words[self._at : self._at + length])
                raise GrammarError("Put the time in double quotes.", repair=self._with(quote(said), length=length))
        if parameter.kind is ParameterKind.CHOICE and not looks_like(parameter, word) and self.target is None:
            error = unknown_target(word.text, self.context)
            hint = f" The {parameter.name} is {' or '.join(parameter.choices)}."
            raise GrammarError(error.message + hint, instead=error.instead)
        return read_word(parameter, word)

    def _takes_rest(self) -> bool:
        return bool(self._pending) and self._pending[0].kind in _WHOLE_REST

    def _take_rest(self) -> Sequence[Word]:
        parameter, rest = self._pending.pop(0), self.words[self._at :]
        self._at = len(self.words)
        if parameter.kind is ParameterKind.COMMAND:
            return rest
        if rest[-1].is_note:
            self._read_note(rest[-1])
        said = " ".join(word.text for word in rest)
        definition = find(said)
        if definition is None and said.lower() not in FAMILIES:
            raise self._no_topic(said, rest)
        self.values[parameter.name] = definition.name if definition else said.lower()
        return ()

    def _no_topic(self, said: str, rest: Sequence[Word]) -> GrammarError:
        found = nearest(said, CATALOG) or (find(rest[0].text) or CATALOG["help"]).name
        if found == "help":
            found = nearest_command(rest[0].text) or ""
        head = join_words(self.words[: self.start])
        return GrammarError(f"There's no command {excerpt(said)}. Type help to list them.", repair=f"{head} {found}")

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
            raise GrammarError(f"{self.definition.name} takes no note.", repair=join_words(self.words[:-1]))
        self.values[NOTE.name] = self._with_repair(read_word, NOTE, word)

    def _read_label(self, rest: Sequence[Word]) -> None:
        text = " ".join(word.text for word in rest)
        try:
            self.label = clean_label(text)
        except UsageError as error:
            label = None if self._is_number(rest[0]) else nearest_label(text)
            words = f"{error.message.rstrip('.')}, or put any text after -- as a note."
            known = self._head(join_words(self._task_id))
            repair = f"{known} {quote(label)} {self._note()}" if label else self._known_part()
            raise LabelError(words, label, repair=repair) from None

    def _read_reason(self, free: Parameter, rest: Sequence[Word]) -> None:
        """A reason is any text already, so a note is a part of it."""
        text = " ".join(f"-- {word.text}" if word.is_note and len(rest) > 1 else word.text for word in rest)
        try:
            self.values[free.name] = read_word(free, Word(text, text, quoted=True))
        except GrammarError as error:
            error.repair = self._head(quote(error.instead)) if error.instead else None
            raise

    def _note(self) -> str:
        """The note as it was typed; empty without one."""
        return self.words[-1].source if self.words and self.words[-1].is_note else ""

    def _is_number(self, word: Word) -> bool:
        """True for a word that may stand for a missing number, as in `rollback HEAD~3`."""
        pending = any(parameter.kind is ParameterKind.NUMBER for parameter in self._pending)
        return pending and any(character.isdigit() for character in word.text)

    def _without_task_id(self, rest: Sequence[Word]) -> Sequence[Word]:
        """Take a command id out of the label: `undo wrong one task_1` must not undo the newest change instead."""
        for parameter in self._pending:
            for index, word in enumerate(rest):
                if parameter.kind is ParameterKind.TASK_ID and looks_like(parameter, word):
                    self.values[parameter.name] = read_word(parameter, word)
                    self._task_id = (word,)
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
            named = find_worker(word.text, self.context) or f"*{SEPARATOR}{name_of(word.text)}"
            head, tail = join_words(self.words[: self.start]), join_words(self.words[self._at + 1 :])
            error = NearMiss(
                f"{excerpt(word.text)} is a worker, and the worker comes right after {self.definition.name}. "
                f"If it's meant as text, put it in double quotes.",
                (named,),
                otherwise=self._with(quote(word.text)),
            )
            error.repair = f"{head} {named} {join_words(self.words[self.start : self._at])} {tail}"
            raise error

    def _unexpected(self, word: Word) -> GrammarError:
        if self.definition.target is not TargetRule.NONE and self.target is None and not word.quoted:
            error = unknown_target(word.text, self.context)
            repair = self._with(error.instead) if error.instead else self._known_part()
            return GrammarError(error.message, repair=repair)
        return GrammarError(
            f"Unexpected {excerpt(word.text)}. Usage: {self.definition.usage}.", repair=self._known_part()
        )

    def _known_part(self) -> str | None:
        """The text without the words that weren't understood; None where only the command is left."""
        stays = self._at > self.start or self._task_id or self.definition.target is TargetRule.NONE
        return self._head(join_words(self._task_id)) if stays else None

    def _with_repair(self, reader: Callable[..., Value], *arguments: Any, length: int = 1) -> Value:  # noqa: ANN401
        """Call a reader of the current words, and complete its error with the repaired text."""
        try:
            return reader(*arguments)
        except GrammarError as error:
            if error.repair is None and error.instead is not None and self._may_suggest(error):
                error.repair = self._with(error.instead, length=length)
            raise

    def _may_suggest(self, error: GrammarError) -> bool:
        """A wrong number of a command that changes something is never replaced: nobody meant another one."""
        return self.definition.risk is Risk.READS or not isinstance(error, WrongNumber)

    def _with(self, word: str, *, length: int = 1) -> str:
        """The text with another word in place of the current one."""
        return f"{self._head(word)} {join_words(self.words[self._at + length :])}"

    def _head(self, word: str) -> str:
        """The text before the current word, and another word in its place."""
        return f"{join_words(self.words[: self._at])} {word}"
