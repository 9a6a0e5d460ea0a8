"""Checks a fleet after faults: waits until nothing waits, reads all records, and has the rules judge them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from functools import partial

from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.streams import call
from supervisor_core.fleet.transport.subjects import COMMANDS, HUB_INBOX
from tests.support.daemon.fleet_faults import records, rules
from tests.support.daemon.fleet_faults.records import Fault, FleetRecord, Row
from tests.support.daemon.fleet_faults.traffic import Traffic
from tests.support.daemon.fleet_homes import KEY
from tests.support.homes import Home
from tests.support.slack.slack_home import WAITING, SlackHome
from tests.support.waiting import wait_until

SETTLED_SECONDS = 90.0
LIVE_ALERTS = "select target_id, state, reason from alerts_t where state <> 'closed'"


class FleetChecker:
    """All that must hold once everybody is back."""

    def __init__(self, traffic: Traffic, faults: Sequence[Fault] | None = None) -> None:
        self._traffic = traffic
        self._fleet = traffic.fleet
        self._faults = faults
        self.record: FleetRecord | None = None

    async def check(self) -> Sequence[Row]:
        """Wait until nothing waits, and check everything; the hub's jobs."""
        await asyncio.to_thread(self._settle)
        self.record = records.read(self._traffic, self._faults)
        broken = rules.violations(self.record)
        assert not broken, "\n".join([*broken, self._fleet.hub.daemon_log()])
        for home in (self._fleet.hub, *self._fleet.hosts.values()):
            verified = await asyncio.to_thread(home.supervisor, "audit", "verify")
            assert verified.returncode == 0, verified.stdout + verified.stderr
        await asyncio.to_thread(self._check_streams)
        return self.record.hub.jobs

    def _settle(self) -> None:
        hub = self._fleet.hub
        for home in (hub, *self._fleet.hosts.values()):
            _wait(partial(_nothing_waits, home), f"nothing waits in {home.folder}", home, WAITING)
        _wait(self._is_copied, "all is copied", hub, "select supervisor_id, count(*) from audit_log_t group by 1")
        _wait(lambda: not hub.rows(WAITING), "nothing waits in the hub", hub, WAITING)
        if self._faults is not None:
            _wait(lambda: not hub.rows(LIVE_ALERTS), "all alerts are closed", hub, LIVE_ALERTS)
            _wait(lambda: not hub.rows(WAITING), "nothing waits in the hub", hub, WAITING)

    def _is_copied(self) -> bool:
        query = "select max(audit_id) as newest from audit_log_t where supervisor_id = '{}'"
        hosts = self._fleet.hosts
        return all(
            _rows(home, query.format(name)) == _rows(self._fleet.hub, query.format(name))
            for name, home in hosts.items()
        )

    def _check_streams(self) -> None:
        """No command waits in NATS."""
        asyncio.run(self._wait_acknowledged())

    async def _wait_acknowledged(self) -> None:
        key = KeyPair.read(self._fleet.hub.folder / KEY)
        async with FleetConnection(self._fleet.url, key, name="checker", inbox=f"{HUB_INBOX}.checker") as connection:
            await connection.wait_connected(10)
            found, ends = await call(connection, f"STREAM.INFO.{COMMANDS}"), time.monotonic() + SETTLED_SECONDS
            while found["state"]["messages"] and time.monotonic() < ends:  # one that a killed host had comes again
                await asyncio.sleep(0.1)
                found = await call(connection, f"STREAM.INFO.{COMMANDS}")
            assert found["state"]["messages"] == 0, "every command is acknowledged"


def _wait(condition: Callable[[], bool], words: str, home: Home, query: str) -> None:
    try:
        wait_until(condition, SETTLED_SECONDS, words)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{_rows(home, query)}\n{home.daemon_log()}") from None


def _nothing_waits(home: Home) -> bool:
    return not _rows(home, WAITING)


def _rows(home: Home, query: str) -> list[dict[str, object]]:
    rows = home.rows if isinstance(home, SlackHome) else partial(SlackHome.rows, home)  # type: ignore[arg-type]
    return rows(query)
