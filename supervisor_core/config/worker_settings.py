"""The sections about workers and teams, placeholders in commands, and the environment that a worker inherits."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from supervisor_core.common.sections import (
    BeforeValidator,
    Context,
    Field,
    Invalid,
    Section,
)
from supervisor_core.common.text import nearest
from supervisor_core.config.fields import (
    FilePath,
    Flag,
    FreeText,
    Frozen,
    HostPort,
    Kind,
    Line,
    Number,
    OneOf,
    OptionalPath,
    Pause,
    ProbeUrl,
    Seconds,
    Written,
    folder_of,
    kind_of,
    matching,
    quotable,
)
from supervisor_core.config.names import ApproverId, PersonId
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
            return f"has a brace that isn't a placeholder; placeholders are {known}; double a literal brace"
        near = nearest(name, PLACEHOLDERS)
        meant = f"did you mean {{{near}}}?" if near else f"use {known}"
        return f"has the unknown placeholder {{{name}}}; {meant}"
    return None


EXAMPLE = '["{python}", "-m", "package.module", "--config", "{config}"]'
SIGNALS = ("TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ABRT", "ALRM", "WINCH", "BREAK", "KILL")


def _word(value: object) -> str:
    problem = placeholder_fault(value, quote=not isinstance(value, Substituted)) if isinstance(value, str) else None
    if problem:
        raise Invalid(problem)
    if not isinstance(value, str) or "\0" in value:
        raise Invalid(f"must be text, but is {kind_of(value)}; put it in quotes")
    return str(value)


def _words(value: object) -> object:
    if isinstance(value, str):
        raise Invalid(f"must be a list, because no shell splits it; example: {EXAMPLE}")
    if value is None or (isinstance(value, list | tuple) and (not value or not value[0])):
        raise Invalid(f"must not be empty; example: {EXAMPLE}")
    return value


def _signal(value: object) -> str:
    name = value.upper().removeprefix("SIG") if isinstance(value, str) else ""
    if name in SIGNALS:
        return name
    near = nearest(name, SIGNALS) if quotable(value) else None
    raise Invalid(f"must be one of {', '.join(SIGNALS)}" + (f"; did you mean {near}?" if near else ""))


def _environment(value: object) -> object:
    if isinstance(value, Mapping):
        for name in value:
            if not name or "=" in str(name) or not str(name).isprintable():
                raise Invalid("has an invalid variable name: empty, or with an equals sign or control character")
    return {} if value is None else value


def _python(value: object, context: Context) -> str:
    """An interpreter: a name to be found in PATH, or a path that starts at the folder of the file."""
    text = _LINE(value)
    if "/" not in text and "\\" not in text:
        return text
    return absolute(folder_of(context), text)


_LINE = matching(r".+", "the path of a Python interpreter", empty=True)

Word = Annotated[str, BeforeValidator(_word)]
Environment = Annotated[Mapping[str, Written], BeforeValidator(_environment), Frozen]
Words = Annotated[tuple[Word, ...], BeforeValidator(_words)]
Policy = Annotated[Literal["never", "on-failure", "always"], BeforeValidator(OneOf(("never", "on-failure", "always")))]

OnUnknown = Annotated[Literal["restart", "leave"], BeforeValidator(OneOf(("restart", "leave")))]


class ProbeSettings(Section):
    """A [probe](../how-to/notice-a-hung-worker.md) has exactly one of `http`, `tcp` and `exec`."""

    http: ProbeUrl | None = Field(
        default=None, description="URL to request. A status from 200 to 399 passes; redirects aren't followed."
    )
    tcp: HostPort | None = Field(default=None, description="Address to connect to.")
    exec: Words | None = Field(
        default=None, description="Program to run. Exit code 0 passes. Placeholders work as in `command`."
    )
    interval: Pause = Field(
        default=30.0, description="Time between two checks, and between the start and the first one."
    )
    timeout: Pause = Field(default=5.0, description="Maximum duration of a check.")
    failures: Annotated[int, BeforeValidator(Number(1, 1000, whole=True))] = Field(
        default=3, description="Number of failures in a row that make the worker degraded."
    )

    @classmethod
    def prepare(cls, given: Any) -> Any:  # noqa: ANN401 (a document may hold anything)
        if isinstance(given, Mapping):
            kinds = [kind for kind in ("http", "tcp", "exec") if kind in given]
            if len(kinds) != 1:
                found = " and ".join(kinds) or "none of them"
                raise Invalid(f"must have exactly one of http, tcp and exec, but has {found}")
        return given


class RestartSettings(Section):
    """Automatic restarts by the daemon."""

    policy: Policy = Field(
        default="on-failure", description="Restart a worker that exited or crashed: never, after a failure, or always."
    )
    max_per_hour: Annotated[int, BeforeValidator(Number(0, 3600, whole=True))] = Field(
        default=5,
        description="Maximum automatic restarts within an hour. After that, the worker is quarantined. "
        "Restarts while the shared drive is away don't count.",
    )
    on_unknown: OnUnknown = Field(
        default="restart",
        description="What `on-failure` does after an exit whose code nobody learned, such as while no daemon ran: "
        "`restart`, because most workers are meant to run all the time, or `leave`, for a job that must not run twice.",
    )
    backoff_seconds: Seconds = Field(default=5.0, description="Wait before the first restart. It doubles each time.")
    on_hang: Flag = Field(
        default=False,
        description="Restart a worker that runs but [hangs](../how-to/notice-a-hung-worker.md#what-counts-as-hung).",
    )


class CodeSettings(Section):
    """The checkout that update, rollback and undo work on."""

    path: FilePath = Field(
        default=Path(),
        description="Git checkout, or a folder in one. [Workers that share "
        "one](../how-to/change-code-safely.md#several-workers) restart together.",
    )
    remote: Annotated[str, BeforeValidator(matching(r"[^\s-]\S*", "the name of a git remote"))] = Field(
        default="origin", description="Remote that updates come from."
    )
    branch: Annotated[str, BeforeValidator(matching(r"[^\s-]\S*", "the name of a git branch"))] = Field(
        default="main", description="Branch that the worker runs. It must be checked out."
    )
    requirements: Annotated[
        str, BeforeValidator(matching(r"[^-].*", "a path in the checkout", empty=True)), Kind("relative path")
    ] = Field(
        default="requirements.txt",
        description="Requirements file that `update-deps` installs, relative to `path`. Empty: none.",
    )
    pip_args: tuple[FreeText, ...] = Field(
        default=(), description="Further arguments of `pip install`, such as `--break-system-packages`."
    )
    pip_timeout_seconds: Pause = Field(default=600.0, description="Maximum duration of an installation.")
    push_rollbacks: Flag = Field(
        default=False, description="Push the commits of rollbacks and undos to the remote, never by force."
    )


class WorkerSettings(Section):
    """One section for each worker, under its id: 1 to 64 letters, digits, dots and hyphens.

    It can't be a number, `all`, `deps`, `watcher`, or the name of a command or a handler.
    """

    LIVE: ClassVar[frozenset[str]] = frozenset(
        [
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
        ]
    )
    """The settings that take effect without a restart; a change of any other one needs it."""

    python: Annotated[str, BeforeValidator(_python, context=True), Kind("path or program")] = Field(
        default="", description="Python interpreter: `{python}` in commands, and for pip. Empty: the supervisor's own."
    )
    command: Words = Field(
        description="Command that starts the worker, as a list. Placeholders: `{python}`, `{config}` (this file) and "
        "`{worker_id}`; write a brace twice.",
        examples=[
            ["{python}", "-m", "scripts.watcher.spec_watcher", "--config", "{config}", "--worker-id", "{worker_id}"]
        ],
    )
    cwd: FilePath = Field(default=Path(), description="Working directory.")
    env: Environment = Field(
        default_factory=dict,
        description="Environment variables. Of the supervisor's own, a worker gets only `PATH`, `HOME`, `LANG`, "
        "`LC_*`, `TZ`, `USER`, `LOGNAME` and `TMPDIR`.",
    )
    enabled: Flag = Field(default=True, description="Run the worker.")
    quarantined: Flag = Field(default=False, description="Leave the worker alone: neither start, restart nor stop it.")
    team: Line = Field(
        default="", description="Team that the worker belongs to, from `teams`. Empty: none.", examples=["archive"]
    )
    stop_signal: Annotated[str, BeforeValidator(_signal), Kind("signal")] = Field(
        default="TERM", description="Signal that asks the worker to stop."
    )
    stop_timeout_seconds: Seconds = Field(default=30.0, description="Time to stop before the worker is killed.")
    start_grace_seconds: Seconds = Field(default=2.0, description="A start fails if the worker ends within this time.")
    log_file: OptionalPath = Field(
        default=None,
        description="Log that the worker writes itself, shown instead of the captured output. Empty: none.",
    )
    heartbeat_max_age_seconds: Seconds = Field(
        default=300.0, description="Age at which a heartbeat is stale. 0: no heartbeat is expected."
    )
    probes: tuple[ProbeSettings, ...] = Field(
        default=(),
        description="Checks of the running worker by the daemon.",
        examples=[
            {"http": "http://127.0.0.1:8080/health", "interval": 30, "timeout": 5, "failures": 3},
            {"tcp": "127.0.0.1:8080"},
            {"exec": ["{python}", "check.py"]},
        ],
    )
    restart: RestartSettings = Field(default_factory=RestartSettings)
    code: CodeSettings = Field(default_factory=CodeSettings)
    id: str = ""
    """Its key in the configuration."""


class TeamSettings(Section):
    """One section for each team, under its name: 1 to 64 letters, digits, dots, hyphens and underscores."""

    objective: Line = Field(default="", description="Purpose of the team.")
    operators: tuple[PersonId, ...] = Field(
        default=(), description="Operators for this team's workers, in addition to `slack.access`."
    )
    approvers: tuple[ApproverId, ...] = Field(
        default=(),
        description="Approvers for this team's workers, in addition to `slack.access`, also as "
        "[`{oncall: {…}}`](../how-to/find-who-is-on-call.md).",
    )
    name: str = ""
    """Its key in the configuration."""


SAFE = frozenset({"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"})
SAFE_PREFIX = "LC_"
# Without these, programs of Windows do not even start.
WINDOWS = frozenset(
    [
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
    ]
)


def safe_environment(environ: Mapping[str, str], *, windows: bool = os.name == "nt") -> dict[str, str]:
    """The variables that any worker may see. All others may be secrets."""
    allowed = SAFE | WINDOWS if windows else SAFE
    return {
        name: value
        for name, value in environ.items()
        if (name.upper() if windows else name) in allowed or name.startswith(SAFE_PREFIX)
    }
