"""The Cancel button of a command that waits for an unresponsive host."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from sqlalchemy import Connection

from bot.access.checks import AccessChecks
from bot.inbound.dispatcher import Response
from bot.outbound.messages import failure, tell
from bot.pools import quick
from bot.requests.request import Request
from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Command, Issuer
from supervisor_core.common.errors import SupervisorError
from supervisor_core.jobs import remote
from supervisor_core.jobs import rows as jobs
from supervisor_core.storage.store import Ledger


class HeldCommands:
    """Cancels commands that weren't sent yet. Whoever may give a command may cancel it."""

    def __init__(self, ledger: Ledger, access: AccessChecks, ended: Callable[[], None]) -> None:
        self._ledger = ledger
        self._access = access
        self._ended = ended

    async def cancel(self, request: Request) -> Response:
        """Cancel the command of the pressed button, or say why not; the card shows it."""
        task_id, hub_id = request.text, self._ledger.supervisor_id
        try:
            waiting = await quick(self._ledger.read, lambda connection: jobs.submitted_jobs(connection, task_id))
            if not waiting or waiting[0].command not in CATALOG:
                return tell(request, ":warning: This command isn't on record any more.")
            definition, workers = CATALOG[waiting[0].command], tuple(job.worker_id for job in waiting)
            command = Command(definition.name, workers=workers)
            person, refused = await self._access.of_command(request, definition, command)
            if person is None or refused is not None:
                return tell(request, f":no_entry: {refused.words if refused else 'Your rights are unknown.'}")
            issuer, now = Issuer(request.actor, person.name), datetime.now(UTC)

            def cancel(connection: Connection) -> int:
                return remote.cancel_unsent(connection, hub_id, waiting[0].task_id, issuer, now)

            cancelled = await quick(self._ledger.write, cancel)
        except SupervisorError as error:
            return failure(request, error)
        self._ended()
        return Response() if cancelled else tell(request, ":information_source: It may have been sent already.")
