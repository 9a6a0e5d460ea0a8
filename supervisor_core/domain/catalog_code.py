"""The commands that change the code of workers, as the catalog has them."""

from __future__ import annotations

from dataclasses import replace

from supervisor_core.domain.definitions import CommandDefinition, Risk, Spread, TargetRule, Tier
from supervisor_core.domain.parameters import Kind, Parameter

_RESET = Parameter(
    "reset",
    Kind.FLAG,
    "--reset",
    "throws local changes and commits of the checkout away, so that it is what the remote has",
    default=False,
)
_STATE = Parameter("state", Kind.STATE, "STATE", "what a preview was made from; refused where that has moved on")

_UPDATE = CommandDefinition(
    "update",
    "Brings a worker's code up to its remote, and restarts it unless it is paused.",
    handler="update_code",
    parameters=(_RESET,),
    untyped=(_STATE,),
    takes_label=True,
    target=TargetRule.WORKERS,
    aliases=("update_code",),
    suggested_for=("deploy", "pull", "upgrade"),
    risk=Risk.DANGEROUS,
    needs_approval=True,
    tier=Tier.CODE,
    spread=Spread.IN_TURN,
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
    CommandDefinition(
        "rollback",
        "Takes the newest commits of a worker's code back, and restarts it unless it is paused.",
        handler="rollback_code",
        parameters=(Parameter("commits_back", Kind.NUMBER, "N", "commits back", default=1, low=1, high=10),),
        untyped=(_STATE,),
        takes_label=True,
        target=TargetRule.WORKERS,
        aliases=("rollback_code",),
        suggested_for=("revert", "back"),
        risk=Risk.DANGEROUS,
        needs_approval=True,
        tier=Tier.CODE,
        spread=Spread.IN_TURN,
        schedulable=True,
        examples=("rollback", "rollback 3 hotfix", "rollback OrionMX 2 slow since noon"),
    ),
    CommandDefinition(
        "undo",
        "Takes an update or a rollback back: the code is again what it was before.",
        handler="undo_code",
        parameters=(Parameter("task_id", Kind.TASK_ID, "task_id", "its id; the newest when left out"),),
        untyped=(_STATE,),
        takes_label=True,
        target=TargetRule.WORKERS,
        aliases=("undo_code",),
        suggested_for=("redo",),
        risk=Risk.DANGEROUS,
        needs_approval=True,  # or an operator alone could reverse what somebody else approved
        tier=Tier.CODE,
        spread=Spread.IN_TURN,
        examples=("undo", "undo OrionMX task_20260205_001", "undo task_20260205_001 wrong worker"),
    ),
)
