"""The thread of a card: what the card has no room for, files, and one word to each who is concerned."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from slack_playground import Playground
from slack_playground.testing.cards import Card
from slack_playground.testing.people import ChannelView
from tests.support.code.checkout_homes import watcher
from tests.support.code.commits import straight
from tests.support.slack.code_homes import a_code_home_in_slack
from tests.support.slack.slack_home import a_slack_home, asked, settled, started

LONG_HISTORY = straight({"watcher.py": watcher(0)}, *({f"data/{n}.txt": f"{n}\n"} for n in range(1, 9)))
"""Eight commits that a rollback can take back without touching the program."""


async def replies(place: ChannelView, card: Card) -> list[dict[str, Any]]:
    """What stands below a card, oldest first."""
    parent = (await card.message())["ts"]
    return [each for each in place.messages() if each.get("thread_ts") == parent and each["ts"] != parent]


def told(message: dict[str, Any]) -> list[str]:
    """Who is mentioned by a message, once for each time."""
    return re.findall(r"<@(\w+)>", message["text"])


@pytest.mark.playground(patience=20)
async def test_all_of_a_long_rollback_is_in_the_thread_and_who_had_a_part_in_it_is_told_once(
    tmp_path: Path, slack: Playground
) -> None:
    with a_code_home_in_slack(tmp_path, history=LONG_HISTORY) as home:
        await started(home, slack)
        operator, approver, ops = slack.user("operator"), slack.user("approver"), slack.channel("ops")
        card = await operator.slash("/supervisor rollback 8 hotfix")
        await card.shows("full preview in the thread")
        await card.thread_shows("Full preview")
        await card.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("OrionMX rolled back")
        await card.shows("… and 3 more, in the thread")
        await settled(home)
        preview, outcome = await replies(ops, card)
        assert told(preview) == []
        assert "data/8.txt" in preview["text"]
        assert told(outcome) == ["U0OPERATOR", "U0APPROVER"]
        assert [f"Change {n}" in outcome["text"] for n in range(1, 11)] == [False, *[True] * 8, False]
        assert "data/1.txt" in outcome["text"]

        denied = await operator.slash("/supervisor rollback 1")
        await denied.button("Deny").click(as_=approver)
        await (await approver.modal()).submit()
        await denied.thread_shows("denied by Approver")
        dropped = await operator.slash("/supervisor rollback 1")
        await dropped.button("Cancel").click(as_=operator, confirm=True)
        await dropped.becomes("cancelled")
        await settled(home)
        *previews, word = await replies(ops, denied)  # a preview is posted where the decision doesn't come first
        assert told(word) == ["U0OPERATOR"], "who pressed Deny knows it"
        assert [told(each) for each in previews] in ([], [[]])
        assert all(told(each) == [] for each in await replies(ops, dropped)), "nobody else had a part in it"


@pytest.mark.playground(patience=20)
async def test_who_is_asked_in_another_channel_is_told_there(tmp_path: Path, slack: Playground) -> None:
    boss = slack.channel("boss")
    with a_slack_home(tmp_path, approvals={"required_for": ["restart"]}, approval_channel=boss.id) as home:
        await started(home, slack)
        operator, approver, ops = slack.user("operator"), slack.user("approver"), slack.channel("ops")
        boss.invite(approver)
        card = await operator.slash("/supervisor restart")
        question = await boss.shows("Approval needed")
        await question.button("Approve").click(as_=approver, confirm=True)
        await card.becomes("OrionMX restarted")
        await settled(home)
        (below_the_card,), (below_the_question,) = await replies(ops, card), await replies(boss, question)
        assert told(below_the_card) == ["U0OPERATOR"]
        assert told(below_the_question) == ["U0APPROVER"]


@pytest.mark.playground(patience=20)
async def test_reports_come_as_files_or_as_text_and_a_plain_command_has_no_thread(
    tmp_path: Path, slack: Playground
) -> None:
    with a_slack_home(tmp_path) as home:
        await started(home, slack)
        operator, ops = slack.user("operator"), slack.channel("ops")
        paused = await operator.slash("/supervisor pause")
        await paused.becomes("OrionMX paused")
        diagnosed = await operator.slash("/supervisor diagnostics")
        await diagnosed.becomes("Report on OrionMX written")
        await settled(home)
        assert await replies(ops, paused) == []
        (report,) = await replies(ops, diagnosed)
        (file,) = report["files"]
        (path,) = (home.nas / "05_LOGS" / "diagnostics").glob("diagnostics_OrionMX_*.json")
        assert slack.server.world.workspace.files[file["id"]].content == path.read_bytes()
        assert file["name"] == path.name
        assert "isn't running" in report["text"]
        assert told(report) == []

        slack.fault("error", "files.getUploadURLExternal", error="file_uploads_disabled")
        verified = await operator.slash("/supervisor verify-db")
        await verified.becomes("Database of TestHost verified")
        await settled(home)
        (words,) = await replies(ops, verified)
        (path,) = (home.nas / "05_LOGS" / "diagnostics").glob("db_verification_OrionMX_*.json")
        assert "table jobs_t" in words["text"]
        assert "this workspace doesn't accept files from apps" in words["text"]
        assert "files" not in words
        assert json.loads(path.read_text())["task_id"] in str(ops.messages())

        await asked(home, "send", "diagnostics", "--wait")
        assert ops.messages()[-1]["ts"] == words["ts"], "what is announced nowhere has no thread"
