"""The classes that stand for a host: its drive, its database and its configuration as a dictionary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import UsageError
from supervisor_core.config import load
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon import environment
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.storage.store import Ledger
from supervisor_core.workers.context import HostContext, open_doors

ConfigPath = str | Path | None
"""A configuration's path; None for the default one."""


class ConfigDocument(dict[str, Any]):
    """A configuration or a section of it as a dictionary, with secrets masked, that remembers where it came from."""

    def __init__(self, config: SupervisorConfig, document: Mapping[str, Any] | None = None) -> None:
        if document is None:
            sections = config.model_dump(mode="json")
            document = {
                name: ConfigDocument(config, section) if isinstance(section, Mapping) else section
                for name, section in sections.items()
            }
        super().__init__(document)
        self.config = config


def load_supervisor_config(config_path: ConfigPath = None) -> dict[str, Any]:
    """The configuration as a dictionary, checked, with its secrets masked."""
    return ConfigDocument(load.load_supervisor_config(config_path))


class NasManager:
    """The drive of a configuration from `load_supervisor_config`, or of one at a path."""

    def __init__(self, config: Mapping[str, Any] | str | Path) -> None:
        if isinstance(config, ConfigDocument):
            self.host = _opened(config.config)
        elif isinstance(config, Mapping):
            self.host = _host_of_root((config.get("nas") or {}).get("root"))
        else:
            self.host = host_at(config)
        self.nas_root = self.host.config.drive_root

    def get_state_path(self) -> Path:
        """The folder of heartbeats and pause flags."""
        return self.host.config.folder("state")

    def get_logs_path(self) -> Path:
        """The folder of logs and reports."""
        return self.host.config.folder("logs")

    def get_worker_inbox_path(self) -> Path:
        """The folder of flags."""
        return self.host.inbox.folder

    def get_worker_outbox_path(self) -> Path:
        """The folder of result files."""
        return self.host.config.folder("outbox")


class Database:
    """The database of a configuration from `load_supervisor_config`, or of its section `database`.

    With anything else, it's that of the default configuration.

    It's open only while a function uses it, so there is nothing to close.
    """

    def __init__(self, config: object = None) -> None:
        self.config = config.config if isinstance(config, ConfigDocument) else None

    def close(self) -> None:
        """Do nothing."""


def host_at(config_path: ConfigPath) -> HostContext:
    """The host that this configuration describes."""
    return _opened(load.load_supervisor_config(config_path))


def _opened(config: SupervisorConfig) -> HostContext:
    environment.prepare_state_dir(config)
    return open_doors(config)


def host_of(nas: object) -> HostContext:
    """The host that `nas` stands for."""
    if isinstance(nas, HostContext):
        return nas
    if isinstance(nas, NasManager):
        return nas.host
    return _host_of_root(getattr(nas, "nas_root", None) or getattr(nas, "root", None))


def _host_of_root(root: object) -> HostContext:
    """The host of the default configuration, which must be the one with this drive."""
    host = host_at(None)
    if root is None or Path(str(root)).resolve() != host.config.drive_root.resolve():
        raise UsageError(
            f"{host.config.path} has the drive {host.config.drive_root}, not {root}.",
            remedy="Set SUPERVISOR_CONFIG to the configuration of that drive.",
        )
    return host


@contextmanager
def ledger_of(db: object, config: SupervisorConfig | None = None) -> Iterator[Ledger]:
    """The ledger that is meant, opened where it isn't yet."""
    if isinstance(db, Ledger):
        yield db
        return
    meant = db.config if isinstance(db, Database) else None
    with opened_ledger(config or meant or load.load_supervisor_config()) as ledger:
        yield ledger
