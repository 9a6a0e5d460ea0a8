"""The catalog of log events: what each structured log line can report, with its level and fields.

    log.info("%s started (pid %d)", worker_id, pid, extra=LogEvent.WORKER_STARTED.extra(worker_id=worker_id, pid=pid))

The text is for people and may change. The name and the fields are for programs. A line without an event is named `log`.
"""

from __future__ import annotations

from enum import Enum
from fnmatch import fnmatchcase

NO_EVENT = "log"
"""The name of a line that reports none of these events."""

ABOUT = ("worker_id", "task_id", "label")
"""Keys of every line. An event needs them only where the line isn't logged within a command or for a worker."""

_ALERT = "alert_id", "target", "condition", "decision", "reason"
_APPROVAL = "approval_id", "command"
_COMMAND = "command", "source", "requested_by"


class LogEvent(Enum):
    """The name, level, description and own fields of each event."""

    ALERT_ESCALATED = "alert.escalated", "WARNING", "Nobody acknowledged an alert in time.", *_ALERT
    ALERT_HELD = "alert.held", "INFO", "An alert isn't posted now; `decision` says why.", *_ALERT
    ALERT_IMPROVED = "alert.improved", "INFO", "An open alert became less severe.", *_ALERT
    ALERT_OPENED = "alert.opened", "WARNING", "An alert was opened, or opened again.", *_ALERT
    ALERT_RECOVERED = "alert.recovered", "INFO", "The problem of an alert ended.", *_ALERT
    ALERT_REMINDED = "alert.reminded", "WARNING", "A reminder of an open alert was due.", *_ALERT
    ALERT_WORSENED = "alert.worsened", "WARNING", "An open alert became more severe.", *_ALERT
    APPROVAL_CANCELLED = "approval.cancelled", "INFO", "An approval was cancelled.", *_APPROVAL, "reason"
    APPROVAL_DENIED = "approval.denied", "INFO", "An approval was denied.", *_APPROVAL, "voter"
    APPROVAL_EXPIRED = "approval.expired", "INFO", "An approval expired.", *_APPROVAL, "reason"
    APPROVAL_FAILED = "approval.failed", "ERROR", "An approved command couldn't be queued.", *_APPROVAL, "error"
    APPROVAL_GRANTED = "approval.granted", "INFO", "An approved command was queued.", *_APPROVAL
    APPROVAL_OUTDATED = "approval.outdated", "INFO", "Something changed after the preview.", *_APPROVAL, "reason"
    APPROVAL_REQUESTED = "approval.requested", "INFO", "An approval was requested.", *_APPROVAL, "requested_by"
    CODE_DEGRADED = "code.degraded", "WARNING", "A worker degraded after its code changed.", "reason"
    CODE_HEALTHY = "code.healthy", "INFO", "A worker stayed healthy with its new code."
    COMMAND_DONE = "command.done", "INFO", "A command succeeded on a worker.", "command", "seconds"
    COMMAND_FAILED = "command.failed", "ERROR", "A command failed on a worker.", "command", "error"
    COMMAND_INTERRUPTED = "command.interrupted", "ERROR", "The supervisor ended during a command.", "command", "error"
    COMMAND_RECEIVED = "command.received", "INFO", "A command was queued for a worker.", *_COMMAND
    COMMAND_STARTED = "command.started", "INFO", "A command started on a worker.", *_COMMAND
    COMMAND_UNRECORDED = "command.unrecorded", "CRITICAL", "An outcome can't be recorded yet.", "command", "error"
    CONFIG_LOADED = "config.loaded", "INFO", "A changed configuration is active.", "version"
    CONFIG_REFUSED = "config.refused", "ERROR", "A changed configuration has mistakes.", "version", "error"
    CONFIG_VALID = "config.valid", "INFO", "A refused configuration is valid again."
    DAEMON_STARTED = "daemon.started", "INFO", "The daemon started.", "pid"
    DAEMON_STOPPED = "daemon.stopped", "INFO", "The daemon stopped.", "pid"
    DEADMAN_BACK = "deadman.back", "INFO", "Dead-man pings succeed again."
    DEADMAN_LOST = "deadman.lost", "WARNING", "A dead-man ping failed.", "error"
    DEADMAN_RESUMED = "deadman.resumed", "INFO", "Dead-man pings were resumed."
    DEADMAN_STOPPED = "deadman.stopped", "ERROR", "Dead-man pings were stopped: the daemon isn't healthy.", "error"
    DRIVE_BACK = "drive.back", "INFO", "The shared drive can be used again."
    DRIVE_LOST = "drive.lost", "WARNING", "The shared drive can't be used.", "error"
    FLAGS_REJECTED = "flags.rejected", "WARNING", "Many more flags were rejected: see `report`.", "count", "report"
    FLAG_REJECTED = "flag.rejected", "WARNING", "A flag was rejected.", "flag", "reason"
    FLEET_REFUSED = "fleet.refused", "ERROR", "A message of the fleet was refused.", "error"
    HOST_BACK = "host.back", "INFO", "A host of the fleet is connected again.", "host"
    HOST_SILENT = "host.silent", "ERROR", "A host of the fleet is unresponsive.", "host"
    HUB_LOST = "hub.lost", "ERROR", "This machine isn't the hub any more, and stands by.", "error"
    HUB_STANDBY = "hub.standby", "INFO", "This machine stands by, because another one is the hub.", "host"
    HUB_TAKEN = "hub.taken", "INFO", "This machine is the hub now.", "host"
    LEDGER_LOST = "ledger.lost", "ERROR", "The ledger can't be written, so commands wait.", "error"
    OUTBOX_DROPPED = "outbox.dropped", "ERROR", "A message couldn't be delivered.", "kind", "subject", "error"
    OUTBOX_EXPIRED = "outbox.expired", "WARNING", "Messages couldn't be delivered for days.", "count", "days"
    PROBE_FAILED = "probe.failed", "WARNING", "A worker's probes fail.", "reason"
    PROBE_PASSED = "probe.passed", "INFO", "All probes of a worker pass again."
    ROLLING_DECIDED = "rolling.decided", "INFO", "A person decided about a rolling change.", "state", "requested_by"
    ROLLING_DONE = "rolling.done", "INFO", "A rolling change has reached all its workers."
    ROLLING_HALTED = "rolling.halted", "WARNING", "A rolling change halted after too many failures.", "reason"
    ROLLING_RELEASED = "rolling.released", "INFO", "The next batch of a rolling change may start.", "batch"
    SCHEDULE_MISSED = "schedule.missed", "WARNING", "No supervisor was running at that time.", "schedule", "missed_at"
    SCHEDULE_REFUSED = "schedule.refused", "WARNING", "A schedule's command was refused.", "schedule", "reason"
    SCHEDULE_SKIPPED = "schedule.skipped", "WARNING", "A schedule's previous run hadn't finished.", "schedule"
    SCHEDULE_STARTED = "schedule.started", "INFO", "A schedule's command was queued.", "schedule", "command"
    SERVICE_FAILED = "service.failed", "ERROR", "A service of the daemon failed and is retried.", "service", "error"
    SHARED_DATABASE_BACK = "shared_database.back", "INFO", "The shared database is reachable again.", "rows"
    SHARED_DATABASE_LOST = "shared_database.lost", "WARNING", "The shared database can't be used.", "error"
    SHARED_DATABASE_REFUSED = "shared_database.refused", "ERROR", "The shared database refuses a row.", "row", "error"
    SLACK_CONNECTED = "slack.connected", "INFO", "The daemon is connected to Slack."
    SLACK_DISCONNECTED = "slack.disconnected", "WARNING", "The connection to Slack failed.", "error"
    SLACK_TOKEN_SHARED = "slack.token_shared", "WARNING", "Another process may use the same Slack token.", "error"
    WEBHOOK_BACK = "webhook.back", "INFO", "A receiver outside Slack takes alerts again."
    WEBHOOK_LOST = "webhook.lost", "WARNING", "A receiver outside Slack can't be reached; alerts wait.", "error"
    WORKER_ADOPTED = "worker.adopted", "INFO", "A process that somebody else started is managed now.", "pid"
    WORKER_BACKING_OFF = "worker.backing_off", "WARNING", "A worker waits for its next restart.", "reason"
    WORKER_EXITED = "worker.exited", "WARNING", "A worker ended on its own.", "pid", "exit_code"
    WORKER_FOUND = "worker.found", "INFO", "The daemon started and found the worker running.", "pid"
    WORKER_HUNG = "worker.hung", "WARNING", "A worker hangs and will be restarted.", "reason"
    WORKER_KILLED = "worker.killed", "WARNING", "A worker was late to stop or left processes: killed.", "pids"
    WORKER_QUARANTINED = "worker.quarantined", "ERROR", "A worker is no longer restarted.", "reason"
    WORKER_RECOVERED = "worker.recovered", "INFO", "A worker is healthy again.", "reason"
    WORKER_REMOVED = "worker.removed", "INFO", "A worker was removed with the configuration."
    WORKER_RESTARTING = "worker.restarting", "WARNING", "The supervisor restarts a running worker.", "reason"
    WORKER_STARTED = "worker.started", "INFO", "A process of a worker started.", "pid"
    WORKER_START_FAILED = "worker.start_failed", "ERROR", "A worker can't be started.", "error"
    WORKER_STOPPED = "worker.stopped", "INFO", "The supervisor stopped a worker.", "ending"
    WORKER_STUCK = "worker.stuck", "ERROR", "A worker can't be stopped.", "survivors"
    WORKER_UNHEALTHY = "worker.unhealthy", "WARNING", "A running worker isn't healthy.", "condition", "reason"

    def __init__(self, event: str, level: str, description: str, *fields: str) -> None:
        self.event = event
        self.level = level
        self.description = description
        self.fields = fields

    def extra(self, **fields: object) -> dict[str, object]:
        """The `extra` of a logging call: this event with its fields, and where needed those of `ABOUT`."""
        about = {name: fields.pop(name) for name in ABOUT if name in fields}
        return {"event": self.event, "fields": fields, **about}


def unknown_pattern(pattern: str) -> bool:
    return not any(fnmatchcase(name, pattern) for name in (NO_EVENT, *(entry.event for entry in LogEvent)))
