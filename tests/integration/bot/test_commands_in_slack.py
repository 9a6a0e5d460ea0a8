"""What is said to whoever gave a command in Slack that can't be carried out, or not yet."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from bot.inbound.dispatcher import Response
from bot.views.blocks import blocks_of
from bot.views.cards.approval import ApprovalDetails, approval_card
from slack_playground import Playground
from slack_playground.blockkit.messages import check_message
from supervisor_core.commands.command import Command
from supervisor_core.common.errors import TemporaryError
from supervisor_core.intake.approvals.observed_state import Previews, fingerprint
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, JobState
from tests.support.intake.approvals import Desk, a_desk
from tests.support.slack.slack_host import SlackRoom, texts


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with a_desk(tmp_path, required_for=["restart"]) as made:
        made.document["slack"]["access"] = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER"], "viewers": ["*"]}
        made.configure()
        yield made


def content_of(response: Response) -> dict[str, Any]:
    """The content of the only message."""
    (told,) = response.messages
    content: dict[str, Any] = (told.payload or {})["content"]
    assert check_message(content) == []
    return content


def buttons_of(response: Response) -> tuple[str, ...]:
    """The texts of its last row of buttons."""
    return tuple(each["text"]["text"] for each in blocks_of(content_of(response))[-1]["elements"])


def filed(desk: Desk) -> list[Job]:
    """All jobs."""
    return desk.ledger.read(lambda connection: jobs.waiting(connection, ("North",), (JobState.QUEUED,)))


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


def so_already(command: Command) -> Previews:
    return ({"command": command.name, "checkout": "/srv/x", "ok": True, "workers": [{"id": "North", "paused": False}]},)


async def test_where_it_is_so_already_the_asker_hears_that_and_nobody_is_asked(desk: Desk, slack: Playground) -> None:
    desk.approvals = Approvals(desk.ledger, lambda: desk.config, so_already, desk.rights)
    dealt = await SlackRoom(desk, slack).slash("operator", "restart North")
    assert texts(dealt) == [
        ":ballot_box_with_check: Nothing to do for North: already up to date. No worker was stopped."
    ]
    assert (desk.approvals.waiting(), desk.trail()) == ([], [])


async def test_whoever_may_it_for_no_worker_is_not_asked_for_which(desk: Desk, slack: Playground) -> None:
    dealt = await SlackRoom(desk, slack).slash("viewer", "pause")
    assert "`pause` is limited to operators" in texts(dealt)[0]
    assert dealt.audit is not None
    assert dealt.audit.action == "REFUSED"
    (told,) = texts(await SlackRoom(desk, slack).slash("operator", "pause"))
    assert "Pause which worker?" in told


async def test_a_requester_lists_and_cancels_their_own_requests_without_being_an_approver(
    desk: Desk, slack: Playground
) -> None:
    room = SlackRoom(desk, slack)
    await room.slash("operator", "restart North hotfix")
    (asked,) = desk.approvals.waiting()
    listed = [(name, word) for name in ("operator", "approver", "viewer") for word in ("approvals", "approve", "deny")]
    found = {each: await room.slash(*each) for each in listed}
    assert {buttons_of(response) for (name, _), response in found.items() if name == "operator"} == {("Cancel",)}
    assert {buttons_of(response) for (name, _), response in found.items() if name == "approver"} == {
        ("Approve", "Deny", "Cancel")
    }
    assert {texts(response)[0] for (name, _), response in found.items() if name == "viewer"} == {
        ":white_check_mark: You have no pending requests."
    }
    one = await room.slash("operator", f"approve {asked[0].approval_id}")
    assert buttons_of(one) == ("Cancel",)
    other = await room.slash("operator", "approve nothing")
    assert texts(other) == [":white_check_mark: No pending approval nothing."]
    (cancel,) = blocks_of(content_of(one))[-1]["elements"]
    room.alone = True
    after = await room.press("operator", cancel)
    assert texts(after) == [":white_check_mark: You have no pending requests."]
    assert desk.approvals.waiting() == []


async def test_the_note_is_stored_in_full_and_bound_to_the_approval(desk: Desk, slack: Playground) -> None:
    room, note = SlackRoom(desk, slack), "it's <broken> & late, see #4711"
    await room.slash("operator", f"restart North hotfix -- {note}")
    ((approval, _),) = desk.approvals.waiting()
    assert (approval.command.label, approval.command.note) == ("hotfix", note)
    assert json.loads(desk.trail()[0]["details_json"])["params"]["note"] == note
    other = approval.command.without_words()
    assert fingerprint(approval.command, approval.previews) != fingerprint(other, approval.previews)
    shown = approval_card(ApprovalDetails(approval))
    assert "*Note*\\nit's &lt;broken&gt; &amp; late, see #4711" in str(blocks_of(shown)[0])
    assert check_message(shown) == []


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("<@U0BOT>: pause North", 1),
        ("<@U0BOT>, pause North", 1),
        ("<@U0BOT|supervisor> : pause North", 1),
        ("hey <@U0BOT> pause North", 0),
        ("pause North", 0),
        ("<@U0ANN> pause North", 0),
        ("<@U0ANN> mute North 1h <@U0BOT>", 0),
    ],
)
async def test_a_mention_is_a_command_only_if_it_addresses_the_bot(
    desk: Desk, slack: Playground, text: str, number: int
) -> None:
    room = SlackRoom(desk, slack)
    event = {
        "type": "app_mention",
        "user": slack.user("operator").id,
        "text": text,
        "channel": slack.channel("ops").id,
        "ts": f"{datetime.now(UTC).timestamp():.6f}",
    }
    response = await room.deal("events_api", {"type": "event_callback", "event_id": "E1", "event": event})
    assert len(filed(desk)) == number
    assert bool(response.messages) is text.startswith("hey")
