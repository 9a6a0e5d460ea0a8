"""Commands keep coming from Slack while something fails: each acknowledged one ends once, and its card says how."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from slack_playground import Playground
from supervisor_core.fleet.keys import KeyPair
from supervisor_core.fleet.transport.connection import FleetConnection
from supervisor_core.fleet.transport.streams import call
from supervisor_core.fleet.transport.subjects import COMMANDS, HUB_INBOX
from tests.support.daemon.fleet_faults.checker import FleetChecker
from tests.support.daemon.fleet_faults.records import NOTING_WORKER
from tests.support.daemon.fleet_faults.traffic import Traffic
from tests.support.daemon.fleet_homes import KEY, FleetHomes, a_fleet
from tests.support.daemon.host_lines import HUB
from tests.support.programs.armed import armed, distinct
from tests.support.slack.slack_home import started
from tests.support.storage.full_disk import a_small_disk
from tests.support.waiting import wait_until

HOSTS = ("web-1", "web-2", "web-3")
WORKERS = {"fetcher": NOTING_WORKER}

pytestmark = [pytest.mark.playground(patience=30), pytest.mark.sampled(of_file=1)]


async def cut_the_line_of_a_host(fleet: FleetHomes, traffic: Traffic) -> None:
    fleet.lines["web-1"].cut()
    for _ in range(2):
        await traffic.send_round()
    fleet.lines["web-1"].mend()


async def kill_the_server(fleet: FleetHomes, traffic: Traffic) -> None:
    await asyncio.to_thread(fleet.kill_server)
    await traffic.send_round()
    fleet.server.start()
    await traffic.send_round()


async def kill_the_hub(fleet: FleetHomes, traffic: Traffic) -> None:
    sending = asyncio.create_task(traffic.send_round())
    fleet.hub.kill_newest_daemon()
    await asyncio.gather(sending)
    await started(fleet.hub, traffic.slack)
    await traffic.send_round()


async def kill_a_host(fleet: FleetHomes, traffic: Traffic) -> None:
    await traffic.send("restart", "web-1/fetcher")
    fleet.hosts["web-1"].kill_newest_daemon()
    await traffic.send_round()
    await asyncio.to_thread(fleet.hosts["web-1"].start_daemon)


FAULTS: dict[str, Callable[[FleetHomes, Traffic], Awaitable[None]]] = {
    "line": cut_the_line_of_a_host,
    "server": kill_the_server,
    "hub": kill_the_hub,
    "host": kill_a_host,
}


@pytest.mark.sampled(1)
@pytest.mark.parametrize("fault", FAULTS)
async def test_what_slack_acknowledged_ends_once_whatever_fails(tmp_path: Path, slack: Playground, fault: str) -> None:
    with a_fleet(tmp_path, HOSTS, WORKERS) as fleet:
        await fleet.start(slack)
        traffic = Traffic(fleet, slack)
        await traffic.send_round()
        await FAULTS[fault](fleet, traffic)
        await traffic.send_round()
        assert len(traffic.acknowledged) >= 2 * len(HOSTS)
        jobs = await FleetChecker(traffic).check()
        assert sum(1 for job in jobs if job["success"]) >= len(jobs) - len(HOSTS)


@pytest.mark.sampled(1)
@pytest.mark.parametrize("what", ["a full disk", "a host away past the deadline"])
async def test_a_host_that_cannot_take_commands_takes_them_later_or_never_and_says_so(
    tmp_path: Path, slack: Playground, what: str
) -> None:
    full = what == "a full disk"
    with (
        a_small_disk(tmp_path / "web-1" / "var") as disk,
        a_fleet(tmp_path, HOSTS, WORKERS, deadline_minutes=10 if full else 0.03) as fleet,
    ):
        await fleet.start(slack)
        traffic, pid = Traffic(fleet, slack), fleet.hosts["web-1"].daemon_pid
        if full:
            disk.fill(pid)
        else:
            fleet.lines["web-1"].cut()
        await traffic.send_round()
        if full:
            await slack.channel("ops").shows("web-2/fetcher restarted")
            disk.free(pid)
        else:
            await slack.channel("ops").shows("No answer from web-1")
            fleet.lines["web-1"].mend()
        jobs = await FleetChecker(traffic).check()
        ends = {job["worker_id"]: (bool(job["success"]), job["error"]) for job in jobs}
        assert ends["web-2/fetcher"] == (True, None)
        if full:
            assert ends["web-1/fetcher"] == (True, None)
        else:
            assert "when it had to be started by. Nothing was done." in str(ends["web-1/fetcher"][1])


async def test_commands_survive_the_loss_of_the_stream_that_holds_them(tmp_path: Path, slack: Playground) -> None:
    with a_fleet(tmp_path, HOSTS[:2], WORKERS) as fleet:
        await fleet.start(slack)
        traffic = Traffic(fleet, slack)
        fleet.hosts["web-1"].kill_newest_daemon()
        await traffic.send("restart", "web-1/fetcher")
        sent = "select 1 from jobs_t where worker_id = 'web-1/fetcher' and state = 'claimed'"
        await asyncio.to_thread(wait_until, lambda: fleet.hub.rows(sent), 20.0, "the server has the command")
        key = KeyPair.read(tmp_path / HUB / KEY)
        async with FleetConnection(fleet.url, key, name="test", inbox=HUB_INBOX) as connection:
            await connection.wait_connected(10)
            assert (await call(connection, f"STREAM.DELETE.{COMMANDS}"))["success"]
        await traffic.send("restart", "web-2/fetcher")
        await slack.channel("ops").shows("web-2/fetcher restarted")
        await asyncio.to_thread(fleet.hosts["web-1"].start_daemon)
        jobs = await FleetChecker(traffic).check()
        assert [bool(job["success"]) for job in jobs] == [True, True]


HUB_POINTS = ("fleet.send:before", "fleet.send:after", "fleet.copy:before", "fleet.copy:after")
HOST_POINTS = ("fleet.take:before", "fleet.take:after")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("point", [*distinct(HUB_POINTS), *HOST_POINTS])
async def test_killed_anywhere_on_the_way_a_command_is_carried_out_once(
    tmp_path: Path, slack: Playground, point: str
) -> None:
    """Killed in the host, the command comes again when the server has waited for its acknowledgment."""
    with a_fleet(tmp_path, HOSTS[:1], WORKERS) as fleet:
        at_hub, copying = point in HUB_POINTS, point.startswith("fleet.copy")
        home = fleet.hub if at_hub else fleet.hosts["web-1"]
        traffic = Traffic(fleet, slack)
        await fleet.start(slack)
        if copying:  # what the host has done while the hub was away is copied at its start
            await traffic.send_round()
        home.kill_newest_daemon()
        if at_hub and not copying:
            await started(fleet.hub, slack, armed(point))
        else:
            await asyncio.to_thread(home.start_daemon, program=armed(point), wait=not copying)
        if not copying:
            await traffic.send_round()
        assert await asyncio.to_thread(home.wait_for_end) == -signal.SIGKILL
        if at_hub:
            await started(fleet.hub, slack)
        else:
            await asyncio.to_thread(home.start_daemon)
        (job,) = await FleetChecker(traffic).check()
        assert job["success"]
