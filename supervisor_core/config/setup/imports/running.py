"""The process that already runs as a worker: its exact command, so that the supervisor can adopt it."""

from __future__ import annotations

import os
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

from supervisor_core.config.setup.imports.conversion import word
from supervisor_core.host import drive_files
from supervisor_core.host.process_facts import linux as platform
from supervisor_core.host.programs import ProgramError, run_command

HEARTBEAT = "watcher_heartbeat_"
ENVIRONMENTS = (".venv", "venv", "env")
SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class RunningWorker:
    """A process whose heartbeat names this host, and whose command line names the worker."""

    pid: int
    arguments: tuple[str, ...]
    executable: str
    folder: Path

    @property
    def python(self) -> str:
        """The interpreter as a configuration names it; for a virtual environment, its own, not the link's target."""
        first = self.arguments[0]
        named = [str(self.folder / first)] if os.sep in first else []
        found = [*named, *map(str, interpreters(self.folder)), *filter(None, [shutil.which(first)])]
        return next((each for each in found if os.path.realpath(each) == self.executable), self.executable)

    def command(self, worker_id: str) -> list[str]:
        """The command of a configuration: the same words, with placeholders."""
        return ["{python}", *("{worker_id}" if each == worker_id else word(each) for each in self.arguments[1:])]


def interpreters(folder: Path) -> list[Path]:
    """The Python interpreters of the virtual environments in a folder."""
    places = ("Scripts/python.exe",) if os.name == "nt" else ("bin/python", "bin/python3")
    return [path for name in ENVIRONMENTS for place in places if (path := folder / name / place).is_file()]


def usual_interpreter() -> str:
    """The interpreter that `python` starts in this shell, behind a shim such as pyenv's; empty if it isn't found."""
    found = shutil.which("python") or shutil.which("python3") or ""
    if not found:
        return ""
    try:
        done = run_command([found, "-c", "import sys; print(sys.executable)"], timeout=SECONDS, only_looks=True)
    except ProgramError:
        return found
    return done.output.strip() if done.exit_code == 0 else found


def heartbeats(root: Path, state_folder: Path) -> dict[str, int]:
    """The workers of this host that have a heartbeat, each with its PID. For a thread of the drive's: it may hang."""
    found = {}
    for entry in drive_files.list_folder(root, state_folder, ".json"):
        worker_id = entry.name.removeprefix(HEARTBEAT).removesuffix(".json")
        if entry.name != f"{HEARTBEAT}{worker_id}.json":
            continue
        beat = drive_files.read_json(root, state_folder / entry.name, tolerant=True) or {}
        if beat.get("hostname") == socket.gethostname() and isinstance(beat.get("pid"), int):
            found[worker_id] = beat["pid"]
    return dict(sorted(found.items()))


def running_worker(worker_id: str, pid: int) -> RunningWorker | None:
    """The process with this PID, if it is ours and runs Python as this worker: anybody may write a PID into a file."""
    if platform.owners(pid) != platform.own_owners():
        return None
    arguments = platform.arguments(pid)
    folder, executable = platform.working_directory(pid), platform.executable(pid)
    if worker_id not in arguments or not folder or "python" not in Path(executable).name.lower():
        return None
    return RunningWorker(pid, arguments, executable, Path(folder))
