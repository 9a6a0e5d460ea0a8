"""One Slack app for many hosts: a command reaches the worker's host, and its one card follows what happens there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.daemon.fleet_homes import FleetHomes, a_fleet
from tests.support.slack.slack_home import asked


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
