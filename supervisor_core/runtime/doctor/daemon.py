"""The check of the daemon: whether one runs here, answers, and has its services well."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor_core.config import SupervisorConfig
from supervisor_core.runtime import runtime_file
from supervisor_core.runtime.control_client import NotRunningError, UnresponsiveError, ask
from supervisor_core.runtime.doctor.checks import Check
from supervisor_core.runtime.ownership import DAEMON_LOCK, daemon_holder
from supervisor_core.runtime.service_names import CHAT

NAME = "daemon"
ANSWER_SECONDS = 2.0
UNHEALTHY = "degraded"


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen of the daemon: `running`, `stopped`, `stale` or `unresponsive`, and what it answered."""

    state: str
    status: Mapping[str, Any] = field(default_factory=dict)

    def service(self, name: str) -> Mapping[str, Any]:
        """One service as the daemon tells it; empty where no daemon runs."""
        return next((each for each in self.status.get("services", ()) if each["name"] == name), {})


def see(config: SupervisorConfig) -> Seen:
    """Ask it, and where it does not answer, find out why."""
    if not config.state_dir.is_dir():
        return Seen("stopped")
    try:
        return Seen("running", ask(str(config.state_dir), {"do": "status"}, ANSWER_SECONDS))
    except UnresponsiveError:
        return Seen("unresponsive")
    except NotRunningError:
        pass
    # Asking for the holder of a lock makes the lock's file, and we leave nothing behind.
    if (config.state_dir / DAEMON_LOCK).exists() and daemon_holder(config.state_dir) is not None:
        return Seen("unresponsive")
    return Seen("stale" if runtime_file.read(config.state_dir).get("running") else "stopped")


def look(config: SupervisorConfig) -> Check:
    """No daemon is no failure: it may not have been started yet, and a host may live on passes."""
    seen = see(config)
    if seen.state == "stopped":
        return Check(NAME, True, "none runs here; `supervisor start` starts one, or it lives on `supervisor once`")
    if seen.state == "stale":
        remedy = "Start it: supervisor start. It takes over the workers, which go on."
        return Check(NAME, False, "it died without a word", remedy)
    if seen.state == "unresponsive":
        message = f"it runs, but does not answer within {ANSWER_SECONDS:g} s"
        remedy = f"Its log says what it does: {config.log_path}. Killing it spares its workers."
        return Check(NAME, False, message, remedy)
    # Slack has checks of its own, which know more of it.
    ill = [each for each in seen.status["services"] if each["health"] == UNHEALTHY and each["name"] != CHAT]
    pid = seen.status["supervisor"]["pid"]
    if ill:
        reasons = "; ".join(f"{each['name']}: {each['reason']}" for each in ill)
        return Check(NAME, False, f"it runs, pid {pid}, but {reasons}", f"Its log says more: {config.log_path}")
    return Check(NAME, True, f"it runs, pid {pid}, and answers")
