"""The definition of a command: one value, from which grammar, help, rights and forms follow. Pure.

The commands that change code are defined here; the catalog has the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import partial
from typing import Any

from supervisor_core.commands.command import NOTE_KEY
from supervisor_core.commands.labels import MAX_NOTE
from supervisor_core.commands.parameters import Parameter, ParameterKind
from supervisor_core.common.times import DAY

CODE_HANDLERS = ("update_code", "update_code_deps", "rollback_code", "undo_code")
"""The handlers that change the code of workers."""


class Risk(Enum):
    """The harm that a command can do to a worker."""

    READS = "reads"
    CHANGES = "changes"
    DANGEROUS = "dangerous"
    """Changes the code that a worker runs."""


class Right(Enum):
    """The role that a command needs. Operators and approvers are viewers; nothing else follows from a role."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    APPROVER = "approver"


class TargetRule(Enum):
    """The meaning of a target that is left out."""

    NONE = "none"
    """The command is for no worker in particular, and takes no target."""
    WORKERS = "workers"
    """For a command that only reads, all workers. Else the only worker, the default one, or the person chooses."""
    FILTER = "filter"
    """Nothing is filtered, and workers stay empty. The target can stand anywhere among the arguments."""


class Tier(IntEnum):
    """The order in which waiting commands are executed; within a tier, that of their file times."""

    EMERGENCY = 0
    CODE = 1
    LIFECYCLE = 2
    REPORT = 3
    NEVER_QUEUED = 9


class Spread(Enum):
    """The order in which a command runs on several workers."""

    AT_ONCE = "at once"
    IN_TURN = "in turn"
    """One worker after the other, in the order of the command's workers, up to the first failure."""
    LIMITED = "a few at once"
    """Up to `supervisor.parallel` workers at once, in the order of the command's workers. After a failure, no new ones
    begin."""


KEEP_GOING = Parameter(
    "keep_going",
    ParameterKind.FLAG,
    "--keep-going",
    "with several workers, continue with the next one after a failure",
    default=False,
)
"""The option of commands that stop at the first failure. A command has it in its parameters only if given."""

BATCH = Parameter(
    "batch",
    ParameterKind.SHARE,
    "N|N%",
    "with several workers, change one first, then so many at a time; each batch waits until the last one is healthy",
    keyword="--batch",
)
HEALTHY = Parameter(
    "healthy",
    ParameterKind.DURATION,
    "2m",
    "time for which a batch must be healthy before the next one (1m if not given)",
    low=0,
    high=DAY,
    keyword="--healthy",
)
MAX_FAILURES = Parameter(
    "max_failures",
    ParameterKind.NUMBER,
    "N",
    "failed or unhealthy workers that it goes on with; one more halts it (0 if not given)",
    low=0,
    high=9999,
    keyword="--max-failures",
)
ROLLING = (BATCH, HEALTHY, MAX_FAILURES)
"""The options of a rolling change. A command has them in its parameters only if given; any of them makes it rolling."""

NOTE = Parameter(NOTE_KEY, ParameterKind.NOTE, "-- note…", "any text", high=MAX_NOTE)
"""The text after ` -- ` of every command with a label. A command has it in its parameters only if given."""


DEFINITION_KEY = "definition"
"""The key among the parameters of a command that isn't built in: the digest of the definition that it's bound to."""

_DEFINITION = Parameter(
    DEFINITION_KEY, ParameterKind.DEFINITION, "DIGEST", "the definition that was shown; refused if it has changed since"
)


class Output(Enum):
    """The form of a program's output."""

    TEXT = "text"
    TABLE = "table"
    """Lines of cells with tabs between them; the first line has the headings."""
    FILE = "file"
    """Attached to the thread as a file."""


@dataclass(frozen=True, slots=True)
class Extension:
    """The part of a command that isn't built in: its program or function, its limits, and the form of its output."""

    origin: str
    """`config.yaml`, or the plug-in with its version."""
    digest: str
    """Changes with everything that decides what the command does."""
    argv: tuple[str, ...] = ()
    """The arguments of the program, with placeholders; empty for a plug-in."""
    function: Callable[[Any], object] | None = None
    """The function of a plug-in."""
    timeout: float = 60.0
    output: Output = Output.TEXT
    on_host: bool = False
    """Runs once for each host of the target, not for each worker."""


@dataclass(frozen=True, slots=True)
class CommandDefinition:
    """One command, with all that the grammar, help, rights and forms are made from."""

    name: str
    summary: str
    handler: str | None = None
    """The name of its handler, in flags and jobs; None for a command that isn't a job."""
    recorded_as: str = ""
    """The audit action of a command without a handler; empty if it has no audit row of its own."""
    parameters: tuple[Parameter, ...] = ()
    untyped: tuple[Parameter, ...] = ()
    """Parameters that only programs give, beside those of all extensions."""
    narrowing: tuple[Parameter, ...] = ()
    """Filters with a keyword, which the usage line leaves out. A command has them only if given."""
    takes_label: bool = False
    target: TargetRule = TargetRule.NONE
    aliases: tuple[str, ...] = ()
    suggested_for: tuple[str, ...] = ()
    """Other words for the command that people try: it's suggested to them, never run."""
    risk: Risk = Risk.READS
    needs_approval: bool = False
    """The default; `slack.approvals.required_for` decides."""
    right: Right = Right.OPERATOR
    tier: Tier = Tier.NEVER_QUEUED
    spread: Spread = Spread.AT_ONCE
    schedulable: bool = False
    once_per_host: bool = False
    """Of a built-in command; see `runs_on_host`."""
    examples: tuple[str, ...] = ()
    extension: Extension | None = None
    """None for a built-in command."""

    @property
    def runs_on_host(self) -> bool:
        """True if it runs once on each host, for the first of its workers there."""
        return self.once_per_host or (self.extension is not None and self.extension.on_host)

    @property
    def audit_action(self) -> str:
        """The name of an execution in the audit trail."""
        return self.handler.upper() if self.handler else self.recorded_as

    @property
    def usage(self) -> str:
        """The whole command in one line, optional parts in brackets."""
        parts = [self.name]
        if self.target is not TargetRule.NONE:
            parts.append("[target]")
        parts.extend(parameter.usage for parameter in self.parameters)
        if self.takes_label:
            parts.append("[label…]")
        return " ".join(parts)

    @property
    def options(self) -> tuple[Parameter, ...]:
        """The parameters that are given as `--name`, some with a value after it."""
        return (
            *(each for each in self.parameters if each.kind is ParameterKind.FLAG or each.keyword.startswith("--")),
            *self.spread_options,
        )

    @property
    def spread_options(self) -> tuple[Parameter, ...]:
        """The options for several workers; the usage line leaves them out."""
        return (KEEP_GOING, *ROLLING) if self.spread is not Spread.AT_ONCE else ()

    @property
    def note_parameters(self) -> tuple[Parameter, ...]:
        return (NOTE,) if self.takes_label else ()

    @property
    def written(self) -> tuple[Parameter, ...]:
        """All parameters that a person may give, beside the note."""
        return (*self.parameters, *self.narrowing, *self.spread_options)

    def written_for(self, workers: int) -> tuple[Parameter, ...]:
        """The same on a host with so many workers: options for several make no sense for one."""
        return tuple(each for each in self.written if workers > 1 or each not in self.spread_options)

    @property
    def keywords(self) -> Mapping[str, Parameter]:
        return {each.keyword: each for each in (*self.parameters, *self.narrowing) if each.keyword}

    @property
    def free_text(self) -> Parameter | None:
        """The parameter that takes all remaining words, if there is one."""
        texts = (each for each in self.parameters if each.kind is ParameterKind.TEXT and not each.keyword)
        return next(texts, None)

    @property
    def unseen(self) -> tuple[Parameter, ...]:
        """The parameters that only programs give."""
        return (*self.untyped, *((_STATE, _DEFINITION) if self.extension else ()))


_RESET = Parameter(
    "reset",
    ParameterKind.FLAG,
    "--reset",
    "discard local changes and commits, so that the checkout matches the remote",
    default=False,
)
_STATE = Parameter(
    "state", ParameterKind.STATE, "STATE", "the state that a preview showed; refused if it has changed since"
)
_COMMITS = Parameter("commits_back", ParameterKind.NUMBER, "N", "commits to revert", default=1, low=1, high=10)
_UNDONE = Parameter("task_id", ParameterKind.TASK_ID, "task_id", "its command id; by default, the newest change")

_code_change = partial(
    CommandDefinition,
    untyped=(_STATE,),
    takes_label=True,
    target=TargetRule.WORKERS,
    risk=Risk.DANGEROUS,
    needs_approval=True,  # undo too, or an operator alone could reverse what somebody else approved
    tier=Tier.CODE,
    spread=Spread.IN_TURN,
)

_UPDATE = _code_change(
    "update",
    "Update a worker's code from its remote, then restart it unless it's paused.",
    handler="update_code",
    parameters=(_RESET,),
    aliases=("update_code",),
    suggested_for=("deploy", "pull", "upgrade"),
    schedulable=True,
    examples=(
        "update",
        "update OrionMX new parser",
        "update team:archive --reset",
        "update all --batch 10% --healthy 2m",
    ),
)

CODE = (
    _UPDATE,
    replace(
        _UPDATE,
        name="update-deps",
        summary="Update a worker's code and install its requirements, then restart it unless it's paused.",
        handler="update_code_deps",
        aliases=("update_code_deps",),
        suggested_for=("deps", "dependencies", "pip", "install"),
        examples=("update-deps", "update-deps OrionMX new parser"),
    ),
    _code_change(
        "rollback",
        "Revert the newest commits of a worker's code, then restart it unless it's paused.",
        handler="rollback_code",
        parameters=(_COMMITS,),
        aliases=("rollback_code",),
        suggested_for=("revert", "back"),
        schedulable=True,
        examples=("rollback", "rollback 3 hotfix", "rollback OrionMX 2 slow since noon"),
    ),
    _code_change(
        "undo",
        "Reverse an update or a rollback, so that the code is as it was before.",
        handler="undo_code",
        parameters=(_UNDONE,),
        aliases=("undo_code",),
        suggested_for=("redo",),
        examples=("undo", "undo OrionMX task_20260205_001", "undo task_20260205_001 wrong worker"),
    ),
)
