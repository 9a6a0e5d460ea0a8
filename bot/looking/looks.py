"""All looks there are, by the commands that they answer."""

from __future__ import annotations

from collections.abc import Mapping

from bot.composing import Composing
from bot.informing import Tell
from bot.looking.audit import AuditLook
from bot.looking.history import HistoryLook
from bot.looking.logs import LogsLook
from bot.looking.why import WhyLook
from bot.looking.workers import WorkersLook
from bot.offering import Offering
from supervisor_core.config import SupervisorConfig
from supervisor_core.ledger.store import Ledger
from supervisor_core.runtime.chat import ChatDoors


def looks(
    config: SupervisorConfig, ledger: Ledger, doors: ChatDoors, composing: Composing, offering: Offering
) -> Mapping[str, Tell]:
    """Put together here and nowhere else."""
    workers = WorkersLook(config, ledger, doors.look)
    return {
        "audit": AuditLook(config, ledger, composing.link),
        "history": HistoryLook(config, ledger),
        "logs": LogsLook(config, doors.written),
        "status": workers.status,
        "teams": workers.teams,
        "why": WhyLook(doors.explain, offering),
    }
