"""Buttons and menus that are pressed late: the world has moved on since they were drawn."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select

from bot.views.blocks import blocks_of
from bot.views.buttons import DO, command_button, page_button
from slack_playground import Playground
from slack_playground.blockkit.messages import check_message
from supervisor_core.storage.tables import approvals, jobs
from tests.support.intake.approvals import Desk, a_desk
from tests.support.slack.slack_host import SlackRoom, texts

PRESSED = ("restart North", "resume North a hotfix", "status North", "rollback North 3 a hotfix", "undo North task_1")


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path, required_for=["rollback"]) as made:
        made.document["slack"]["access"] = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER"]}
        made.configure()
        yield made


def asked_for(desk: Desk) -> list[Any]:
    """How many jobs and approvals there are."""
    counts = [select(func.count()).select_from(table) for table in (jobs, approvals)]
    return desk.ledger.read(lambda connection: [connection.execute(each).scalar() for each in counts])


@pytest.mark.parametrize("words", PRESSED)
async def test_a_button_of_a_worker_that_was_removed_is_never_for_the_one_that_is_left(
    desk: Desk, slack: Playground, words: str
) -> None:
    room, button = SlackRoom(desk, slack), command_button(desk.gateway.parse(words), "n1")
    desk.document["workers"] = {"Kafka": desk.document["workers"]["North"]}
    desk.configure()
    (told,) = texts(await room.press("operator", button))
    assert told == ":warning: “North” is no longer a worker on this host. Nothing was done."
    assert asked_for(desk) == [0, 0]


async def test_the_next_page_is_of_the_same_worker_or_of_none(desk: Desk, slack: Playground) -> None:
    room, button = SlackRoom(desk, slack), page_button(desk.gateway.parse("status North"), "n1", "next:1", "Next page")
    (told,) = texts(await room.press("operator", button))
    assert "North" not in told
    assert "next:1" not in told
    desk.document["workers"] = {"Kafka": desk.document["workers"]["North"]}
    desk.configure()
    (told,) = texts(await room.press("operator", button))
    assert told == ":warning: “North” is no longer a worker on this host. Nothing was done."


async def test_a_page_of_somebody_opens_no_form_for_another_worker_than_its_button_names(
    desk: Desk, slack: Playground
) -> None:
    desk.document["workers"] = {"Kafka": desk.document["workers"]["North"]}
    desk.configure()
    button = {"action_id": f"{DO}:restart", "value": "restart:North"}
    (told,) = texts(await SlackRoom(desk, slack).press("operator", button))
    assert told == ":warning: “North” is no longer a worker on this host."
    assert not slack.calls("views.open")


async def test_a_choice_of_a_worker_that_was_removed_is_never_for_the_one_that_is_left(
    desk: Desk, slack: Playground
) -> None:
    room = SlackRoom(desk, slack)
    (asked,) = (await room.slash("operator", "restart")).messages
    block = blocks_of((asked.payload or {})["content"])[-1]
    desk.document["workers"] = {"Kafka": desk.document["workers"]["North"]}
    desk.configure()
    (told,) = texts(await room.choose("operator", block["elements"][0], block["block_id"], "North"))
    assert told == ":warning: “North” is no longer a worker on this host. Nothing was done."
    assert asked_for(desk) == [0, 0]


async def test_a_button_of_a_worker_that_is_there_does_what_it_says(desk: Desk, slack: Playground) -> None:
    await SlackRoom(desk, slack).press("operator", command_button(desk.gateway.parse("restart North"), "n1"))
    assert asked_for(desk) == [1, 0]


async def test_a_menu_of_too_many_workers_begins_with_teams_and_says_that_some_are_missing(
    desk: Desk, slack: Playground
) -> None:
    worker = desk.document["workers"]["North"]
    desk.document["teams"] = {"archive": {"objective": "keep it"}}
    desk.document["workers"] = {f"W{number:03}": {**worker, "team": "archive"} for number in range(150)}
    desk.configure()
    (asked,) = (await SlackRoom(desk, slack).slash("operator", "restart hotfix")).messages
    content = (asked.payload or {})["content"]
    assert check_message(content) == []
    (menu,) = blocks_of(content)[-1]["elements"]
    options = [option["value"] for option in menu["options"]]
    assert (options[:3], len(options)) == (["team:archive", "all", "W000"], 100)
    assert "The menu hasn't room for all: type `/supervisor restart WORKER`." in content["text"]
