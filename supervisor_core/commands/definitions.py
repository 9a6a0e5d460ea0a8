"""The definition of a command: one value, from which grammar, help, rights and forms follow. Pure.

The commands that change code are defined here; the catalog has the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum, IntEnum
from functools import partial

from supervisor_core.commands.parameters import Parameter, ParameterKind

CODE_HANDLERS = ("update_code", "update_code_deps", "rollback_code", "undo_code")
"""Those that change what workers run from."""


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
    """The only worker, else the default one, else the asker chooses."""
    FILTER = "filter"
    """Nothing is narrowed down: workers stay empty. It may stand anywhere among the arguments."""


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


KEEP_GOING = Parameter(
    "keep_going",
    ParameterKind.FLAG,
    "--keep-going",
    "with several workers: goes on with the next one after a failure",
    default=False,
)
"""The option of all commands that go from worker to worker; it is no part of what is done to any one of them. Among
the parameters of a command it is there only where it was given."""


@dataclass(frozen=True, slots=True)
class CommandDefinition:
    """One command: everything that any door needs to know of it."""

    name: str
    summary: str
    handler: str | None = None
    """What a flag calls it and which handler carries it out; None where it never reaches a worker's host."""
    recorded_as: str = ""
    """The audit action of a command without a handler; empty where it leaves no row of its own."""
    parameters: tuple[Parameter, ...] = ()
    untyped: tuple[Parameter, ...] = ()
    """Further parameters that nobody types: programs give them."""
    narrowing: tuple[Parameter, ...] = ()
    """Further parameters after a keyword of theirs, which the usage line leaves out; among the parameters of a command
    they are there only where they were given."""
    takes_label: bool = False
    target: TargetRule = TargetRule.NONE
    aliases: tuple[str, ...] = ()
    suggested_for: tuple[str, ...] = ()
    """Words that people type who mean this one: offered to them, never obeyed."""
    risk: Risk = Risk.READS
    needs_approval: bool = False
    """The default; `slack.approvals.required_for` decides."""
    right: Right = Right.OPERATOR
    tier: Tier = Tier.NEVER_QUEUED
    spread: Spread = Spread.AT_ONCE
    schedulable: bool = False
    examples: tuple[str, ...] = ()
    notes: str = ""

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
        """The parameters that are given as `--name`."""
        return (
            *(parameter for parameter in self.parameters if parameter.kind is ParameterKind.FLAG),
            *self.spread_options,
        )

    @property
    def spread_options(self) -> tuple[Parameter, ...]:
        """The options that say how its workers are gone through; the usage line leaves them out."""
        return (KEEP_GOING,) if self.spread is Spread.IN_TURN else ()

    @property
    def written(self) -> tuple[Parameter, ...]:
        """All parameters that a person may give."""
        return (*self.parameters, *self.narrowing, *self.spread_options)

    @property
    def keywords(self) -> Mapping[str, Parameter]:
        """The parameters that follow a word of their own, by that."""
        return {each.keyword: each for each in (*self.parameters, *self.narrowing) if each.keyword}

    @property
    def free_text(self) -> Parameter | None:
        """The parameter that takes whatever words are left, where there is one."""
        return next((parameter for parameter in self.parameters if parameter.kind is ParameterKind.TEXT), None)


_RESET = Parameter(
    "reset",
    ParameterKind.FLAG,
    "--reset",
    "throws local changes and commits of the checkout away, so that it is what the remote has",
    default=False,
)
_STATE = Parameter(
    "state", ParameterKind.STATE, "STATE", "what a preview was made from; refused where that has moved on"
)

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
    "Brings a worker's code up to its remote, and restarts it unless it is paused.",
    handler="update_code",
    parameters=(_RESET,),
    aliases=("update_code",),
    suggested_for=("deploy", "pull", "upgrade"),
    schedulable=True,
    examples=("update", "update OrionMX new parser", "update team:archive --reset"),
)

CODE = (
    _UPDATE,
    replace(
        _UPDATE,
        name="update-deps",
        summary="Does what update does, and installs what the code requires.",
        handler="update_code_deps",
        aliases=("update_code_deps",),
        suggested_for=("deps", "dependencies", "pip", "install"),
        examples=("update-deps", "update-deps OrionMX new parser"),
    ),
    _code_change(
        "rollback",
        "Takes the newest commits of a worker's code back, and restarts it unless it is paused.",
        handler="rollback_code",
        parameters=(Parameter("commits_back", ParameterKind.NUMBER, "N", "commits back", default=1, low=1, high=10),),
        aliases=("rollback_code",),
        suggested_for=("revert", "back"),
        schedulable=True,
        examples=("rollback", "rollback 3 hotfix", "rollback OrionMX 2 slow since noon"),
    ),
    _code_change(
        "undo",
        "Takes an update or a rollback back: the code is again what it was before.",
        handler="undo_code",
        parameters=(Parameter("task_id", ParameterKind.TASK_ID, "task_id", "its id; the newest when left out"),),
        aliases=("undo_code",),
        suggested_for=("redo",),
        examples=("undo", "undo OrionMX task_20260205_001", "undo task_20260205_001 wrong worker"),
    ),
)
