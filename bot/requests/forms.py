"""Turns a submitted form into the text of one command, or into an error at the field that is wrong.

Each field is read by the grammar's own reader of such a word, the text is written by the grammar's own writer, and what
it then says must be what was filled in: so nothing that is typed into one field becomes another argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from bot.views import forms as inputs
from bot.views.forms import form_context
from bot.views.text import fit
from supervisor_core.commands.catalog import CATALOG, check_params
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, TargetRule
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.labels import clean_label
from supervisor_core.commands.parameters import Parameter, ParameterError, ParameterKind, read_word
from supervisor_core.commands.targets import GrammarContext, resolve, unknown_target
from supervisor_core.commands.words import Word, excerpt, quote
from supervisor_core.common.errors import UsageError

LONGEST_ERROR = 300  # characters under a field

_IN_WORDS = (ParameterKind.COMMAND, ParameterKind.TOPIC)
"""What the grammar reads as words of its own."""

_BARE = (ParameterKind.NUMBER, ParameterKind.DURATION)
"""Whose errors speak of quotes, which nobody needs in a form."""

Errors = Mapping[str, str]
"""By the `block_id` of the field."""


def read_form(view: Mapping[str, Any], context: GrammarContext) -> str | Errors:
    """The text of the command that this form asks for, which parses; or what is wrong, at its field."""
    definition = CATALOG.get(form_context(view).command)
    if definition is None:
        return _place_errors(view, {"": "I do not know this form any more. Close it, and open it again."})
    reading = _FormReader(definition, context, (view.get("state") or {}).get("values") or {})
    command = reading.command()
    text = reading.text(command) if command is not None else ""
    return text or _place_errors(view, reading.errors)


def chosen_channel(view: Mapping[str, Any]) -> str:
    """The channel that was chosen for the card; empty where none was."""
    values = (view.get("state") or {}).get("values") or {}
    return _field_value(values, inputs.WHERE)


class _FormReader:
    """One form, read from top to bottom; `errors` are complete at its end."""

    def __init__(self, definition: CommandDefinition, context: GrammarContext, values: Mapping[str, Any]) -> None:
        self._definition = definition
        self._context = context
        self._values = values
        self.errors: dict[str, str] = {}

    def command(self) -> Command | None:
        """What the fields say; None where one of them is wrong."""
        target = self._target()
        params: dict[str, Any] = {}
        for parameter in self._definition.written:
            said = _field_value(self._values, inputs.block_id_of(parameter))
            value = self._value(parameter, said) if said else None
            if value is not None:
                params[parameter.name] = value
        label = self._label()
        if self.errors:
            return None
        try:
            params = dict(check_params(self._definition, params))
        except ParameterError as error:
            self.errors[f"param:{error.key}"] = error.typed
            return None
        return Command(self._definition.name, target=target, params=params, label=label)

    def text(self, command: Command) -> str:
        """Its text; empty, with an error, where that would say anything else than the form does."""
        params = _as_words(self._definition, command)
        written = render(replace(command, params=params)) or command.name
        try:
            parsed = parse(written, self._context)
        except GrammarError as error:
            self.errors[self._blamed(error)] = error.message
            return ""
        for block, meant in self._differences(command, parsed):
            self.errors[block] = meant
        return "" if self.errors else written

    def _target(self) -> str:
        said, rule = _field_value(self._values, inputs.TARGET), self._definition.target
        if rule is TargetRule.NONE:
            return ""
        if not said:
            said = self._context.default or "" if rule is TargetRule.WORKERS else ""
            if not said and rule is TargetRule.WORKERS:
                missing = NeedsTarget(self._definition.name, self._context.workers, before="", after="")
                self.errors[inputs.TARGET] = missing.message
            return said
        try:
            if resolve(said, self._context) is None:
                raise unknown_target(said, self._context)
        except GrammarError as error:
            self.errors[inputs.TARGET] = error.message
        return said

    def _value(self, parameter: Parameter, said: str) -> object:
        if parameter.kind is ParameterKind.FLAG:
            return True
        try:
            return read_word(parameter, Word(said, said, quoted=True))
        except GrammarError as error:
            words = f"{excerpt(said)} does not fit: {parameter.description}."
            self.errors[inputs.block_id_of(parameter)] = words if parameter.kind in _BARE else error.message
            return None

    def _label(self) -> str | None:
        if not self._definition.takes_label:
            return None
        try:
            return clean_label(_field_value(self._values, inputs.LABEL))
        except UsageError as error:
            self.errors[inputs.LABEL] = error.message
            return None

    def _blamed(self, error: GrammarError) -> str:
        """The field that a mistake is about which only the whole text has."""
        if isinstance(error, (NeedsTarget, NearMiss)):
            return inputs.TARGET
        inner = [inputs.block_id_of(each) for each in self._definition.written if each.kind in _IN_WORDS]
        return inner[0] if inner else inputs.TARGET

    def _differences(self, meant: Command, parsed: Command) -> list[tuple[str, str]]:
        """Fields whose words the grammar takes for something else, as a task id that begins with no `task_`."""
        found = []
        if (parsed.name, parsed.target) != (meant.name, meant.target):
            found.append((inputs.TARGET, f"{excerpt(meant.target)} can't be named here."))
        for parameter in self._definition.written:
            value = meant.params.get(parameter.name)
            if parameter.kind not in _IN_WORDS and parsed.params.get(parameter.name) != value:
                words = f"{excerpt(parameter.spelled(value))} is not understood here: {parameter.description}."
                found.append((inputs.block_id_of(parameter), words))
        if not found and parsed.label != meant.label:
            found.append((inputs.LABEL, "This would be taken for something else than a label."))
        return found


def _as_words(definition: CommandDefinition, command: Command) -> dict[str, Any]:
    """The parameters as they are written: what is words itself in quotes, so that it stays in its place."""
    inner = {each.name for each in definition.written if each.kind in _IN_WORDS}
    return {
        name: quote(str(value)) if name in inner and value is not None else value
        for name, value in command.params.items()
    }


def _field_value(values: Mapping[str, Any], block: str) -> str:
    """What stands in a field, whatever kind of field it is; empty where nothing does."""
    state = (values.get(block) or {}).get(inputs.VALUE) or {}
    options = [state.get("selected_option"), *(state.get("selected_options") or ())]
    chosen = [option["value"] for option in options if option]
    known = [state.get(key) for key in ("value", "selected_user", "selected_conversation")]
    return str(next(iter([*chosen, *filter(None, known)]), "")).strip()


def _place_errors(view: Mapping[str, Any], errors: Errors) -> str | Errors:
    """Each error at its field; at the first there is, where this form has none like it."""
    blocks = [str(block.get("block_id")) for block in view.get("blocks") or () if block.get("type") == "input"]
    if not blocks:  # nothing to fill in, and no place for an error: whoever deals with the text says what is wrong
        return form_context(view).command
    placed: dict[str, str] = {}
    for block, words in errors.items():
        placed.setdefault(block if block in blocks else blocks[0], fit(words, LONGEST_ERROR))
    return placed
