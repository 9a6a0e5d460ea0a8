"""The desk of a daemon, put together from what the daemon has."""

from __future__ import annotations

from dataclasses import replace

from supervisor_core.config import SupervisorConfig
from supervisor_core.desk.alerting import Alerting
from supervisor_core.desk.approvals import Approvals
from supervisor_core.desk.baking import BakingChore
from supervisor_core.desk.evidence import Evidence
from supervisor_core.desk.observing import observer
from supervisor_core.desk.retention import RetentionChore
from supervisor_core.desk.rights import Rights, host_rights
from supervisor_core.desk.running_schedules import Answering, SchedulesChore, nobody_to_answer
from supervisor_core.desk.scheduler import ApprovalsChore, Scheduler
from supervisor_core.desk.weekly import WeeklyChore
from supervisor_core.runtime.parts import Parts
from supervisor_core.runtime.scheduling import SchedulerDoors


def approvals_of(parts: Parts, rights: Rights | None = None) -> Approvals:
    """The approvals of this host, by the configuration that is in force at the time. Without `rights` of a chat, what
    the host knows by itself."""
    observe = observer(lambda: replace(parts.host, ledger=parts.ledger))
    return Approvals(parts.ledger, lambda: parts.host.config, observe, rights)


def scheduler_of(
    parts: Parts,
    approvals: Approvals,
    doors: SchedulerDoors,
    *,
    rights: Rights | None = None,
    answering: Answering = nobody_to_answer,
) -> Scheduler:
    """The service that looks after what comes due: alerts, approvals, workers whose code was changed, schedules."""

    from supervisor_core.adapters.ticking import Ticker  # imports APScheduler, which only a daemon needs

    def config() -> SupervisorConfig:
        return parts.host.config

    alerting = Alerting(parts.ledger, config, doors.resting, Evidence(lambda: parts.host))
    baking = BakingChore(parts.ledger, config, doors.look)
    schedules = SchedulesChore(parts.ledger, config, approvals, rights or host_rights(config), answering)
    weekly = WeeklyChore(parts.ledger, config)
    retention = RetentionChore(lambda: parts.host, parts.ledger)
    chores = (alerting, ApprovalsChore(approvals), baking, schedules, weekly, retention)
    return Scheduler(
        parts.ledger,
        doors.blocking,
        chores,
        Ticker(config().alerts.check_seconds),
        doors.filed,
        look_again=doors.look_again,
        seeing=alerting.see,
        observing=alerting.observe_all,
    )
