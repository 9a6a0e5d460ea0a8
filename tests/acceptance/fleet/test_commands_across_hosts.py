"""One Slack app for many hosts: a command reaches the worker's host, and its one card follows what happens there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from slack_playground import Playground
from tests.support.daemon import short_silence
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.homes import Home
from tests.support.slack.slack_home import asked, started


@pytest.fixture
def fleet(tmp_path: Path) -> Iterator[FleetHomes]:
    with a_fleet(tmp_path) as made:
        yield made


@pytest.mark.playground(patience=20)
async def test_a_command_in_slack_stops_a_worker_of_another_host_and_its_card_says_so(
    fleet: FleetHomes, slack: Playground
) -> None:
    await fleet.start(slack)
    operator = slack.user("operator")
    card = await operator.slash("/supervisor pause web-1/fetcher hotfix")
    await card.becomes("web-1/fetcher paused")
    assert fleet.hosts["web-1"].running_copies("fetcher") == []
    assert len(fleet.hosts["web-2"].running_copies("fetcher")) == 1
    (row,) = await asked(fleet.hosts["web-1"], "audit")
    assert (row["action"], row["outcome"], row["target_id"]) == ("PAUSE", "success", "fetcher")
    assert row["actor"].endswith("/U0OPERATOR")
    copied = [each for each in await asked(fleet.hub, "audit") if each["supervisor_id"] == "web-1"]
    assert [each["hash"] for each in copied] == [row["hash"]]
    status = await operator.slash("/supervisor status")
    await operator.sees("web-1/fetcher")
    await operator.sees("web-2/fetcher")
    assert status is not None


@pytest.mark.playground(patience=20)
async def test_what_a_host_knows_of_its_worker_is_found_on_the_hub_by_its_address(
    fleet: FleetHomes, slack: Playground
) -> None:
    await fleet.start(slack)
    operator, hub = slack.user("operator"), fleet.hub
    card = await operator.slash("/supervisor pause web-1/fetcher hotfix")
    await card.becomes("web-1/fetcher paused")
    audit = await operator.slash("/supervisor audit web-1/fetcher")
    await audit.shows("pause web-1/fetcher: succeeded")
    assert await asked(hub, "audit", "--worker", "web-2/fetcher") == []
    (row,) = await asked(hub, "audit", "--worker", "web-1/fetcher")
    assert (row["action"], row["supervisor_id"], row["target_id"]) == ("PAUSE", "web-1", "fetcher")
    elsewhere = {each["id"]: each for each in (await asyncio.to_thread(hub.status))["workers"]}
    assert elsewhere["web-2/fetcher"]["memory_bytes"] > 1_000_000
    assert elsewhere["web-2/fetcher"]["cpu_seconds"] > 0
    (told,) = await asked(hub, "why", "web-1/fetcher")
    assert told["worker_id"] == "web-1/fetcher"
    assert "paused" in told["sentence"]
    (log,) = await asked(hub, "logs", "web-2/fetcher")
    assert log["worker_id"] == "web-2/fetcher"
    assert not log["problem"]
    (history,) = await asked(hub, "history", "web-1/fetcher")
    (there,) = await asked(fleet.hosts["web-1"], "history", "fetcher")
    assert [each["condition"] for each in history["stretches"]] == [each["condition"] for each in there["stretches"]]
    assert [each["command"] for each in history["commands"]] == ["pause"]
    assert [each["since"] for each in history["stretches"][1:]] == [each["since"] for each in there["stretches"][1:]]


@pytest.mark.playground(patience=30)
async def test_a_crashed_worker_of_another_host_is_alerted_with_the_last_lines_that_it_wrote_there(
    tmp_path: Path, slack: Playground
) -> None:
    last_words = "print('out of paper', flush=True); raise SystemExit(3)"
    worker = {"command": ["{python}", "-c", last_words], "restart": {"policy": "never"}, "start_grace_seconds": 0.2}
    with a_fleet(
        tmp_path, ("web-1",), {"printer": {**worker, "heartbeat_max_age_seconds": 0}}, alert_channel="C0OPS"
    ) as fleet:
        await asyncio.to_thread(fleet.hosts["web-1"].start_daemon)
        await started(fleet.hub, slack)
        await slack.channel("ops").shows("out of paper")
        config = fleet.hosts["web-1"].folder / "config.yaml"
        config.write_text(yaml.safe_dump({**yaml.safe_load(config.read_text()), "workers": {}}))
        await slack.channel("ops").shows("No longer in the configuration of its host")


@pytest.mark.playground(patience=30)
async def test_the_card_of_a_command_for_an_unresponsive_host_says_until_when_it_may_start(
    tmp_path: Path, slack: Playground
) -> None:
    with a_fleet(tmp_path, environ=short_silence.ENVIRON) as fleet:
        await fleet.start(slack)
        fleet.lines["web-1"].cut()
        card = await slack.user("operator").slash("/supervisor pause web-1/fetcher hotfix")
        await card.shows("Waiting for web-1, which is unresponsive. It starts this if it's back by")
        resume = await slack.user("operator").slash("/supervisor resume web-1/fetcher")
        await resume.shows("Waiting for web-1")
        await resume.button("Cancel").click(as_=slack.user("viewer"), confirm=True)
        await slack.user("viewer").sees("limited to operators")
        await resume.button("Cancel").click(as_=slack.user("operator"), confirm=True)
        await resume.shows("before it was sent")
        fleet.lines["web-1"].mend()
        await card.becomes("web-1/fetcher paused")
        assert {row["action"] for row in await asked(fleet.hosts["web-1"], "audit")} == {"PAUSE"}


def add_commands(home: Home, **programs: list[str]) -> None:
    """Commands of this hub or host that only read."""
    settings = yaml.safe_load(home.config.read_text())
    settings["commands"] = {name: {"argv": argv, "changes": False} for name, argv in programs.items()}
    home.config.write_text(yaml.safe_dump(settings))


@pytest.mark.playground(patience=30)
async def test_a_custom_command_runs_on_the_hosts_that_define_it_as_the_hub_does(
    fleet: FleetHomes, slack: Playground
) -> None:
    greet = ["echo", "hello {worker_id}"]
    add_commands(fleet.hub, greet=greet, hubbed=greet)
    add_commands(fleet.hosts["web-1"], greet=greet)
    add_commands(fleet.hosts["web-2"], greet=["echo", "something else"])
    await fleet.start(slack)
    operator, ops = slack.user("operator"), slack.channel("ops")
    card = await operator.slash("/supervisor greet web-1/fetcher")
    await card.becomes("Ran greet on web-1/fetcher")
    await card.shows("hello fetcher")
    await operator.slash("/supervisor greet web-2/fetcher")
    await ops.shows("The definition of greet on this host isn't the one that was requested")
    await operator.slash("/supervisor hubbed web-1/fetcher")
    await ops.shows("web-1 has no command hubbed")
    for host, actions in (("web-1", {"GREET", "REFUSED"}), ("web-2", {"GREET"})):
        assert {row["action"] for row in await asked(fleet.hosts[host], "audit")} == actions
