"""The Cancel button of a command that waits for an unresponsive host."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection

from bot.access.checks import AccessChecks
from bot.inbound.dispatcher import Response
from bot.outbound.messages import whisper
from bot.pools import quick
from bot.requests.request import Request
from bot.views.blocks import text_message
from bot.views.text import error_text
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job
from supervisor_core.storage.store import Ledger


class HeldCommands:
    """Cancels commands that weren't sent yet. Whoever may give a command may cancel it."""

    def __init__(self, ledger: Ledger, access: AccessChecks, ended: Callable[[], None]) -> None:
        self._ledger = ledger
        self._access = access
        self._ended = ended

    async def cancel(self, request: Request) -> Response:
        """Cancel the command of the pressed button, or say why not; the card shows it."""
        task_id = request.text
        try:
            found = await quick(self._ledger.read, lambda look: jobs.submitted_jobs(look, task_id))
            if not found or found[0].command not in CATALOG:
                return _reply(request, ":warning: This command isn't on record any more.")
            definition, workers = CATALOG[found[0].command], tuple(job.worker_id for job in found)
            command = Command(definition.name, workers=workers)
            person, refused = await self._access.of_command(request, definition, command)
            if person is None or refused is not None:
                return _reply(request, f":no_entry: {refused.words if refused else 'Your rights are unknown.'}")
            cancelled = await quick(self._cancel, found, Issuer(request.actor, person.name))
        except SupervisorError as error:
            return _reply(request, f":warning: {error_text(error)}")
        self._ended()
        return Response() if cancelled else _reply(request, ":information_source: It may have been sent already.")

    def _cancel(self, found: list[Job], by: Issuer) -> int:
        hub_id, now = self._ledger.supervisor_id, datetime.now(UTC)

        def work(connection: Connection) -> int:
            return remote.cancel_unsent(connection, hub_id, found[0].task_id, by, now)

        return self._ledger.write(work)


def _reply(request: Request, text: str) -> Response:
    return Response(messages=(whisper(request, text_message(text)),))
