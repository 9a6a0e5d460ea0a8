"""`why` in Slack: each worker explained by a live look, with the buttons that its reader may press."""

from __future__ import annotations

from bot.informing import Question
from bot.intake.dealing import Dealt
from bot.offering import Offering
from bot.outgoing import answer
from bot.views.phrases import said
from bot.views.told import Content, words
from bot.views.why import why
from supervisor_core.domain.command import Command
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.chat import Explain


class WhyLook:
    """Answers the command, and the button that gives it."""

    def __init__(self, explain: Explain, offering: Offering) -> None:
        self._explain = explain
        self._offering = offering

    async def __call__(self, question: Question) -> Dealt:
        """The words alone: nothing is changed by it."""
        return Dealt(messages=(answer(question.asked, await self._words(question)),))

    async def _words(self, question: Question) -> Content:
        asked, person = question.asked, question.person
        try:
            found = await self._explain(question.command.workers)
        except SupervisorError as error:
            return words(f":warning: {said(error)}")

        def may(command: Command) -> bool:
            return self._offering.may_give(person, command, asked.channel)

        asking = {each.name for told in found for each in told.found.remedies if self._offering.asks(each.name)}
        return why(found, asked.nonce, may, asking, alone=question.alone)
