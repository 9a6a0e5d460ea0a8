"""A hub that stands by: it waits for the lease, and does nothing but answer `status` and `stop`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NoReturn

from sqlalchemy.exc import DBAPIError

from supervisor_core.alerts.messages import hub_taken_over
from supervisor_core.common.errors import SupervisorError, TemporaryError
from supervisor_core.common.log_events import LogEvent
from supervisor_core.common.service import Blocking, wait_until
from supervisor_core.common.service_names import SERVICES
from supervisor_core.common.times import to_text
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon import ownership, systemd
from supervisor_core.daemon.control.server import ControlServer, stop_answer
from supervisor_core.fleet.hub.lease import HubLease, LeaseHolder
from supervisor_core.fleet.hub.ledger import error_words
from supervisor_core.storage.audit.chain import AuditEntry
from supervisor_core.storage.steps import record
from supervisor_core.storage.store import Ledger

LOOK_SECONDS = 1.0
"""The interval of tries to take the lease."""

STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP")
INTERRUPTED = 130

log = logging.getLogger(__name__)


class StandbyRefusal(TemporaryError):
    """This hub stands by."""


class Standby:
    """Waits until this machine is the hub."""

    def __init__(self, config: SupervisorConfig, lease: HubLease) -> None:
        self._config = config
        self._lease = lease
        self._blocking = Blocking(2, "standby")
        self._stopping = asyncio.Event()
        self._interrupted = False
        self._holder: LeaseHolder | None = None
        self._problem = ""
        self._prepared = False
        self._started_at = datetime.now(UTC)
        elsewhere = dict.fromkeys(("wait", "config", "monitoring", "wake"), self._refuse)
        self._control = ControlServer(
            config.state_dir, {"status": self._status, "stop": self._stop, "send": self._send, **elsewhere}
        )

    async def wait(self) -> int | None:
        """Wait for the lease; None once this machine has it, else the exit code of a program that was told to stop."""
        loop = asyncio.get_running_loop()
        for name in STOP_SIGNALS:
            if name == "SIGHUP" and signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
                continue
            with contextlib.suppress(NotImplementedError):
                loop.add_signal_handler(getattr(signal, name), self._stop_by_signal, name)
        if await self._try():
            return None
        await self._control.start()
        systemd.ready()
        watchdog = asyncio.create_task(systemd.Watchdog().run(self._stopping, str))
        try:
            while not await wait_until(None, self._stopping, LOOK_SECONDS):
                if await self._try():
                    return None
        finally:
            self._stopping.set()
            await watchdog
            await self._control.stop()
        log.info("supervisor %s stopped; it stood by", self._config.supervisor.id)
        ownership.write(self._config.state_dir, {**ownership.read(self._config.state_dir), "running": False})
        return INTERRUPTED if self._interrupted else 0

    async def _try(self) -> bool:
        """Try to take the lease."""
        try:
            if not self._prepared:
                await self._blocking(self._lease.prepare)
                self._prepared = True
            holder = await self._blocking(self._lease.take)
        except (DBAPIError, SupervisorError) as error:
            url = self._config.ledger_url
            words = str(error) if isinstance(error, SupervisorError) else error_words(url, error)
            if words != self._problem:
                log.warning("this hub waits for its database: %s", words)
            self._problem = words
            return False
        if holder is None:
            about = LogEvent.HUB_TAKEN.extra(host=self._lease.machine)
            log.info("%s is the hub now", self._lease.machine, extra=about)
            return True
        if holder != self._holder:
            log.info("standby for %s", holder.in_words(), extra=LogEvent.HUB_STANDBY.extra(host=holder.machine))
        self._holder, self._problem = holder, ""
        return False

    def _stop_by_signal(self, name: str) -> None:
        log.info("received %s, stopping", name)
        self._interrupted = self._interrupted or name == "SIGINT"
        self._stopping.set()

    def _reason(self) -> str:
        if self._problem:
            return f"waiting for the hub's database: {self._problem}"
        return f"standby for {self._holder.in_words()}" if self._holder else "standby"

    def _refusal(self) -> StandbyRefusal:
        remedy = f"Do this on {self._holder.machine}." if self._holder else "Try again."
        return StandbyRefusal(f"This machine isn't the hub now: {self._reason()}.", remedy=remedy)

    async def _refuse(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        raise self._refusal()

    async def _send(self, _request: Mapping[str, Any]) -> dict[str, Any]:
        """Refuse a command, so that the shell doesn't queue it itself."""
        return {"refused": str(self._refusal()), "is_usage": False}

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


def record_takeover(config: SupervisorConfig, ledger: Ledger, lease: HubLease) -> None:
    """Record that this machine has replaced another one as the hub, and tell the channel."""
    before, now = lease.replaced, datetime.now(UTC)
    if before is None:
        return
    about = {"machine": lease.machine, "before": before.machine, "last_sign": to_text(before.since)}
    entry = AuditEntry("supervisor", "HUB_TAKEN_OVER", config.supervisor.id, target_type="supervisor", details=about)
    channel = config.slack.alert_channel or config.slack.fallback_channel
    told = (hub_taken_over({"channel": channel}, lease.machine, before.machine, before.since, now),)
    messages = told if config.slack.enabled and channel else ()
    ledger.write(lambda connection: record(connection, ledger.supervisor_id, entry, messages, now))


def stand_by_again(program: list[str], reason: str) -> NoReturn:
    """Begin this program anew, as a hub that stands by.

    Nothing of the hub that it was goes on: each of its threads and connections ends at once, also one that hangs.
    """
    log.error("this machine isn't the hub any more: %s", reason, extra=LogEvent.HUB_LOST.extra(error=reason))
    os.execv(program[0], program)  # noqa: S606 (our own program, and no shell)
