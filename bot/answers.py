"""What a scheduled command answers that no host carries out, asked for by those who know no Slack."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from typing import Any

from bot.people import UnverifiedError
from supervisor_core.desk.running_schedules import Answered
from supervisor_core.domain.command import Command
from supervisor_core.domain.errors import TemporaryError
from supervisor_core.domain.schedules import Schedule

ANSWER_SECONDS = 30.0
"""For a live look at all workers, and whatever else an answer is made of."""

Answer = Callable[[Schedule, Command], Coroutine[Any, Any, Answered]]


class ChatAnswers:
    """Safe to be called from any thread but that of the event loop."""

    def __init__(self) -> None:
        self._chat: tuple[asyncio.AbstractEventLoop, Answer] | None = None

    def connected(self, answer: Answer) -> None:
        """From now on there are answers; to be called on the event loop."""
        self._chat = (asyncio.get_running_loop(), answer)

    def disconnected(self) -> None:
        """Nobody answers any more."""
        self._chat = None

    def __call__(self, schedule: Schedule, command: Command) -> Answered:
        """What there is to say; a retryable error where that is not known now."""
        if self._chat is None:
            raise TemporaryError(f"{command.name} can't be answered: Slack is not connected.")
        loop, answer = self._chat
        asked = asyncio.run_coroutine_threadsafe(answer(schedule, command), loop)
        try:
            return asked.result(ANSWER_SECONDS)
        except UnverifiedError as error:
            raise TemporaryError(f"{error}.") from error
        except (TimeoutError, CancelledError) as error:
            asked.cancel()
            raise TemporaryError(f"{command.name} was not answered within {ANSWER_SECONDS:g} s.") from error
