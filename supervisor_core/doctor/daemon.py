"""The check of the daemon."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from supervisor_core.common.errors import SupervisorError
from supervisor_core.common.service_names import CHAT
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon import ownership as runtime_file
from supervisor_core.daemon.control.client import NotRunningError, UnresponsiveError, ask
from supervisor_core.daemon.ownership import DAEMON_LOCK, daemon_holder
from supervisor_core.doctor.checks import CheckResult
from supervisor_core.workers.context import open_drive

NAME = "daemon"
ANSWER_SECONDS = 2.0
UNHEALTHY = "degraded"


@dataclass(frozen=True, slots=True)
class DaemonState:
    """The state of the daemon (`running`, `stopped`, `stale` or `unresponsive`) and its answer."""

    state: str
    status: Mapping[str, Any] = field(default_factory=dict)

    def service(self, name: str) -> Mapping[str, Any]:
        """One service as the daemon tells it; empty where no daemon runs."""
        return next((each for each in self.status.get("services", ()) if each["name"] == name), {})


def observe_daemon(config: SupervisorConfig) -> DaemonState:
    """Ask it, and where it does not answer, find out why."""
    if not config.state_dir.is_dir():
        return DaemonState("stopped")
    try:
        return DaemonState("running", ask(str(config.state_dir), {"do": "status"}, ANSWER_SECONDS))
    except UnresponsiveError:
        return DaemonState("unresponsive")
    except NotRunningError:
        pass
    # Asking for the holder of a lock makes the lock's file, and we leave nothing behind.
    if (config.state_dir / DAEMON_LOCK).exists() and daemon_holder(config.state_dir) is not None:
        return DaemonState("unresponsive")
    return DaemonState("stale" if runtime_file.read(config.state_dir).get("running") else "stopped")


def check_daemon(config: SupervisorConfig) -> CheckResult:
    """No daemon is a warning: it may not have been started yet, and a host may live on passes."""
    seen = observe_daemon(config)
    if seen.state == "stopped":
        remedy = "Run: supervisor daemon start. A host that only runs passes (`supervisor once`) needs none."
        return CheckResult(NAME, True, "not running", remedy)
    if seen.state == "stale":
        remedy = "Run: supervisor daemon start. It adopts the running workers."
        return CheckResult(NAME, False, "crashed: it isn't running and didn't stop normally", remedy)
    if seen.state == "unresponsive":
        message = f"running, but no response within {ANSWER_SECONDS:g} s"
        remedy = f"Check its log: {config.log_path}. Workers keep running if you kill it."
        return CheckResult(NAME, False, message, remedy)
    # Slack has checks of its own, which know more of it.
    ill = [each for each in seen.status["services"] if each["health"] == UNHEALTHY and each["name"] != CHAT]
    pid = seen.status["supervisor"]["pid"]
    drive = ""  # its problem, which has a check of its own
    try:
        open_drive(config).check()
    except SupervisorError as error:
        drive = error.message
    waiting = [each["name"] for each in ill if drive and drive in each["reason"]]
    if waiting and len(waiting) == len(ill):
        message = f"running (pid {pid}), but {', '.join(waiting)} can't use the drive"
        return CheckResult(NAME, False, message, "Fix the drive. The daemon then continues on its own.")
    if ill:
        reasons = "; ".join(f"{each['name']}: {each['reason']}" for each in ill)
        return CheckResult(NAME, False, f"running (pid {pid}), but {reasons}", f"Check its log: {config.log_path}")
    return CheckResult(NAME, True, f"running (pid {pid}) and responding")
