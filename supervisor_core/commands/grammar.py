"""The grammar: one line of text to a Command, and a Command back to its text. Every source uses it. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from supervisor_core.commands.arguments import Arguments
from supervisor_core.commands.catalog import CATALOG, FAMILIES, OVERVIEW, find, nearest_command
from supervisor_core.commands.command import Command
from supervisor_core.commands.conditions import reads_as_clause
from supervisor_core.commands.definitions import CommandDefinition
from supervisor_core.commands.grammar_errors import GrammarError
from supervisor_core.commands.parameters import Parameter, ParameterKind, is_task_word
from supervisor_core.commands.targets import GrammarContext, workers_named
from supervisor_core.commands.words import (
    Word,
    bare_or_quoted,
    escape,
    excerpt,
    join_words,
    quote,
    split_words,
    with_word,
)
from supervisor_core.common.text import nearest

ADDRESS = "/supervisor"
_MENTIONED = re.compile(r"\s*<@[A-Za-z0-9]+(?:\|[^<>]*)?>[\s:;,.!]*")
"""`@supervisor`, `@supervisor:` or `@supervisor,` at the start of a message."""

_HASH = re.compile(r"[0-9A-Fa-f]{4,40}")


def parse(text: str, context: GrammarContext) -> Command:
    """The command in a line of text, checked and complete except for its issuer. `GrammarError` says what was
    expected."""
    words = _without_address(split_words(text[found.end() :] if (found := _MENTIONED.match(text)) else text))
    return _command(words, context) if words else Command(OVERVIEW)


def commit_word(text: str, command: Command) -> str:
    """The label of a rollback without a number, if it may be the hash of a commit; empty otherwise. In quotes, or
    after a number, it's a label."""
    one = command.name == "rollback" and command.params.get("commits_back") == 1
    if not one or not _HASH.fullmatch(command.label or ""):
        return ""
    words = [word for word in split_words(text) if not word.is_note]
    numbered = any(word.text == "1" for word in words)
    return "" if numbered or not words or words[-1].quoted else words[-1].text


def render(command: Command) -> str:
    """The canonical text of a command with all its defaults; it parses to the same command."""
    if command.name == OVERVIEW:
        return ""
    definition = CATALOG.on_record(command.name)
    parts = [command.name]
    if command.target:
        parts.append(escape(command.target))
    for parameter in definition.written:
        value = command.params.get(parameter.name)
        if value is not None and value is not False:
            parts.append(_render_parameter(definition, parameter, value))
    if command.label:
        parts.append(_label(definition, command.label))
    if command.note:
        parts.append(f"-- {escape(command.note)}")
    return " ".join(parts)


def _without_address(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words without `@supervisor` and `/supervisor`."""
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
    target, workers = _chosen(definition, arguments, context)
    params = arguments.check_parameters()
    return Command(definition.name, target=target, workers=workers, params=params, label=arguments.label)


def _chosen(
    definition: CommandDefinition, arguments: Arguments, context: GrammarContext
) -> tuple[str, tuple[str, ...]]:
    """The target and its workers. A command that runs once on each host is for the first of its workers there."""
    if not definition.runs_on_host:
        return arguments.choose_target()
    hosts = [there for there in context.hosts.values() if there] or [context.workers]
    if arguments.target is None and len(hosts) == 1 and context.workers:
        return context.every_worker, context.workers[:1]
    target, workers = arguments.choose_target()
    first = (next((each for each in workers if each in there), None) for there in hosts)
    return target, tuple(each for each in first if each is not None)


def _schedule_text(head: Sequence[Word], tail: Sequence[Word], context: GrammarContext) -> str:
    """The canonical text of the command inside a `schedule add`."""
    try:
        if len(tail) == 1 and tail[0].quoted and not tail[0].is_note:
            tail = split_words(tail[0].text)
        tail = _without_address(tuple(tail))
        if not tail:
            raise GrammarError("Add the command to run, such as: restart all")
        definition, _ = _find_definition(tail, context)
        if not definition.schedulable:
            raise GrammarError(
                f"{definition.name} can't be scheduled. Only commands that change workers or report on them can."
            )
        return render(_command(tail, context.later))
    except GrammarError as error:
        error.inside(join_words(head))
        raise


def _find_definition(words: Sequence[Word], context: GrammarContext) -> tuple[CommandDefinition, int]:
    """The command that the first one or two words name, and their number."""
    first, rest = words[0], words[1:]
    if first.quoted:
        raise GrammarError(f"Remove the quotes around {excerpt(first.text)}: the command itself isn't quoted.")
    if rest and not rest[0].quoted:
        definition = find(f"{first.text} {rest[0].text}")
        if definition is not None:
            return definition, 2
    definition = find(first.text)
    if definition is not None:
        return definition, 1
    if first.text.lower() in FAMILIES:
        seconds = [definition.name.split(" ")[1] for definition in FAMILIES[first.text.lower()]]
        message = f"Use {first.text.lower()} {', '.join(seconds[:-1])} or {seconds[-1]}."
        if not rest:
            raise GrammarError(message)
        raise _with_nearest(f"{message[:-1]}, not {excerpt(rest[0].text)}.", words, 1, nearest(rest[0].text, seconds))
    if workers_named(first.text, context):
        raise GrammarError(f"{excerpt(first.text)} is a worker. The command comes first.")
    found = nearest_command(first.text)
    hint = f"The closest is {found}." if found else "Type help to list them."
    raise _with_nearest(f"There's no command {excerpt(first.text)}. {hint}", words, 0, found)


def _with_nearest(message: str, words: Sequence[Word], position: int, instead: str | None) -> GrammarError:
    error = GrammarError(message)
    if instead:
        error.suggest(with_word(words, position, instead))
    return error


def _render_parameter(definition: CommandDefinition, parameter: Parameter, value: object) -> str:
    """A parameter as it stands in the canonical text."""
    text = parameter.spelled(value)
    match parameter.kind:
        case ParameterKind.FLAG:
            return parameter.word
        case ParameterKind.ARGUMENT:
            return f"{parameter.keyword} {text if ' ' not in text and bare_or_quoted(text) == text else quote(text)}"
        case ParameterKind.CRON:
            return quote(text)
        case ParameterKind.TEXT:
            return quote(text) if reads_as_clause(text) else bare_or_quoted(text)
        case ParameterKind.PERSON:
            ambiguous = " " in text or text.lower() in definition.keywords
            return f"{parameter.keyword} {quote(text) if ambiguous else bare_or_quoted(text)}"
        case ParameterKind.NAME if text.lower() in definition.keywords:
            return f"{parameter.keyword} {quote(text)}"
        case _:
            return f"{parameter.keyword} {text}".lstrip()


def _label(definition: CommandDefinition, label: str) -> str:
    """The label, quoted where a word in it would be taken for an argument."""
    takes_id = any(parameter.kind is ParameterKind.TASK_ID for parameter in definition.parameters)
    ambiguous = takes_id and any(is_task_word(word) for word in label.split(" "))
    return quote(label) if ambiguous or reads_as_clause(label) else bare_or_quoted(label)
