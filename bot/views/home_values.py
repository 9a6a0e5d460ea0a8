"""What App Home shows, as values: gathered by `bot/home_page.py`, drawn by `bot/views/home.py`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bot.views.approval import Asking
from supervisor_core.domain.recent import Recent

EVERYTHING, TROUBLE, OF_TEAM = "all", "trouble", "team:"
"""Which workers somebody wants to see: these are the values of the menu, the last with the team's name."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where somebody is on their page."""

    page: int = 0
    only: str = EVERYTHING


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert that is open."""

    alert_id: str
    worker_id: str
    word: str
    """How the worker is: `stale`, `missing`."""
    since: datetime
    link: str = ""
    """The address of its message."""


@dataclass(frozen=True, slots=True)
class Told:
    """One of the newest commands, with the address of its card."""

    recent: Recent
    link: str = ""


@dataclass(frozen=True, slots=True)
class Reader:
    """What its reader may do."""

    forms: Sequence[str] = ()
    """The commands that they may give to some worker at least."""
    may: Callable[[str, str], bool] = lambda _name, _worker: False
    """Whether they may give this command to this worker."""


@dataclass(frozen=True, slots=True)
class Picture:
    """All that there is to show."""

    host: str
    workers: Sequence[Mapping[str, Any]]
    """As a live look describes them."""
    at: datetime
    until: datetime
    """How long the page is kept up to date without being opened again."""
    teams: Mapping[str, str] = field(default_factory=dict)
    """Each team's objective."""
    versions: Mapping[str, str] = field(default_factory=dict)
    """The commit that each worker's checkout stands at."""
    approvals: Sequence[Asking] = ()
    """Those that wait for its reader."""
    alerts: Sequence[OpenAlert] = ()
    recent: Sequence[Told] = ()
    rests: str = ""
    """Why monitoring is paused; empty where it is not."""
