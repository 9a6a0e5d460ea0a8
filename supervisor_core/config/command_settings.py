"""The section about custom commands: its settings, the rules for arguments, and the definitions that it makes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta

from supervisor_core.commands.definitions import CommandDefinition, Extension, Output
from supervisor_core.commands.parameters import Parameter, ParameterError
from supervisor_core.common.times import MINUTE, parse_duration
from supervisor_core.config.names import unless_fault
from supervisor_core.config.sections import EMPTY, Invalid, Section, as_plain, checked, line, number, pattern
from supervisor_core.config.worker_settings import PLACEHOLDER, Environment, fill_placeholders
from supervisor_core.plugins import options
from supervisor_core.plugins.loading import (
    LONGEST_SECONDS,
    added_command,
    command_name_fault,
    digest_of,
    option_name_fault,
)

ORIGIN = "config.yaml"
LARGEST = 10**12


def _check_pattern(value: object) -> str:
    text = line(value)
    try:
        re.compile(text)
    except re.error as error:
        raise Invalid(f"isn't a regular expression: {error}") from None
    return text


def _check_bound(value: object) -> int | str:
    """A whole number, or a duration in text."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    if isinstance(value, str) and parse_duration(value) is not None:
        return str(value)
    raise Invalid("must be a whole number from 0, or a duration such as 2h")


def _check_default(value: object) -> object:
    if value is None or isinstance(value, str | int):
        return None if value == "" else value
    raise Invalid("must be text or a whole number")


NewCommandName = Annotated[str, checked(unless_fault(lambda name: command_name_fault(name, ORIGIN)), "name")]
ParameterName = Annotated[str, checked(unless_fault(option_name_fault), "name")]
Choice = Annotated[
    str, pattern(r"[a-z0-9][a-z0-9._-]{0,39}", "a word of lowercase letters, digits, dots, hyphens and underscores")
]


class ParameterSettings(Section, frozen=True):
    """An option of the command, `--name VALUE`. A value is always one argument of the program, or a part of one."""

    type: Annotated[Literal["text", "number", "choice", "duration", "flag"], Meta(examples=["number"])] = "text"
    """Type of the value. A flag has none. The program gets a duration in seconds."""
    help: str = ""
    """Description for the help and the form."""
    required: bool = False
    """Refuse the command without it."""
    default: Annotated[object, checked(_check_default, "text or integer"), Meta(examples=[7])] = None
    """Value if it isn't given. Empty: its arguments are left out."""
    min: Annotated[object, checked(_check_bound, "integer or duration")] = 0
    """Smallest number or shortest duration."""
    max: Annotated[object, checked(_check_bound, "integer or duration"), Meta(examples=[90])] = options.LONGEST_TEXT
    """Largest number, longest duration, or most characters of a text."""
    pattern: Annotated[str, checked(_check_pattern, "regular expression")] = options.ANY_WORD
    """Form of a whole text. A text never begins with a hyphen, whatever the pattern."""
    choices: tuple[Choice, ...] = ()
    """Words to choose from."""
    argument: str = ""
    """Argument that stands in the place of a flag that is given. Empty: `--name`."""

    @classmethod
    def prepare(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        if given.get("type") in ("number", "duration") and "max" not in given:
            raise Invalid("needs max, the largest valid value")
        return given

    def check_values(self) -> None:
        """Check the bounds and the default by the rules for typed values."""
        if (self.type == "choice") != bool(self.choices):
            raise Invalid("needs choices" if self.type == "choice" else "has choices, so its type must be choice")
        if self.required and (self.type == "flag" or self.default is not None):
            raise Invalid("can't be required: a flag is optional, and a default stands for what isn't given")
        try:
            self.parameter("value")
        except ParameterError as error:
            raise Invalid(f"has an invalid default: {error.message}") from None
        except ValueError as error:
            raise Invalid(f"isn't valid: {error}") from None

    def parameter(self, name: str) -> Parameter:
        names: Any = {"name": name, "help": self.help or name.replace("_", " ")}
        bounds: list[Any] = [self.min, self.max, self.default]
        if self.type == "duration":  # a wrong one is found by the option
            seconds = [parse_duration(bound) if isinstance(bound, str) else None for bound in bounds]
            bounds = [bound if length is None else length for bound, length in zip(bounds, seconds, strict=True)]
        low, high, default = bounds
        if self.type == "flag":
            return options.flag(**names)
        names |= {"required": self.required}
        if self.type == "choice":
            return options.choice(**names, choices=self.choices, default=default)
        if self.type == "text":
            return options.text(**names, pattern=self.pattern, longest=high, default=default)
        if self.type == "number":
            return options.number(**names, low=low, high=high, default=default)
        return options.duration(**names, low=max(low, MINUTE), high=high, default=default)


class CommandSettings(Section, frozen=True):
    """One section for each [custom command](../how-to/add-a-command.md), under its name: up to 40 lowercase letters,
    digits and hyphens. It can't be the name of a built-in command, an alias, or a worker."""

    argv: Annotated[tuple[str, ...], Meta(examples=[["{python}", "tools/clear_cache.py", "--days={days}"]])]
    """Program and arguments, as a list; no shell reads them. Placeholders: `{python}`, `{config}`, `{worker_id}` and
    the parameters; write a brace twice."""
    summary: Annotated[str, Meta(examples=["Delete old cache files."])] = ""
    """Description for the help."""
    parameters: Mapping[ParameterName, ParameterSettings] = EMPTY
    """Options of the command."""
    role: Literal["viewer", "operator", "approver"] = "operator"
    """Role that the command needs. `slack.access.commands` can list people instead."""
    approval: bool = False
    """Needs an approval, as if `slack.approvals.required_for` named the command."""
    changes: bool = True
    """Changes something. A command that only reads runs for all workers if none is named."""
    runs: Literal["worker", "host"] = "worker"
    """`worker`: once for each worker, in its `cwd`. `host`: once for each host, in the folder of this file."""
    timeout: Annotated[float, number(0.1, LONGEST_SECONDS, "seconds")] = 60.0
    """Time after which the program and its children are killed."""
    output: Literal["text", "table", "file"] = "text"
    """Form of the standard output: text, a table (cells separated by tabs, headings first), or a file."""
    env: Environment = EMPTY
    """Environment variables, beside the safe ones that a worker also gets. Their values are masked in the output."""

    def definition(self, name: str) -> CommandDefinition:
        # All that decides what the command does; of its environment the names, because the values are secrets.
        facts = {key: value for key, value in as_plain(self).items() if key not in ("summary", "role", "approval")}
        return added_command(
            name,
            self.summary or "Run a command of this configuration.",
            (parameter.parameter(option) for option, parameter in self.parameters.items()),
            Extension(
                ORIGIN,
                digest_of({**facts, "env": sorted(self.env)}),
                self.argv,
                None,
                self.timeout,
                Output(self.output),
                self.runs == "host",
            ),
            role=self.role,
            approval=self.approval,
            changes=self.changes,
        )

    def flag_arguments(self) -> Mapping[str, str]:
        flags = {name: parameter for name, parameter in self.parameters.items() if parameter.type == "flag"}
        return {name: flag.argument or options.option_of(name) for name, flag in flags.items()}


def fill_arguments(argv: tuple[str, ...], values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The arguments with their placeholders filled. One with a placeholder that has no value is left out."""
    return tuple(
        fill_placeholders(word, values)
        for word in argv
        if all(values[match[1]] is not None for match in PLACEHOLDER.finditer(word) if match[1] is not None)
    )
