"""`config.dev.yaml` of the Cornerstone Archive: its watcher becomes a worker, and goes on reading that file."""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from supervisor_core.common.errors import ConfigError, SupervisorError
from supervisor_core.config.problems import as_mapping
from supervisor_core.config.raw import parse_env, substitute
from supervisor_core.config.schema import CORNERSTONE, LAYOUTS
from supervisor_core.config.setup.imports.conversion import Conversion, leaves, quoted, required_variables, word
from supervisor_core.host import drive_files
from supervisor_core.host.drive import Drive
from supervisor_core.host.files import read_json

USUAL_WORKER, MODULE, LOG, HEARTBEAT = "OrionMX", "scripts.watcher.spec_watcher", "watcher.log", "watcher_heartbeat_"
FRESH_SECONDS, MISSED_BEATS = 300, 3  # the old limit, and the missed heartbeats that make a rarer one stale
LEVELS = {"WARN": "WARNING", **{name: name for name in ("DEBUG", "INFO", "WARNING", "ERROR")}}


def convert(
    conversion: Conversion,
    path: Path,
    document: Any,  # noqa: ANN401 (YAML)
    worker_ids: Sequence[str],
    environ: Mapping[str, str] | None,
) -> None:
    """Add its workers; `ConfigError` without `nas.root`, which the old supervisor required as well."""
    nas, logging, watcher = (as_mapping(document.get(name)) for name in ("nas", "logging", "watcher"))
    root, level, log, converted = nas.get("root"), logging.get("level"), logging.get("path"), {"nas.root"}
    if not isinstance(root, str) or not root.strip():
        raise ConfigError(f"{path} has no nas.root.", remedy="Add it, as the old supervisor needs it too.")
    variables = {**_read_env(path.with_name(".env")), **(os.environ if environ is None else environ)}
    resolved, problems = substitute(root.strip(), variables)
    if problems:
        raise ConfigError(f"nas.root {problems[0]}.")
    if document.get("environment") in ("development", "production"):
        conversion.sections["environment"] = document["environment"]
        converted.add("environment")
    folders, pids = _look_at_drive(conversion, Path(resolved))
    conversion.sections["nas"] = {"root": quoted(root.strip()), "layout": CORNERSTONE, **folders}
    conversion.sections["database"] = {"url": "${DATABASE_URL:}"}
    conversion.note("The supervisor has tables of its own. To share its audit trail, set DATABASE_URL.")
    if isinstance(level, str) and level in LEVELS:
        conversion.sections["logging"] = {"level": LEVELS[level]}
        converted.add("logging.level")
    shared: dict[str, Any] = {}
    if isinstance(log, str) and Path(log).is_absolute():
        shared["log_file"] = quoted(str(Path(log, LOG)))
        converted.add("logging.path")
    beats = watcher.get("heartbeat_interval_seconds")
    if isinstance(beats, int | float) and beats * MISSED_BEATS > FRESH_SECONDS:
        shared["heartbeat_max_age_seconds"] = beats * MISSED_BEATS
    for worker_id in worker_ids or tuple(pids) or (USUAL_WORKER,):
        process = _running_process(worker_id, pids.get(worker_id, 0))
        worker = process or _usual_process(conversion, path)
        if process:
            conversion.note(f"{worker_id} runs as pid {pids[worker_id]}. Its command line is copied unchanged.")
        # The worker needs the variables from its environment that no .env near its code sets.
        parents = [Path(worker["cwd"]), *Path(worker["cwd"]).parents]
        env = _read_env(next((file for python in parents if (file := python / ".env").is_file()), Path()))
        if names := [name for name in required_variables(document) if name not in env]:
            worker["env"] = {name: f"${{{name}}}" for name in names}
        worker |= {**shared, "restart": {"policy": "always"}, "code": {"path": worker["cwd"]}}
        conversion.add_worker(worker_id, worker, exact=True)
    unconverted = (key for key, _ in leaves(document) if key not in converted)
    conversion.note_unconverted(f"{path.name}, which the worker still reads itself", unconverted)


def _look_at_drive(conversion: Conversion, root: Path) -> tuple[dict[str, Any], dict[str, int]]:
    """The folders, and the pids of this host's workers by their heartbeats. The old programs have the inbox and the
    outbox in the folder of the logs, the old documents at the top."""
    layout = LAYOUTS[CORNERSTONE]
    nested = {name: f"{layout['logs']}/{layout[name]}" for name in ("inbox", "outbox")}
    drive, at_top = Drive(root), False
    try:
        drive.check()
        at_top = drive.call((root / layout["inbox"]).is_dir) and not drive.call((root / nested["inbox"]).is_dir)
        pids = drive.call(_pids_by_heartbeat, root, root / layout["state"])
    except (SupervisorError, OSError) as error:
        pids = {}
        conversion.note(f"The drive couldn't be read, so check nas.folders: {error}")
    return {} if at_top else {"folders": nested}, pids


def _pids_by_heartbeat(root: Path, state_folder: Path) -> dict[str, int]:
    """For a thread of the drive's: it may hang."""
    pids = {}
    for entry in drive_files.list_folder(root, state_folder, ".json"):
        worker_id = entry.name.removeprefix(HEARTBEAT).removesuffix(".json")
        if entry.name == f"{HEARTBEAT}{worker_id}.json":
            beat = read_json(state_folder / entry.name, tolerant=True, root=root) or {}
            if beat.get("hostname") == socket.gethostname() and isinstance(beat.get("pid"), int):
                pids[worker_id] = beat["pid"]
    return dict(sorted(pids.items()))


def _running_process(worker_id: str, pid: int) -> dict[str, Any] | None:
    """The process with this pid, if it is ours and runs Python as this worker: anybody may write a pid into a file."""
    import psutil

    try:
        process = psutil.Process(pid)
        if not pid or process.username() != psutil.Process().username():
            return None
        arguments, folder, executable = process.cmdline(), process.cwd(), process.exe()
    except (psutil.Error, OSError, ValueError):
        return None
    if worker_id not in arguments or not folder or "python" not in Path(executable).name.lower():
        return None
    explicit = [str(Path(folder, arguments[0]))] if os.sep in arguments[0] else []
    pythons = [*explicit, *_virtual_environments(Path(folder)), shutil.which(arguments[0]) or executable]
    python = next((python for python in pythons if os.path.realpath(python) == executable), executable)
    command = ["{python}", *("{worker_id}" if python == worker_id else word(python) for python in arguments[1:])]
    return {"python": quoted(python), "command": command, "cwd": quoted(folder)}


def _usual_process(conversion: Conversion, path: Path) -> dict[str, Any]:
    """The command of a worker that doesn't run now, from the folder of the archive's code, upwards from the file."""
    code = Path(*MODULE.split(".")).with_suffix(".py")
    folder = next((parent for parent in path.parents if (parent / code).is_file()), None)
    if folder is None:
        conversion.note(f"The code of the worker isn't above {path}. Set cwd and code.path.")
        folder = path.parent
    python = [*_virtual_environments(folder), shutil.which("python") or shutil.which("python3") or ""][0]
    command = ["{python}", "-m", MODULE, "--worker-id", "{worker_id}", "--config", word(str(path))]
    return {"python": quoted(python), "command": command, "cwd": quoted(str(folder))}


def _virtual_environments(folder: Path) -> list[str]:
    paths = [folder / name / "bin" / "python" for name in (".venv", "venv", "env")]
    return [str(path) for path in paths if path.is_file()]


def _read_env(path: Path) -> Mapping[str, str]:
    return parse_env(path.read_text(encoding="utf-8", errors="replace"))[0] if path.is_file() else {}
