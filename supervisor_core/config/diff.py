"""What differs between two configurations, by names alone, and which parts of it a running daemon can take over.

Nothing in it is ever a value: a secret that changed is known by its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from pydantic import BaseModel, Secret, SecretStr

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.workers import Worker

LIVE_SECTIONS = ("workers", "teams")
"""What a daemon takes over while it runs; every other section is read when it starts."""

ENVIRONMENT = "SLACK_"
"""Variables whose name begins so are used as they are, out of `.env` or the environment; others only by `${NAME}`."""

RESTART_WORDS = "takes effect when the daemon is restarted: supervisor restart"


@dataclass(frozen=True, slots=True)
class Touched:
    """A worker, and the names of its settings that differ, such as `env.TOKEN`."""

    worker_id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """What a new configuration changes. Every tuple is in a fixed order."""

    added: tuple[str, ...] = ()
    """Workers that were not there."""
    removed: tuple[str, ...] = ()
    """Workers that are there no more."""
    restarted: tuple[Touched, ...] = ()
    """Workers that must be started anew for it; all of their changed settings, those that need no restart too."""
    changed: tuple[Touched, ...] = ()
    """Workers that take it over as they run."""
    teams: tuple[str, ...] = ()
    """Settings of teams, such as `teams.archive.objective`, or `teams.archive` for a whole one."""
    needs_restart: tuple[str, ...] = ()
    """Settings, and variables of Slack's, that a running daemon does not take over."""

    @property
    def empty(self) -> bool:
        """Whether the two are the same."""
        return not any(getattr(self, field.name) for field in fields(self))

    @property
    def live(self) -> bool:
        """Whether a running daemon has something to take over."""
        return any(getattr(self, field.name) for field in fields(self) if field.name != "needs_restart")

    def in_words(self, *, would: bool = False) -> list[str]:
        """A kind sentence for each; with `would`, about what has not been done."""
        raise NotImplementedError

    def as_json(self) -> dict[str, Any]:
        """For the control door."""
        return asdict(self)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ConfigDiff:
        """What `as_json` made; whatever else is there is left out."""
        raise NotImplementedError


def difference(old: SupervisorConfig, new: SupervisorConfig) -> ConfigDiff:
    """What is different in `new`. Both belong to the same place: `{config}` counts as the same file."""
    raise NotImplementedError


def in_force(running: SupervisorConfig, new: SupervisorConfig) -> SupervisorConfig:
    """The new workers and teams, and all else (the environment too) as the daemon was started with it."""
    raise NotImplementedError
