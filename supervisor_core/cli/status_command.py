"""`supervisor status`: the live state, verified. It asks the daemon, and imports nothing that it does not use."""

from __future__ import annotations

import os
import sys

from supervisor_core.config.raw import read_raw, state_dir_of
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask

TYPE_CHECKING = False
if TYPE_CHECKING:
    import argparse
    from typing import Any

ANSWER_SECONDS = 2.0


def configure(parser: argparse.ArgumentParser) -> None:
    """Its options."""
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="for programs")
    form.add_argument("--plain", action="store_true", help="key=value, a line each")
    parser.add_argument("--worker", metavar="ID", help="this worker alone; the exit code is its health alone")


def run(options: argparse.Namespace) -> int:
    """Ask, show, and say by the exit code whether all is well."""
    raw = read_raw(options.config)
    status = _ask(state_dir_of(raw), options.config)
    if options.worker:
        status["workers"] = [worker for worker in status["workers"] if worker["id"] == options.worker]
        if not status["workers"]:
            from supervisor_core.config import load_supervisor_config

            load_supervisor_config(options.config).worker(options.worker)  # says which there are
            status["supervisor"]["reason"] = f"The daemon does not know {options.worker} yet: start it anew."
        status["healthy"] = bool(status["workers"]) and all(worker["fine"] for worker in status["workers"])
    print(_form(status, options))
    return 0 if status["healthy"] else 1


def _ask(state_dir: str, config: str | None) -> dict[str, Any]:
    try:
        return ask(state_dir, {"do": "status"}, ANSWER_SECONDS)
    except NotRunningError:
        state = ""
    except UnresponsiveError:
        state = "unresponsive"
    from supervisor_core.cli.without_daemon import status_without_daemon

    return status_without_daemon(config, state)


def _form(status: dict[str, Any], options: argparse.Namespace) -> str:
    if options.json:
        import json

        return json.dumps(status, indent=2)
    if options.plain:
        return "\n".join(_plain("", status))
    return _for_people(status)


def _plain(prefix: str, value: Any) -> list[str]:  # noqa: ANN401 (JSON of any shape)
    """`workers.OrionMX.pid=4711`: stable names, one fact a line."""
    if isinstance(value, dict):
        return [line for key, item in value.items() for line in _plain(f"{prefix}.{key}" if prefix else key, item)]
    if isinstance(value, list):
        lines = []
        for item in value:
            name = item.get("id") or item.get("name")
            rest = {key: entry for key, entry in item.items() if key not in ("id", "name")}
            lines += _plain(f"{prefix}.{name}", rest)
        return lines
    text = {None: "none", True: "true", False: "false"}.get(value, value) if not isinstance(value, str) else value
    return [f"{prefix}={' '.join(str(text).split())}"]


def _for_people(status: dict[str, Any]) -> str:
    from supervisor_core.cli.table import table

    supervisor = status["supervisor"]
    since = f", pid {supervisor['pid']}, since {supervisor['started_at']}" if supervisor["pid"] else ""
    lines = [f"supervisor {supervisor['id']}: {supervisor['state']}{since}"]
    if supervisor.get("reason"):
        lines.append(supervisor["reason"])
    width = os.get_terminal_size().columns if sys.stdout.isatty() else None
    if status["workers"]:
        rows = [[_mark(worker["fine"]), *_worker(worker)] for worker in status["workers"]]
        lines += ["", table(("", "WORKER", "STATE", "HEALTH", "PID", "WHY"), rows, width)]
    services = [service for service in status["services"] if service["state"] != "disabled"]
    if services and supervisor["state"] == "running":
        rows = [[_mark(s["health"] == "healthy"), s["name"], s["state"], s["health"], s["reason"]] for s in services]
        lines += ["", table(("", "SERVICE", "STATE", "HEALTH", "WHY"), rows, width)]
    return "\n".join(lines)


def _worker(worker: dict[str, Any]) -> list[str]:
    why = " ".join(worker["last_error"].split()) if worker["last_error"] and not worker["fine"] else worker["reason"]
    return [worker["id"], worker["state"], worker["health"], str(worker["pid"] or "-"), why]


def _mark(fine: bool) -> str:
    return "ok" if fine else "!!"
