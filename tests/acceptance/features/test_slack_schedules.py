"""Schedules in Slack: added, run, listed and removed where people are; refused aloud once a right is gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from slack_playground import Playground
from supervisor_core.common.times import from_text
from tests.support.intake.schedule_homes import comes_due, scheduled
from tests.support.slack.relay import Network
from tests.support.slack.slack_home import ACCESS, SlackHome, a_slack_home, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)

WORKER = {"command": ["{python}", "-c", "import time; time.sleep(600)"], "heartbeat_max_age_seconds": 0}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    workers = {"OrionMX": {**WORKER, "start_grace_seconds": 0.2}}
    access = {"operators": ["U0OPERATOR", "U0ANNA"], "approvers": ["U0APPROVER"], "commands": {"verify-db": ["U0ANNA"]}}
    with a_slack_home(tmp_path / "home", workers, access=access, alert_channel="C0OPS") as made:
        yield made


async def restarted(home: SlackHome, slack: Playground) -> None:
    """The daemon, ended and started anew."""
    assert (await asyncio.to_thread(home.supervisor, "stop")).returncode == 0
    await started(home, slack)


async def test_a_schedule_is_added_listed_run_across_a_restart_and_removed(home: SlackHome, slack: Playground) -> None:
    slack.user("operator", tz="Europe/Berlin")
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    await operator.slash('/supervisor schedule add nightly "dayly 03:00" restart')
    await operator.sees("five fields")
    card = await operator.slash('/supervisor schedule add nightly "daily 03:00" restart OrionMX nightly')
    await card.shows("Schedule nightly added: at 03:00 every day (Europe/Berlin)")
    await card.shows("restart OrionMX nightly")
    await card.shows("with their current rights")
    await operator.slash('/supervisor schedule add Nightly "hourly" status all')
    await operator.sees("A schedule named nightly already exists")
    await operator.slash('/supervisor schedule add db "hourly" verify-db OrionMX')
    await operator.sees("verify-db is limited to")
    await viewer.slash("/supervisor schedule list")
    await viewer.sees("schedule list is limited to operators")

    await restarted(home, slack)
    comes_due(home, "nightly")
    done = await slack.channel("ops").shows("OrionMX restarted")
    await done.shows("nightly (schedule)")
    await settled(home)
    await operator.slash("/supervisor schedule list")
    listed = await operator.sees("1 schedule")
    await listed.shows("succeeded")
    await listed.button("Remove").click(as_=operator, confirm=True)
    await card.becomes("Schedule nightly removed")
    await card.button("Remove").is_gone()
    await listed.becomes("No schedules yet")
    await settled(home)
    rows = home.trail()
    assert [(row["action"], row["actor"].rpartition("/")[2]) for row in rows] == [
        ("SCHEDULE_ADDED", "U0OPERATOR"),
        ("REFUSED", "U0OPERATOR"),
        ("REFUSED", "U0VIEWER"),
        ("RESTART_WATCHER", "schedule:nightly"),
        ("SCHEDULE_REMOVED", "U0OPERATOR"),
    ]
    assert json.loads(rows[3]["details_json"])["owner"].endswith("/U0OPERATOR")
    assert rows[3]["label"] == "nightly - nightly"


async def test_its_command_needs_an_approval_and_one_that_informs_is_answered_in_its_channel(
    home: SlackHome, slack: Playground
) -> None:
    document = yaml.safe_load(home.config.read_text())
    document["slack"]["approvals"] = {"required_for": ["restart"]}
    home.config.write_text(yaml.safe_dump(document))
    await started(home, slack)
    operator, approver = slack.user("operator"), slack.user("approver")
    await operator.slash('/supervisor schedule add look "every 15 minutes" status all')
    await operator.slash('/supervisor schedule add weekly "mondays 07:00" restart OrionMX')
    await slack.channel("ops").shows("at 07:00 on Monday")
    comes_due(home, "look")
    await slack.channel("ops").shows("OrionMX running")
    comes_due(home, "weekly")
    card = await slack.channel("ops").shows("Restart OrionMX?")
    await card.button("Approve").click(as_=operator, confirm=True)
    await operator.sees("You requested it")
    await card.button("Approve").click(as_=approver, confirm=True)
    await card.becomes("OrionMX restarted")
    await settled(home)
    assert [(row["action"], row["actor"].rpartition("/")[2]) for row in home.trail()][2:] == [
        ("APPROVAL_REQUESTED", "schedule:weekly"),
        ("REFUSED", "U0OPERATOR"),
        ("APPROVED", "U0APPROVER"),
        ("RESTART_WATCHER", "schedule:weekly"),
    ]


async def test_whatever_is_answered_by_schedule_comes_to_its_channel_says_why_it_comes_and_calls_nobody(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator, channel = slack.user("operator"), slack.channel("ops")
    card = await operator.slash("/supervisor pause OrionMX the disk is moved")
    await card.becomes("OrionMX paused")
    said = {
        "why OrionMX": "OrionMX is paused by Operator since",
        "logs OrionMX": "OrionMX has no output yet",
        "audit OrionMX": "pause OrionMX: succeeded",
        "mute OrionMX 2h": "Muted OrionMX",
        "unmute OrionMX": "Unmuted OrionMX",
        "history OrionMX": "OrionMX in the last 24 hours",
    }
    for command, words in said.items():
        name = command.partition(" ")[0]
        await operator.slash(f'/supervisor schedule add {name} "hourly" {command}')
        await channel.shows(f"Schedule {name} added: every hour")
        comes_due(home, name)
        told = await channel.shows(f"schedule {name}: {command}")
        await told.shows(words)
        assert "mute" in name or "<@" not in str(await told.message()), command
        assert scheduled(home, name)["last_state"] == "answered"
        if name == "audit":  # its button is there for everybody, and does so for those who may
            await told.button("Download CSV").click(as_=slack.user("viewer"))
            await slack.user("viewer").sees("audit is limited to operators")
            await told.button("Download CSV").click(as_=slack.user("anna"))
            await slack.user("anna").sees("rows sent to you as a file")
    await settled(home)
    actors = [(row["action"], row["actor"], row["task_id"][:8]) for row in home.trail() if "MUTED" in row["action"]]
    assert actors == [("MUTED", "schedule:mute", "task_202"), ("UNMUTED", "schedule:unmute", "task_202")]


async def test_after_its_owner_lost_the_right_it_is_refused_once_said_and_audited(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    anna = slack.user("anna")
    await anna.slash('/supervisor schedule add often "every 5 minutes" pause OrionMX')
    await slack.channel("ops").shows("Schedule often")
    document = yaml.safe_load(home.config.read_text())
    document["slack"]["access"] = ACCESS
    home.config.write_text(yaml.safe_dump(document))
    await restarted(home, slack)
    comes_due(home, "often")
    told = await slack.channel("ops").shows("Schedule often was refused")
    await told.shows("who owns the schedule, no longer has the right")
    comes_due(home, "often")
    await told.becomes("2 times since")
    await settled(home)
    assert [row["action"] for row in home.trail()] == ["SCHEDULE_ADDED", "CONFIG_APPLIED", "REFUSED", "REFUSED"]
    assert home.trail()[-1]["actor"] == "schedule:often"


async def test_while_slack_is_away_it_waits_and_runs_once_it_is_back_and_one_by_the_shell_runs_meanwhile(
    home: SlackHome, slack: Playground
) -> None:
    async with Network(slack) as network:
        await started(home, slack)
        await slack.user("operator").slash('/supervisor schedule add often "weekly" pause OrionMX hotfix')
        await slack.channel("ops").shows("Schedule often")
        await settled(home)
        early = 'schedule add early "daily 06:00" diagnostics all'
        added = await asyncio.to_thread(home.supervisor, "send", early)
        assert "diagnostics all" in added.stdout
        assert "at 06:00 every day" in added.stdout
        network.cut()
        comes_due(home, "often")
        comes_due(home, "early")

        async def comes(name: str, key: str, value: object = None) -> None:
            def is_so() -> bool:
                found = scheduled(home, name)[key]
                return bool(found) if value is None else found == value

            await asyncio.to_thread(wait_until, is_so, 30, f"{key} of {name}")

        await comes("early", "last_outcome", "succeeded")
        await comes("often", "waiting_since")
        assert from_text(str(scheduled(home, "often")["next_at"])) < datetime.now(UTC)
        network.mend()
        await comes("often", "last_outcome", "succeeded")
        await slack.channel("ops").shows("OrionMX paused")
        await settled(home)
    assert [(row["action"], row["actor"]) for row in home.trail()][2:] == [
        ("DIAGNOSTICS", "schedule:early"),
        ("PAUSE", "schedule:often"),
    ]
