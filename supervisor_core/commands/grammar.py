"""The grammar: one line of text to a Command, and a Command back to its text. The same for every door. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from supervisor_core.commands.arguments import Arguments
from supervisor_core.commands.catalog import CATALOG, FAMILIES, OVERVIEW, find, nearest_command
from supervisor_core.commands.command import Command
from supervisor_core.commands.definitions import CommandDefinition, Risk
from supervisor_core.commands.grammar_errors import GrammarError, NearMiss, NeedsTarget
from supervisor_core.commands.parameters import Parameter, ParameterKind, is_task_word
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.commands.words import Word, bare_or_quoted, escape, excerpt, join_words, quote, split_words

ADDRESS = "/supervisor"
MAX_MENDED = 4  # mistakes in one line that a suggestion mends; with more of them it would be a guess


def parse(text: str, context: GrammarContext) -> Command:
    """The command that a line of text asks for, check_parameters and complete except for who asks.

    Raises `GrammarError` for anything else: what was expected, and where there is one the nearest command.
    """
    try:
        return _line(text, context)
    except GrammarError as error:
        error.suggestion = _mend(error.repair, context)
        if isinstance(error, NearMiss):
            error.otherwise = _mend(error.other_repair, context)
        if error.suggestion:
            error.remedy = f"Did you mean: {error.suggestion}"
        raise


def render(command: Command) -> str:
    """The canonical text of a command, with what was left out filled in; it parses to the same command."""
    if command.name == OVERVIEW:
        return ""
    definition = CATALOG[command.name]
    parts = [command.name]
    if command.target:
        parts.append(escape(command.target))
    for parameter in definition.written:
        value = command.params.get(parameter.name)
        if value is not None and value is not False:
            parts.append(_render_parameter(definition, parameter, value))
    if command.label:
        parts.append(_label(definition, command.label))
    return " ".join(parts)


def _line(text: str, context: GrammarContext) -> Command:
    words = _without_address(split_words(text))
    return _command(words, context) if words else Command(OVERVIEW)


def _mend(repair: str | None, context: GrammarContext) -> str | None:
    """The repaired text in its shortest form, once nothing in it is wrong any more."""
    for _ in range(MAX_MENDED):
        if repair is None:
            return None
        try:
            return _shortest(repair, context) or None
        except GrammarError as error:
            repair = error.repair
    return None


def _shortest(text: str, context: GrammarContext) -> str:
    """The canonical text of this one, but without the numbers and times that it means anyway and that nobody typed."""
    command = _line(text, context)
    if command.name == OVERVIEW:
        return ""
    typed = {word.text for word in split_words(text)}
    meant = [each for each in CATALOG[command.name].written if each.default is not None]
    meant = [each for each in meant if command.params.get(each.name) == each.default]
    left_out = {each.name for each in meant if each.spelled(each.default) not in typed}
    params = {name: value for name, value in command.params.items() if name not in left_out}
    shorter = render(replace(command, params=params))
    try:
        return shorter if _line(shorter, context) == command else render(command)
    except GrammarError:
        return render(command)


def _without_address(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words after those that only say whom they are spoken to."""
    if words and words[0].mention:
        words = words[1:]
    if words and not words[0].quoted and words[0].text.lower() == ADDRESS:
        words = words[1:]
    return words


def _command(words: Sequence[Word], context: GrammarContext) -> Command:
    definition, length = _find_definition(words, context)
    arguments = Arguments(definition, words, length, context)
    tail = arguments.read()
    if tail:
        arguments.values["command"] = _schedule_text(words[: len(words) - len(tail)], tail, context)
    target, workers = arguments.choose_target()
    params = arguments.check_parameters()
    return Command(definition.name, target=target, workers=workers, params=params, label=arguments.label)


def _schedule_text(head: Sequence[Word], tail: Sequence[Word], context: GrammarContext) -> str:
    """The canonical text of the command inside a `schedule add`."""
    try:
        if len(tail) == 1 and tail[0].quoted:
            tail = split_words(tail[0].text)  # somebody was careful, and quoted all of it
        tail = _without_address(tuple(tail))
        if not tail:
            raise GrammarError("A schedule needs a command to run, such as: restart all")
        definition, _ = _find_definition(tail, context)
        if not definition.schedulable:
            raise GrammarError(
                f"{definition.name} can't be scheduled: only what changes workers or reports on them can, "
                f"one command that is named."
            )
        return render(_command(tail, context))
    except GrammarError as error:
        error.inside(join_words(head))
        raise


def _find_definition(words: Sequence[Word], context: GrammarContext) -> tuple[CommandDefinition, int]:
    """The command that the first words name, and their number."""
    first, rest = words[0], words[1:]
    if first.quoted:
        raise GrammarError(
            f"The command itself is not quoted: {excerpt(first.text)} reads as text.",
            repair=f"{first.text} {join_words(rest)}",
        )
    if rest and not rest[0].quoted:
        definition = find(f"{first.text} {rest[0].text}")
        if definition is not None:
            return definition, 2
    definition = find(first.text)
    if definition is not None:
        return definition, 1
    if first.text.lower() in FAMILIES:
        raise _incomplete(first, rest)
    raise _unknown(words, context)


def _incomplete(first: Word, rest: Sequence[Word]) -> GrammarError:
    """`schedule` alone, or with a second word that it does not have."""
    from supervisor_core.common.text import nearest

    family = FAMILIES[first.text.lower()]
    seconds = [definition.name.split(" ")[1] for definition in family]
    message = f"{first.text.lower()} goes on with {', '.join(seconds[:-1])} or {seconds[-1]}."
    if rest:
        found = nearest(rest[0].text, seconds)
        repair = f"{first.text} {found} {join_words(rest[1:])}" if found else None
        return GrammarError(f"{message[:-1]}, not {excerpt(rest[0].text)}.", repair=repair)
    harmless = next((definition.name for definition in family if definition.risk is Risk.READS), None)
    return GrammarError(message, repair=harmless)


def _unknown(words: Sequence[Word], context: GrammarContext) -> GrammarError:
    first, rest = words[0], words[1:]
    if first.text in context.workers:
        swapped = bool(rest) and not rest[0].quoted and find(rest[0].text) is not None
        said = [rest[0].source, first.source, join_words(rest[1:])] if swapped else ["status", first.source]
        return GrammarError(
            f"The command comes first, then the worker: {excerpt(first.text)} is a worker.",
            repair=" ".join(said),
        )
    found = nearest_command(first.text)
    hint = f"the nearest is {found}" if found else "help shows them all"
    repair = f"{found} {join_words(rest)}" if found else None
    return GrammarError(f"There is no command {excerpt(first.text)}; {hint}.", repair=repair)


def _render_parameter(definition: CommandDefinition, parameter: Parameter, value: object) -> str:
    """A parameter as it stands in the canonical text."""
    text = parameter.spelled(value)
    match parameter.kind:
        case ParameterKind.FLAG:
            return parameter.word
        case ParameterKind.CRON:
            return quote(text)
        case ParameterKind.TEXT:
            return bare_or_quoted(text)
        case ParameterKind.PERSON:
            ambiguous = " " in text or text.lower() in definition.keywords
            return f"{parameter.keyword} {quote(text) if ambiguous else bare_or_quoted(text)}"
        case ParameterKind.NAME if text.lower() in definition.keywords:
            return f"{parameter.keyword} {quote(text)}"
        case _:
            return f"{parameter.keyword} {text}".lstrip()


def _label(definition: CommandDefinition, label: str) -> str:
    """The label, quoted where a word of it would be taken for an argument."""
    takes_id = any(parameter.kind is ParameterKind.TASK_ID for parameter in definition.parameters)
    ambiguous = takes_id and any(is_task_word(word) for word in label.split(" "))
    return quote(label) if ambiguous else bare_or_quoted(label)


__all__ = ["GrammarContext", "GrammarError", "NearMiss", "NeedsTarget", "parse", "render"]
