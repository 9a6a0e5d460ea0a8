"""A supervisor's home whose daemon is pointed at a local Slack."""

from __future__ import annotations

import asyncio
from typing import Any

from bot.playground import Playground
from tests.support.homes import Home

ACCESS = {"operators": ["U0OPERATOR"], "approvers": ["U0APPROVER"]}
"""The people whom every playground has."""


class SlackHome(Home):
    """One host in a temporary folder, with a bot."""

    slack: dict[str, str]

    @property
    def environ(self) -> dict[str, str]:
        return {**super().environ, **getattr(self, "slack", {})}


async def started(home: Home, slack: Playground) -> None:
    """The daemon is up, and connected to this Slack."""
    assert isinstance(home, SlackHome)
    home.slack = slack.environment
    await asyncio.to_thread(home.start_daemon)
    await slack.connected()


async def asked(home: Home, *words: str) -> Any:
    """What a command of the shell prints with `--json`."""
    return await asyncio.to_thread(home.json, *words)
