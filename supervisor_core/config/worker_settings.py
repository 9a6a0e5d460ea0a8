"""The sections about workers and teams, placeholders in commands, and the environment that a worker inherits."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from msgspec import Meta

from supervisor_core.common.text import nearest
from supervisor_core.config.fields import (
    ApproverId,
    FilePath,
    FreeText,
    HostPort,
    OptionalPath,
    Pause,
    PersonId,
    ProbeUrl,
    Seconds,
    Written,
    absolute_path,
)
from supervisor_core.config.raw import SettingPath
from supervisor_core.config.sections import (
    EMPTY,
    Invalid,
    Reader,
    Section,
    checked,
    free_text,
    line,
    number,
    pattern,
    resolved,
    upper,
)

PLACEHOLDERS = ("python", "config", "worker_id")
PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")
"""A placeholder, a doubled brace, or a brace that is neither."""

EXAMPLE = '["{python}", "-m", "package.module", "--config", "{config}"]'
Signal = Literal["TERM", "INT", "HUP", "QUIT", "USR1", "USR2", "ABRT", "ALRM", "WINCH", "BREAK", "KILL"]
SIGNALS: tuple[str, ...] = get_args(Signal)


def fill_placeholders(word: str, values: Mapping[str, str | None]) -> str:
    """One argument of a command with its placeholders filled; it was checked before."""
    return PLACEHOLDER.sub(lambda match: match[0][0] if match[1] is None else str(values[match[1]]), word)


def find_placeholder_fault(text: str, known: Iterable[str]) -> str:
    """What is wrong with the placeholders of an argument, without its text; empty if they are right."""
    for match in PLACEHOLDER.finditer(text):
        if match[0] not in ("{{", "}}") and match[1] not in known:
            suggestion = nearest(match[1] or "", known)
            names = ", ".join(f"{{{name}}}" for name in known)
            hint = f"did you mean {{{suggestion}}}?" if suggestion else f"placeholders are {names}"
            return f"has a brace that isn't a placeholder; double a literal brace; {hint}"
    return ""


def _check_argument(value: object) -> str:
    text = free_text(value)
    if fault := find_placeholder_fault(text, PLACEHOLDERS):
        raise Invalid(fault)
    return text


def _check_command(value: object) -> object:
    if isinstance(value, str):
        raise Invalid(f"must be a list, because no shell splits it; example: {EXAMPLE}")
    if value is None or (isinstance(value, list | tuple) and (not value or not value[0])):
        raise Invalid(f"must not be empty; example: {EXAMPLE}")
    return value


def _check_environment(value: object) -> object:
    if isinstance(value, Mapping):
        for name in value:
            if not name or "=" in str(name) or not str(name).isprintable():
                raise Invalid("has an invalid variable name: empty, or with an equals sign or control character")
    return value


def _resolve_python(value: object, reader: Reader, _path: SettingPath) -> str:
    """An interpreter: a name to be found in PATH, or a path that starts at the folder of the file."""
    text = line(value)
    return str(absolute_path(text, reader)) if "/" in text or "\\" in text else text


Environment = Annotated[Mapping[str, Written], checked(_check_environment)]
Words = Annotated[tuple[Annotated[str, checked(_check_argument)], ...], checked(_check_command)]


class ProbeSettings(Section, frozen=True):
    """A [probe](../how-to/notice-a-hung-worker.md) has exactly one of `http`, `tcp` and `exec`."""

    http: ProbeUrl | None = None
    """URL to request. A status from 200 to 399 passes; redirects aren't followed."""
    tcp: HostPort | None = None
    """Address to connect to."""
    exec: Words | None = None
    """Program to run. Exit code 0 passes. Placeholders work as in `command`."""
    interval: Pause = 30.0
    """Time between two checks, and between the start and the first one."""
    timeout: Pause = 5.0
    """Maximum duration of a check."""
    failures: Annotated[int, number(1, 1000)] = 3
    """Number of failures in a row that make the worker degraded."""

    @classmethod
    def prepare(cls, given: Mapping[str, Any]) -> Mapping[str, Any]:
        kinds = [kind for kind in ("http", "tcp", "exec") if kind in given]
        if len(kinds) != 1:
            raise Invalid(
                f"must have exactly one of http, tcp and exec, but has {' and '.join(kinds) or 'none of them'}"
            )
        return given


class RestartSettings(Section, frozen=True):
    """Automatic restarts by the daemon."""

    policy: Literal["never", "on-failure", "always"] = "on-failure"
    """Restart a worker that exited or crashed: never, after a failure, or always."""
    max_per_hour: Annotated[int, number(0, 3600)] = 5
    """Maximum automatic restarts within an hour. After that, the worker is quarantined. Restarts while the shared drive
    is away don't count."""
    on_unknown: Literal["restart", "leave"] = "restart"
    """What `on-failure` does after an exit whose code nobody learned, such as while no daemon ran: `restart`, because
    most workers are meant to run all the time, or `leave`, for a job that must not run twice."""
    backoff_seconds: Seconds = 5.0
    """Wait before the first restart. It doubles each time."""
    on_hang: bool = False
    """Restart a worker that runs but [hangs](../how-to/notice-a-hung-worker.md#what-counts-as-hung)."""


class CodeSettings(Section, frozen=True):
    """The checkout that update, rollback and undo work on."""

    path: FilePath = Path()
    """Git checkout, or a folder in one. [Workers that share one](../how-to/change-code-safely.md#several-workers)
    restart together."""
    remote: Annotated[str, pattern(r"[^\s-]\S*", "the name of a git remote")] = "origin"
    """Remote that updates come from."""
    branch: Annotated[str, pattern(r"[^\s-]\S*", "the name of a git branch")] = "main"
    """Branch that the worker runs. It must be checked out."""
    requirements: Annotated[str, pattern("[^-].*", "a path in the checkout", "relative path", empty=True)] = (
        "requirements.txt"
    )
    """Requirements file that `update-deps` installs, relative to `path`. Empty: none."""
    pip_args: tuple[FreeText, ...] = ()
    """Further arguments of `pip install`, such as `--break-system-packages`."""
    pip_timeout_seconds: Pause = 600.0
    """Maximum duration of an installation."""
    push_rollbacks: bool = False
    """Push the commits of rollbacks and undos to the remote, never by force."""


class WorkerSettings(Section, frozen=True, kw_only=True):
    """One section for each worker, under its id: 1 to 64 letters, digits, dots and hyphens.

    It can't be a number, `all`, `deps`, `watcher`, or the name of a command or a handler.
    """

    KEY = "id"
    EXAMPLE = EXAMPLE

    python: Annotated[str, resolved(_resolve_python, "path or program")] = ""
    """Python interpreter: `{python}` in commands, and for pip. Empty: the supervisor's own."""
    command: Annotated[
        Words,
        Meta(
            examples=[
                ["{python}", "-m", "scripts.watcher.spec_watcher", "--config", "{config}", "--worker-id", "{worker_id}"]
            ]
        ),
    ]
    """Command that starts the worker, as a list. Placeholders: `{python}`, `{config}` (this file) and `{worker_id}`;
    write a brace twice."""
    cwd: FilePath = Path()
    """Working directory."""
    env: Environment = EMPTY
    """Environment variables. Of the supervisor's own, a worker gets only `PATH`, `HOME`, `LANG`, `LC_*`, `TZ`, `USER`,
    `LOGNAME` and `TMPDIR`."""
    enabled: bool = True
    """Run the worker."""
    quarantined: bool = False
    """Leave the worker alone: neither start, restart nor stop it."""
    team: Annotated[str, Meta(examples=["archive"])] = ""
    """Team that the worker belongs to, from `teams`. Empty: none."""
    stop_signal: Annotated[Signal, upper, checked(lambda name: str(name).removeprefix("SIG"), "signal")] = "TERM"
    """Signal that asks the worker to stop."""
    stop_timeout_seconds: Seconds = 30.0
    """Time to stop before the worker is killed."""
    start_grace_seconds: Seconds = 2.0
    """A start fails if the worker ends within this time."""
    log_file: OptionalPath = None
    """Log that the worker writes itself, shown instead of the captured output. Empty: none."""
    heartbeat_max_age_seconds: Seconds = 300.0
    """Age at which a heartbeat is stale. 0: no heartbeat is expected."""
    probes: Annotated[
        tuple[ProbeSettings, ...],
        Meta(
            examples=[
                {"http": "http://127.0.0.1:8080/health", "interval": 30, "timeout": 5, "failures": 3},
                {"tcp": "127.0.0.1:8080"},
                {"exec": ["{python}", "check.py"]},
            ]
        ),
    ] = ()
    """Checks of the running worker by the daemon."""
    restart: RestartSettings = RestartSettings()
    code: CodeSettings = CodeSettings()
    id: str = ""
    """Its key in the configuration."""


LAUNCH = ("python", "command", "cwd", "env", "log_file")
"""The settings that a process is started with: a change of one needs a restart, and the others take effect without."""


class TeamSettings(Section, frozen=True):
    """One section for each team, under its name: 1 to 64 letters, digits, dots, hyphens and underscores."""

    KEY = "name"
    objective: str = ""
    """Purpose of the team."""
    operators: tuple[PersonId, ...] = ()
    """Operators for this team's workers, in addition to `slack.access`."""
    approvers: tuple[ApproverId, ...] = ()
    """Approvers for this team's workers, in addition to `slack.access`, also as [`{oncall:
    {…}}`](../how-to/find-who-is-on-call.md)."""
    name: str = ""
    """Its key in the configuration."""


SAFE = frozenset({"PATH", "HOME", "LANG", "TZ", "USER", "LOGNAME", "TMPDIR"})
SAFE_PREFIX = "LC_"
SAFE_ON_WINDOWS = re.compile(  # without these, its programs don't even start
    "SYSTEMROOT|SYSTEMDRIVE|WINDIR|COMSPEC|PATHEXT|TEMP|TMP|USERNAME|USERPROFILE|HOMEDRIVE|HOMEPATH|APPDATA|"
    "LOCALAPPDATA|PROGRAMDATA|NUMBER_OF_PROCESSORS|PROCESSOR_ARCHITECTURE"
)


def safe_environment(environ: Mapping[str, str], *, windows: bool = os.name == "nt") -> dict[str, str]:
    """The variables that any worker may see. All others may be secrets."""

    def is_safe(name: str) -> bool:
        key = name.upper() if windows else name
        return key in SAFE or name.startswith(SAFE_PREFIX) or (windows and bool(SAFE_ON_WINDOWS.fullmatch(key)))

    return {name: value for name, value in environ.items() if is_safe(name)}
