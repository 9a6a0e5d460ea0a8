"""A day of alerts on one fake clock: the real desk, ledger, delivery and SDK, and a local Slack that is written down.

`Day` is an `AlertDesk` whose messages go the whole way. A restart of the bot is what it is for the ledger: everything
else is new. What people saw is a text: when, where, by which kind of call, and all that it said.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.content import MessageComposer
from bot.outbound.delivery import Delivery
from bot.outbound.messages import KINDS
from bot.outbound.rate_limits import Pace
from bot.outbound.sender import MessageSender
from bot.outbound.slack_api import SlackApi
from bot.views.blocks import blocks_of
from slack_playground import Playground
from supervisor_core.alerts.actions import AlertService
from supervisor_core.alerts.monitor import AlertMonitor
from supervisor_core.storage import outbox
from supervisor_core.storage.audit.chain import HeadFile
from supervisor_core.storage.ledger_file import LEDGER_FILE
from supervisor_core.storage.store import Ledger
from tests.support.alerts.alert_service import BEGINNING, AlertDesk
from tests.support.alerts.delivery import whole_round

SAID = ("chat.postMessage", "chat.update")
_DATE = re.compile(r"<!date\^\d+\^[^|]*\|(?:\d{4}-\d\d-\d\d )([0-9:]+) UTC>")
_LINK = re.compile(r"/p\d{10,}")


AWAY_SECONDS = 60.0


class Day(AlertDesk):
    """One host, from the morning on."""

    def __init__(self, folder: Path, playground: Playground, *workers: str, **settings: Any) -> None:
        self._playground = playground
        self._runner = asyncio.Runner()
        self._heard = 0
        self._fault: Any = None
        self._is_away = False
        self._delivery_due: datetime | None = None
        self._delivery: Delivery | None = None
        self.lines: list[str] = []
        super().__init__(folder, *workers, **settings)

    def close(self) -> None:
        """What was opened for it is closed."""
        self._runner.close()
        self.ledger.close()

    def restart(self) -> AlertMonitor:
        """The bot ends and another begins: what is not in the ledger is forgotten."""
        if self._delivery is not None:
            self.ledger.close()
            self.ledger = Ledger(self.folder / "var" / LEDGER_FILE, "TestHost", HeadFile(self.folder / "var"))
            self.alerts = AlertService(self.ledger)
        alerting = super().restart()
        client = AsyncWebClient(token=self._playground.bot_token, base_url=self._playground.api_url, retry_handlers=[])
        pace = Pace(self._monotonic)
        sender = MessageSender(
            self.ledger,
            SlackApi(client),
            "supervisor",
            composer=MessageComposer(address="https://team.example"),
            pace=pace,
            now=lambda: self.now,
        )
        self._delivery = Delivery(sender, clock=self._monotonic)
        self._delivery_due = self.now
        return alerting

    def restart_and_go_on(self) -> None:
        """The same, and it looks at everything as a daemon does that comes up."""
        self.note("(the bot is restarted)")
        self.restart()
        self.work()

    def _monotonic(self) -> float:
        return (self.now - BEGINNING).total_seconds()

    # --- the story

    def at(self, text: str, days: int = 0) -> None:
        """It goes on to this time of day; `days`: so many midnights later at the least."""
        hour, minute = map(int, text.split(":"))
        then = self.now.replace(hour=hour, minute=minute, second=0, microsecond=0) + timedelta(days=days)
        self.wait((then - self.now).total_seconds())

    def note(self, text: str) -> None:
        """Something that people did not see."""
        self.lines.append(f"{self.now:%a %H:%M:%S}  {text}")

    def slack_goes(self) -> None:
        """Slack answers nothing but errors."""
        self.note("(Slack is away)")
        self._fault = self._playground.fault("status", times=0, status=503)
        self._is_away = True

    def slack_comes_back(self) -> None:
        """It answers again."""
        self.note("(Slack is back)")
        self._playground.server.world.faults.clear(self._fault.id)
        self._is_away, self._delivery_due = False, self.now

    # --- what people see

    def due_at(self) -> datetime | None:
        """The same, or when something may be told."""
        return min((each for each in (super().due_at(), self._delivery_due) if each is not None), default=None)

    def tell(self) -> None:
        """A round of the delivery; another as soon as it wants one, while anything waits.

        It looks every two seconds whether it may send. While Slack is away, each minute is enough here.
        """
        assert self._delivery is not None
        seconds = self._runner.run(whole_round(self._delivery))
        self._write_down()
        waits = self.ledger.read(lambda connection: bool(outbox.pending_messages(connection, KINDS, self.now)))
        until_next = max(seconds, AWAY_SECONDS) if self._is_away else seconds
        self._delivery_due = self.now + timedelta(seconds=until_next) if waits else None

    def _write_down(self) -> None:
        entries = [entry for entry in self._playground.journal("api") if entry["method"] in SAID]
        for entry in entries[self._heard :]:
            if entry["status"] == 200 and entry["answer"].get("ok"):
                self.lines += self._in_words(entry["method"], entry["arguments"])
        self._heard = len(entries)

    def _in_words(self, method: str, said: dict[str, Any]) -> list[str]:
        kind = "edit" if method == "chat.update" else "reply" if said.get("thread_ts") else "post"
        if said.get("reply_broadcast") and kind == "reply":
            kind = "reply, broadcast"
        first, *others = self._plain("\n".join(_lines(said))).split("\n")
        names = {channel.id: channel.name for channel in self._playground.server.world.workspace.channels.values()}
        where = f"#{names[said['channel']]}"
        return [f"{self.now:%a %H:%M:%S}  {where:6} {kind:6} {first}", *(f"{'':29}{other}" for other in others)]

    def _plain(self, text: str) -> str:
        """With times of day, and names in the place of ids, which are others each time."""
        text = _LINK.sub("/p…", _DATE.sub(r"\1", text))
        world = self._playground.server.world.workspace
        for user in world.users.values():
            text = text.replace(f"<@{user.id}>", f"@{user.name}")
        for channel in world.channels.values():
            text = text.replace(channel.id, channel.name)
        return text


def _lines(said: dict[str, Any]) -> Iterator[str]:
    """A message as lines: its text, and the facts and texts in its attachment."""
    yield str(said["text"])
    attachments = said.get("attachments") or "[]"
    for block in blocks_of({"attachments": json.loads(attachments) if isinstance(attachments, str) else attachments}):
        if "fields" in block:
            yield " | ".join(field["text"].replace("\n", " ") for field in block["fields"])
        elif block["type"] == "section":
            yield block["text"]["text"]
