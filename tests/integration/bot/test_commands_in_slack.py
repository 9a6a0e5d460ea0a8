"""What is said to whoever gave a command in Slack that can't be carried out, or not yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bot.views.blocks import blocks_of
from slack_playground import Playground
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import TemporaryError
from supervisor_core.intake.approvals.observed_state import Previews
from supervisor_core.intake.approvals.service import Approvals
from tests.support.intake.approvals import Desk, a_desk
from tests.support.slack.slack_host import SlackRoom, texts


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path, required_for=["restart"]) as made:
        made.document["slack"]["access"] = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER"], "viewers": ["*"]}
        made.configure()
        yield made


def drive_is_away(_command: Command) -> Previews:
    raise TemporaryError("The drive does not answer.")


async def test_what_this_host_can_not_do_now_is_refused_with_a_button(desk: Desk, slack: Playground) -> None:
    desk.approvals = Approvals(desk.ledger, lambda: desk.config, drive_is_away, desk.rights)
    (told,) = (await SlackRoom(desk, slack).slash("operator", "restart North hotfix")).messages
    content: dict[str, Any] = (told.payload or {})["content"]
    assert content["text"] == ":warning: The drive does not answer."
    (button,) = blocks_of(content)[-1]["elements"]
    assert button["text"]["text"] == "Try again"
    assert button["value"].endswith(" North hotfix")
    assert check_message(content) == []


@pytest.mark.parametrize(
    ("name", "typed", "button"),
    [
        ("operator", "yes", "help"),
        ("operator", "pause team:nobody", "help pause"),
        ("viewer", "restrt North", "help"),
        ("operator", "restrt North", "restart North"),
    ],
)
async def test_a_mistake_of_which_nothing_can_be_offered_offers_help(
    desk: Desk, slack: Playground, name: str, typed: str, button: str
) -> None:
    (told,) = (await SlackRoom(desk, slack).slash(name, typed)).messages
    content: dict[str, Any] = (told.payload or {})["content"]
    assert check_message(content) == []
    (shown,) = blocks_of(content)[-1]["elements"]
    assert shown["text"]["text"] == button
    assert texts(await SlackRoom(desk, slack).slash(name, typed)) == [content["text"]]


def so_already(command: Command) -> Previews:
    return ({"command": command.name, "checkout": "/srv/x", "ok": True, "workers": [{"id": "North", "paused": False}]},)


async def test_where_it_is_so_already_the_asker_hears_that_and_nobody_is_asked(desk: Desk, slack: Playground) -> None:
    desk.approvals = Approvals(desk.ledger, lambda: desk.config, so_already, desk.rights)
    dealt = await SlackRoom(desk, slack).slash("operator", "restart North")
    assert texts(dealt) == [":ballot_box_with_check: Nothing to do for North: it is so already. Nobody is stopped."]
    assert (desk.approvals.waiting(), desk.trail()) == ([], [])


async def test_whoever_may_it_for_no_worker_is_not_asked_for_which(desk: Desk, slack: Playground) -> None:
    dealt = await SlackRoom(desk, slack).slash("viewer", "pause")
    assert "`pause` is for operators" in texts(dealt)[0]
    assert dealt.audit is not None
    assert dealt.audit.action == "REFUSED"
    (told,) = texts(await SlackRoom(desk, slack).slash("operator", "pause"))
    assert "Which worker shall pause be for?" in told
