"""Files on their way to a local Slack: to one person, below a card, and as text where Slack takes none."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.delivery import Delivery
from bot.outbound.messages import file_to_person
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.requests.request import Request
from bot.views.blocks import blocks_of
from bot.views.files import Attachment
from slack_playground import Playground
from slack_playground.values import Json
from supervisor_core.common import crashpoints
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.outbox import FILE, reply_place
from supervisor_core.storage.steps import Message
from supervisor_core.storage.store import Ledger
from tests.integration.bot.test_delivery import order
from tests.support.alerts.delivery import whole_round

CSV = Attachment("audit.csv", "who,what\nanna,pause\n", rest="`supervisor audit --csv` on Host", comment="*Two rows*")
LONG = replace(CSV, content="anna,pause\n" * 3000)
OTHER = replace(CSV, name="log.txt", content="reading")


class Killed(BaseException):
    """Nothing after it runs, as after a `kill -9`."""


class Outbox:
    """A ledger whose messages go to a local Slack, round by round, on a clock of its own."""

    def __init__(self, slack: Playground, folder: Path) -> None:
        self.slack = slack
        self.folder = folder
        self.now = 1000.0
        self.ledger = Ledger(folder / "ledger.db", "Host")
        self.delivery: Delivery | None = None
        """None: another one begins, as after a crash, and knows nothing but the rows."""
        self.read_report: Callable[[str, str], str] = lambda *_: ""

    def begun(self) -> Delivery:
        client = AsyncWebClient(token=self.slack.bot_token, base_url=self.slack.api_url, retry_handlers=[])
        speaker, pace = SlackApi(client), Pace(lambda: self.now)
        sender = MessageSender(self.ledger, speaker, "supervisor", pace=pace, read_report=self.read_report)
        return Delivery(sender, clock=lambda: self.now)

    async def goes(self, *messages: Message, rounds: int = 3) -> None:
        """Order these, and let it all out."""
        self.ledger.order(messages)
        self.delivery = self.delivery or self.begun()
        for _ in range(rounds):
            await whole_round(self.delivery)
            self.now += 40

    def has_card(self, task_id: str, **place: Any) -> None:
        self.ledger.write(lambda connection: order(connection, task_id, {"user": "U0OPERATOR", **place}))

    def rows(self, kind: str = "file") -> Sequence[tuple[str, str]]:
        """The state of each row of this kind, and its reason."""
        query = f"SELECT state, last_error FROM outbox_t WHERE kind = '{kind}' ORDER BY outbox_id"
        return [(row.state, row.last_error or "") for row in self.ledger.read(lambda c: c.exec_driver_sql(query).all())]


def file_below(task_id: str, file: Attachment) -> Message:
    """A file in the thread of a command's card, wherever that stands."""
    return Message(FILE, f"{task_id}/file", {**reply_place(jobs.CARD, task_id), **file.as_payload()})


@pytest.fixture
def outbox(slack: Playground, tmp_path: Path) -> Any:
    slack.user("operator")
    made = Outbox(slack, tmp_path)
    yield made
    made.ledger.close()


def asked_in(channel: str, **about: Any) -> Request:
    return Request("audit", "U0OPERATOR", "T0", channel, datetime.now(UTC), "key", **about)


def said_in(slack: Playground, channel: str) -> list[Json]:
    found = slack.server.world.workspace.channels[channel]
    return list(found.messages.values())


def direct(slack: Playground) -> list[Json]:
    """What the bot said to the operator alone."""
    world = slack.server.world
    return list(world.direct([world.bot.id, "U0OPERATOR"]).messages.values())


def content_of(slack: Playground, message: Json) -> bytes:
    (file,) = message["files"]
    return bytes(slack.server.world.workspace.files[file["id"]].content)


async def test_a_file_goes_to_whoever_asked_and_to_nobody_else(slack: Playground, outbox: Outbox) -> None:
    ops = slack.channel("ops").id
    await outbox.goes(file_to_person(asked_in(ops), CSV), file_to_person(asked_in(ops), OTHER, "/other"))
    first, second = direct(slack)
    assert (first["text"], first["files"][0]["title"], content_of(slack, first)) == (
        "*Two rows*",
        "audit.csv",
        CSV.data,
    )
    assert content_of(slack, second) == OTHER.data
    assert said_in(slack, ops) == []
    assert outbox.rows() == [("sent", ""), ("sent", "")]


async def test_a_file_stands_below_its_card_and_never_before_it(slack: Playground, outbox: Outbox) -> None:
    ops = slack.channel("ops").id
    slack.fault("error", "chat.postMessage", error="internal_error")
    outbox.has_card("t1", channel=ops)
    await outbox.goes(file_below("t1", CSV), rounds=1)
    assert said_in(slack, ops) == []
    await outbox.goes()
    card, file = said_in(slack, ops)
    assert file["thread_ts"] == card["ts"]
    assert content_of(slack, file) == CSV.data


async def test_in_a_channel_that_was_archived_meanwhile_whoever_asked_gets_it(
    slack: Playground, outbox: Outbox
) -> None:
    ops = slack.channel("ops")
    outbox.has_card("t1", channel=ops.id)
    await outbox.goes()
    ops.archive()
    await outbox.goes(file_below("t1", CSV))
    (told,) = direct(slack)
    assert content_of(slack, told) == CSV.data


async def test_where_nobody_can_be_told_for_a_day_it_is_dropped_with_the_reason(
    slack: Playground, outbox: Outbox
) -> None:
    ops = slack.channel("ops")
    outbox.has_card("t1", channel=ops.id, user="")
    await outbox.goes()
    ops.archive()
    await outbox.goes(file_below("t1", CSV))
    assert outbox.rows()[0][0] == "pending"
    long_ago = "UPDATE outbox_t SET created_at = '2026-02-05T14:30:00+00:00', due_at = '2026-02-05T14:30:00+00:00'"
    outbox.ledger.write(lambda connection: connection.exec_driver_sql(long_ago))
    outbox.now += 1000
    await outbox.goes()
    ((state, why),) = outbox.rows()
    assert state == "dropped"
    assert "is_archived" in why


async def test_below_no_card_it_is_dropped_and_says_why(slack: Playground, outbox: Outbox) -> None:
    await outbox.goes(file_below("t1", CSV))
    assert outbox.rows() == [("dropped", "its parent message was never posted")]
    assert slack.calls("files.getUploadURLExternal") == []


@pytest.mark.parametrize("word", ["file_uploads_disabled", "missing_scope"])
@pytest.mark.parametrize("method", ["files.getUploadURLExternal", "files.completeUploadExternal"])
async def test_where_slack_takes_no_file_it_is_told_as_text(
    slack: Playground, outbox: Outbox, word: str, method: str
) -> None:
    ops = slack.channel("ops").id
    slack.fault("error", method, error=word)
    outbox.has_card("t1", channel=ops)
    await outbox.goes(file_below("t1", LONG))
    card, told = said_in(slack, ops)
    assert told["thread_ts"] == card["ts"]
    said = str(blocks_of(told))
    assert "anna,pause" in said
    assert "It was cut" in said
    assert "In full: `supervisor audit --csv` on Host" in said
    assert "In full: `supervisor audit --csv` on Host" in told["text"]
    assert outbox.rows() == [("sent", "")]


async def test_while_slack_asks_us_to_wait_files_wait_and_nothing_else(slack: Playground, outbox: Outbox) -> None:
    ops = slack.channel("ops").id
    slack.fault("ratelimited", "files.getUploadURLExternal", retry_after=60)
    await outbox.goes(file_to_person(asked_in(ops), CSV), rounds=1)
    outbox.has_card("t1", channel=ops)
    await outbox.goes(rounds=1)
    assert len(said_in(slack, ops)) == 1
    assert direct(slack) == []
    await outbox.goes()
    assert len(direct(slack)) == 1


async def test_a_server_that_does_not_take_the_bytes_is_asked_some_times_and_then_it_is_told_as_text(
    slack: Playground, outbox: Outbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bot.outbound import sender as telling

    monkeypatch.setattr(telling, "UPLOAD_TRIES", 1)
    monkeypatch.setattr("supervisor_core.storage.outbox.FIRST_RETRY_SECONDS", 0.0)
    slack.fault("status", "upload", status=500, times=9)
    await outbox.goes(file_to_person(asked_in("C0"), CSV), rounds=4)
    (told,) = direct(slack)
    assert "anna,pause" in told["text"]


async def test_killed_where_nobody_may_look_it_is_there_twice_at_most_and_the_log_says_so(
    slack: Playground, outbox: Outbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def goes_out(name: str) -> None:
        if name == "message.upload:after":
            raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(crashpoints, "reach", goes_out)
        with pytest.raises(Killed):
            await outbox.goes(file_to_person(asked_in("C0"), CSV))
    slack.fault("error", "conversations.history", error="missing_scope")
    outbox.delivery = None
    await outbox.goes()
    assert len(direct(slack)) == 2
    assert "may be posted twice" in caplog.text
