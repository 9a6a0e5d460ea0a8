"""A Slack that takes everything on a clock of its own, shows what stands in it, and writes down what the real one would
have refused."""

from __future__ import annotations

from collections import defaultdict

from slack_sdk.web.async_client import AsyncWebClient

from bot.outbound.slack_api import Address, SlackApi
from bot.views.blocks import Content
from slack_playground.values import Clock as PlaygroundClock
from slack_playground.world.faults import Rates

START = 1000.0  # seconds, of a clock that was not made for this
PER_CARD_SECONDS = 2.0  # Slack asks for no more than an edit of a message in so long


class Clock(PlaygroundClock):
    """Goes when it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.at = START

    def now(self) -> float:
        return self.at


class CountingSlack(SlackApi):
    """A Slack that takes everything, and writes down what it would have refused."""

    def __init__(self, clock: Clock) -> None:
        super().__init__(AsyncWebClient(token="xoxb-none"))
        self._clock = clock
        self._rates = Rates(clock, on=True)
        self.refused: list[str] = []
        self.shown: dict[str, Content] = {}
        self.replies: list[Content] = []
        self.edits: dict[str, list[float]] = defaultdict(list)

    async def post(
        self, channel: str, thread_ts: str | None, content: Content, subject: str, *, broadcast: bool = False
    ) -> Address:
        self._count("chat.postMessage", "t4")  # hundreds a minute in all, and of each channel one a second
        if wait := self._rates.post(channel):
            self.refused.append(f"post into {channel} at {self._clock.at}: {wait} s")
        ts = f"{self._clock.at:.6f}{len(self.shown) + len(self.replies)}"
        if thread_ts:
            self.replies.append(content)
        else:
            self.shown[ts] = content
        return {"channel": channel, "ts": ts}

    async def edit(self, address: Address, content: Content) -> None:
        self._count("chat.update", "t3")
        before, ts = self.edits[address["ts"]], address["ts"]
        if before and self._clock.at - before[-1] < PER_CARD_SECONDS:
            self.refused.append(f"edit of {ts} at {self._clock.at}, {self._clock.at - before[-1]} s after the last")
        before.append(self._clock.at)
        self.shown[ts] = content

    def _count(self, method: str, tier: str) -> None:
        if wait := self._rates.method(method, tier):
            self.refused.append(f"{method} at {self._clock.at}: {wait} s")
