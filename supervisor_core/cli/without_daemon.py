"""What `status` shows where no daemon answers: the workers as they are all the same, and why there is no daemon."""

from __future__ import annotations

from typing import Any

from supervisor_core.config import load_supervisor_config
from supervisor_core.runtime import runtime_file
from supervisor_core.runtime.doors import open_doors
from supervisor_core.runtime.observing import look
from supervisor_core.runtime.ownership import daemon_holder
from supervisor_core.runtime.service_names import SERVICES

NEVER = {"last_health_at": None, "last_error": None}
REASONS = {
    "stopped": "No daemon runs here. `supervisor start` starts one; a host may live on passes too (`supervisor once`).",
    "stale": "The daemon died without a word. Its workers go on; `supervisor start` takes them over.",
    "unresponsive": "The daemon runs, but does not answer. Its log says what it does. Killing it spares its workers.",
}


def status_without_daemon(config_path: str | None, state: str) -> dict[str, Any]:
    """The same document that a daemon would give."""
    config = load_supervisor_config(config_path)
    said = runtime_file.read(config.state_dir)
    holder = daemon_holder(config.state_dir) if config.state_dir.is_dir() else None
    if not state:
        state = "unresponsive" if holder is not None else "stale" if said.get("running") else "stopped"
    host = open_doors(config)
    workers = [seen.as_json() for seen in look(host, list(config.workers.values()))] if config.workers else []
    return {
        "healthy": False,
        "supervisor": {
            "id": config.supervisor.id,
            "state": state,
            "pid": holder or None,
            "started_at": said.get("started_at") if state == "unresponsive" else None,
            "reason": REASONS[state],
        },
        "services": [
            {"name": name, "state": "stopped", "health": "unknown", "reason": "no daemon", **NEVER} for name in SERVICES
        ],
        "workers": workers,
    }
