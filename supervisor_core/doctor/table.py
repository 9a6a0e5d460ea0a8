"""The table of the doctor's checks, and its results as text. A chat adds its own rows to the table."""

from __future__ import annotations

from collections.abc import Sequence

from supervisor_core.common.service_names import METRICS
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.doctor import daemon, host, network, storage, units
from supervisor_core.doctor.checks import Check, CheckResult

INDENT = " " * 10


def check_configuration(config: SupervisorConfig) -> CheckResult:
    """Always ok: without a readable configuration the doctor doesn't run."""
    names = ", ".join(config.workers) or "none"
    return CheckResult("configuration", True, f"{config.path}; supervisor {config.supervisor.id}, workers: {names}")


CORE_CHECKS = (
    Check("configuration", check_configuration),
    Check(host.ENV_FILE_CHECK, host.check_env_file),
    Check(host.STATE_FOLDER, host.check_state_folder),
    Check(host.DRIVE, host.check_drive),
    Check(storage.LEDGER, storage.check_ledger),
    Check(daemon.NAME, daemon.check_daemon),
    Check(host.WORKERS, host.check_workers),
    Check(units.NAME, units.check_service),
    Check(storage.DATABASE, storage.check_database),
    Check(host.GIT, host.check_git),
    Check(network.NETWORK, network.check_network),
    Check(network.WEBHOOK, network.check_receivers),
    Check(network.DEADMAN, network.check_deadman),
    Check(network.ON_CALL, network.check_on_call),
    Check(METRICS, network.check_metrics),
    Check(network.INCOMING, network.check_incoming),
    Check(network.FLEET, network.check_fleet),
    Check(host.PLUGINS, host.check_plugins),
)


def results_text(results: Sequence[CheckResult]) -> str:
    """The results for people, failures and warnings with their remedies."""
    lines = []
    for result in results:
        mark = "✗ failed " if not result.ok else "! warning" if result.remedy else "✓ ok     "
        lines.append(f"{mark} {result.name}: {result.message}")
        if result.remedy:
            lines.append(f"{INDENT}→ {result.remedy}")
    failed = sum(not result.ok for result in results)
    warned = sum(result.ok and bool(result.remedy) for result in results)
    well = f"No check failed; {warned} {'warning' if warned == 1 else 'warnings'}." if warned else "All checks passed."
    lines += ["", f"{failed} of {len(results)} checks failed." if failed else well]
    return "\n".join(lines)
