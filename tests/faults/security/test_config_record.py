"""A configuration that restarts workers is on record, and told, with who owns the file and how it ended."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slack_playground import Playground
from tests.support.homes import a_home, demo_command
from tests.support.programs.armed import armed
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, sent_by_shell, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)

WORKERS = ("fetcher", "mailer", "reporter")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    worker = {
        "command": demo_command(),
        "start_grace_seconds": 0.2,
        "stop_timeout_seconds": 10,
        "restart": {"policy": "never"},
    }
    settings = {"slack": {"enabled": True, "access": ACCESS, "alert_channel": "C0OPS"}}
    with a_home(tmp_path, {each: dict(worker) for each in WORKERS}, make=SlackHome, **settings) as made:
        assert isinstance(made, SlackHome)
        yield made


def edit(home: SlackHome, **changes: dict[str, Any]) -> None:
    """Somebody changes these workers in the file."""
    document = yaml.safe_load(home.config.read_text())
    for worker_id, settings in changes.items():
        document["workers"][worker_id].update(settings)
    write(home, yaml.safe_dump(document))


def write(home: SlackHome, text: str) -> None:
    temporary = home.config.with_suffix(".tmp")
    temporary.write_text(text)
    temporary.replace(home.config)


def records(home: SlackHome, action: str = "CONFIG_APPLIED") -> list[dict[str, Any]]:
    return [row | {"details": json.loads(row["details_json"])} for row in home.trail() if row["action"] == action]


async def recorded(home: SlackHome, number: int, action: str = "CONFIG_APPLIED") -> dict[str, Any]:
    what = f"{number} rows {action}"
    await asyncio.to_thread(wait_until, lambda: len(records(home, action)) >= number, 30, what)
    assert len(records(home, action)) == number
    return records(home, action)[-1]


async def test_each_configuration_is_on_record_and_told_with_how_it_ended(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    channel = slack.channel("ops")
    edit(home, **{each: {"env": {"MODE": "fast"}} for each in WORKERS})
    row = await recorded(home, 1)
    assert (row["actor"], row["outcome"], row["target_type"]) == ("file:root", "success", "configuration")
    assert row["details"]["changes"] == [f"{each}: env.MODE" for each in WORKERS]
    await channel.shows("Configuration applied: fetcher, mailer and reporter restarted")
    await channel.shows("file:root · ")
    (about,) = await asked(home, "audit", "--worker", "mailer")
    assert (about["action"], about["affected"]["mailer"]) == ("CONFIG_APPLIED", "restarted")

    write(home, home.config.read_text().replace("stop_timeout_seconds", "stop_timeout_secnds", 1))
    row = await recorded(home, 1, "CONFIG_REFUSED")
    assert (row["actor"], row["outcome"], row["details"]["version"]) == ("file:root", "failure", 2)
    await channel.shows("Configuration refused")


async def test_a_worker_that_fails_with_a_configuration_halts_it_and_the_alert_and_why_name_it(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    for each in WORKERS:
        await sent_by_shell(home, f"resume {each}")
    before = {each: home.running_copies(each) for each in WORKERS}
    edit(home, **{each: {"env": {"PYTHONHOME": "/nowhere"}} for each in WORKERS})
    row = await recorded(home, 1)
    assert (row["outcome"], row["details"]["ended"]) == ("failure", "halted"), row
    found = row["details"]["workers"]
    (name,) = [each for each, how in found.items() if how == "failed"]  # whichever came first
    held = [each for each in WORKERS if each != name]
    assert found == {name: "failed", **dict.fromkeys(held, "held")}
    assert {each: home.running_copies(each) for each in held} == {each: before[each] for each in held}
    await slack.channel("ops").shows(f"Configuration halted: {name} doesn't run with it")
    alert = await slack.channel("ops").shows(f"{name} is down")
    await alert.becomes("Configuration by root (file)")
    (why,) = await asked(home, "send", f"why {name}")
    assert why["cause"] == "configuration", why
    edit(home, **{each: {"env": {"MODE": "fast"}} for each in WORKERS})
    row = await recorded(home, 2)
    assert (row["outcome"], row["details"]["ended"]) == ("success", "applied")
    await settled(home)
    words = f"Configuration applied: {held[0]} and {held[1]} restarted; {name} started"
    await slack.channel("ops").shows(words)


async def test_a_mistyped_program_that_is_corrected_is_never_said_to_fail_again(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    right = yaml.safe_load(home.config.read_text())["workers"]["fetcher"]["command"]
    await sent_by_shell(home, "pause fetcher")
    loop = {"command": ["false"], "restart": {"policy": "on-failure", "backoff_seconds": 60}}
    edit(home, fetcher=loop)
    await recorded(home, 1)
    assert not (await asyncio.to_thread(home.json, "send", "resume fetcher", "--wait"))["success"]
    edit(home, fetcher={"command": ["pythonn3", *right[1:]]})
    assert (await recorded(home, 2))["outcome"] == "failure"
    edit(home, fetcher={"command": right})
    row = await recorded(home, 3)
    assert (row["outcome"], row["details"]["ended"]) == ("success", "applied"), row
    await slack.channel("ops").shows("Configuration applied: fetcher started")


async def test_a_configuration_cut_off_by_kill_9_is_on_record_once_with_its_end(
    home: SlackHome, slack: Playground
) -> None:
    daemon = await started(home, slack, armed("worker.stop:ordered"))
    edit(home, **{each: {"env": {"MODE": "fast"}} for each in WORKERS})
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL
    assert records(home) == []
    await started(home, slack)
    row = await recorded(home, 1)
    assert (row["outcome"], row["details"]["changes"]) == ("success", [f"{each}: env.MODE" for each in WORKERS])
    edit(home, fetcher={"env": {"MODE": "slow"}})
    await recorded(home, 2)
    await settled(home)
    assert len([each for each in slack.channel("ops").messages() if "Configuration" in str(each)]) == 2


async def test_an_edit_that_no_daemon_saw_is_on_record_by_the_workers_that_it_restarts(
    home: SlackHome, slack: Playground
) -> None:
    daemon = await started(home, slack)
    daemon.kill()
    await asyncio.to_thread(daemon.wait)
    edit(home, mailer={"env": {"MODE": "fast"}})
    await started(home, slack)
    row = await recorded(home, 1)
    assert (row["outcome"], row["details"]["changes"]) == ("success", ["changed while the supervisor wasn't running"])
    assert row["details"]["workers"] == {"mailer": "done"}


async def test_settings_that_count_from_a_start_on_are_on_record_with_that_start(
    home: SlackHome, slack: Playground
) -> None:
    for number, operators in enumerate((["U0OPER", "U0ADMIN"], ["U0OPER", "U0ADMIN"], ["U0OPER"])):
        daemon = await started(home, slack)
        await settled(home)
        assert len(records(home)) == (1 if number else 0), "the same settings again are no change"
        daemon.kill()
        await asyncio.to_thread(daemon.wait)
        document = yaml.safe_load(home.config.read_text())
        document["slack"]["access"]["operators"] = operators
        write(home, yaml.safe_dump(document))
    await started(home, slack)
    row = await recorded(home, 2)
    assert (row["actor"], row["details"]["changes"]) == ("file:root", ["slack.access.operators"])
    await slack.channel("ops").shows("Configuration applied: no worker restarted")
