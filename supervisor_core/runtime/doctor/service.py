"""The check of what looks after the daemon and its passes: whether their workers outlive them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from supervisor_core.adapters.processes_identity import identify
from supervisor_core.adapters.processes_records import read_record
from supervisor_core.adapters.programs import ProgramError
from supervisor_core.config import SupervisorConfig
from supervisor_core.handlers.bounds import longest_seconds
from supervisor_core.runtime.doctor import units
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.doctor.units import Unit
from supervisor_core.runtime.ownership import DAEMON_LOCK, daemon_holder

NAME = "service"
STARTED_BY_SYSTEMD = "INVOCATION_ID"
BEYOND_SECONDS = 7.0
"""What a stop takes beyond the command in hand: the outcome is written, and a service that hangs is cut off."""

PAGE = "docs/how-to/run-as-a-service.md"
WANTED = {
    "KillMode": ("process", "its workers end when it ends"),
    "OOMPolicy": ("continue", "a worker that the kernel kills for its memory ends it, too"),
}
"""What must be set, and what happens where it is not."""


def look(config: SupervisorConfig, root: Path = Path("/")) -> Check:
    """A warning fails nothing: the supervisor works, until it is stopped. `root` is where the system is."""
    if not units.has_systemd(root):
        if units.is_container(root):
            message = "this is a container: workers outlive the daemon, but end with the container"
            return Check(NAME, True, f"{message}; `supervisor stop --workers` before that lets them end in good time")
        return Check(NAME, True, "no systemd runs here, so none ends the workers with the daemon")
    daemon = _daemon(config, root)
    passes = [Unit(f"supervisor-chatops-pass@{worker_id}.service") for worker_id in list(config.workers)[:1]]
    homes = [daemon, *_homes_of_workers(config, root), *passes]
    asked = list(dict.fromkeys(unit for unit in homes if unit is not None and unit.is_service))
    try:
        told = units.ask(asked)
    except (units.UnitsError, ProgramError) as error:
        return Check(NAME, True, f"not looked at: {error.message}")
    return _judged(daemon, told, longest_seconds(config) + BEYOND_SECONDS)


def _daemon(config: SupervisorConfig, root: Path) -> Unit | None:
    """Where the daemon lives; where none runs, ourselves, if systemd has started us."""
    # Asking for the holder of a lock makes the lock's file, and we leave nothing behind.
    pid = daemon_holder(config.state_dir) if (config.state_dir / DAEMON_LOCK).exists() else None
    if pid:
        return units.unit_of(root, pid)
    return units.unit_of(root, "self") if STARTED_BY_SYSTEMD in os.environ else None


def _homes_of_workers(config: SupervisorConfig, root: Path) -> Iterator[Unit | None]:
    """A worker lives in the unit of whoever started it, be that a daemon or a pass."""
    if not config.state_dir.is_dir():
        return
    for worker_id in config.workers:
        record = read_record(config.state_dir, worker_id)
        if record is not None and record.identity is not None and identify(record.identity.pid) == record.identity:
            yield units.unit_of(root, record.identity.pid)


def _judged(daemon: Unit | None, told: Mapping[str, Mapping[str, str]], needed: float) -> Check:
    troubles, wanted = [], []
    for name, unit in told.items():
        for words, setting in _troubles(unit, needed):
            troubles.append(f"{name} has {words}")
            wanted.append((name, setting))
    if daemon is not None and not daemon.is_service:
        troubles.append(f"the daemon runs in somebody's session ({daemon.name}), and may end with it")
    if troubles:
        return Check(NAME, True, "; ".join(troubles), _remedy(wanted))
    if not told:
        return Check(NAME, True, f"no unit of systemd looks after it; {PAGE} has some")
    remarks = [f"{', '.join(told)}: workers outlive it, and a stop has the time that it may need"]
    unit = told.get(daemon.name, {}) if daemon else {}
    if unit and unit.get("Type") not in ("notify", "notify-reload"):
        remarks.append(f"Type={unit.get('Type')}, so systemd does not know when it is up")
    if unit and unit.get("WatchdogUSec", "0") in ("0", "infinity"):
        remarks.append("no WatchdogSec, so one that hangs is not started anew")
    return Check(NAME, True, "; ".join(remarks))


def _troubles(unit: Mapping[str, str], needed: float) -> Iterator[tuple[str, str]]:
    """What is wrong with a unit, and the setting that mends it. What an old systemd does not know is not missed."""
    for name, (value, otherwise) in WANTED.items():
        if unit.get(name, value) != value:
            yield f"{name}={unit[name]}: {otherwise}", f"{name}={value}"
    allowed = units.seconds_in(unit.get("TimeoutStopUSec", ""))
    if allowed is not None and allowed < needed:
        words = f"TimeoutStopSec={unit['TimeoutStopUSec']}: the longest command may take {needed:.0f} s to its end"
        yield words, f"TimeoutStopSec={needed:.0f}"


def _remedy(wanted: list[tuple[str, str]]) -> str:
    if not wanted:
        return f"Run it as a service: {PAGE}. `supervisor start` from cron or by hand is for trying."
    names = list(dict.fromkeys(name for name, _ in wanted))
    settings = list(dict.fromkeys(setting for _, setting in wanted))
    edit = "; ".join(f"systemctl edit {name}" for name in names)
    return f"Below [Service]: {', '.join(settings)} ({edit}). It holds from then on, without a restart. See {PAGE}."
