"""The public API of plug-ins: commands that another distribution adds, in Python.

Register each command as an entry point of the group `supervisor.commands`. It's loaded once, at the start of a program.
Import only from this module; everything else may change. `API_VERSION` says what it offers: its first number changes
when a plug-in may have to change, its second one when something is added.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from supervisor_core.commands.parameters import Parameter
from supervisor_core.plugins.options import choice, duration, flag, number, text

API_VERSION = "1.0"

GROUP = "supervisor.commands"
"""The entry point group of commands."""

__all__ = [
    "API_VERSION",
    "GROUP",
    "CommandCall",
    "CommandResult",
    "PluginCommand",
    "ProgramOutput",
    "choice",
    "duration",
    "flag",
    "number",
    "text",
]


@dataclass(frozen=True, slots=True)
class ProgramOutput:
    """The result of a program that a command has run."""

    exit_code: int | None
    """Negative for a signal; None if it can't be killed."""
    output: str
    errors: str
    timed_out: bool = False

    @property
    def ok(self) -> bool:
        """True for an exit with code 0, in time."""
        return self.exit_code == 0 and not self.timed_out


@dataclass(frozen=True, slots=True)
class CommandCall:
    """One execution of a command, for one worker or one host."""

    command_id: str
    worker_id: str
    """The worker; for a command that runs on the host, one of its workers."""
    folder: Path
    """The worker's `cwd`, or the folder of the configuration."""
    params: Mapping[str, object]
    """Each parameter with its value, or None. A duration is in seconds."""
    requested_by: str
    label: str | None
    seconds: float
    """The time limit of the command. A result that comes later is dropped."""
    run: Callable[[Sequence[str]], ProgramOutput]
    """Runs a program in `folder` to its end: no shell, a safe environment, killed at the command's time limit."""
    report: Callable[[str], None]
    """Shows a step on the command's message."""


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The result of an execution. To report a failure, give an `error`: a sentence with the reason and what to do."""

    message: str = ""
    """One sentence for the command's message."""
    output: str | Sequence[Sequence[object]] = ""
    """Text, or for a table its rows, the headings first."""
    error: str = ""


@dataclass(frozen=True, slots=True)
class PluginCommand:
    """A command and its function, which runs in a thread of the daemon. A function that raises is a failure."""

    name: str
    summary: str
    function: Callable[[CommandCall], CommandResult]
    parameters: Sequence[Parameter] = field(default_factory=tuple)
    role: Literal["viewer", "operator", "approver"] = "operator"
    approval: bool = False
    changes: bool = True
    runs: Literal["worker", "host"] = "worker"
    timeout: float = 60.0
    output: Literal["text", "table", "file"] = "text"
