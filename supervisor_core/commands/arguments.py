"""The arguments of one command: target, options and parameters as they come, then the label or reason. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from supervisor_core.commands.catalog import CATALOG, FAMILIES, check_params, find, nearest_command
from supervisor_core.commands.definitions import CommandDefinition, Risk, TargetRule
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.labels import clean_label, nearest_label
from supervisor_core.commands.parameters import (
    Parameter,
    ParameterError,
    ParameterKind,
    is_cron_field,
    is_option,
    looks_like,
    read_word,
)
from supervisor_core.commands.targets import ALL, GrammarContext, ask_if_nearly, resolve, unknown_target
from supervisor_core.commands.words import Word, excerpt, join_words, quote
from supervisor_core.common.cron import CronError, parse_cron
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import nearest

_CRON_FIELDS = 5
_MOST_WORDS_OF_TIME = 4  # every day at 03:00
_WHOLE_REST = (ParameterKind.COMMAND, ParameterKind.TOPIC)
_ANY_WORD = (ParameterKind.NAME, ParameterKind.CRON)

Value = TypeVar("Value")


class Arguments:
    """Reads the words of one command from left to right; afterwards it holds what they said."""

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
        self._pending = [
            parameter
            for parameter in definition.parameters
            if not parameter.keyword and parameter.kind not in (ParameterKind.FLAG, ParameterKind.TEXT)
        ]

    def read(self) -> Sequence[Word]:
        """Read all words. What it returns is a command inside this one, and for the caller to read."""
        while self._at < len(self.words):
            word = self.words[self._at]
            if self._takes_rest():
                return self._take_rest()
            if not self._argument(word):
                break
        self._text(self.words[self._at :])
        return ()

    def choose_target(self) -> tuple[str, tuple[str, ...]]:
        """The target and its workers; `NeedsTarget` where only the asker can say which."""
        rule = self.definition.target
        if self.target is not None:
            return self.target, self.workers
        if rule is not TargetRule.WORKERS:
            return "", ()
        if not self.context.workers:
            raise GrammarError(f"There is no worker to {self.definition.name}: none is configured.")
        default = self.context.default
        if default is not None:
            return default, (default,)
        before, after = join_words(self.words[: self.start]), join_words(self.words[self.start :])
        error = NeedsTarget(self.definition.name, self.context.workers, before=before, after=after)
        if self.definition.risk is Risk.READS:
            error.repair = error.complete(ALL)
        raise error

    def check_parameters(self) -> Mapping[str, Any]:
        """All parameters, by the same rules as those of a flag."""
        try:
            return check_params(self.definition, self.values)
        except ParameterError as error:
            raise GrammarError(f"{error.typed} Usage: {self.definition.usage}") from None

    def _argument(self, word: Word) -> bool:
        """Take one argument; False where the label or reason begins."""
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
            if parameter.word == said:
                self.values[parameter.name] = True
                return
        known = [parameter.word for parameter in self.definition.options]
        if name == "help":
            repair: str | None = f"help {self.definition.name}"
        else:
            # Who writes --no-reset wants anything but --reset.
            found = None if name.startswith("no-") else nearest(said, known)
            repair = self._with(found or "")
        expected = f"it knows {', '.join(known)}" if known else "it has none"
        raise GrammarError(
            f"{self.definition.name} has no option {excerpt(word.text)}: {expected}. "
            f"If it is meant as text, put it in double quotes.",
            repair=repair,
        )

    def _keyword(self, word: Word) -> bool:
        if word.quoted:
            return False
        said = word.text.lower()
        parameter = self.definition.keywords.get(said)
        if parameter is None:
            return False
        if parameter.name in self.values:
            raise GrammarError(f"{said} stands there twice.", repair=self._with("", length=2))
        value = self.words[self._at + 1] if self._at + 1 < len(self.words) else None
        if value is None or (not value.quoted and self._is_keyword(value.text)):
            raise GrammarError(f"After {said} comes {parameter.word}: {parameter.help}.", repair=self._with(""))
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
        workers = self._with_repair(resolve, word.text, self.context)
        if workers is not None:
            self.target, self.workers, self._first = word.text, workers, False
            return True
        if not any(looks_like(parameter, word) for parameter in self._pending):
            self._with_repair(self._ask_if_nearly, word)
        return False

    def _ask_if_nearly(self, word: Word) -> None:
        ask_if_nearly(word.text, self.context, otherwise=self._with(quote(word.text)))

    def _positional(self, word: Word) -> bool:
        for index, parameter in enumerate(self._pending):
            if parameter.kind in _ANY_WORD or parameter.kind is ParameterKind.CHOICE or looks_like(parameter, word):
                self.values[parameter.name] = self._with_repair(self._read, parameter, word)
                del self._pending[: index + 1]
                return True
        return False

    def _read(self, parameter: Parameter, word: Word) -> object:
        if parameter.kind is ParameterKind.CRON:
            fields = self.words[self._at : self._at + _CRON_FIELDS]
            if len(fields) == _CRON_FIELDS and all(is_cron_field(field.text) for field in fields):
                raise GrammarError(
                    "A cron expression goes into double quotes.",
                    repair=self._with(quote(" ".join(field.text for field in fields)), length=_CRON_FIELDS),
                )
            if length := self._words_of_time():
                said = " ".join(each.text for each in self.words[self._at : self._at + length])
                raise GrammarError(
                    "Words that say when go into double quotes.", repair=self._with(quote(said), length=length)
                )
        if parameter.kind is ParameterKind.CHOICE and not looks_like(parameter, word) and self.target is None:
            error = unknown_target(word.text, self.context)
            hint = f" Nor is it {' or '.join(parameter.choices)}."
            raise GrammarError(error.message + hint, instead=error.instead)
        return read_word(parameter, word)

    def _words_of_time(self) -> int:
        """The number of words from here that name a time, such as `daily 03:00`; 0 for a single word."""
        for length in range(_MOST_WORDS_OF_TIME, 1, -1):
            words = self.words[self._at : self._at + length]
            if len(words) == length and not any(word.quoted for word in words):
                with suppress(CronError):
                    parse_cron(" ".join(word.text for word in words))
                    return length
        return 0

    def _takes_rest(self) -> bool:
        return bool(self._pending) and self._pending[0].kind in _WHOLE_REST

    def _take_rest(self) -> Sequence[Word]:
        parameter, rest = self._pending.pop(0), self.words[self._at :]
        self._at = len(self.words)
        if parameter.kind is ParameterKind.COMMAND:
            return rest
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
        return GrammarError(f"There is no command {excerpt(said)}; help shows them all.", repair=f"{head} {found}")

    def _text(self, rest: Sequence[Word]) -> None:
        """The words that are left: a label, a reason, or a mistake."""
        rest = self._without_task_id(rest)
        if not rest:
            return
        self._ask_if_misplaced(rest[0])
        text = " ".join(word.text for word in rest)
        free = self.definition.free_text
        if self.definition.takes_label:
            try:
                self.label = clean_label(text)
            except UsageError as error:
                label = None if self._is_number(rest[0]) else nearest_label(text)
                repair = self._head(quote(label)) if label else self._known_part()
                raise GrammarError(error.message, repair=repair) from None
        elif free is not None:
            try:
                self.values[free.name] = read_word(free, Word(text, text, quoted=True))
            except GrammarError as error:
                error.repair = self._head(quote(error.instead)) if error.instead else None
                raise
        else:
            raise self._one_too_many(rest[0])

    def _is_number(self, word: Word) -> bool:
        """Whether a word that is no label may be meant as a number that was not given: `rollback HEAD~3`."""
        pending = any(parameter.kind is ParameterKind.NUMBER for parameter in self._pending)
        return pending and any(character.isdigit() for character in word.text)

    def _without_task_id(self, rest: Sequence[Word]) -> Sequence[Word]:
        """`undo wrong one task_1` means that task: to undo the newest instead would be the worst reading."""
        for parameter in self._pending:
            for index, word in enumerate(rest):
                if parameter.kind is ParameterKind.TASK_ID and looks_like(parameter, word):
                    self.values[parameter.name] = read_word(parameter, word)
                    return (*rest[:index], *rest[index + 1 :])
        return rest

    def _ask_if_misplaced(self, word: Word) -> None:
        """`rollback 3 OrionMX2` would be for the default worker, labelled with the name of another one."""
        if word.quoted or self._first or self.definition.target is not TargetRule.WORKERS:
            return
        if self.target is None and word.text in self.context.workers and word.text != self.context.default:
            head, tail = join_words(self.words[: self.start]), join_words(self.words[self._at + 1 :])
            error = NearMiss(
                f"{excerpt(word.text)} is a worker, but a target comes right after {self.definition.name}. "
                f"Put it in double quotes where it is meant as text.",
                (word.text,),
                otherwise=self._with(quote(word.text)),
            )
            error.repair = f"{head} {word.text} {join_words(self.words[self.start : self._at])} {tail}"
            raise error

    def _one_too_many(self, word: Word) -> GrammarError:
        if self.definition.target is not TargetRule.NONE and self.target is None and not word.quoted:
            error = unknown_target(word.text, self.context)
            repair = self._with(error.instead) if error.instead else self._known_part()
            return GrammarError(error.message, repair=repair)
        return GrammarError(
            f"{excerpt(word.text)} is one word too many. Usage: {self.definition.usage}", repair=self._known_part()
        )

    def _known_part(self) -> str | None:
        """The text without the words that nobody knows; None where nothing but the command stays: it is not what was
        meant."""
        stays = self._at > self.start or self.definition.target is TargetRule.NONE
        return self._head("") if stays else None

    def _with_repair(self, reader: Callable[..., Value], *arguments: Any) -> Value:  # noqa: ANN401 (passed on as they are)
        """Call a reader of the word at hand; its mistake learns how the whole text is mended."""
        try:
            return reader(*arguments)
        except GrammarError as error:
            if error.repair is None and error.instead is not None:
                error.repair = self._with(error.instead)
            raise

    def _with(self, word: str, *, length: int = 1) -> str:
        """The text with another word in place of the one at hand."""
        return f"{self._head(word)} {join_words(self.words[self._at + length :])}"

    def _head(self, word: str) -> str:
        """The text up to the word at hand, and another word in its place."""
        return f"{join_words(self.words[: self._at])} {word}"
