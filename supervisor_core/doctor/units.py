"""The check of the systemd units that run the daemon and its passes: the workers must outlive both."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.setup.unit_files import seconds_in
from supervisor_core.daemon.handlers import STOP_LIMIT_SECONDS
from supervisor_core.daemon.ownership import DAEMON_LOCK, daemon_holder
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.host.process_facts.identity import identify
from supervisor_core.host.programs import ProgramError, run_command
from supervisor_core.processes.records import read_record

ASK_SECONDS = 5.0
"""An answer takes some milliseconds; a systemd that is stuck gives none for 25 s."""

PROPERTIES = ("Id", "LoadState", "Type", "KillMode", "OOMPolicy", "WatchdogUSec", "TimeoutStopUSec")
BOOTED = "run/systemd/system"
CONTAINER_FILES = (".dockerenv", "run/.containerenv")
CONTAINER_WORDS = re.compile(r"docker|kubepods|containerd|libpod|lxc|garden|\.nspawn")
_OF_A_USER = re.compile(r"^user@\d+\.service$")
_UNIT = re.compile(r".+\.(service|scope)$")


class UnitsError(SupervisorError):
    """systemd didn't respond."""


class Unit(NamedTuple):
    """A unit, and whether a user's own systemd looks after it."""

    name: str
    of_user: bool = False

    @property
    def is_service(self) -> bool:
        """And not the scope of somebody's session."""
        return self.name.endswith(".service")


def has_systemd(root: Path) -> bool:
    return (root / BOOTED).is_dir()


def unit_of(root: Path, pid: int | str) -> Unit | None:
    """The innermost unit that a process lives in; None where it is gone, or lives in none."""
    for line in _read(root / "proc" / str(pid) / "cgroup").splitlines():
        _, controllers, path = [*line.split(":", 2), "", ""][:3]
        if controllers not in ("", "name=systemd"):
            continue
        parts = [part for part in path.split("/") if _UNIT.match(part)]
        of_user = any(map(_OF_A_USER.match, parts[:-1]))
        if parts:
            return Unit(parts[-1], of_user)
    return None


def ask(units: Sequence[Unit]) -> dict[str, Mapping[str, str]]:
    """The properties of those that are loaded, by name. `UnitsError` where systemd does not tell."""
    found: dict[str, Mapping[str, str]] = {}
    for of_user in (False, True):
        names = [unit.name for unit in units if unit.of_user == of_user]
        if not names:
            continue
        words = ["systemctl", *(["--user"] if of_user else []), "show", "-p", ",".join(PROPERTIES), *names]
        ran = run_command(words, timeout=ASK_SECONDS)
        if not ran.ok:
            reason = "no response" if ran.timed_out else " ".join(ran.errors.split()) or f"exit {ran.exit_code}"
            raise UnitsError(f"systemctl failed: {reason}")
        for block in ran.output.strip().split("\n\n"):
            properties = dict(line.split("=", 1) for line in block.splitlines() if "=" in line)
            if properties.get("LoadState") == "loaded" and "Id" in properties:
                found[properties["Id"]] = properties
    return found


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


NAME = "service"
STARTED_BY_SYSTEMD = "INVOCATION_ID"
BEYOND_SECONDS = 7.0
"""The time of a stop beyond the running command: its outcome is written, and a hanging service is cut off."""

PAGE = "docs/how-to/run-as-a-service.md"
WANTED = {
    "KillMode": ("process", "workers end with the daemon"),
    "OOMPolicy": ("continue", "an out-of-memory kill of a worker ends the daemon, too"),
}
"""The required settings, and the effect without each."""


def check_service(config: SupervisorConfig, root: Path = Path("/")) -> CheckResult:
    """A warning fails nothing: the supervisor works, until it is stopped. `root` is where the system is."""
    if not has_systemd(root):
        cgroup = _read(root / "proc/1/cgroup")
        if any((root / name).exists() for name in CONTAINER_FILES) or CONTAINER_WORDS.search(cgroup):
            message = "in a container, workers outlive the daemon but end with the container"
            return CheckResult(
                NAME, True, f"{message}; run `supervisor daemon stop --workers` first to stop them cleanly"
            )
        return CheckResult(NAME, True, "no systemd here, so workers outlive the daemon")
    # The unit of the daemon; where none runs, our own, if systemd started us. Asking for the holder of a lock makes the
    # lock's file, and we leave nothing behind.
    pid: int | str | None = daemon_holder(config.state_dir) if (config.state_dir / DAEMON_LOCK).exists() else None
    if not pid and STARTED_BY_SYSTEMD in os.environ:
        pid = "self"
    daemon = unit_of(root, pid) if pid else None
    units = [daemon]
    for worker_id in config.workers if config.state_dir.is_dir() else ():
        record = read_record(config.state_dir, worker_id)
        if record is not None and record.identity is not None and identify(record.identity.pid) == record.identity:
            units.append(unit_of(root, record.identity.pid))
    units += [Unit(f"supervisor-chatops-pass@{worker_id}.service") for worker_id in list(config.workers)[:1]]
    services = list(dict.fromkeys(unit for unit in units if unit is not None and unit.is_service))
    try:
        properties = ask(services)
    except (UnitsError, ProgramError) as error:
        return CheckResult(NAME, True, f"not checked: {error.message}")
    return _unit_result(daemon, properties, STOP_LIMIT_SECONDS + BEYOND_SECONDS)


def _unit_result(daemon: Unit | None, properties: Mapping[str, Mapping[str, str]], needed: float) -> CheckResult:
    troubles, missing = [], []
    for name, unit in properties.items():
        for key, (value, otherwise) in WANTED.items():
            if unit.get(key, value) != value:  # an old systemd lacks some
                troubles.append(f"{name} has {key}={unit[key]}: {otherwise}")
                missing.append((name, f"{key}={value}"))
        allowed = seconds_in(unit.get("TimeoutStopUSec", ""))
        if allowed is not None and allowed < needed:
            troubles.append(f"{name} has TimeoutStopSec={unit['TimeoutStopUSec']}: a stop may take {needed:.0f} s")
            missing.append((name, f"TimeoutStopSec={needed:.0f}"))
    if daemon is not None and not daemon.is_service:
        troubles.append(f"the daemon runs in a login session ({daemon.name}) and may end with it")
    if troubles:
        remedy = f"Run it as a service: {PAGE}."
        if missing:
            settings = ", ".join(dict.fromkeys(setting for _, setting in missing))
            edit = "; ".join(f"systemctl edit {name}" for name in dict.fromkeys(name for name, _ in missing))
            remedy = f"Add below [Service]: {settings} ({edit}). No restart needed. See {PAGE}."
        return CheckResult(NAME, True, "; ".join(troubles), remedy)
    if not properties:
        return CheckResult(NAME, True, f"not run by systemd; {PAGE} has unit files")
    remarks = [f"{', '.join(properties)}: workers outlive the daemon, and the stop timeout is long enough"]
    unit = properties.get(daemon.name, {}) if daemon else {}
    if unit and unit.get("Type") not in ("notify", "notify-reload"):
        remarks.append(f"Type={unit.get('Type')}, so systemd doesn't know when it's up")
    if unit and unit.get("WatchdogUSec", "0") in ("0", "infinity"):
        remarks.append("no WatchdogSec, so a hung daemon isn't restarted")
    return CheckResult(NAME, True, "; ".join(remarks))
