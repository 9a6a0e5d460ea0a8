"""The same commands by button and by mention, and what the channel hears of what was asked for elsewhere."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from slack_playground import Playground
from tests.support.homes import Home, a_home, demo_command
from tests.support.slack.slack_home import ACCESS, SlackHome, asked, sent_by_shell, started

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}
OPS = "C0OPS"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    slack = {"access": ACCESS, "alert_channel": OPS}
    workers = {"North": WORKER, "South": WORKER}
    with a_home(tmp_path / "home", workers, make=SlackHome, slack=slack) as made:
        yield made


async def test_the_overview_s_buttons_ask_first_and_then_do_it_with_a_card(home: Home, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    overview = await operator.slash("/supervisor")
    await overview.is_private()
    await overview.shows("all 2 workers running")
    await overview.button("Restart South").click(confirm=False)
    assert slack.calls("chat.postMessage") == []
    await overview.button("Restart South").click(confirm=True)
    await overview.shows("South: restart requested")
    await slack.channel("ops").shows("South restarted")
    await overview.button("Show workers").click()
    await overview.button("Pause North").click(confirm=True)
    await slack.channel("ops").shows("North paused")
    assert home.running_copies("North") == []
    rows = await asked(home, "audit")
    assert [(row["action"], row["target_id"], row["outcome"]) for row in reversed(rows)] == [
        ("RESTART_WATCHER", "South", "success"),
        ("PAUSE", "North", "success"),
    ]
    assert all(row["actor"].endswith("/U0OPERATOR") for row in rows)


async def test_after_a_press_the_overview_shows_how_it_is_now_and_its_buttons_count_anew(
    home: Home, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    overview = await operator.slash("/supervisor")
    await overview.button("Pause North").click(confirm=True)
    await slack.channel("ops").shows("North paused")
    await overview.button("Pause North").is_gone()
    await overview.button("Show workers").click()
    await overview.shows("2 workers, 1 paused")
    await overview.shows("North paused by")
    await overview.button("Resume North").click(confirm=True)
    await slack.channel("ops").shows("North resumed")


async def test_a_viewer_s_overview_has_no_buttons_and_a_button_of_somebody_else_refuses_them(
    home: Home, slack: Playground
) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    overview = await viewer.slash("/supervisor")
    await overview.shows("all 2 workers running")
    await overview.button("Pause North").is_gone()
    everybodys = await operator.says("@bot")
    await everybodys.button("Pause North").click(as_=viewer, confirm=True)
    await viewer.sees("pause is limited to operators")
    assert len(home.running_copies("North")) == 1
    (row,) = await asked(home, "audit")
    assert (row["action"], row["outcome"], row["actor"][-8:]) == ("REFUSED", "failure", "U0VIEWER")


async def test_a_mention_is_answered_in_its_thread_and_its_mistakes_to_its_author_alone(
    home: Home, slack: Playground
) -> None:
    await started(home, slack)
    operator, viewer = slack.user("operator"), slack.user("viewer")
    answer = await operator.says("@bot status North")
    await answer.shows("North running")
    assert (await answer.message())["thread_ts"] == answer.said
    await operator.says("@bot restrat North")
    await operator.sees("Did you mean /supervisor restart North")
    await viewer.does_not_see("Did you mean")
    await operator.says("@bot pause North hotfix", thread=answer)
    card = await slack.channel("ops").shows("North paused")
    assert (await card.message())["thread_ts"] == answer.said
    (row,) = await asked(home, "audit")
    assert row["label"].endswith(" - hotfix")


async def test_what_was_asked_for_in_the_shell_or_by_a_flag_is_announced(home: Home, slack: Playground) -> None:
    await started(home, slack)
    await asyncio.to_thread(home.supervisor, "send", "pause North by the shell", "--wait")
    card = await slack.channel("ops").shows("North paused")
    await card.shows("(cli)")
    await card.shows("North paused: by the shell")
    home.drop_flag("supervisor_pause_South.flag", {"label": "by a flag"})
    card = await slack.channel("ops").shows("South paused")
    await card.shows("(file)")
    await slack.channel("ops").shows(2, "messages")


async def test_what_the_shell_did_while_no_daemon_ran_is_announced_by_the_next(home: Home, slack: Playground) -> None:
    await asyncio.to_thread(home.supervisor, "send", "pause North while you slept")
    await started(home, slack)
    await slack.channel("ops").shows("North paused")


async def test_after_a_time_without_a_bot_the_channel_hears_from_when_to_when(home: Home, slack: Playground) -> None:
    await started(home, slack)
    await asyncio.to_thread(home.supervisor, "stop")
    await slack.connected(0)
    heard = home.state_dir / "slack_heard.json"
    heard.write_text('{"heard_at": "2026-02-05T14:30:00.000000Z"}')
    await started(home, slack)
    notice = await slack.channel("ops").shows(1, "The supervisor on TestHost was not running")
    await notice.shows("check the channel before you repeat it")


async def test_the_message_of_a_pause_loses_its_button_when_somebody_resumes_the_worker_from_the_shell(
    home: Home, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    card = await operator.slash("/supervisor pause North")
    await card.becomes("North paused")
    await card.button("Resume").click(confirm=False)
    assert isinstance(home, SlackHome)
    await sent_by_shell(home, "resume North")
    await card.button("Resume").is_gone()
    await card.shows("North was paused;")
    again = await operator.slash("/supervisor pause North")
    await again.button("Resume").click(confirm=False)
    await card.shows("North was paused;")
