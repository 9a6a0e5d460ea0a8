"""The life of a supervisor as one table, and when another one counts as unresponsive.

    spawning ─ start ─→ active ─ pause ─→ paused ─ resume ─→ active
        └──── fail ────────┴──→ failed ─ start ─→ active
                active, paused, failed ─ stop ─→ terminated

Terminated is the end of a life. The next process with the same name begins a new one, at spawning.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType

from supervisor_core.domain.errors import SupervisorError

MOST_MISSED = 3
"""Heartbeats that may fail to come: one is a busy host, two a slow network, the third is due when somebody looks."""


class SupervisorStatus(StrEnum):
    """Where a supervisor's life stands."""

    SPAWNING = "SPAWNING"
    ACTIVE = "ACTIVE"
    PAUSED = "PAUSED"
    FAILED = "FAILED"
    TERMINATED = "TERMINATED"


class Move(StrEnum):
    """What can be asked of it."""

    START = "start"
    STOP = "stop"
    PAUSE = "pause"
    RESUME = "resume"
    FAIL = "fail"


class IllegalMove(SupervisorError):
    """The supervisor can't do that from where it stands."""


_S, _M = SupervisorStatus, Move

# Where a move leads. To where one stands already: nothing changes, and a warning says so. What is not here is illegal.
MOVES: Mapping[SupervisorStatus, Mapping[Move, SupervisorStatus]] = MappingProxyType(
    {
        _S.SPAWNING: MappingProxyType({_M.START: _S.ACTIVE, _M.FAIL: _S.FAILED, _M.STOP: _S.SPAWNING}),
        _S.ACTIVE: MappingProxyType(
            {
                _M.START: _S.ACTIVE,
                _M.PAUSE: _S.PAUSED,
                _M.RESUME: _S.ACTIVE,
                _M.FAIL: _S.FAILED,
                _M.STOP: _S.TERMINATED,
            }
        ),
        _S.PAUSED: MappingProxyType({_M.RESUME: _S.ACTIVE, _M.PAUSE: _S.PAUSED, _M.STOP: _S.TERMINATED}),
        _S.FAILED: MappingProxyType({_M.START: _S.ACTIVE, _M.STOP: _S.TERMINATED}),
        _S.TERMINATED: MappingProxyType({_M.STOP: _S.TERMINATED}),
    }
)

ALIVE = frozenset({SupervisorStatus.ACTIVE, SupervisorStatus.PAUSED})
"""Where heartbeats are written, and waited for."""

_INSTEAD: Mapping[tuple[SupervisorStatus, Move], str] = MappingProxyType(
    {
        (_S.PAUSED, _M.START): "It is up, and rests because somebody paused it; `resume` ends that.",
        (_S.SPAWNING, _M.PAUSE): "It is just coming up; try again in a moment.",
        (_S.SPAWNING, _M.RESUME): "It is just coming up; try again in a moment.",
        (_S.FAILED, _M.RESUME): "Nothing rests; `start` brings it back.",
        (_S.PAUSED, _M.FAIL): "Only one that is spawning or active fails; stop it, or resume it first.",
    }
)


def after(status: SupervisorStatus, move: Move) -> SupervisorStatus:
    """Where this move leads from there; the same status where it changes nothing; `IllegalMove` where it may not be."""
    try:
        return MOVES[status][move]
    except KeyError:
        can = [str(each) for each, to in MOVES[status].items() if to is not status]
        usual = f"From there it can {' or '.join(can)}." if can else "Only a new process begins a new life."
        raise IllegalMove(
            f"A supervisor that is {status} can't {move}.", remedy=_INSTEAD.get((status, move), usual)
        ) from None


def missed_heartbeats(last: datetime | None, since: datetime, every_seconds: float, now: datetime) -> int:
    """How many heartbeats were due and have not come, `since` its start where none ever came."""
    if every_seconds <= 0:
        return 0  # none is promised
    silent = (now - (last or since)).total_seconds()
    return max(0, int(silent // every_seconds))


def is_unresponsive(
    status: SupervisorStatus, last: datetime | None, since: datetime, every_seconds: float, now: datetime
) -> bool:
    """Whether a supervisor that should be there has been silent for three of its own heartbeats."""
    return status in ALIVE and missed_heartbeats(last, since, every_seconds, now) >= MOST_MISSED
