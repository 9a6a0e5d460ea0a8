"""`status` and `teams` in Slack: how workers are by a live look, those in trouble first, page by page."""

from __future__ import annotations

from datetime import UTC, datetime

from bot.informing import Look, Question
from bot.intake.dealing import Dealt
from bot.outgoing import answer
from bot.pools import quick
from bot.views.paging import page_in
from bot.views.status import status
from bot.views.teams import teams
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.targets import TEAM
from supervisor_core.ledger.store import Ledger
from supervisor_core.ledger.supervisors import resting
from supervisor_core.runtime.team_pictures import TeamPicture, team_pictures


class WorkersLook:
    """Answers both commands, and the buttons below their answers."""

    def __init__(self, config: SupervisorConfig, ledger: Ledger, look: Look) -> None:
        self._config = config
        self._ledger = ledger
        self._look = look

    async def status(self, question: Question) -> Dealt:
        """Some workers; of a team, its objective and roles as well."""
        command, asked = question.command, question.asked
        workers = [worker for worker in await self._look() if worker["id"] in command.workers]
        team, rests = await self._team(command.target), await self._rests()
        content = status(command, workers, asked.nonce, page_in(asked.page), team, rests=rests)
        return Dealt(messages=(answer(asked, content),))

    async def teams(self, question: Question) -> Dealt:
        """All teams."""
        asked, pictures = question.asked, await self._pictures()
        workers = {worker["id"]: worker for worker in await self._look()}
        return Dealt(
            messages=(answer(asked, teams(question.command, pictures, workers, asked.nonce, page_in(asked.page))),)
        )

    async def _team(self, target: str) -> TeamPicture | None:
        if not target.startswith(TEAM):
            return None
        name = target.removeprefix(TEAM)
        return next((each for each in await self._pictures() if each.name == name), None)

    async def _rests(self) -> str:
        host = self._config.supervisor.id
        return await quick(self._ledger.read, lambda connection: resting(connection, host))

    async def _pictures(self) -> list[TeamPicture]:
        now = datetime.now(UTC)
        return await quick(self._ledger.read, lambda connection: team_pictures(connection, self._config, now))
