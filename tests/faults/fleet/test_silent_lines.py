"""A line that fails without a word: each side thinks that it's up. Nothing is lost, and nothing is done twice."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from supervisor_core.fleet.hub.hosts import SERVER
from tests.support.daemon import short_silence
from tests.support.daemon.fleet_faults.checker import FleetChecker
from tests.support.daemon.fleet_faults.records import NOTING_WORKER
from tests.support.daemon.fleet_faults.traffic import Traffic
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.daemon.host_lines import HUB
from tests.support.sampling import in_full, rounds
from tests.support.waiting import wait_until

HOSTS = ("web-1", "web-2", "web-3")
WORKERS = {"fetcher": NOTING_WORKER}
NEAR, FAR = "near", "far"

LINES: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "a host's, to the server": ("web-1", (NEAR,)),
    "a host's, from the server": ("web-1", (FAR,)),
    "the hub's, to the server": (HUB, (NEAR,)),
    "the hub's, from the server": (HUB, (FAR,)),
}

pytestmark = [pytest.mark.playground(patience=60), pytest.mark.timeout(240)]


def alerts(fleet: FleetHomes) -> list[dict[str, Any]]:
    """The alerts that people were notified of, without those that another one includes."""
    query = "select target_type, target_id, state, parent_id from alerts_t where told_at is not null order by opened_at"
    return fleet.hub.rows(query)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("line", LINES)
async def test_a_line_that_fails_without_a_word_for_a_minute_loses_nothing_and_is_one_alert(
    tmp_path: Path, slack: Playground, line: str
) -> None:
    whose, senders = LINES[line]
    named = SERVER if whose == HUB else whose
    environ = {} if in_full() else short_silence.ENVIRON
    with a_fleet(tmp_path, HOSTS, WORKERS, environ=environ, alert_channel="C0OPS") as fleet:
        await fleet.start(slack)
        traffic = Traffic(fleet, slack)
        await traffic.send_round()
        fleet.lines[whose].fall_silent(*senders)
        await traffic.send_round()
        await asyncio.to_thread(
            wait_until, lambda: alerts(fleet), 60.0, f"the silence is noticed:\n{fleet.hub.daemon_log()}"
        )
        await traffic.send_round()
        await asyncio.sleep(rounds(60, sample=0))  # the length of the outage, beside which nothing is awaited
        fleet.lines[whose].mend()
        await traffic.send_round()
        jobs = await FleetChecker(traffic).check()
        assert len(jobs) == 4 * len(HOSTS)
        assert all(job["success"] for job in jobs)
        told = alerts(fleet)
        assert [each["target_id"] for each in told] == [named]
        query = "select state from alerts_t where state = 'open'"
        await asyncio.to_thread(wait_until, lambda: not fleet.hub.rows(query), 30.0, "the alert is over")
