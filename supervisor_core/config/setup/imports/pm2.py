"""pm2: each process in the output of `pm2 jlist` becomes a worker."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from fnmatch import fnmatch
from typing import Any

from supervisor_core.common.errors import ConfigError
from supervisor_core.config.problems import as_mapping
from supervisor_core.config.setup.imports.conversion import Conversion, folder_settings, word
from supervisor_core.config.worker_settings import SAFE

STOP_MILLISECONDS = 1600  # pm2's default, which is written because ours differs
MOST_RESTARTS = 3600

OF_A_SESSION = (  # variables that pm2 took from the shell, or made
    "_ SHELL TERM* PWD OLDPWD SHLVL SSH_* XDG_* LS_COLORS COLORTERM DISPLAY MAIL DBUS_* LESS* HIST* NVM_* SUDO_* PM2_* "
    "pm_* LC_* name status unique_id namespace"
)
UNCONVERTED = ("watch", "cron_restart", "max_memory_restart", "wait_ready", "shutdown_with_message", "uid", "gid")


def recognize(document: object) -> bool:
    return (
        isinstance(document, list) and bool(document) and all("pm2_env" in as_mapping(process) for process in document)
    )


def convert(conversion: Conversion, processes: Any) -> None:  # noqa: ANN401 (JSON)
    """Add a worker for each process."""
    for process in processes:
        name, facts = str(process.get("name") or "worker"), process["pm2_env"]
        try:
            worker = _worker(conversion, name, facts)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ConfigError(f"The process {name!a} isn't as `pm2 jlist` prints it.") from None
        conversion.add_worker(name, worker)
        if "cluster" in str(facts.get("exec_mode")):
            conversion.note(f"{name} is in cluster mode, where processes share a port. Give each worker its own.")
        conversion.note_unconverted(name, (key for key in UNCONVERTED if facts.get(key)))
    conversion.note("pm2 knows the environment of a shell, too. Check the env of each worker.")


def _worker(conversion: Conversion, name: str, facts: Mapping[str, Any]) -> dict[str, Any]:
    interpreter = str(facts.get("exec_interpreter") or "none")
    command = [facts["pm_exec_path"], *(facts.get("args") or ())]
    if interpreter != "none":
        command = [interpreter, *(facts.get("node_args") or ()), *command]
    env = {"PYTHONUNBUFFERED": "1"} if "python" in interpreter else {}
    for variable, value in facts.get("env", {}).items():
        if not any(fnmatch(variable, pattern) for pattern in (*SAFE, *OF_A_SESSION.split())):
            text = value if isinstance(value, str) else json.dumps(value)
            secret = conversion.hide_secret(name, variable, text)
            env[variable] = f"${{{secret}}}" if secret else text.replace("$", "$$")
    delay = facts.get("exp_backoff_restart_delay") or facts.get("restart_delay")
    team = re.sub(r"[^A-Za-z0-9._-]+", "-", str(facts.get("namespace") or "default")).strip("._-")
    return {
        "command": [word(str(argument)) for argument in command],
        **folder_settings(facts["pm_cwd"].replace("$", "$$")),
        **({"env": env} if env else {}),
        "stop_signal": "INT",
        "stop_timeout_seconds": (facts.get("kill_timeout") or STOP_MILLISECONDS) / 1000,
        "heartbeat_max_age_seconds": 0,
        "restart": {
            "policy": "never" if facts.get("autorestart") is False else "always",
            **({"backoff_seconds": delay / 1000} if delay else {}),
            **({"max_per_hour": min(facts["max_restarts"], MOST_RESTARTS)} if "max_restarts" in facts else {}),
        },
        **({"team": team} if team != "default" else {}),
    }
