"""The configuration as the programs use it: loaded, cross-checked, and asked about workers and rights."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import unquote, urlsplit

from msgspec import structs

from supervisor_core.commands.addresses import hosts_of
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import person_of
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.definitions import Right
from supervisor_core.commands.manual import EXAMPLE
from supervisor_core.commands.targets import GrammarContext
from supervisor_core.common.errors import UsageError
from supervisor_core.common.text import canonical_json, nearest
from supervisor_core.config.fields import OnCallSource
from supervisor_core.config.problems import HUB, REMOVED, SQLITE, cross_check, is_of_cornerstone
from supervisor_core.config.raw import Problem, RawConfig, SettingPath, absolute, read_raw
from supervisor_core.config.schema import CORNERSTONE, FORMER_ROOT, LAYOUTS, ORIGIN, PLAIN, Settings
from supervisor_core.config.sections import Reader, SecretStr, Section, as_plain, settings_of
from supervisor_core.config.worker_settings import (
    LAUNCH,
    TeamSettings,
    WorkerSettings,
    fill_placeholders,
    safe_environment,
)
from supervisor_core.host.network import Network
from supervisor_core.plugins.loading import load_plugins

SHORTEST_SECRET = 4
"""Shorter secrets would match ordinary words, and are easy to guess anyway."""


class SupervisorConfig(Settings, frozen=True, kw_only=True, dict=True):
    """A configuration that was found right, with every path absolute. It never changes."""

    INTERNAL = frozenset({"path", "text", "environ", "safe_environment", "network", "explicit_settings"})
    path: Path
    """The absolute path of the file: `{config}` in a command."""
    text: str
    """The content of the file, with its variables unresolved."""
    environ: Mapping[str, str]
    """The `.env` beside the file, and over it the environment: where Slack's tokens are looked for."""
    safe_environment: Mapping[str, str]
    """The variables of ours that any program may see."""
    network: Network
    """The proxies and certificates for every connection to the outside."""
    explicit_settings: frozenset[SettingPath]
    """The settings that the file has; the others have their defaults."""

    def __repr__(self) -> str:
        return f"SupervisorConfig({str(self.path)!r})"

    @property
    def state_dir(self) -> Path:
        """The folder on the local disk that holds the ledger."""
        return self.supervisor.state_dir

    @property
    def log_path(self) -> Path:
        """The log on the local disk; its copy on the drive has the same name in the folder of the logs."""
        return self.state_dir / self.logging.file

    @property
    def drive_root(self) -> Path:
        """The folder that holds the folders: the shared drive, or without one the state folder."""
        return self.nas.root or self.state_dir

    @cached_property
    def folders(self) -> Mapping[str, Path]:
        """The absolute paths of the folders, by their keys: state, logs, inbox, outbox, and those of the workers."""
        names = structs.asdict(self.nas.folders)
        return MappingProxyType({name: self.drive_root / folder for name, folder in names.items() if folder})

    @property
    def ledger_url(self) -> str:
        """The URL of the PostgreSQL server that has this hub's ledger; empty where the ledger is a file."""
        url = self.database.url.get_secret_value()
        return url if self.fleet.role == HUB and url.startswith("postgresql") else ""

    @property
    def shared_database_disabled(self) -> str:
        """Why rows go to no shared database; empty if they do."""
        url = self.database.url.get_secret_value()
        if not url:
            return "no shared database is configured (database.url)"
        parts = urlsplit(url)
        path = Path(unquote(parts.path.removeprefix("/").removeprefix("file:")))
        if self.ledger_url or (parts.scheme == SQLITE and path.resolve() == (self.state_dir / "ledger.db").resolve()):
            return "database.url is the ledger itself"
        return ""

    @property
    def fleet_folder(self) -> Path:
        """The folder with the configuration, certificates and data of the NATS server."""
        return self.fleet.server.folder or self.state_dir / "nats"

    @property
    def forgotten_folders(self) -> Mapping[Path, str]:
        """The folders that this configuration meant before there were layouts, each with the remedy.

        Empty where the layout is set. Where one of these folders exists, the names of `plain` would forget the flags,
        pauses and heartbeats in it.
        """
        if ("nas", "layout") in self.explicit_settings:
            return {}
        root, remedy = self.nas.root, "Add layout: cornerstone to the section nas."
        if root is None:
            root = self.resolve(FORMER_ROOT)
            remedy = f"Add nas: {{root: {FORMER_ROOT}, layout: cornerstone}} to the configuration."
        unset = [name for name, folder in LAYOUTS[PLAIN].items() if getattr(self.nas.folders, name) == folder]
        return {root / LAYOUTS[CORNERSTONE][name]: remedy for name in unset}

    def folder(self, name: str) -> Path:
        return self.folders[name]

    def resolve(self, text: str) -> Path:
        """The absolute path that is meant: a relative one starts at the folder of the configuration."""
        return Path(absolute(self.path.parent, text))

    def worker(self, worker_id: str) -> WorkerSettings:
        """Find the worker with this id; raise `UsageError` with the nearest name."""
        try:
            return self.workers[worker_id]
        except KeyError:
            suggestion = nearest(worker_id, self.workers)
            hint = f"Did you mean {suggestion}?" if suggestion else f"Workers: {', '.join(self.workers) or 'none'}."
            raise UsageError(f"No worker {worker_id!a}. {hint}") from None

    def pick_worker(self, worker_id: str | None = None) -> WorkerSettings:
        """The worker that is meant: the one named, else the only one, else the default."""
        if worker_id is not None:
            return self.worker(worker_id)
        if len(self.workers) == 1:
            return next(iter(self.workers.values()))
        if self.supervisor.default_worker:
            return self.worker(self.supervisor.default_worker)
        if not self.workers:
            raise UsageError(f"No workers in {self.path}. Add one to its section workers.")
        raise UsageError(
            f"Choose a worker: {', '.join(self.workers)}. supervisor.default_worker is empty. "
            "Name one with --worker-id."
        )

    def python_for(self, worker: WorkerSettings) -> str:
        """The interpreter that runs this worker and its pip."""
        return worker.python or sys.executable

    def fill(self, worker: WorkerSettings, arguments: Iterable[str]) -> tuple[str, ...]:
        values = {"python": self.python_for(worker), "config": str(self.path), "worker_id": worker.id}
        return tuple(fill_placeholders(argument, values) for argument in arguments)

    def command_for(self, worker: WorkerSettings) -> tuple[str, ...]:
        """The exact argument list that starts this worker."""
        return self.fill(worker, worker.command)

    def environment_for(self, worker: WorkerSettings) -> dict[str, str]:
        """The exact environment that this worker gets: nothing of ours but what is harmless, and its own."""
        own = {name: value.get_secret_value() for name, value in worker.env.items()}
        return {**self.safe_environment, **own}

    def needs_approval(self, command: str, source: str) -> bool:
        """True for a command from this source that needs a second person's approval."""
        approvals, definition = self.slack.approvals, CATALOG.get(command)
        is_own = definition is not None and definition.extension is not None and definition.needs_approval
        return (is_own or command in approvals.required_for) and source in approvals.doors

    def announcement(self) -> Mapping[str, Any] | None:
        """The place in Slack for the card of a command from elsewhere; None where it gets none."""
        if not (self.slack.enabled and self.slack.announce and self.slack.alert_channel):
            return None
        return {"channel": self.slack.alert_channel, "announced": True}

    def with_workers(
        self, workers: Mapping[str, WorkerSettings], teams: Mapping[str, TeamSettings]
    ) -> SupervisorConfig:
        """The same configuration with these workers and teams: those of a whole fleet."""
        return structs.replace(self, workers=MappingProxyType({**workers}), teams=MappingProxyType({**teams}))

    @cached_property
    def secrets(self) -> frozenset[str]:
        """Every value that must not be seen: passwords, tokens, keys, and what workers are given in `env`."""
        secrets = set(_find_secrets(self))
        secrets |= {value for name, value in self.environ.items() if name.startswith("SLACK_") and "TOKEN" in name}
        for url in tuple(secrets):
            with suppress(ValueError):
                secrets.add(urlsplit(url).password or "")
        return frozenset(value for value in (*secrets, *self.network.secrets()) if len(value) >= SHORTEST_SECRET)

    @cached_property
    def _spec_hashes(self) -> dict[int, tuple[WorkerSettings, str]]:
        """Each worker's settings that were hashed, by their identity: they never change."""
        return {}

    def spec_hash(self, worker: WorkerSettings) -> str:
        """The hash changes exactly when a configuration change needs a restart of this worker."""
        known, digest = self._spec_hashes.get(id(worker), (None, ""))
        if known is not worker:
            settings = {name: as_plain(getattr(worker, name), secrets=True) for name in LAUNCH}
            settings |= {"id": worker.id, "command": self.command_for(worker), "python": self.python_for(worker)}
            digest = hashlib.sha256(canonical_json(settings).encode()).hexdigest()
            self._spec_hashes[id(worker)] = worker, digest
        return digest


def load_supervisor_config(
    path: str | Path | None = None, *, environ: Mapping[str, str] | None = None
) -> SupervisorConfig:
    """The configuration, found, read and checked; `ConfigError` with a line for everything that is wrong.

    Its commands, and those of plug-ins, are in the catalog of this process from then on.
    """
    load_plugins()
    config = read_config(path, environ)
    put_commands_in_force(config)
    return config


def read_config(path: str | Path | None = None, environ: Mapping[str, str] | None = None) -> SupervisorConfig:
    """The same, without a change to the catalog."""
    given = dict(os.environ if environ is None else environ)
    return check_raw(read_raw(path, given), given)


def put_commands_in_force(config: SupervisorConfig) -> None:
    """Put the commands of this configuration into the catalog, and take out those of another one."""
    CATALOG.extend(ORIGIN, (command.definition(name) for name, command in config.commands.items()))


def check_raw(raw: RawConfig, environ: Mapping[str, str] | None = None) -> SupervisorConfig:
    """The configuration that was read, checked; `ConfigError` with a line for everything that is wrong."""
    reader = Reader(Settings, raw, REMOVED)
    # A key that begins with x- is only there for its YAML anchor.
    settings = reader.read_section(Settings, {k: v for k, v in raw.data.items() if not k.startswith("x-")}, ())
    if settings is None and is_of_cornerstone(raw.data):
        raise raw.error([(1, (), "this is a configuration of Cornerstone Archive; convert it with supervisor import")])
    problems: dict[object, Problem] = {}  # one for each setting: a missing variable has other effects, too
    for problem in (
        *raw.problems,
        *((raw.line_of(path), path, text) for path, text in (*reader.problems, *cross_check(raw.data))),
    ):
        problems.setdefault(problem[:2], problem)
    if problems or settings is None:
        raise raw.error(list(problems.values()))
    return SupervisorConfig(
        **structs.asdict(settings),
        path=Path(raw.path),
        text=raw.text,
        environ=MappingProxyType(raw.environment),
        safe_environment=MappingProxyType(safe_environment(os.environ if environ is None else environ)),
        network=Network(raw.environment, Path(raw.folder)),
        explicit_settings=frozenset(reader.explicit_settings),
    )


def _find_secrets(value: Any) -> Iterator[str]:  # noqa: ANN401 (any setting)
    if isinstance(value, SecretStr):
        yield value.get_secret_value()
    elif isinstance(value, OnCallSource):
        yield from _find_secrets(value.settings)
    elif isinstance(value, Section):
        for field in settings_of(type(value)):
            yield from _find_secrets(getattr(value, field.name))
    elif isinstance(value, Mapping | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from _find_secrets(item)


PEOPLE = ("U", "W")
"""The first letters of user ids. The other ids in a list mean groups of people."""


def denial_reason(config: SupervisorConfig, who_id: str, command: str, worker_id: str, right: Right) -> str:
    """The reason why the configuration denies this person the right on this worker; empty where it grants it."""
    access = config.slack.access
    by_command = access.commands.get(command) if right is not Right.APPROVER else None
    if by_command is not None:
        ids: Sequence[str] = by_command
        key = f"slack.access.commands.{command}"
    else:
        role = "approvers" if right is Right.APPROVER else "operators"
        worker = config.workers.get(worker_id)
        team = config.teams.get(worker.team) if worker else None
        ids = [*getattr(access, role), *(getattr(team, role) if team else ())]
        key = f"slack.access.{role} or for the worker's team"
    if person_of(who_id) in {f"slack:{user}" for user in ids if user.startswith(PEOPLE)}:
        return ""
    return f"{who_id} isn't listed by id in {key}, so the flag can't speak for them."


def grammar_context(config: SupervisorConfig, facts: FactSource | None = None) -> GrammarContext:
    """The workers, teams, hosts and default worker that texts of commands may name; `facts` decide conditions."""
    teams: dict[str, list[str]] = {name: [] for name in config.teams}
    for worker_id, worker in config.workers.items():
        if worker.team in teams:
            teams[worker.team].append(worker_id)
    return GrammarContext(
        workers=tuple(config.workers),
        teams={name: tuple(members) for name, members in teams.items()},
        default_worker=config.supervisor.default_worker,
        hosts=hosts_of(config.workers, config.supervisor.id),
        facts=facts,
    )


def example_worker(config: SupervisorConfig) -> str:
    """The worker that shows how commands are typed: the default one, else the first."""
    return config.supervisor.default_worker or next(iter(config.workers), EXAMPLE)
