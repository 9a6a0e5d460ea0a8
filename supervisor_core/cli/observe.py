"""The status without a daemon: the workers as observed now, and the reason why no daemon answers."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

from supervisor_core.cli.host import load_config
from supervisor_core.code.git import versions
from supervisor_core.common.service_names import SERVICES
from supervisor_core.daemon import ownership
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.host.process_facts.usage import with_usage
from supervisor_core.storage.ledger_errors import LedgerDamaged, ledger_error
from supervisor_core.storage.ledger_file import LEDGER_FILE, VERSION, file_state
from supervisor_core.workers.context import open_doors
from supervisor_core.workers.health import Health
from supervisor_core.workers.heartbeats.files import heartbeat_file
from supervisor_core.workers.observation import observe_workers
from supervisor_core.workers.restarts.history import finished_reason

REASONS = {
    "stopped": "No daemon is running. Start one with `supervisor daemon start`, or run passes with `supervisor once`.",
    "stale": "The daemon crashed. `supervisor daemon start` starts it again, and adopts the workers that still run.",
    "unresponsive": "The daemon is running but doesn't answer. Check `supervisor logs`. "
    "If you kill it, its workers keep running.",
}

CHECK_SECONDS = 1.0
"""The time limit for finding damage in the ledger; `doctor` allows more."""

RETRY_SECONDS = 0.02

ANSWER_SECONDS = 2.0
"""A daemon that is starting or stopping doesn't answer either; only after this time it's called unresponsive."""


def observe_status(config_path: str | None, state: str) -> dict[str, Any]:
    """The document that a daemon would give, or its own if it answers after all. `state`: `unresponsive`, if known."""
    config = load_config(config_path)
    deadline = time.monotonic() + (0.0 if state == "unresponsive" else ANSWER_SECONDS)
    runtime = ownership.read(config.state_dir)
    while True:
        # The lock and the runtime file of one moment: a daemon may start or stop in between.
        holder = ownership.daemon_holder(config.state_dir) if config.state_dir.is_dir() else None
        before, runtime = runtime, ownership.read(config.state_dir)
        if holder is None and runtime == before:
            state = "stale" if runtime.get("running") else "stopped"
            break
        if holder is None:
            continue
        state = "unresponsive"
        if time.monotonic() >= deadline:
            break
        try:
            return ask(str(config.state_dir), {"do": "status"}, ANSWER_SECONDS)
        except UnresponsiveError:
            break
        except NotRunningError:
            time.sleep(RETRY_SECONDS)
    host, workers = open_doors(config), []
    for status in observe_workers(host, list(config.workers.values())) if config.workers else []:
        worker = {**status.as_json(), "heartbeat_file": heartbeat_file(config, status.worker)}
        if not status.inactive_reason and (reason := finished_reason(config.state_dir, status.worker, status.found)):
            worker |= {"fine": True, "health": str(Health.UNKNOWN), "reason": reason}
        workers.append(worker)
    service = {"state": "stopped", "health": "unknown", "reason": "no daemon"}
    return {
        "healthy": False,
        "supervisor": {
            "id": config.supervisor.id,
            "state": state,
            "pid": holder or None,
            "started_at": runtime.get("started_at") if state == "unresponsive" else None,
            "reason": REASONS[state],
            "ledger": {"problem": _ledger_problem(config.state_dir / LEDGER_FILE)},
        },
        "services": [{"name": name, **service, "last_health_at": None, "last_error": None} for name in SERVICES],
        "workers": with_usage(workers, versions(host, list(config.workers.values()))),
    }


def _ledger_problem(path: Path) -> str:
    """The problem that a short check finds: damage, or tables that can't be upgraded; empty if there is none."""
    if not path.exists():
        return ""
    try:
        version, damage, _ = file_state(path, CHECK_SECONDS)
    except sqlite3.Error as error:
        return str(ledger_error(path, error, "read") or f"The ledger {path} can't be read: {error}.")
    if damage:
        return str(LedgerDamaged(path, " ".join(damage.split())))
    if version in (None, VERSION):
        return ""
    from supervisor_core.storage.schema import is_development, unknown_revision

    return str(unknown_revision(str(version))) if is_development(version) else ""
