"""The difference between two configurations, by names alone, and which parts a running daemon can take over.

Nothing in it is ever a value: a secret that changed is known by its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
from msgspec import structs

from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.raw import SettingPath, format_path
from supervisor_core.config.schema import Settings
from supervisor_core.config.sections import Section, settings_of

LIVE_SECTIONS = ("workers", "teams", "commands")
"""The sections that a running daemon applies. The others are read at its start."""

USED_AS_THEY_ARE = "SLACK_"
"""Variables with these prefixes are read besides the settings. Others count only through a `${NAME}`."""

LISTED = 8
"""Names in one sentence; the rest of them is counted."""

RESTART_WORDS = "takes effect after a restart of the daemon: supervisor daemon restart"


@dataclass(frozen=True, slots=True)
class ChangedWorker:
    """A worker, and the names of its settings that differ, such as `env.TOKEN`."""

    worker_id: str
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConfigDiff:
    """The effects of a new configuration. Every tuple is in a fixed order."""

    added: tuple[str, ...] = ()
    """Workers that were not there."""
    removed: tuple[str, ...] = ()
    """Workers that are there no more."""
    restarted: tuple[ChangedWorker, ...] = ()
    """Workers that need a restart, with all of their changed settings, including those that need none."""
    stopped: tuple[str, ...] = ()
    """Workers that are now disabled."""
    started: tuple[str, ...] = ()
    """Workers that are enabled from now on."""
    changed: tuple[ChangedWorker, ...] = ()
    """Workers that take it over as they run."""
    teams: tuple[str, ...] = ()
    """Settings of teams, such as `teams.archive.objective`, or `teams.archive` for a whole one."""
    commands: tuple[str, ...] = ()
    """Settings of custom commands, such as `commands.clear-cache.argv`, or `commands.clear-cache` for a whole one."""
    needs_restart: tuple[str, ...] = ()
    """Settings and Slack variables that a running daemon doesn't apply."""

    @property
    def empty(self) -> bool:
        return self == ConfigDiff()

    @property
    def live(self) -> bool:
        """True where a running daemon has something to take over."""
        return replace(self, needs_restart=()) != ConfigDiff()

    def in_words(self) -> list[str]:
        """A line for each effect."""
        return [
            *(f"worker {worker_id} is added" for worker_id in self.added),
            *(f"worker {worker_id} is removed: it is stopped" for worker_id in self.removed),
            *(f"worker {worker_id} is disabled: it is stopped" for worker_id in self.stopped),
            *(f"worker {worker_id} is enabled: it is started" for worker_id in self.started),
            *([f"{len(self.restarted)} workers are restarted, one at a time"] if len(self.restarted) > 1 else []),
            *(
                f"worker {worker.worker_id} is restarted: {list_names(worker.keys)} changed"
                for worker in self.restarted
            ),
            *(
                f"worker {worker.worker_id} is updated without a restart: {list_names(worker.keys)} changed"
                for worker in self.changed
            ),
            *([f"teams changed: {list_names(self.teams)}"] if self.teams else []),
            *([f"commands changed: {list_names(self.commands)}"] if self.commands else []),
            *([f"{list_names(self.needs_restart)}: {RESTART_WORDS}"] if self.needs_restart else []),
        ]

    def as_json(self) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.to_builtins(self)
        return document

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ConfigDiff:
        return msgspec.convert(document, cls)


def compare(old: SupervisorConfig, new: SupervisorConfig) -> ConfigDiff:
    """The effects of replacing `old` by `new`: `{config}` then means the same file."""
    changes = {
        worker_id: keys
        for worker_id, worker in new.workers.items()
        if worker_id in old.workers and (keys := _changed_keys(old.workers[worker_id], worker, ()))
    }
    stopped = tuple(name for name in changes if old.workers[name].enabled and not new.workers[name].enabled)
    started = tuple(name for name in changes if new.workers[name].enabled and not old.workers[name].enabled)
    running = [ChangedWorker(name, keys) for name, keys in changes.items() if name not in {*stopped, *started}]
    # Both hashes are those of the old one, since the new one may still lie elsewhere.
    restarted = {
        worker.worker_id
        for worker in running
        if old.spec_hash(old.workers[worker.worker_id]) != old.spec_hash(new.workers[worker.worker_id])
    }
    settings = [field.name for field in settings_of(Settings) if field.name not in LIVE_SECTIONS]
    variables = sorted(name for name in {*old.environ, *new.environ} if name.startswith(USED_AS_THEY_ARE))
    return ConfigDiff(
        added=tuple(worker_id for worker_id in new.workers if worker_id not in old.workers),
        removed=tuple(worker_id for worker_id in old.workers if worker_id not in new.workers),
        stopped=stopped,
        started=started,
        restarted=tuple(worker for worker in running if worker.worker_id in restarted),
        changed=tuple(worker for worker in running if worker.worker_id not in restarted),
        teams=_changed_keys(old.teams, new.teams, ("teams",)),
        commands=_changed_keys(old.commands, new.commands, ("commands",)),
        needs_restart=(
            *(key for name in settings for key in _changed_keys(getattr(old, name), getattr(new, name), (name,))),
            *(name for name in variables if old.environ.get(name) != new.environ.get(name)),
        ),
    )


def in_force(running: SupervisorConfig, new: SupervisorConfig) -> SupervisorConfig:
    """The new workers, teams and commands. All else, such as the place and the environment, stays as at the start."""
    return structs.replace(running, **{name: getattr(new, name) for name in LIVE_SECTIONS})


def list_names(names: tuple[str, ...]) -> str:
    """Names in a sentence; of many, the first ones."""
    hidden = len(names) - LISTED
    return ", ".join(names) if hidden <= 1 else f"{', '.join(names[:LISTED])} and {hidden} more"


def _changed_keys(old: object, new: object, path: SettingPath) -> tuple[str, ...]:
    return tuple(format_path(changed) for changed in _find_changes(old, new, path))


def _find_changes(old: object, new: object, path: SettingPath) -> Iterator[SettingPath]:
    """The paths that differ: a setting, or a whole entry that only one of them has. Lists count as one."""
    if isinstance(old, Section) and isinstance(new, Section):
        for field in settings_of(type(new)):
            yield from _find_changes(getattr(old, field.name), getattr(new, field.name), (*path, field.encode_name))
    elif isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            if key in old and key in new:
                yield from _find_changes(old[key], new[key], (*path, str(key)))
            else:
                yield (*path, str(key))
    elif old != new:
        yield path
