"""The command-line reference, from the parsers of the subcommands.

A subcommand's hand-written notes, such as the shape of its JSON, are in `templates/command-line/NAME.md`.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

from supervisor_core.cli import (
    ALIASES,
    COMMANDS,
    FAILURE,
    GROUPS,
    INTERRUPTED,
    MODULES,
    SUCCESS,
    USAGE,
    parsers_of,
)
from supervisor_core.cli.daemon import ACTIONS
from supervisor_core.commands.catalog import CATALOG, FAMILIES
from supervisor_core.workers.health import Health, WorkerState
from tests.reference.markdown import TEMPLATES, attribute_docs, code, fill, sentence, table

NOTES = TEMPLATES / "command-line"
WIDTH = 100
EXIT_CODES = {
    SUCCESS: "Success.",
    FAILURE: "The operation failed, or something is unhealthy.",
    USAGE: "Wrong usage or an invalid configuration. The message on stderr names the option or key.",
    INTERRUPTED: "Interrupted.",
}
VERBS = tuple(name for name in COMMANDS if name not in MODULES)
"""The subcommands that are commands of the catalog."""

DAEMON = tuple(f"daemon {action}" for action in ACTIONS)
OWN = tuple(
    name
    for shown in COMMANDS
    if shown not in (*VERBS, *ALIASES)
    for name in (DAEMON if shown == "daemon" else (shown,))
)
"""The other subcommands, in the order of the overview."""


def _meanings(kind: type[Health | WorkerState]) -> str:
    docs = attribute_docs(kind)
    return table((kind.__name__.removeprefix("Worker").lower(), "meaning"), ((code(e), docs[e.name]) for e in kind))


PLACES = {"status": {"health": _meanings(Health), "state": _meanings(WorkerState)}}
"""What fills the places in the notes of a subcommand."""


def page() -> str:
    for notes in NOTES.iterdir():
        if notes.stem.replace("-", " ") not in OWN:
            raise ValueError(f"{notes} is about a subcommand that doesn't exist: delete the file")
    overview = [
        ("" if place else title, _linked(names), sentence(text))
        for title, group in GROUPS.items()
        for place, (names, text) in enumerate(group.items())
    ]
    return fill(
        "command-line.md",
        {
            "overview": table(("", "subcommand", "description"), overview),
            "exit codes": table(("code", "meaning"), ((str(each), text) for each, text in EXIT_CODES.items())),
            "verbs": table(("call", "description"), (row for name in VERBS for row in _calls(name))),
            "options": table(("option", "subcommands", "description"), _options()),
            "aliases": ", ".join(code(f"supervisor {each}") for each in ALIASES),
            "subcommands": "\n\n".join(map(_section, OWN)),
        },
    )


def _linked(names: str) -> str:
    """The names of a line of the overview, each with a link to its section."""
    links = []
    for name in names.split(", "):
        place = "commands-for-workers" if name in VERBS else f"supervisor-{DAEMON[0] if name == 'daemon' else name}"
        links.append(f"[`{name}`](#{place.replace(' ', '-')})")
    return ", ".join(links)


def _calls(name: str) -> Iterator[tuple[str, str]]:
    for each in FAMILIES.get(name) or (CATALOG[name],):
        yield f"`supervisor {each.usage}`", each.summary


def _options() -> Iterator[tuple[str, str, str]]:
    """The options of the catalog's commands, each once."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in VERBS:
        parser = parsers_of(name)[name]
        for each in _shown(parser):
            found.setdefault((_name(each), _help(parser, each)), []).append(name)
    for (option, text), names in found.items():
        yield option, "all" if len(names) == len(VERBS) else ", ".join(names), text


def _section(name: str) -> str:
    notes, parser = NOTES / f"{name.replace(' ', '-')}.md", parsers_of(name.partition(" ")[0])[name]
    parts = [f"## supervisor {name}", " ".join((parser.description or "").split()), f"```text\n{_usage(parser)}\n```"]
    actions = _shown(parser)
    if actions:
        parts.append(table(("argument", "description"), ((_name(each), _help(parser, each)) for each in actions)))
    examples = re.findall(r"^ +(supervisor .*)$", parser.epilog or "", re.MULTILINE)
    if examples:
        shown = "\n".join(f"$ {each}" for each in examples)
        parts.append(f"```console\n{shown}\n```")
    if notes.exists():
        parts.append(fill(f"{NOTES.name}/{notes.name}", PLACES.get(name, {})).strip())
    return "\n\n".join(parts)


def _shown(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """The arguments, then the options without `--help` and `--config`, which all subcommands have."""
    every = [each for each in parser._actions if not isinstance(each, argparse._HelpAction)]  # noqa: SLF001
    shown = [each for each in every if each.help != argparse.SUPPRESS and "--config" not in each.option_strings]
    return sorted(shown, key=lambda each: bool(each.option_strings))


def _usage(parser: argparse.ArgumentParser) -> str:
    """The usage line, written here because its form in argparse depends on the version of Python."""
    words, grouped = [parser.prog], set[int]()
    exclusive = parser._mutually_exclusive_groups  # noqa: SLF001
    for action in _shown(parser):
        group = next((each for each in exclusive if action in each._group_actions), None)  # noqa: SLF001
        if group is None:
            words.append(_word(action))
        elif id(group) not in grouped:
            grouped.add(id(group))
            words.append(f"[{' | '.join(_word(each).strip('[]') for each in group._group_actions)}]")  # noqa: SLF001
    lines = [""]
    for word in [*words, "[--config FILE]"]:
        if lines[-1] and len(lines[-1]) + len(word) >= WIDTH:
            lines.append("   ")
        lines[-1] = f"{lines[-1]} {word}" if lines[-1] else word
    return "\n".join(lines)


def _word(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        several = f"{value} …" if action.nargs in ("*", "+") and "…" not in value else value
        return f"[{several}]" if action.nargs in ("?", "*") else several
    return f"[{action.option_strings[-1]}{f' {value}' if value else ''}]"


def _name(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return code(value)
    return ", ".join(code(f"{option} {value}" if value else option) for option in action.option_strings)


def _value(action: argparse.Action) -> str:
    if action.nargs == 0:
        return ""
    if action.choices:
        return " | ".join(map(str, action.choices))
    metavar = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
    return (metavar or action.dest.upper()).strip()


def _help(parser: argparse.ArgumentParser, action: argparse.Action) -> str:
    return sentence(parser._get_formatter()._expand_help(action))  # noqa: SLF001
