"""A hub that stands by: it waits for the lock, and does nothing but answer `status` and `stop`."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from sqlalchemy.exc import DBAPIError

from supervisor_core.alerts.messages import hub_taken_over
from supervisor_core.common.errors import TemporaryError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, wait_until
from supervisor_core.common.service_names import SERVICES
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon import ownership, systemd
from supervisor_core.daemon.control.server import ControlServer, handle_stop_signals, stop_answer
from supervisor_core.fleet.hub.ledger import HubLock, HubMachine, error_words
from supervisor_core.storage import supervisors
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger

LOOK_SECONDS = 1.0
"""The interval of tries to take the lock."""

INTERRUPTED = 130

log = logging.getLogger(__name__)


class StandbyRefusal(TemporaryError):
    """This hub stands by."""


class Standby:
    """Waits until this machine is the hub."""

    def __init__(self, config: SupervisorConfig, lock: HubLock) -> None:
        self._config = config
        self._lock = lock
        self._blocking = Blocking(2, "standby")
        self._stopping = asyncio.Event()
        self._interrupted = False
        self._hub: HubMachine | None = None
        self._problem = ""
        self._started_at = datetime.now(UTC)

    async def wait(self) -> int | None:
        """Wait for the lock; None once this machine has it, else the exit code of a program that was told to stop."""
        handle_stop_signals(self._stop_by_signal)
        if await self._take_lock():
            return None
        refusing = dict.fromkeys(("wait", "config", "monitoring", "wake"), self._refuse)
        answers = {"status": self._status, "stop": self._stop, "send": self._refuse_command, **refusing}
        control = ControlServer(self._config.state_dir, answers)
        await control.start()
        systemd.ready()
        watchdog = asyncio.create_task(systemd.run_watchdog(self._stopping, str))
        try:
            while not await wait_until(None, self._stopping, LOOK_SECONDS):
                if await self._take_lock():
                    return None
        finally:
            self._stopping.set()
            await watchdog
            await control.stop()
        log.info("supervisor %s stopped; it stood by", self._config.supervisor.id)
        ownership.write(self._config.state_dir, {**ownership.read(self._config.state_dir), "running": False})
        return INTERRUPTED if self._interrupted else 0

    async def _take_lock(self) -> bool:
        try:
            hub = await self._blocking(self._lock.take)
        except DBAPIError as error:
            problem = error_words(self._config.ledger_url, error)
            if problem != self._problem:
                log.warning("this hub waits for its database: %s", problem)
            self._problem = problem
            return False
        if hub is None:
            machine = self._lock.machine
            log.info("%s is the hub now", machine, extra=LogEvent.HUB_TAKEN.extra(host=machine))
            return True
        if hub != self._hub:
            log.info("standby for %s", hub, extra=LogEvent.HUB_STANDBY.extra(host=hub.name))
        self._hub, self._problem = hub, ""
        return False

    def _stop_by_signal(self, name: str) -> None:
        log.info("received %s, stopping", name)
        self._interrupted = self._interrupted or name == "SIGINT"
        self._stopping.set()

    def _reason(self) -> str:
        if self._problem:
            return f"waiting for the hub's database: {self._problem}"
        return f"standby for {self._hub}" if self._hub else "standby"

    async def _refuse(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        remedy = f"Do this on {self._hub.name}." if self._hub else "Try again."
        raise StandbyRefusal(f"This machine isn't the hub now: {self._reason()}.", remedy=remedy)

    async def _refuse_command(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """An answer, so that the shell doesn't queue the command itself."""
        try:
            return await self._refuse(request)
        except StandbyRefusal as refusal:
            return {"refused": str(refusal), "is_usage": False}

    async def _stop(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        self._stopping.set()
        return stop_answer([], LOOK_SECONDS)

    async def _status(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        off = {"state": "disabled", "health": "unknown", "reason": "standby", "last_health_at": None}
        return {
            "healthy": not self._problem,
            "supervisor": {
                "id": self._config.supervisor.id,
                "state": "standby",
                "reason": self._reason(),
                "problem": self._problem,
                "pid": os.getpid(),
                "started_at": to_text(self._started_at),
                "ledger": {"problem": ""},
            },
            "services": [{"name": name, **off, "last_error": None} for name in SERVICES],
            "workers": [],
        }


def record_takeover(config: SupervisorConfig, ledger: Ledger, machine: str) -> None:
    """Record that this machine has replaced another one that didn't stop as the hub, and tell the channel."""
    now = datetime.now(UTC)
    before = ledger.read(lambda connection: supervisors.find(connection, ledger.supervisor_id))
    if before is None or before.status not in supervisors.ALIVE or before.hostname == machine:
        return
    last_sign = before.last_heartbeat_at or before.changed_at
    details = {"machine": machine, "before": before.hostname, "last_sign": to_text(last_sign)}
    entry = AuditEntry("supervisor", "HUB_TAKEN_OVER", config.supervisor.id, target_type="supervisor", details=details)
    channel = config.slack.alert_channel or config.slack.fallback_channel
    messages = []
    if config.slack.enabled and channel:
        messages = [hub_taken_over({"channel": channel}, machine, before.hostname, last_sign, now)]
    ledger.write(lambda connection: record(connection, ledger.supervisor_id, entry, messages, now))


def stand_by_again(program: list[str], reason: str) -> NoReturn:
    """Begin this program anew, as a hub that stands by.

    Nothing of the hub that it was goes on: each of its threads and connections ends at once, also one that hangs.
    """
    log.error("this machine isn't the hub any more: %s", reason, extra=LogEvent.HUB_LOST.extra(error=reason))
    os.execv(program[0], program)  # noqa: S606 (our own program, and no shell)
