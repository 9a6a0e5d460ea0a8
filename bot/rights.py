"""What people may do, asked by those who know no Slack: right before what was agreed to is carried out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any

from bot.people import UnverifiedError
from supervisor_core.desk.rights import CHAT, Rights, RightsUnknown
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.definitions import Right

ASK_SECONDS = 20.0
"""For all that Slack is asked about one person; each call has a limit of its own."""

Judge = Callable[[str, Command, Right], Coroutine[Any, Any, str]]
"""Why this user may not, at this moment; empty where they may."""


class ChatRights:
    """Safe to be called from any thread but that of the event loop. While Slack is not connected, the host says what
    it knows by itself."""

    def __init__(self, host: Rights) -> None:
        self._host = host
        self._chat: tuple[asyncio.AbstractEventLoop, Judge] | None = None

    def connected(self, judge: Judge) -> None:
        """From now on Slack is asked; to be called on the event loop."""
        self._chat = (asyncio.get_running_loop(), judge)

    def disconnected(self) -> None:
        """Nobody there can be asked any more."""
        self._chat = None

    def __call__(self, who: Issuer, command: Command, right: Right) -> str:
        """Why they may not; empty where they may."""
        if self._chat is None or not who.id.startswith(CHAT):
            return self._host(who, command, right)
        loop, judge = self._chat
        asked = asyncio.run_coroutine_threadsafe(judge(who.id.rpartition("/")[2], command, right), loop)
        try:
            return asked.result(ASK_SECONDS)
        except UnverifiedError as error:
            raise RightsUnknown(f"{error}.") from error
        except (TimeoutError, CancelledError) as error:
            asked.cancel()
            raise RightsUnknown(f"Slack did not say in time whether {who.name or who.id} still may.") from error
