"""The parsers of subcommands, and types of arguments that several have. It imports nothing slow."""

from __future__ import annotations

import argparse
import re
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable

from supervisor_core.cli.output import terminal_width

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Never

Run = Callable[[Namespace], int]
Subparsers = dict[str, "Parser"]
"""The parsers of a module's subcommands, by name. That of `daemon start` has both words."""

JSON = "print JSON"
MAX_NUMBER = 1_000_000
PIPED_WIDTH = 80


class Parser(ArgumentParser):
    """A parser whose errors name the nearest option or choice. Options are never abbreviated."""

    note_from: int | None = None
    """The first argument that may be the `--` before a command's note; None for a subcommand without one."""

    def parse(self, argv: Sequence[str]) -> Namespace:
        """Parse all arguments. What follows `--` is the note of a command, which argparse would drop."""
        if self.note_from is None:
            return self.parse_args(argv)
        end = list(argv).index("--", self.note_from) if "--" in argv[self.note_from :] else len(argv)
        arguments = self.parse_intermixed_args(argv[:end])
        arguments.note = " ".join(argv[end:])
        return arguments

    def error(self, message: str) -> Never:
        from supervisor_core.common.text import nearest

        known = [option for action in self._actions for option in action.option_strings if option.startswith("--")]
        mistake = re.search(r"unrecognized arguments: .*?(--[^\s=]+)", message)
        if mistake is None:
            known = [str(choice) for action in self._actions for choice in action.choices or ()]
            mistake = re.search(r"invalid choice: '([^']*)'", message)
        suggestion = nearest(mistake[1], known) if mistake else None
        super().error(f"{message}. Did you mean {suggestion}?" if suggestion else message)


def add_command(subparsers: Subparsers, name: str, run: Run, description: str, *examples: str) -> Parser:
    """Add a parser with what all subcommands have: `--config`, and examples below the options."""
    title = "example:" if len(examples) == 1 else "examples:"
    parser = subparsers[name] = Parser(
        prog=f"supervisor {name}",
        allow_abbrev=False,
        description=description,
        epilog="\n".join([title, *(f"  supervisor {example}" for example in examples)]),
        formatter_class=_formatter,
    )
    parser.add_argument("--config", metavar="FILE", help="default: $SUPERVISOR_CONFIG, else ./config.yaml")
    parser.set_defaults(run=run)
    return parser


def _formatter(prog: str) -> argparse.HelpFormatter:
    """Without a width, argparse imports shutil for every argument that is added."""
    return argparse.RawDescriptionHelpFormatter(prog, width=(terminal_width() or PIPED_WIDTH) - 2)


def number_from(lowest: int) -> Callable[[str], int]:
    def number(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", text) or not lowest <= int(text) <= MAX_NUMBER:
            raise ArgumentTypeError(f"must be a number from {lowest} to {MAX_NUMBER}, not {text!a}")
        return int(text)

    return number
