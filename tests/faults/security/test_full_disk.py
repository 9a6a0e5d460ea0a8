"""A full disk: said at once, answered in time, quiet in the log, over by itself, and nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slack_playground import Playground
from tests.support.slack.slack_home import SlackHome, a_slack_home, asked, settled, started
from tests.support.storage.full_disk import Disk, a_small_disk
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.playground(patience=30.0), pytest.mark.timeout(180)]

WATCHED_SECONDS = 4.0
REPEATS = 2
"""Of one line in that time. Each service that can't write says so once."""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    with a_small_disk(tmp_path / "home" / "var") as made:
        yield made


@pytest.fixture
def home(tmp_path: Path, disk: Disk) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home") as made:
        yield made
        disk.free(os.getpid())  # also where the test failed before it did


def problem(home: SlackHome) -> str:
    return str(home.status()["supervisor"]["ledger"]["problem"])


async def test_a_full_disk_is_said_answered_and_survived(home: SlackHome, disk: Disk, slack: Playground) -> None:
    daemon = await started(home, slack)
    operator = slack.user("operator")
    overview = await operator.says("@bot")
    await overview.shows("running")
    (pid,) = home.running_copies("OrionMX")
    await settled(home)

    disk.fill(daemon.pid)
    await operator.slash("/supervisor pause OrionMX")
    await operator.sees("Not accepted")
    await operator.sees("the ledger can't be written")
    await operator.says("@bot pause OrionMX")
    refused = "Not accepted"
    channel = slack.channel("ops")
    await slack.eventually(lambda: channel.conversation(operator).count(refused) == 2, "the mention is answered")
    await overview.button("Pause").click(confirm=True)
    await slack.eventually(lambda: channel.conversation(operator).count(refused) == 3, "the button is answered")
    assert all(not ack["late"] for ack in slack.journal("ack"))
    assert home.running_copies("OrionMX") == [pid]

    shown = await asyncio.to_thread(home.supervisor, "status")
    assert shown.returncode == 1
    assert "! The ledger" in shown.stdout
    running = [each for each in home.status()["services"] if each["state"] == "running"]
    assert {"slack", "scheduler"} <= {each["name"] for each in running}
    assert {each["health"] for each in running} == {"degraded"}
    assert all("the disk" in each["reason"] for each in running)
    assert "the disk" in problem(home)
    home.drop_flag("supervisor_diagnostics_OrionMX_waits.flag")
    before = len(home.whole_log())
    await asyncio.sleep(WATCHED_SECONDS)  # the rate of lines is what is looked at
    lines = Counter(re.sub(r"\d+", "#", line) for line in home.whole_log()[before:].splitlines())
    assert all(count <= REPEATS for count in lines.values()), home.daemon_log()
    assert "Traceback" not in home.whole_log(), home.daemon_log()

    disk.free(daemon.pid)
    await asyncio.to_thread(wait_until, lambda: home.result("diagnostics", "waits"), 30, "the flag is followed")
    await asyncio.to_thread(wait_until, lambda: home.status()["healthy"], 30, "all is well again")
    assert problem(home) == ""
    card = await operator.slash("/supervisor pause OrionMX")
    await card.becomes("paused")
    await settled(home)
    assert [row["action"] for row in home.trail()].count("PAUSE") == 1, "what was refused isn't done later"
    assert (await asked(home, "audit", "verify"))["ok"]


async def test_a_configuration_that_a_full_disk_kept_from_the_audit_trail_is_in_it_afterwards(
    home: SlackHome, disk: Disk, slack: Playground
) -> None:
    daemon = await started(home, slack)
    (pid,) = home.running_copies("OrionMX")
    await settled(home)
    disk.fill(daemon.pid)
    await asyncio.to_thread(wait_until, lambda: problem(home), 30, "the disk is full")
    document = yaml.safe_load(home.config.read_text())
    document["workers"]["OrionMX"]["env"] = {"MODE": "fast"}
    home.config.write_text(yaml.safe_dump(document))
    log = home.whole_log
    await asyncio.to_thread(wait_until, lambda: "configuration version 2 is active" in log(), 30, "it's in force")
    await asyncio.sleep(2.0)
    disk.free(daemon.pid)
    await asyncio.to_thread(wait_until, lambda: home.running_copies("OrionMX") != [pid], 30, "it's restarted")
    await asyncio.to_thread(
        wait_until, lambda: "CONFIG_FINISHED" in [row["action"] for row in home.trail()], 40, "its end is on record"
    )
    actions = [row["action"] for row in home.trail()]
    assert actions.count("CONFIG_APPLIED") == 1
    assert actions.index("CONFIG_APPLIED") < actions.index("CONFIG_FINISHED")
