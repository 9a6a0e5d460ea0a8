"""The section about custom commands: its settings, the rules for arguments, and the definitions that it makes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Annotated, Any, Literal

from supervisor_core.commands.definitions import CommandDefinition, Extension, Output
from supervisor_core.commands.parameters import Parameter, ParameterError
from supervisor_core.common.sections import BeforeValidator, Field, Invalid, Section
from supervisor_core.common.text import nearest
from supervisor_core.common.times import MINUTE, parse_duration
from supervisor_core.config.document import Path
from supervisor_core.config.fields import Flag, Frozen, Kind, Line, Number, OneOf, matching
from supervisor_core.config.raw import Substituted
from supervisor_core.config.worker_settings import Environment
from supervisor_core.plugins import options
from supervisor_core.plugins.loading import (
    LONGEST_SECONDS,
    PLACES,
    ROLES,
    added_command,
    command_name_fault,
    digest_of,
    option_name_fault,
)

ORIGIN = "config.yaml"

FIXED = ("python", "config", "worker_id")
"""The placeholders that aren't parameters."""

LARGEST = 10**12
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "fish", "cmd", "powershell", "pwsh"})


_VARIABLE = "has a variable, but arguments are shown to people; put the value into env"


def _new_name(value: object) -> str:
    name = str(value)
    if fault := command_name_fault(name, ORIGIN):
        raise Invalid(fault)
    return name


def _parameter_name(value: object) -> str:
    name = str(value)
    if fault := option_name_fault(name):
        raise Invalid(fault)
    return name


def _pattern(value: object) -> str:
    text = _any_line(value)
    try:
        re.compile(text)
    except re.error as error:
        raise Invalid(f"isn't a regular expression: {error}") from None
    return text


_any_line = matching(r".*", "one line")
_choice = matching(r"[a-z0-9][a-z0-9._-]{0,39}", "a word of lowercase letters, digits, dots, hyphens and underscores")

NewCommandName = Annotated[str, BeforeValidator(_new_name), Kind("name")]
ParameterName = Annotated[str, BeforeValidator(_parameter_name), Kind("name")]
TYPES = ("text", "number", "choice", "duration", "flag")


def _bound(value: object) -> int | str:
    """A whole number, or a duration in text."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= LARGEST:
        return value
    if isinstance(value, str) and parse_duration(value) is not None:
        return str(value)
    raise Invalid("must be a whole number from 0, or a duration such as 2h")


def _default(value: object) -> object:
    if value is None or isinstance(value, str | int):
        return None if value == "" else value
    raise Invalid("must be text or a whole number")


class ParameterSettings(Section):
    """An option of the command, `--name VALUE`. A value is always one argument of the program, or a part of one."""

    type: Annotated[Literal["text", "number", "choice", "duration", "flag"], BeforeValidator(OneOf(TYPES))] = Field(
        default="text",
        examples=["number"],
        description="Type of the value. A flag has none. The program gets a duration in seconds.",
    )
    help: Line = Field(default="", description="Description for the help and the form.")
    required: Flag = Field(default=False, description="Refuse the command without it.")
    default: Annotated[object, BeforeValidator(_default), Kind("text or integer")] = Field(
        default=None, examples=[7], description="Value if it isn't given. Empty: its arguments are left out."
    )
    min: Annotated[object, BeforeValidator(_bound), Kind("integer or duration")] = Field(
        default=0, description="Smallest number or shortest duration."
    )
    max: Annotated[object, BeforeValidator(_bound), Kind("integer or duration")] = Field(
        default=options.LONGEST_TEXT,
        examples=[90],
        description="Largest number, longest duration, or most characters of a text.",
    )
    pattern: Annotated[str, BeforeValidator(_pattern), Kind("regular expression")] = Field(
        default=options.ANY_WORD,
        description="Form of a whole text. A text never begins with a hyphen, whatever the pattern.",
    )
    choices: tuple[Annotated[str, BeforeValidator(_choice)], ...] = Field(
        default=(), description="Words to choose from."
    )
    argument: Line = Field(
        default="", description="Argument that stands in the place of a flag that is given. Empty: `--name`."
    )

    def check_values(self) -> None:
        """Check the bounds and the default by the rules for typed values."""
        if (self.type == "choice") != bool(self.choices):
            raise Invalid("needs choices" if self.type == "choice" else "has choices, so its type must be choice")
        if self.type in ("number", "duration") and "max" not in self.model_fields_set:
            raise Invalid("needs max, the largest valid value")
        if self.required and (self.type == "flag" or self.default is not None):
            raise Invalid("can't be required: a flag is optional, and a default stands for what isn't given")
        try:
            self.parameter("value")
        except ParameterError as error:
            raise Invalid(f"has an invalid default: {error.message}") from None
        except ValueError as error:
            raise Invalid(f"isn't valid: {error}") from None

    def parameter(self, name: str) -> Parameter:
        words: Any = {"name": name, "help": self.help or name.replace("_", " ")}
        bounds: list[Any] = [self.min, self.max, self.default]
        if self.type == "duration":  # a wrong one is found by the option
            found = [parse_duration(each) if isinstance(each, str) else None for each in bounds]
            bounds = [given if seconds is None else seconds for given, seconds in zip(bounds, found, strict=True)]
        low, high, default = bounds
        if self.type == "flag":
            return options.flag(**words)
        words |= {"required": self.required}
        if self.type == "choice":
            return options.choice(**words, choices=self.choices, default=default)
        if self.type == "text":
            return options.text(**words, pattern=self.pattern, longest=high, default=default)
        if self.type == "number":
            return options.number(**words, low=low, high=high, default=default)
        return options.duration(**words, low=max(low, MINUTE), high=high, default=default)


class CommandSettings(Section):
    """One section for each [custom command](../how-to/add-a-command.md), under its name: up to 40 lowercase letters,
    digits and hyphens. It can't be the name of a built-in command, an alias, or a worker."""

    argv: tuple[Line, ...] = Field(
        description="Program and arguments, as a list; no shell reads them. Placeholders: `{python}`, `{config}`, "
        "`{worker_id}` and the parameters; write a brace twice.",
        examples=[["{python}", "tools/clear_cache.py", "--days={days}"]],
    )
    summary: Line = Field(default="", description="Description for the help.", examples=["Delete old cache files."])
    parameters: Annotated[Mapping[ParameterName, ParameterSettings], Frozen] = Field(
        default_factory=dict, description="Options of the command."
    )
    role: Annotated[Literal["viewer", "operator", "approver"], BeforeValidator(OneOf(ROLES))] = Field(
        default="operator", description="Role that the command needs. `slack.access.commands` can list people instead."
    )
    approval: Flag = Field(
        default=False, description="Needs an approval, as if `slack.approvals.required_for` named the command."
    )
    changes: Flag = Field(
        default=True, description="Changes something. A command that only reads runs for all workers if none is named."
    )
    runs: Annotated[Literal["worker", "host"], BeforeValidator(OneOf(PLACES))] = Field(
        default="worker",
        description="`worker`: once for each worker, in its `cwd`. `host`: once for each host, in the folder of "
        "this file.",
    )
    timeout: Annotated[float, BeforeValidator(Number(0.1, LONGEST_SECONDS, unit="seconds"))] = Field(
        default=60.0, description="Time after which the program and its children are killed."
    )
    output: Annotated[Literal["text", "table", "file"], BeforeValidator(OneOf(("text", "table", "file")))] = Field(
        default="text",
        description="Form of the standard output: text, a table (cells separated by tabs, headings first), or a file.",
    )
    env: Environment = Field(
        default_factory=dict,
        description="Environment variables, beside the safe ones that a worker also gets. Their values are masked in "
        "the output.",
    )

    def definition(self, name: str) -> CommandDefinition:
        where = Output(self.output), self.runs == "host"
        # All that decides what the command does; of its environment the names, because the values are secrets.
        facts = self.model_dump(exclude={"summary", "role", "approval", "env"})
        return added_command(
            name,
            self.summary or "Run a command of this configuration.",
            (each.parameter(option) for option, each in self.parameters.items()),
            Extension(ORIGIN, digest_of({**facts, "env": sorted(self.env)}), self.argv, None, self.timeout, *where),
            role=self.role,
            approval=self.approval,
            changes=self.changes,
        )

    def flag_arguments(self) -> Mapping[str, str]:
        flags = {name: each for name, each in self.parameters.items() if each.type == "flag"}
        return {name: each.argument or options.option_of(name) for name, each in flags.items()}


def fill_arguments(argv: tuple[str, ...], values: Mapping[str, str | None]) -> tuple[str, ...]:
    """The arguments with their placeholders filled. One with a placeholder that has no value is left out."""
    filled = []
    for word in argv:
        names = [match[1] for match in _PIECE.finditer(word) if match[1] is not None]
        if all(values[name] is not None for name in names):
            filled.append(_PIECE.sub(lambda match: match[0][0] if match[1] is None else str(values[match[1]]), word))
    return tuple(filled)


Finding = tuple[Path, str]


def command_findings(data: Mapping[str, Any]) -> Iterator[Finding]:
    """Find commands that have the name of a worker, and arguments that could become something else."""
    commands = data.get("commands")
    workers = {str(each).casefold(): each for each in _mapping(data.get("workers"))}
    for name, given in _mapping(commands).items():
        if str(name) in workers:
            yield ("commands", name), f"is also the name of the worker {workers[str(name)]}; choose another name"
        argv, parameters = _mapping(given).get("argv"), _mapping(_mapping(given).get("parameters"))
        if not isinstance(argv, list) or not all(isinstance(each, str) for each in argv):
            if argv is not None:
                yield ("commands", name, "argv"), 'must be a list of texts, because no shell splits it: ["df", "-h"]'
            continue
        if not argv or not argv[0]:
            yield ("commands", name, "argv"), 'must begin with a program, such as ["df", "-h"]'
            continue
        on_host = _mapping(given).get("runs") == "host"
        for place, word in enumerate(argv):
            fault = _VARIABLE if isinstance(word, Substituted) else None
            if fault := fault or _argument_fault(argv, place, word, parameters, on_host=on_host):
                yield ("commands", name, "argv", place), fault
        used = {match[1] for word in argv for match in _PIECE.finditer(word)}
        for each in parameters:
            if each not in used:
                yield ("commands", name, "parameters", each), "isn't used: put {" + str(each) + "} into argv"


def _argument_fault(
    argv: list[str], place: int, word: str, parameters: Mapping[str, Any], *, on_host: bool
) -> str | None:
    """The reason why a value in this argument could be something else than a value; None if it can't."""
    known = [*(each for each in FIXED if not (on_host and each == "worker_id")), *parameters]
    found = [match for match in _PIECE.finditer(word) if match[0] not in ("{{", "}}")]
    if odd := next((match for match in found if match[1] not in known), None):
        near = nearest(odd[1] or "", known)
        meant = f"did you mean {{{near}}}?" if near else f"known: {', '.join(f'{{{each}}}' for each in known)}"
        return f"has a brace that isn't a placeholder; {meant}; double a literal brace"
    names = [match[1] for match in found if match[1] in parameters]
    if not names:
        return None
    if place == 0:
        return "is the program, which can't depend on a parameter"
    if PurePath(argv[0]).name.casefold().removesuffix(".exe") in _SHELLS:
        return "would be read by a shell; run the program itself, or a script of your own"
    if word.startswith("-") and "=" not in word[: found[0].start()]:
        return "would let a value choose an option; write --name={value}"
    given = _mapping(parameters[names[0]])
    if given.get("type") == "flag":
        return None if word == f"{{{names[0]}}}" else "has a flag, which must be an argument alone"
    before, alone = argv[place - 1], word == f"{{{names[0]}}}"
    is_optional = not given.get("required") and given.get("default") is None
    if alone and before.startswith("-") and "=" not in before and is_optional:
        return f"is left out without a value, and {before} isn't; write {before}={word}"
    return None


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
