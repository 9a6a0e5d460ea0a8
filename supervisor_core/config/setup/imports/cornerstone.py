"""`config.dev.yaml` of the Cornerstone Archive: its watcher becomes a worker, its drive the shared drive.

The watcher goes on reading its own file, so whatever only the watcher reads stays there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, NamedTuple

from supervisor_core.common.errors import ConfigError, SupervisorError
from supervisor_core.config.drive_settings import CORNERSTONE, LAYOUTS
from supervisor_core.config.names import worker_id_fault
from supervisor_core.config.problems import as_mapping, is_of_cornerstone
from supervisor_core.config.raw import parse_env, substitute
from supervisor_core.config.setup.imports.conversion import (
    Conversion,
    Leftover,
    OldFile,
    is_foreign,
    is_of_windows,
    leaves,
    quoted,
    required_variables,
    word,
    yaml_lines,
)
from supervisor_core.config.setup.imports.running import (
    RunningWorker,
    heartbeats,
    interpreters,
    running_worker,
    usual_interpreter,
)
from supervisor_core.host.drive import Drive

USUAL_WORKER = "OrionMX"
"""The old default of `--worker-id`."""

MODULE = "scripts.watcher.spec_watcher"
LOG = "watcher.log"
FRESH_SECONDS, MISSED_BEATS = 300, 3
"""The old limit, and the number of missed heartbeats from which a worker with rarer ones is stale."""

_OF_THE_WATCHER = "the worker still reads it from its own file"
_OF_THE_DATABASE = (
    "the supervisor has tables of its own, in its ledger; to share them, create an empty database and set DATABASE_URL"
)
UNMAPPED: Mapping[str, str] = {
    "database": _OF_THE_DATABASE,
    "nas.scratch": _OF_THE_WATCHER,
    "internet_archive": _OF_THE_WATCHER,
    "watcher": _OF_THE_WATCHER,
    "logging.path": "not a path on this host; set workers.ID.log_file to the worker's log",
    "console": "the web console reads it from its own file",
    "supervisor": "the old supervisor had no settings",
}
"""Why settings have no place in the new configuration, by their section or key."""
_UNKNOWN = "nothing here corresponds to it"
_INVALID = "its value isn't valid"

LEVELS = {"DEBUG": "DEBUG", "INFO": "INFO", "WARN": "WARNING", "WARNING": "WARNING", "ERROR": "ERROR"}
ENVIRONMENTS = ("development", "production")


def recognize(old: OldFile) -> bool:
    """True for a file with the sections that the old loader required."""
    return is_of_cornerstone(as_mapping(old.document))


def convert(old: OldFile) -> Conversion:
    """The new configuration; `ConfigError` without `nas.root`, which the old supervisor required as well."""
    return _Converter(old).convert()


class _Drive(NamedTuple):
    """Facts from the drive, if it can be reached."""

    problem: str
    top_level_inbox: bool
    pids: Mapping[str, int]


class _Converter:
    def __init__(self, old: OldFile) -> None:
        self._old = old
        self._sections = as_mapping(old.document)
        self._mapped: set[str] = set()
        self._reasons: dict[str, str] = {}
        self._notes: list[str] = []

    def convert(self) -> Conversion:
        root = self._text("nas.root")
        if not root:
            raise ConfigError(
                f"{self._old.path} has no nas.root.", remedy="Add it, as the old supervisor needs it too."
            )
        found = self._look(self._resolved(root))
        document: dict[str, Any] = {}
        if environment := self._one_of("environment", {name: name for name in ENVIRONMENTS}):
            document["environment"] = environment
        document["nas"] = {"root": quoted(root), "layout": CORNERSTONE, **self._folders(found)}
        document["database"] = {"url": "${DATABASE_URL:}"}
        if level := self._one_of("logging.level", LEVELS):
            document["logging"] = {"level": level}
        named = self._old.worker_ids or tuple(found.pids) or (USUAL_WORKER,)
        for worker_id in named:
            if fault := worker_id_fault(worker_id):
                raise ConfigError(f"{worker_id} {fault}.")
        document["workers"] = {each: self._worker(each, found.pids.get(each)) for each in named}
        if is_foreign(root):
            self._notes.append(f"nas.root is the Windows path {root}. Replace it with the drive's folder on this host.")
        elif found.problem:
            self._notes.append(f"The drive couldn't be read, so the inbox is assumed in 05_LOGS: {found.problem}")
        return Conversion(document, tuple(self._leftovers()), tuple(self._notes))

    # --- the drive

    def _look(self, root: str) -> _Drive:
        if is_foreign(root):
            return _Drive("", False, {})
        folder = Path(root)
        drive = Drive(folder)
        try:
            drive.check()
            top = drive.call((folder / LAYOUTS[CORNERSTONE]["inbox"]).is_dir)
            nested = drive.call((folder / self._nested("inbox")).is_dir)
        except (SupervisorError, OSError) as error:
            return _Drive(str(error), False, {})
        try:
            pids = drive.call(heartbeats, folder, folder / LAYOUTS[CORNERSTONE]["state"])
        except (SupervisorError, OSError):
            pids = {}
        return _Drive("", top and not nested, pids)

    @staticmethod
    def _nested(name: str) -> str:
        return f"{LAYOUTS[CORNERSTONE]['logs']}/{LAYOUTS[CORNERSTONE][name]}"

    def _folders(self, found: _Drive) -> dict[str, Any]:
        """The old programs have the inbox and the outbox in the folder of the logs, the old documents at the top."""
        if found.top_level_inbox:
            return {}
        return {"folders": {name: self._nested(name) for name in ("inbox", "outbox")}}

    # --- the worker

    def _worker(self, worker_id: str, pid: int | None) -> dict[str, Any]:
        running = running_worker(worker_id, pid) if pid else None
        section = self._running(worker_id, running) if running else self._stopped()
        if log := self._log_file():
            section["log_file"] = log
        beats = self._number("watcher.heartbeat_interval_seconds")
        if beats and beats * MISSED_BEATS > FRESH_SECONDS:
            section["heartbeat_max_age_seconds"] = beats * MISSED_BEATS
        if needed := self._variables(Path(section["cwd"])):
            section["env"] = {name: f"${{{name}}}" for name in needed}
        return {**section, "restart": {"policy": "always"}, "code": {"path": section["cwd"]}}

    def _running(self, worker_id: str, running: RunningWorker) -> dict[str, Any]:
        self._notes.append(f"{worker_id} runs as pid {running.pid}. Its command line is copied unchanged.")
        return {
            "python": quoted(running.python),
            "command": running.command(worker_id),
            "cwd": quoted(str(running.folder)),
        }

    def _stopped(self) -> dict[str, Any]:
        folder = self._checkout()
        found = [str(path) for path in interpreters(folder)] or [usual_interpreter()]
        words = ["--worker-id", "{worker_id}", "--config", word(str(self._old.path))]
        return {
            "python": quoted(found[0]),
            "command": ["{python}", "-m", MODULE, *words],
            "cwd": quoted(str(folder)),
        }

    def _checkout(self) -> Path:
        """The folder of the archive's code, upwards from the file."""
        relative = Path(*MODULE.split(".")).with_suffix(".py")
        for folder in self._old.path.parents:
            if (folder / relative).is_file():
                return folder
        self._notes.append(f"The code of the worker isn't above {self._old.path}. Set cwd and code.path.")
        return self._old.path.parent

    def _log_file(self) -> str:
        path = self._text("logging.path")
        if not path or is_foreign(path):
            self._mapped.discard("logging.path")
            return ""
        kind = PureWindowsPath if is_of_windows(path) else PurePosixPath
        return quoted(str(kind(path) / LOG))

    def _variables(self, folder: Path) -> list[str]:
        """The variables that the worker needs from its environment: those that no `.env` near its code sets for it."""
        texts = [value for _, value in leaves(self._old.document) if isinstance(value, str)]
        wanted = dict.fromkeys(name for text in texts for name in required_variables(text))
        for place in (folder, *folder.parents):
            path = place / ".env"
            if wanted and path.is_file():
                set_there, _ = parse_env(path.read_text(encoding="utf-8", errors="replace"))
                return [name for name in wanted if name not in set_there]
        return list(wanted)

    # --- reading the old settings

    def _resolved(self, text: str) -> str:
        beside = self._old.path.with_name(".env")
        found, _ = parse_env(beside.read_text(encoding="utf-8", errors="replace")) if beside.is_file() else ({}, [])
        resolved, problems = substitute(
            text, {**found, **(os.environ if self._old.environ is None else self._old.environ)}
        )
        if problems:
            raise ConfigError(f"nas.root {problems[0]}.")
        return resolved

    def _value(self, key: str) -> object:
        section, _, name = key.rpartition(".")
        found = as_mapping(self._sections.get(section)) if section else self._sections
        return found.get(name)

    def _text(self, key: str) -> str:
        value = self._value(key)
        if isinstance(value, str) and value.strip():
            self._mapped.add(key)
            return value.strip()
        return ""

    def _one_of(self, key: str, names: Mapping[str, str]) -> str:
        value = self._value(key)
        if isinstance(value, str) and value in names:
            self._mapped.add(key)
            return names[value]
        self._reasons[key] = _INVALID
        return ""

    def _number(self, key: str) -> float:
        value = self._value(key)
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            self._mapped.add(key)
            return value
        self._reasons[key] = _INVALID
        return 0

    def _leftovers(self) -> Iterator[Leftover]:
        lines = yaml_lines(self._old.text)
        for key, _ in leaves(self._old.document):
            if key not in self._mapped:
                yield Leftover(key, self._reasons.get(key) or _reason(key), self._old.path.name, lines.get(key, 0))


def _reason(key: str) -> str:
    parts = key.split(".")
    prefixes = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((UNMAPPED[prefix] for prefix in prefixes if prefix in UNMAPPED), _UNKNOWN)
