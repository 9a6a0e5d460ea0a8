"""`supervisor rolling pause|continue|abort|status TASK_ID`: what people decide about a rolling change."""

from __future__ import annotations

import json
from typing import Any

from supervisor_core.cli.host import shell_issuer, wake
from supervisor_core.commands.command import Command
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.environment import opened_ledger
from supervisor_core.intake.rolling.rules import RollingMove
from supervisor_core.intake.rolling.service import PREFIX, UNDO, RollingChanges, RollingStatus

NO_DAEMON = "No daemon is running, so it doesn't go on. `supervisor daemon start` starts one."


def decide(command: Command, config: SupervisorConfig, *, as_json: bool) -> int:
    """Pause, continue or abort a rolling change, or show its progress."""
    word, task_id = command.name.removeprefix(PREFIX), str(command.params["task_id"])
    with opened_ledger(config) as ledger:
        changes = RollingChanges(ledger)
        if word != "status":
            changes.move(task_id, RollingMove(word), shell_issuer(), "cli")
        status = changes.status(task_id)
    awake = wake(config) if word != "status" else True
    if as_json:
        print(json.dumps({"task_id": task_id, "success": True, "error": None, "details": document(status)}))
        return 0
    print("\n".join(status.lines()))
    if not awake:
        print(NO_DAEMON)
    return 0


def completed(command: Command, config: SupervisorConfig) -> Command:
    """The undo of a rolling change as an `undo` of the workers that it has changed; any other command as it is."""
    if command.name != UNDO:
        return command
    with opened_ledger(config) as ledger:
        return RollingChanges(ledger).undo_command(str(command.params["task_id"]))


def document(status: RollingStatus) -> dict[str, Any]:
    """The progress as JSON."""
    change = status.change
    return {
        "target": change.target,
        "state": change.state,
        "batch": change.released,
        "batches": change.batches,
        "workers": {str(part): list(workers) for part, workers in status.parts().items()},
        "healthy_seconds": change.terms.healthy.total_seconds(),
        "max_failures": change.terms.max_failures,
        "failures": dict(change.failures),
        "accepted": change.accepted,
        "reason": change.reason or None,
        "decided_by": change.decided_by.id,
        "decided_at": to_text(change.decided_at),
    }
