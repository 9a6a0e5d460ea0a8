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
from supervisor_core.commands.definitions import KEEP_GOING, NOTE, ROLLING, CommandDefinition, Risk, TargetRule
from supervisor_core.commands.grammar import parse, render
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.labels import clean_label
from supervisor_core.commands.parameters import Parameter, ParameterError, ParameterKind, read_word
from supervisor_core.commands.targets import GrammarContext, resolve, unknown_target
from supervisor_core.commands.words import Word, excerpt, quote

LONGEST_ERROR = 300  # characters under a field

_IN_WORDS = (ParameterKind.COMMAND, ParameterKind.TOPIC)
"""Parameters that are commands or names of commands themselves."""

_BARE = (ParameterKind.NUMBER, ParameterKind.DURATION)
"""Parameters whose errors mention quotes, which a form doesn't need."""

Errors = Mapping[str, str]
"""Errors by the `block_id` of their field."""


def read_form(view: Mapping[str, Any], context: GrammarContext) -> str | Errors:
    """The text of the command in this form, or the errors of its fields."""
    definition = CATALOG.get(form_context(view).command)
    if definition is None:
        return _place_errors(view, {"": "This form is out of date. Close it and open it again."})
    reading = _FormReader(definition, context, _values(view))
    command = reading.command()
    text = reading.text(command) if command is not None else ""
    return text or _place_errors(view, reading.errors)


def read_choice(view: Mapping[str, Any], context: GrammarContext) -> Command | None:
    """The command in this form as far as it decides the effect: without its label, its note and `--keep-going`. None
    while the form can't be read."""
    definition = CATALOG.get(form_context(view).command)
    if definition is None:
        return None
    beside = {inputs.LABEL, *map(inputs.block_id_of, (NOTE, KEEP_GOING, *ROLLING))}
    values = {block: state for block, state in _values(view).items() if block not in beside}
    reading = _FormReader(definition, context, values)
    command = reading.command()
    text = reading.text(command) if command is not None else ""
    return parse(text, context) if text else None


def chosen_channel(view: Mapping[str, Any]) -> str:
    """The channel that the person chose for the card; empty if none."""
    return _field_value(_values(view), inputs.WHERE)


def _values(view: Mapping[str, Any]) -> dict[str, Any]:
    """The fields by their names: a menu of commits has the newest commit in its `block_id` as well."""
    values = (view.get("state") or {}).get("values") or {}
    return {inputs.field_of(block): state for block, state in values.items()}


class _FormReader:
    """Reads one form from top to bottom and collects its `errors`."""

    def __init__(self, definition: CommandDefinition, context: GrammarContext, values: Mapping[str, Any]) -> None:
        self._definition = definition
        self._context = context
        self._values = values
        self.errors: dict[str, str] = {}

    def command(self) -> Command | None:
        target = self._target()
        params: dict[str, Any] = {}
        for parameter in self._definition.written:
            said = _field_value(self._values, inputs.block_id_of(parameter))
            value = self._value(parameter, said) if said else None
            if value is not None:
                params[parameter.name] = value
        label, note = "", ""
        if self._definition.takes_label:
            label, note = inputs.split_label(_field_value(self._values, inputs.LABEL))
            params[NOTE.name] = note or None
        if self.errors:
            return None
        try:
            params = dict(check_params(self._definition, params))
        except ParameterError as error:
            self.errors[f"param:{error.key}"] = error.typed
            return None
        return Command(self._definition.name, target=target, params=params, label=clean_label(label))

    def text(self, command: Command) -> str:
        """The text of the command; empty, with an error, if the text would mean something else."""
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
        if not said and rule is TargetRule.WORKERS:
            reads = self._definition.risk is Risk.READS
            said = self._context.every_worker if reads else self._context.default or ""
            if not said:
                self.errors[inputs.TARGET] = "Choose a worker."
        if not said:
            return ""
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
            words = f"{excerpt(said)} isn't valid: {parameter.description}."
            self.errors[inputs.block_id_of(parameter)] = words if parameter.kind in _BARE else error.message
            return None

    def _blamed(self, error: GrammarError) -> str:
        if isinstance(error, (NeedsTarget, NearMiss)):
            return inputs.TARGET
        inner = [inputs.block_id_of(each) for each in self._definition.written if each.kind in _IN_WORDS]
        return inner[0] if inner else inputs.TARGET

    def _differences(self, meant: Command, parsed: Command) -> list[tuple[str, str]]:
        """The fields whose words the grammar reads as something else, such as a command id without `task_`."""
        found = []
        if (parsed.name, parsed.target) != (meant.name, meant.target):
            found.append((inputs.TARGET, f"{excerpt(meant.target)} isn't a target of this command."))
        for parameter in self._definition.written:
            value = meant.params.get(parameter.name)
            if parameter.kind not in _IN_WORDS and parsed.params.get(parameter.name) != value:
                words = f"{excerpt(parameter.spelled(value))} isn't valid: {parameter.description}."
                found.append((inputs.block_id_of(parameter), words))
        if not found and parsed.label != meant.label:
            found.append((inputs.LABEL, "This reads as an argument, not as a label. Try other words."))
        return found


def _as_words(definition: CommandDefinition, command: Command) -> dict[str, Any]:
    inner = {each.name for each in definition.written if each.kind in _IN_WORDS}
    return {
        name: quote(str(value)) if name in inner and value is not None else value
        for name, value in command.params.items()
    }


def _field_value(values: Mapping[str, Any], block: str) -> str:
    """The value of a field of any kind; empty if there is none."""
    state = (values.get(block) or {}).get(inputs.VALUE) or {}
    options = [state.get("selected_option"), *(state.get("selected_options") or ())]
    chosen = [option["value"] for option in options if option]
    known = [state.get(key) for key in ("value", "selected_user", "selected_conversation")]
    return str(next(iter([*chosen, *filter(None, known)]), "")).strip()


def _place_errors(view: Mapping[str, Any], errors: Errors) -> str | Errors:
    """Each error at its field, or at the first field if the form doesn't have that one."""
    ids = [str(block.get("block_id")) for block in view.get("blocks") or () if block.get("type") == "input"]
    blocks = {inputs.field_of(each): each for each in ids}
    if not blocks:  # no field and so no place for an error: the text of the command has the same error
        return form_context(view).command
    placed: dict[str, str] = {}
    for block, words in errors.items():
        placed.setdefault(blocks.get(block, ids[0]), fit(words, LONGEST_ERROR))
    return placed
