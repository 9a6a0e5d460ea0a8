"""The commands that Slack has as well, typed at the shell: `supervisor rollback OrionMX 3 hotfix`.

The arguments are joined to one text of the grammar, which goes the way of `supervisor send '…' --wait`.
"""

from __future__ import annotations

import textwrap

from supervisor_core.commands.catalog import CATALOG, FAMILIES
from supervisor_core.commands.definitions import CommandDefinition, TargetRule, Tier
from supervisor_core.commands.manual import argument_rows
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.commands.words import escape_entities, quote
from supervisor_core.common.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

HELP_WIDTH = 78


def verb_parser(name: str) -> argparse.ArgumentParser:
    """The parser of a command of the catalog, or of the first word of several, such as `schedule`."""
    import argparse

    from supervisor_core.cli import options

    definitions = FAMILIES.get(name) or (CATALOG[name],)
    usage = [f"  supervisor {each.usage}" for each in definitions]
    several = len(definitions) > 1
    described = [f"{each.name}: {each.summary}" if several else each.summary for each in definitions]
    text = "\n".join([*map(textwrap.fill, described), *_arguments(definitions)])
    parser = options.new_parser(name, text, *_examples(definitions))
    parser.usage = "\n".join(["supervisor " + definitions[0].usage + " [options]", *usage[1:]])
    parser.add_argument("words", nargs="*", metavar="WORD", help=argparse.SUPPRESS)
    queued = any(each.handler is not None for each in definitions)
    if queued:
        wait = "wait for the outcome (the default, but for batches), or return once the command is queued"
        parser.add_argument("--wait", action=argparse.BooleanOptionalAction, help=wait)
        options.waiting(parser)
    for option in definitions[0].options:
        _add_option(parser, option)
    if any(each.tier is Tier.CODE for each in definitions):
        options.previewing(parser)
    parser.add_argument("--json", action="store_true", help=options.JSON)
    parser.set_defaults(wait=None if queued else False, timeout=None, preview=False, if_state=None, flags=None)
    return parser


def _add_option(parser: argparse.ArgumentParser, option: Parameter) -> None:
    """An option of the command, which becomes a part of its text."""
    about = option.description.replace("%", "%%")
    if option.kind is ParameterKind.FLAG:
        parser.add_argument(option.word, action="append_const", const=option.word, dest="flags", help=about)
        return

    def as_words(value: str) -> str:
        written = quote(value) if " " in value and not value.startswith('"') else escape_entities(value)
        return f"{option.option} {written}"

    parser.add_argument(option.option, metavar=option.word, action="append", type=as_words, dest="flags", help=about)


def run(name: str, options: argparse.Namespace) -> int:
    """Send the command, or show the answer."""
    from supervisor_core.cli import send

    options.text = [as_text(name, options.words, options.flags or ())]
    if options.wait is None:  # batches take longer than anybody waits at a prompt
        options.wait = options.timeout is not None or not send.is_rolling(options.text)
    return send.run(options)


def as_text(name: str, words: Sequence[str], flags: Sequence[str] = ()) -> str:
    """The arguments as one text. One with spaces is text, as in quotes; the first may be the whole rest."""
    if any(not word.strip() for word in words):
        raise UsageError(f"An argument of `supervisor {name}` is empty.", remedy="Is a variable not set?")
    first, others = words[:1], words[1:]
    quoted = [quote(word) if " " in word and '"' not in word else escape_entities(word) for word in others]
    return " ".join([name, *flags, *map(escape_entities, first), *quoted])


def _arguments(definitions: Sequence[CommandDefinition]) -> list[str]:
    """The arguments that are words, each with its meaning, as the manual has them."""
    options = {option.usage.strip("[]") for each in definitions for option in each.options}
    rows = dict(row for each in definitions for row in argument_rows(each) if row[0] not in options)
    width = max(map(len, rows), default=0)
    indent = " " * (width + 4)
    lines = [
        textwrap.fill(f"  {word.ljust(width)}  {text}", HELP_WIDTH, subsequent_indent=indent)
        for word, text in rows.items()
    ]
    return ["", "arguments:", *lines] if lines else []


def _examples(definitions: Sequence[CommandDefinition]) -> list[str]:
    chosen = []
    for each in definitions:
        named = [example for example in each.examples if " " in example or each.target is not TargetRule.WORKERS]
        chosen.append(f"supervisor {(named or each.examples)[0]}")
    return chosen
