"""A trouble of a worker in Slack, with real processes: one message, at once, that keeps itself up to date."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from slack_playground import Playground
from supervisor_core.common.times import from_text
from tests.support.homes import a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, is_well, sent_by_shell, settled, started
from tests.support.waiting import wait_until

pytestmark = pytest.mark.playground(patience=20)

CHANNEL = "C0OPS"
NEVER = {"policy": "never"}
LIMIT_SECONDS = 4.0
LATE_SECONDS = 1.0


DEMO = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": NEVER}
SILENT = {"command": ["sleep", "100000"], "start_grace_seconds": 0.1, "heartbeat_max_age_seconds": LIMIT_SECONDS}
SETTINGS = {
    "slack": {"enabled": True, "access": ACCESS, "alert_channel": CHANNEL},
    "alerts": {"start_grace_seconds": 1, "flapping": {"flips": 20}},
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_home(tmp_path, {"OrionMX": DEMO}, make=SlackHome, **SETTINGS) as made:
        assert isinstance(made, SlackHome)
        yield made


@pytest.fixture
def home_with_silent(tmp_path: Path) -> Iterator[SlackHome]:
    """A second worker sends no heartbeat but those of the test, and soon misses one."""
    with a_home(tmp_path, {"OrionMX": DEMO, "Silent": SILENT}, make=SlackHome, **SETTINGS) as made:
        assert isinstance(made, SlackHome)
        yield made


def beat(home: SlackHome, worker_id: str, error: str | None = None, idle: float | None = None) -> datetime:
    """The worker says that it is well, or what is wrong, or that it got nowhere for so long; when."""
    now = datetime.now(UTC)
    progress = None if idle is None else (now - timedelta(seconds=idle)).isoformat()
    path = home.folder / "nas" / "00_STATE" / f"watcher_heartbeat_{worker_id}.json"
    temporary = path.with_suffix(".tmp")
    temporary.write_text(
        json.dumps(
            {
                "watcher_id": worker_id,
                "status": "running",
                "utc": now.isoformat(),
                "error": error,
                "progress_utc": progress,
            }
        )
    )
    temporary.replace(path)
    return now


def _has_printed(log: Path, words: bytes) -> bool:
    return log.exists() and words in log.read_bytes()


def kill(home: SlackHome) -> None:
    (pid,) = home.running_copies("OrionMX")
    os.kill(pid, signal.SIGKILL)


async def test_a_worker_that_was_killed_has_one_message_from_its_end_to_its_recovery(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    printed = partial(_has_printed, home.folder / "var" / "output" / "OrionMX.log", b"item 1 done")
    await asyncio.to_thread(wait_until, printed, 20, "it has printed a line")
    await is_well(home, "OrionMX")
    kill(home)
    card = await slack.channel("ops").shows("OrionMX is down")
    await card.becomes("crashed (SIGKILL)")
    await card.becomes("item 1 done")
    await card.button("Acknowledge").click(as_=viewer)
    await viewer.sees("acknowledge is limited to operators")
    await card.button("Why?").click(as_=viewer)
    await viewer.sees("crashed (SIGKILL)")
    await all_tell_the_same_of_the_kill(home)
    await card.button("Acknowledge").click(as_=operator)
    await card.becomes("Acknowledged")
    await card.becomes("@operator")
    await card.button("Acknowledge").is_gone()
    await card.button("Snooze 1h").click(as_=operator)
    await card.becomes("Snoozed")
    (alert,) = [each for each in await asked(home, "alerts") if each["target_id"] == "OrionMX"]
    assert (alert["state"], alert["condition"], alert["decided"]) == ("snoozed", "down", "snoozed")
    await card.button("Restart").click(as_=operator, confirm=True)
    await card.becomes("OrionMX recovered after")
    for name in ("Acknowledge", "Snooze 1h", "Restart", "Why?"):
        await card.button(name).is_gone()
    await settled(home)
    assert [row["action"] for row in home.trail()] == [
        "REFUSED",
        "ALERT_ACKNOWLEDGED",
        "ALERT_SNOOZED",
        "RESTART_WATCHER",
    ]
    about = [each for each in slack.channel("ops").messages() if "OrionMX" in str(each)]
    replies = [each for each in about if each.get("thread_ts") not in (None, each["ts"])]
    assert len(about) - len(replies) == 1, slack.story()
    assert "OrionMX restarted" in str(replies), "the restart has a card of its own, in the thread"
    lately = await viewer.slash("/supervisor alerts")
    for words in ("No open alerts", "OrionMX recovered", "crashed (SIGKILL)", "/supervisor why OrionMX"):
        await lately.shows(words)


async def all_tell_the_same_of_the_kill(home: SlackHome) -> None:
    """The alert, `why` and `history` agree on when it began, and on what it was."""
    (alert,) = [each for each in await asked(home, "alerts") if each["target_id"] == "OrionMX"]
    (why,) = await asked(home, "send", "why OrionMX")
    (history,) = await asked(home, "send", "history OrionMX")
    well, down = history["stretches"][-2:]
    assert (well["condition"], down["condition"], alert["condition"]) == ("well", "down", "down")
    assert "SIGKILL" in down["reason"]
    assert "SIGKILL" in alert["reason"]
    assert (why["cause"], why["fine"]) == ("killed", False)
    told = [down["since"], alert["opened_at"], why["since"], *(each["since"] for each in why["conditions"])]
    moments = [from_text(each) for each in told]
    assert max(moments) - min(moments) < timedelta(seconds=1), told
    assert history["uptime"] < 1
    assert not [each for each in why["before"] if "became down" in each["words"]], "its end tells of that already"


WITHOUT_APSCHEDULER = """
import sys
from apscheduler.schedulers.asyncio import AsyncIOScheduler
AsyncIOScheduler.start = lambda *_, **__: None
from supervisor_core.cli import main
sys.exit(main(sys.argv[1:]))
"""


async def test_alerts_come_from_apscheduler_alone_and_an_event_advances_it(tmp_path: Path, slack: Playground) -> None:
    demo = {"command": demo_command(), "start_grace_seconds": 0.2, "restart": NEVER}
    settings = {
        "slack": {"enabled": True, "access": ACCESS, "alert_channel": CHANNEL, "announce": False},
        "alerts": {"start_grace_seconds": 1, "check_seconds": 60},
    }
    ops = slack.channel("ops")
    with a_home(tmp_path, {"OrionMX": demo}, make=SlackHome, **settings) as home:
        assert isinstance(home, SlackHome)
        await started(home, slack, (sys.executable, "-c", WITHOUT_APSCHEDULER))
        kill(home)
        await asyncio.to_thread(wait_until, lambda: home.worker("OrionMX")["state"] == "stopped", 20, "it's known")
        await asyncio.sleep(3)
        assert ops.messages() == []
        assert home.rows("select * from alerts_t") == []
        home.kill_newest_daemon()
        await started(home, slack)
        card = await ops.shows("OrionMX is down")
        await sent_by_shell(home, "restart OrionMX")
        await card.becomes("OrionMX recovered after")
        kill(home)
        await ops.shows("OrionMX is down")


async def test_a_crash_loop_is_one_alert_with_its_snooze_up_to_the_quarantine(
    tmp_path: Path, slack: Playground
) -> None:
    program = "import time; print('no disk', flush=True); time.sleep(1.2); raise SystemExit(3)"
    crasher = {
        "command": [sys.executable, "-c", program],
        "start_grace_seconds": 0.1,
        "restart": {"policy": "always", "max_per_hour": 3, "backoff_seconds": 0.2},
    }
    settings = {
        "slack": {"enabled": True, "access": ACCESS, "alert_channel": CHANNEL, "announce": False},
        "alerts": {"start_grace_seconds": 0.1, "flapping": {"flips": 3, "within_minutes": 5}},
    }
    operator = slack.user("operator")
    with a_home(tmp_path, {"crasher": crasher}, make=SlackHome, **settings) as home:
        await started(home, slack)
        card = await slack.channel("ops").shows("crasher is down")
        await card.button("Snooze 1h").click(as_=operator)
        await card.becomes("Snoozed")
        await card.becomes("crasher is quarantined after 3 restarts in an hour")
        await card.shows("Snoozed")
        await card.shows("no disk")
        listed = await operator.slash("/supervisor alerts")
        await listed.shows("1 open alert")
        await listed.shows("snoozed until")
        why = await operator.slash("/supervisor why crasher")
        await why.shows("became quarantined after 3 restarts in an hour")
        history = await operator.slash("/supervisor history crasher")
        await history.shows("on record for only")


async def test_a_heartbeat_that_goes_stale_is_told_of_at_the_moment_at_which_it_is_due(
    home_with_silent: SlackHome, slack: Playground
) -> None:
    """The rounds of this daemon come every thirty seconds."""
    home = home_with_silent
    await started(home, slack)
    operator = slack.user("operator")
    said = beat(home, "Silent")
    card = await slack.channel("ops").shows("Silent is stale")
    (row,) = home.rows("select * from flips_t where target_id = 'Silent' and new = 'stale'")
    due = said + timedelta(seconds=LIMIT_SECONDS)
    assert abs(from_text(row["at"]) - due) < timedelta(milliseconds=1), "when it truly happened"
    assert from_text(row["seen_at"]) - due < timedelta(seconds=LATE_SECONDS)
    beat(home, "Silent")
    await card.becomes("Silent recovered after")
    (row,) = home.rows("select * from flips_t where target_id = 'Silent' and old = 'stale'")
    assert from_text(row["seen_at"]) - from_text(row["at"]) < timedelta(seconds=LATE_SECONDS), "it was heard of at once"
    beat(home, "Silent", error="no space left")
    await slack.channel("ops").shows("Silent is degraded")
    (row,) = home.rows("select * from flips_t where target_id = 'Silent' and new = 'degraded'")
    assert from_text(row["seen_at"]) - from_text(row["at"]) < timedelta(seconds=LATE_SECONDS)
    said = beat(home, "Silent", idle=LIMIT_SECONDS - 1)
    await slack.channel("ops").shows("Silent recovered after")
    card = await slack.channel("ops").shows("Silent is degraded: no progress for")
    (row,) = home.rows("select * from flips_t where target_id = 'Silent' and new = 'stuck'")
    due = said + timedelta(seconds=1)
    assert abs(from_text(row["at"]) - due) < timedelta(milliseconds=1), "when it truly happened"
    assert from_text(row["seen_at"]) - due < timedelta(seconds=LATE_SECONDS)
    await card.becomes("progress")
    beat(home, "Silent")
    await card.becomes("Silent recovered after")
    await operator.slash("/supervisor mute Silent 2h moving disks")
    await slack.channel("ops").shows("Muted Silent")
    worker = (await asked(home, "status"))["workers"][1]
    assert worker["muted_until"] is not None
    wait = time.monotonic() + 20

    def quiet() -> bool:
        assert time.monotonic() < wait
        return bool(home.rows("select * from alerts_t where decided = 'muted'"))

    await asyncio.to_thread(wait_until, quiet, 20, "it is quiet")
    await operator.slash("/supervisor unmute Silent")
    await slack.channel("ops").shows("Unmuted Silent")
    await slack.channel("ops").shows(1, "Silent is stale")
    await settled(home)
    assert [row["action"] for row in home.trail()] == ["MUTED", "UNMUTED"]
