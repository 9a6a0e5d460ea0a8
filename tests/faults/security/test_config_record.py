"""A configuration that restarts workers is on record, and told, with who owns the file and how it ended."""

from __future__ import annotations

import asyncio
import hashlib
import json
import signal
import sys
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

pytestmark = [pytest.mark.playground(patience=20), pytest.mark.sampled(of_file=2)]

WORKERS = ("fetcher", "mailer", "reporter")
CRASHING = [sys.executable, "-c", "import time; time.sleep(0.8); raise SystemExit(3)"]


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


def records(home: SlackHome, action: str) -> list[dict[str, Any]]:
    return [row | {"details": json.loads(row["details_json"])} for row in home.trail() if row["action"] == action]


async def recorded(home: SlackHome, number: int, action: str = "CONFIG_FINISHED") -> dict[str, Any]:
    what = f"{number} rows {action}"
    await asyncio.to_thread(wait_until, lambda: len(records(home, action)) >= number, 30, what)
    assert len(records(home, action)) == number
    return records(home, action)[-1]


async def test_each_configuration_is_on_record_and_told_with_how_it_ended(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    channel, before = slack.channel("ops"), home.config.read_text()
    edit(home, **{worker_id: {"env": {"MODE": "fast"}} for worker_id in WORKERS})
    begun = await recorded(home, 1, "CONFIG_APPLIED")
    assert (begun["actor"], begun["outcome"], begun["target_type"]) == ("file:root", "success", "configuration")
    assert begun["details"]["changes"] == [f"{worker_id}: env.MODE" for worker_id in WORKERS]
    assert begun["details"]["affected"] == dict.fromkeys(WORKERS, "restarted")
    digests = [hashlib.sha256(text.encode()).hexdigest() for text in (before, home.config.read_text())]
    assert [begun["details"]["from"], begun["details"]["to"]] == digests
    ended = await recorded(home, 1)
    assert (ended["outcome"], ended["task_id"]) == ("success", begun["task_id"])
    assert ended["details"]["workers"] == dict.fromkeys(WORKERS, "restarted")
    table = await asyncio.to_thread(home.supervisor, "audit", "--command", "CONFIG_APPLIED")
    assert "fetcher, mailer, reporter: stopped and restarted with the configuration" in table.stdout
    await channel.shows("Configuration applied: fetcher, mailer and reporter restarted")
    await channel.shows("file:root · ")
    about, *_ = await asked(home, "audit", "--worker", "mailer")
    details = json.loads(about["details_json"])
    assert (about["target_id"], details["action"], details["role"]) == ("mailer", "CONFIG_FINISHED", "restarted")

    write(home, home.config.read_text().replace("stop_timeout_seconds", "stop_timeout_secnds", 1))
    row = await recorded(home, 1, "CONFIG_REFUSED")
    assert (row["actor"], row["outcome"], row["details"]["version"]) == ("file:root", "failure", 2)
    await channel.shows("Configuration refused")


async def test_a_worker_that_fails_with_a_configuration_halts_it_and_the_alert_and_why_name_it(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    for worker_id in WORKERS:
        await sent_by_shell(home, f"resume {worker_id}")
    before = {worker_id: home.running_copies(worker_id) for worker_id in WORKERS}
    edit(home, **{worker_id: {"env": {"PYTHONHOME": "/nowhere"}} for worker_id in WORKERS})
    row = await recorded(home, 1)
    assert row["outcome"] == "failure", row
    results = row["details"]["workers"]
    (name,) = [worker_id for worker_id, result in results.items() if result == "failed"]  # whichever came first
    held = [worker_id for worker_id in WORKERS if worker_id != name]
    assert results == {name: "failed", **dict.fromkeys(held, "held")}
    assert {worker_id: home.running_copies(worker_id) for worker_id in held} == {each: before[each] for each in held}
    await slack.channel("ops").shows(f"Configuration halted: {name} doesn't run with it")
    alert = await slack.channel("ops").shows(f"{name} is down")
    await alert.becomes("Configuration by root (file)")
    (why,) = await asked(home, "send", f"why {name}")
    assert why["cause"] == "configuration", why
    edit(home, **{worker_id: {"env": {"MODE": "fast"}} for worker_id in WORKERS})
    row = await recorded(home, 2)
    assert row["outcome"] == "success"
    await settled(home)
    await slack.channel("ops").shows("Configuration applied: fetcher, mailer and reporter restarted")


async def test_a_mistyped_program_is_a_failure_and_its_correction_restarts_nobody(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    right = yaml.safe_load(home.config.read_text())["workers"]["fetcher"]["command"]
    await sent_by_shell(home, "resume fetcher")
    (pid,) = home.running_copies("fetcher")
    edit(home, fetcher={"command": ["/nowhere/pyhton3", *right[1:]]})
    failed = await recorded(home, 1)
    assert (failed["outcome"], failed["details"]["workers"]) == ("failure", {"fetcher": "kept"})
    edit(home, fetcher={"command": right})
    corrected = await recorded(home, 2)
    assert (corrected["outcome"], corrected["details"]["workers"]) == ("success", {"fetcher": "unchanged"})
    assert home.running_copies("fetcher") == [pid]
    edit(home, fetcher={"command": CRASHING})
    row = await recorded(home, 3)
    assert (row["outcome"], row["details"]["workers"]) == ("failure", {"fetcher": "failed"})
    edit(home, mailer={"env": {"MODE": "fast"}})
    row = await recorded(home, 4)
    assert row["details"]["changes"] == ["mailer: env.MODE"]
    assert (row["outcome"], row["details"]["workers"]) == ("success", {"mailer": "restarted"})


async def test_a_configuration_cut_off_by_kill_9_is_on_record_once_with_its_end(
    home: SlackHome, slack: Playground
) -> None:
    daemon = await started(home, slack, armed("worker.stop:ordered"))
    edit(home, **{worker_id: {"env": {"MODE": "fast"}} for worker_id in WORKERS})
    assert await asyncio.to_thread(daemon.wait, 30) == -signal.SIGKILL
    assert records(home, "CONFIG_FINISHED") == []
    await started(home, slack)
    row = await recorded(home, 1)
    assert (row["outcome"], row["details"]["workers"]) == ("success", dict.fromkeys(WORKERS, "restarted"))
    assert records(home, "CONFIG_APPLIED")[0]["task_id"] == row["task_id"]
    edit(home, fetcher={"env": {"MODE": "slow"}})
    await recorded(home, 2)
    await settled(home)
    assert len([message for message in slack.channel("ops").messages() if "Configuration" in str(message)]) == 2


async def test_an_edit_that_no_daemon_saw_is_on_record_with_the_next_start(home: SlackHome, slack: Playground) -> None:
    daemon = await started(home, slack)
    await settled(home)
    assert records(home, "CONFIG_APPLIED") == [], "the first start is no change"
    daemon.kill()
    await asyncio.to_thread(daemon.wait)
    edit(home, mailer={"env": {"MODE": "fast"}})
    document = yaml.safe_load(home.config.read_text())
    document["slack"]["access"]["operators"] = ["U0OPER"]
    write(home, yaml.safe_dump(document))
    daemon = await started(home, slack)
    row = await recorded(home, 1)
    assert (row["outcome"], row["details"]["workers"]) == ("success", {"mailer": "restarted"})
    assert row["details"]["changes"] == ["mailer: env.MODE", "slack.access.operators"]
    daemon.kill()
    await asyncio.to_thread(daemon.wait)
    await started(home, slack)
    await settled(home)
    assert len(records(home, "CONFIG_APPLIED")) == 1, "the same settings again are no change"
    document["slack"]["access"]["operators"] = ["U0OPER", "U0ADMIN"]
    write(home, yaml.safe_dump(document))
    row = await recorded(home, 2, "CONFIG_APPLIED")
    assert row["details"]["changes"][0].startswith("slack.access.operators: takes effect after a restart")
    await slack.channel("ops").shows("Configuration applied: no worker restarted")
