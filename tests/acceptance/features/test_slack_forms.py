"""Direct messages, shortcuts and forms: more ways to ask, and all of them end in the same command."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.views.forms import SHORTCUT, SHORTCUT_ON_MESSAGE
from slack_playground import Playground
from slack_playground.testing.cards import Modal
from slack_playground.testing.people import Person
from tests.support.homes import ROOT, demo_command
from tests.support.slack.slack_home import SlackHome, a_slack_home, asked, settled, started

pytestmark = pytest.mark.playground(manifest=ROOT / "manifest.yml", patience=15)

WORKER = {"command": demo_command(), "start_grace_seconds": 0.2, "stop_timeout_seconds": 10}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[SlackHome]:
    with a_slack_home(tmp_path / "home", {"North": WORKER, "South": WORKER}) as made:
        yield made


async def trail(home: SlackHome) -> list[tuple[str, str, str]]:
    rows = await asked(home, "audit")
    return [(row["action"], row["target_id"], row["outcome"]) for row in reversed(rows)]


async def form(person: Person, name: str, begins: str, **where: Any) -> Modal:
    """The form of a command, opened by the shortcut."""
    await person.shortcut(SHORTCUT, **where)
    modal: Modal = await person.modal("Choose a command")
    await modal.menu("Choose a command").choose(name)
    await modal.becomes(begins)
    return modal


async def test_a_form_gives_its_command_and_what_is_wrong_stands_at_its_field(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    modal = await form(operator, "Add schedule", "Run a command on a schedule", in_="ops")
    await modal.fill("Name", "nightly")
    await modal.fill("Cron", "99 3 * * *")
    await modal.fill("Command", "pause South")
    answer = await modal.submit()
    assert list(answer["errors"]) == ["param:cron"]
    await modal.shows("The minute of '99 3 * * *' isn't valid.")
    assert await trail(home) == []
    assert home.rows("select * from envelopes_t where payload_json like '%view_submission%'") == []
    await modal.fill("Cron", "0 3 * * *")
    await modal.submit()
    await operator.sees("nightly")

    modal = await form(operator, "Pause", "Stop a worker and keep it stopped", in_="ops")
    await modal.shows("Post in: [#ops]")
    await modal.menu("Worker").choose("South")
    await modal.fill("Label", "disk swap -- what's <!channel> this?")
    await modal.submit()
    await modal.is_closed()
    card = await slack.channel("ops").shows("South paused")
    await card.shows("disk swap")
    await card.shows("what's <!channel> this?")
    assert home.running_copies("South") == []
    await settled(home)
    assert await trail(home) == [("SCHEDULE_ADDED", "nightly", "success"), ("PAUSE", "South", "success")]


async def test_the_card_of_a_form_is_where_it_was_opened_or_with_its_sender(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    message = await slack.user("viewer").says("North looks odd", in_="ops")
    complaint = await slack.channel("ops").shows("North looks odd")
    await operator.shortcut(SHORTCUT_ON_MESSAGE, on=complaint)
    modal = await operator.modal("The result is posted in #ops, in the thread")
    await modal.menu("Choose a command").choose("Restart")
    await modal.becomes("wait until it's gone")
    await modal.menu("Worker").choose("North")
    await modal.submit()
    card = await slack.channel("ops").shows("North restarted")
    assert (await card.message())["thread_ts"] == message.said
    await operator.says("@bot pause North", in_="ops", thread=message.said)
    card = await slack.channel("ops").shows("North paused")
    assert (await card.message())["thread_ts"] == message.said

    overview = await operator.slash("/supervisor")
    await overview.button("More…").click()
    modal = await operator.modal("The result is posted in #ops")
    await modal.menu("Choose a command").choose("Show status")
    await modal.becomes("Show whether workers are running")
    await modal.menu("Worker").choose("South")
    await modal.submit()
    await operator.sees("South running")
    await slack.user("viewer").does_not_see("South running")

    posted = len(slack.channel("ops").messages())
    modal = await form(operator, "Resume", "Resume a paused worker")
    await modal.menu("Worker").choose("North")
    await modal.submit()
    card = await operator.dm().shows("North resumed")
    assert "invite" not in card.text
    place = slack.channel("private-room", private=True, members=[operator]).without_bot()
    modal = await form(operator, "Pause", "Post in: [#private-room]", in_=place)
    await modal.menu("Worker").choose("South")
    await modal.submit()
    card = await operator.dm().shows("South paused")
    await card.shows("/invite @")
    await settled(home)
    assert len(slack.channel("ops").messages()) == posted


async def test_a_direct_message_is_a_command_and_answered_where_it_was_said(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    answer = await operator.says("status North", in_=operator.dm())
    await answer.shows("North running")
    assert "thread_ts" not in await answer.message()
    await operator.says("puase South", in_=operator.dm())
    mistake = await operator.dm().shows("Did you mean /supervisor pause South")
    assert "ephemeral_for" not in await mistake.message()
    await operator.says("pause South hotfix", in_=operator.dm())
    card = await operator.dm().shows("South paused")
    assert "thread_ts" not in await card.message()
    await operator.says("status South", in_=operator.dm(), thread=card)
    await card.thread_shows("South paused by")
    await settled(home)
    assert await trail(home) == [("PAUSE", "South", "success")]
    assert slack.channel("ops").messages() == []
    assert len(operator.dm().messages()) == 8, "what the bot itself wrote there is no command"


async def test_a_direct_message_that_mentions_the_bot_is_dealt_with_once_and_an_edit_of_it_not_at_all(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    said = await operator.says("@bot pause North", in_=operator.dm())
    await operator.dm().shows("North paused")
    again: dict[str, Any] = {"type": "app_mention", "channel": operator.dm().id, "user": operator.id, "ts": said.said}
    heard = {"subscription": "app_mention", "scopes": ["app_mentions:read"], "channel": operator.dm().channel}
    slack.server.world.send_event({**heard, "event": {**again, "text": f"<@{slack.server.world.bot.id}> pause North"}})
    slack.server.people.edit(operator.user, operator.dm().channel, said.said, "resume North")
    await operator.says("status North", in_=operator.dm())
    await operator.dm().shows("North paused by")
    await settled(home)
    assert await trail(home) == [("PAUSE", "North", "success")]
    assert len(home.rows("select task_id from jobs_t")) == 1


async def test_a_submission_that_comes_twice_is_one_command(home: SlackHome, slack: Playground) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    modal = await form(operator, "Restart", "wait until it's gone", in_="ops")
    await modal.menu("Worker").choose("North")
    slack.fault("lose_ack", "socket")
    await modal.submit(expect="operation_timeout")
    slack.fault("duplicate", "socket")
    await modal.submit()
    await modal.is_closed()
    await slack.channel("ops").shows("North restarted")
    await settled(home)
    assert await trail(home) == [("RESTART_WATCHER", "North", "success")]
    assert len(slack.channel("ops").messages()) == 1


async def test_who_may_only_look_is_offered_that_and_a_right_that_was_lost_meanwhile_is_missing(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    viewer, guest = slack.user("viewer"), slack.user("guest", is_restricted=True)
    await viewer.shortcut(SHORTCUT, in_="ops")
    modal = await viewer.modal()
    offered = [group["label"]["text"] for group in modal._view()["blocks"][0]["accessory"]["option_groups"]]  # noqa: SLF001
    assert offered == ["View"]
    await guest.shortcut(SHORTCUT)
    await guest.modal("You don't have access to any command yet")
    operator = slack.user("operator")
    modal = await form(operator, "Pause", "Stop a worker and keep it stopped", in_="ops")
    await modal.menu("Worker").choose("North")
    slack.user("operator", deleted=True)
    await modal.submit()
    await operator.sees("Only people with an active account")
    await settled(home)
    assert await trail(home) == [("REFUSED", "North", "failure")]
    assert len(home.running_copies("North")) == 1


async def test_a_form_that_slack_opens_no_more_is_told_and_nothing_else_happens(
    home: SlackHome, slack: Playground
) -> None:
    await started(home, slack)
    operator = slack.user("operator")
    slack.fault("error", "views.open", error="expired_trigger_id")
    complaint = await operator.says("North looks odd", in_="ops")
    await operator.shortcut(SHORTCUT_ON_MESSAGE, on=await slack.channel("ops").shows("North looks odd"))
    await operator.sees("The form couldn't be opened")
    slack.fault("status", "views.open", status=503)
    await operator.shortcut(SHORTCUT)
    await operator.dm().shows("The form couldn't be opened")
    await operator.has_no_modal()
    await settled(home)
    assert complaint.said
    assert [row["state"] for row in home.rows("select state from envelopes_t where key like 'trigger:%'")] == [
        "handled",
        "handled",
    ]
    assert "expired_trigger_id" in home.whole_log()


@pytest.fixture
def large(tmp_path: Path) -> Iterator[SlackHome]:
    many = {f"W{number:03}": {**WORKER, "enabled": False} for number in range(120)}
    with a_slack_home(tmp_path / "home", {**many, "North": WORKER}) as made:
        yield made


async def test_with_many_workers_the_menu_finds_them_by_what_is_typed(large: SlackHome, slack: Playground) -> None:
    await started(large, slack)
    operator = slack.user("operator")
    modal = await form(operator, "Pause", "Stop a worker and keep it stopped", in_="ops")
    assert len(await modal.menu("Worker").offers("")) == 100
    assert await modal.menu("Worker").offers("nor") == ["North"]
    assert await modal.menu("Worker").offers("N*") == ["N*", "North"][:1]
    await modal.menu("Worker").choose("North")
    await modal.submit()
    await slack.channel("ops").shows("North paused")
    await asyncio.to_thread(large.settle)
    assert large.rows("select * from envelopes_t where payload_json like '%block_suggestion%'") == []
