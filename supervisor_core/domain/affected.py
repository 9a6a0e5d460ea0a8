"""The workers that something affected beside the one that it names, each with its role. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Any


class Role(StrEnum):
    """What happened to a worker because of a command for another one, or because of a configuration."""

    RESTARTED = "restarted"
    STOPPED = "stopped"
    STARTED = "started"
    CODE = "code"
    FAILED = "failed"

    @property
    def words(self) -> str:
        """As in `fetcher: stopped and restarted with mailer`."""
        return _WORDS[self]


_WORDS: Mapping[Role, str] = {
    Role.RESTARTED: "stopped and restarted",
    Role.STOPPED: "stopped and not restarted",
    Role.STARTED: "started",
    Role.CODE: "code changed, not running",
    Role.FAILED: "doesn't run",
}

Affected = Mapping[str, str]
"""The role of each worker, by its id."""


def siblings_in(worker_id: str, result: Mapping[str, Any]) -> dict[str, str]:
    """The other workers of a changed checkout, from what the handler says. A job that took over the outcome of another
    one of its command did nothing itself."""
    turns = result.get("workers")
    if not isinstance(turns, Mapping) or "together_with" in result:
        return {}
    return {
        str(each): str(_role(turn)) for each, turn in turns.items() if each != worker_id and isinstance(turn, Mapping)
    }


def in_words(affected: Affected, about: str, only: Iterable[str] = ()) -> str:
    """`fetcher: stopped and restarted with mailer`; of `only` these workers where any of them are affected."""
    wanted = set(only) & affected.keys()
    shown = {worker: role for worker, role in affected.items() if not wanted or worker in wanted}
    grouped: dict[str, list[str]] = {}
    for worker, role in sorted(shown.items()):
        grouped.setdefault(role, []).append(worker)
    return "; ".join(f"{', '.join(workers)}: {_told(role)} with {about}" for role, workers in grouped.items())


def _told(role: str) -> str:
    return Role(role).words if role in set(Role) else role


def _role(turn: Mapping[str, Any]) -> Role:
    ran, runs = bool(turn.get("was_running")), bool(turn.get("new_pid"))
    if runs:
        return Role.RESTARTED if ran else Role.STARTED
    return Role.STOPPED if ran else Role.CODE
