"""The commands that no worker's host carries out: what each answers, as a mapping from its name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bot.access import Person
from bot.asked import Asked
from bot.intake.dealing import Dealt
from bot.offering import Offering
from bot.outgoing import answer, everybody, failure
from bot.views.approval import Asking
from bot.views.help import help_of
from bot.views.overview import BUTTONS, monitoring, overview
from bot.views.paging import page_in
from bot.views.told import Content
from bot.views.waiting import waiting
from supervisor_core.domain.catalog import OVERVIEW
from supervisor_core.domain.command import Command, Issuer
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.monitoring import PAUSE, RESUME, Monitoring

Look = Callable[[], Awaitable[list[dict[str, Any]]]]
"""How all workers are, by a live look."""


@dataclass(frozen=True, slots=True)
class Question:
    """A command that was understood and allowed."""

    asked: Asked
    command: Command
    person: Person | None
    """Who asks; None where Slack did not say it in time."""
    by: Issuer | None = None
    """As whom it is asked, where that is not this person: a schedule."""

    @property
    def issuer(self) -> Issuer:
        """Who asks, as the audit trail knows them."""
        return self.by or Issuer(self.asked.actor, self.person.name if self.person else "")

    @property
    def alone(self) -> bool:
        """Whether nobody else reads the answer: below a mention, and where a schedule asks, whoever is named in it
        would be called."""
        return self.asked.message is None and self.by is None


Tell = Callable[[Question], Awaitable[Dealt]]
"""Answers one command. After a crash it may be called again, and must then come to the same."""

Say = Callable[[Question], Awaitable[Content]]
"""Words it alone: nothing is changed by it."""


def saying(say: Say) -> Tell:
    """Answer with these words: to the asker alone; to a mention, in its thread."""

    async def tell(question: Question) -> Dealt:
        return Dealt(messages=(answer(question.asked, await say(question)),))

    return tell


class Informing:
    """What can be told of this host as it is now."""

    def __init__(
        self,
        host: str,
        offering: Offering,
        look: Look,
        monitoring: Monitoring,
        approvals: Callable[[], Awaitable[list[Asking]]],
        rests: Callable[[], Awaitable[str]],
        looks: Mapping[str, Tell],
        channel: str = "",
    ) -> None:
        """`channel`: where everybody hears of what goes wrong, if there is one."""
        self._host = host
        self._offering = offering
        self._look = look
        self._monitoring = monitoring
        self._approvals = approvals
        self._rests = rests
        self._looks = looks
        self._channel = channel

    def tellers(self) -> Mapping[str, Tell]:
        """Who answers which command."""
        said = {
            OVERVIEW: self._overview,
            "help": self._help,
            "approvals": self._waiting,
        }
        rest = {PAUSE: self._rest, RESUME: self._rest}
        return {**{name: saying(say) for name, say in said.items()}, **rest, **self._looks}

    async def _overview(self, question: Question) -> Content:
        asked, person, workers = question.asked, question.person, await self._look()
        allowed = {
            worker["id"]: [
                name for name in BUTTONS if self._offering.may_press(person, name, worker["id"], asked.channel)
            ]
            for worker in workers
        }
        asking = [name for name in BUTTONS if self._offering.asks(name)]
        more = bool(self._offering.in_a_form(person))
        rests = await self._rests()
        return overview(self._host, workers, allowed, asked.nonce, asking, more=more, rests=rests)

    async def _help(self, question: Question) -> Content:
        mine = self._offering.known(question.person)
        return help_of(str(question.command.params.get("topic") or ""), mine, self._offering.example)

    async def _waiting(self, question: Question) -> Content:
        return waiting(await self._approvals(), question.asked.nonce, page_in(question.asked.page))

    async def _rest(self, question: Question) -> Dealt:
        """It is about everybody's workers, so all hear of it who hear of alerts."""
        rests = question.command.name == PAUSE
        try:
            done = await self._monitoring(rests, question.issuer)
        except SupervisorError as error:
            return failure(question.asked, error)
        content = monitoring(done, question.issuer, rests=rests)
        return everybody(question.asked, content, self._channel, " monitoring")
