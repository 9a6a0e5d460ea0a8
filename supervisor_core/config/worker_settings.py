"""The sections about workers and teams, placeholders in commands, and the environment that a worker inherits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationInfo, model_validator

from supervisor_core.common.text import nearest
from supervisor_core.config.fields import (
    FilePath,
    Flag,
    FreeText,
    Frozen,
    HostPort,
    Line,
    OptionalPath,
    Pause,
    ProbeUrl,
    Seconds,
    Section,
    Thawed,
    Written,
    folder_of,
    invalid,
    kind_of,
    matching,
    number,
    one_of,
    quotable,
)
from supervisor_core.config.names import PersonId
from supervisor_core.config.raw import Substituted, absolute

PLACEHOLDERS = ("python", "config", "worker_id")
_PIECE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


def fill_placeholders(word: str, values: Mapping[str, str]) -> str:
    """One word of a command with its placeholders filled; it was checked by `fault` before."""
    return _PIECE.sub(lambda match: match[0][0] if match[1] is None else values[match[1]], word)


def placeholder_fault(word: str, *, quote: bool) -> str | None:
    """The problem with a word's placeholders, if any; with `quote` false the word is a secret."""
    for match in _PIECE.finditer(word):
        if match[0] in ("{{", "}}") or match[1] in PLACEHOLDERS:
            continue
        name = match[1]
        known = "{python}, {config} and {worker_id}"
        if name is None or not re.fullmatch(r"[A-Za-z_-]{1,30}", name) or not quote:
            return f"has a brace that is no placeholder: these are {known}; a brace itself is written twice"
        near = nearest(name, PLACEHOLDERS)
        meant = f"did you mean {{{near}}}?" if near else f"there are {known}"
        return f"has the placeholder {{{name}}}, which is none; {meant}"
    return None


EXAMPLE = '["{python}", "-m", "package.module", "--config", "{config}"]'
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ABRT", "ALRM", "WINCH", "BREAK", "KILL")


def _word(value: object) -> str:
    problem = placeholder_fault(value, quote=not isinstance(value, Substituted)) if isinstance(value, str) else None
    if problem:
        raise invalid(problem)
    if not isinstance(value, str) or "\0" in value:
        raise invalid(f"must be text, but is {kind_of(value)}; put it in quotes")
    return str(value)


def _words(value: object) -> object:
    if isinstance(value, str):
        raise invalid(f"must be a list of words, not one text: no shell takes it apart; for example {EXAMPLE}")
    if value is None or (isinstance(value, list | tuple) and (not value or not value[0])):
        raise invalid(f"is empty; it is what to start, for example {EXAMPLE}")
    return value


def _signal(value: object) -> str:
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if name in SIGNALS:
        return name
    near = nearest(name, SIGNALS) if quotable(value) else None
    raise invalid(f"must be one of {', '.join(SIGNALS)}" + (f"; did you mean {near}?" if near else ""))


def _environment(value: object) -> object:
    if isinstance(value, Mapping):
        for name in value:
            if not name or "=" in str(name) or not str(name).isprintable():
                raise invalid("has a variable whose name is empty, or has an equals sign or a control character in it")
    return {} if value is None else value


def _python(value: object, info: ValidationInfo) -> str:
    """An interpreter: a name to be found in PATH, or a path that starts at the folder of the file."""
    text = _LINE(value)
    if "/" not in text and "\\" not in text:
        return text
    return absolute(folder_of(info), text)


_LINE = matching(r".+", "the path of a Python interpreter", empty=True)

Word = Annotated[str, BeforeValidator(_word)]
Words = Annotated[tuple[Word, ...], BeforeValidator(_words)]
Policy = Annotated[Literal["never", "on-failure", "always"], BeforeValidator(one_of("never", "on-failure", "always"))]


class ProbeSettings(Section):
    """A question put to a worker again and again: exactly one of an HTTP request, a connection, a program."""

    http: ProbeUrl | None = None
    tcp: HostPort | None = None
    exec: Words | None = None
    interval: Pause = 30.0
    timeout: Pause = 5.0
    failures: Annotated[int, BeforeValidator(number(1, 1000, whole=True))] = 3

    @model_validator(mode="before")
    @classmethod
    def _exactly_one(cls, given: Any) -> Any:  # noqa: ANN401 (a document may hold anything)
        if isinstance(given, Mapping):
            kinds = [kind for kind in ("http", "tcp", "exec") if kind in given]
            if len(kinds) != 1:
                found = " and ".join(kinds) or "none of them"
                raise invalid(f"must have exactly one of http, tcp and exec, but has {found}")
        return given


class RestartSettings(Section):
    """The restart policy and its limits."""

    policy: Policy = "on-failure"
    max_per_hour: Annotated[int, BeforeValidator(number(0, 3600, whole=True))] = 5
    backoff_seconds: Seconds = 5.0
    on_hang: Flag = False


class CodeSettings(Section):
    """The checkout that a worker runs from, and how its requirements are installed."""

    path: FilePath = Path()
    remote: Annotated[str, BeforeValidator(matching(r"[^\s-]\S*", "the name of a git remote"))] = "origin"
    branch: Annotated[str, BeforeValidator(matching(r"[^\s-]\S*", "the name of a git branch"))] = "main"
    requirements: Annotated[str, BeforeValidator(matching(r"[^-].*", "a path in the checkout", empty=True))] = (
        "requirements.txt"
    )
    pip_args: tuple[FreeText, ...] = ()
    pip_timeout_seconds: Pause = 600.0
    push_rollbacks: Flag = False


class WorkerSettings(Section):
    """One worker. `id` is its key in the configuration."""

    LIVE: ClassVar[frozenset[str]] = frozenset(
        {
            "enabled",
            "quarantined",
            "team",
            "stop_signal",
            "stop_timeout_seconds",
            "start_grace_seconds",
            "heartbeat_max_age_seconds",
            "probes",
            "restart",
            "code",
        }
    )
    """The settings that take effect without a restart; a change of any other one needs it."""

    python: Annotated[str, BeforeValidator(_python)] = ""
    command: Words
    cwd: FilePath = Path()
    env: Annotated[Mapping[str, Written], BeforeValidator(_environment), Frozen, Thawed] = Field(default_factory=dict)
    enabled: Flag = True
    quarantined: Flag = False
    team: Line = ""
    stop_signal: Annotated[str, BeforeValidator(_signal)] = "TERM"
    stop_timeout_seconds: Seconds = 30.0
    start_grace_seconds: Seconds = 2.0
    log_file: OptionalPath = None
    heartbeat_max_age_seconds: Seconds = 300.0
    probes: tuple[ProbeSettings, ...] = ()
    restart: RestartSettings = Field(default_factory=RestartSettings)
    code: CodeSettings = Field(default_factory=CodeSettings)
    _id: str = PrivateAttr(default="")

    @property
    def id(self) -> str:
        """Its key in the configuration."""
        return self._id


class TeamSettings(Section):
    """A named group of workers, and who may command and approve for them in addition."""

    objective: Line = ""
    operators: tuple[PersonId, ...] = ()
    approvers: tuple[PersonId, ...] = ()
    _name: str = PrivateAttr(default="")

    @property
    def name(self) -> str:
        """Its key in the configuration."""
        return self._name


SAFE = frozenset({"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"})
SAFE_PREFIX = "LC_"
# Without these, programs of Windows do not even start.
WINDOWS = frozenset(
    {
        "SYSTEMROOT",
        "SYSTEMDRIVE",
        "WINDIR",
        "COMSPEC",
        "PATHEXT",
        "TEMP",
        "TMP",
        "USERNAME",
        "USERPROFILE",
        "HOMEDRIVE",
        "HOMEPATH",
        "APPDATA",
        "LOCALAPPDATA",
        "PROGRAMDATA",
        "NUMBER_OF_PROCESSORS",
        "PROCESSOR_ARCHITECTURE",
    }
)


def safe_environment(environ: Mapping[str, str], *, windows: bool = os.name == "nt") -> dict[str, str]:
    """The variables that any worker may see. All others may be secrets."""
    allowed = SAFE | WINDOWS if windows else SAFE
    return {
        name: value
        for name, value in environ.items()
        if (name.upper() if windows else name) in allowed or name.startswith(SAFE_PREFIX)
    }
