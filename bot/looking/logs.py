"""`logs` in Slack: the newest lines of what workers wrote, for the asker alone; what does not fit goes as a file."""

from __future__ import annotations

from bot.attached import Attached
from bot.informing import Question
from bot.intake.dealing import Dealt
from bot.outgoing import file_for, whisper
from bot.views.logs import as_file, fits, logs
from bot.views.text import escape
from supervisor_core.config import SupervisorConfig
from supervisor_core.domain.errors import SupervisorError
from supervisor_core.runtime.chat import ReadWritten


class LogsLook:
    """Answers the command."""

    def __init__(self, config: SupervisorConfig, read: ReadWritten) -> None:
        self._config = config
        self._read = read

    async def __call__(self, question: Question) -> Dealt:
        """To the asker alone, also where they asked by a mention: what a worker writes is not for a whole channel."""
        asked, command = question.asked, question.command
        try:
            found = await self._read(command.workers, int(command.params["lines"]))
        except SupervisorError as error:  # the configuration has changed since this was understood
            return Dealt(messages=(whisper(asked, {"text": escape(str(error)), "blocks": []}),))
        whole = fits(found)
        messages = [whisper(asked, logs(found, filed=not whole))]
        if not whole:
            host = self._config.supervisor.id
            name = found[0].worker_id if len(found) == 1 else host
            places = ", ".join(f"`{escape(each.path.replace('`', ''))}`" for each in found[:3])
            file = Attached(
                name=f"{name}_{asked.at:%Y%m%dT%H%M%SZ}.log",
                content=as_file(found),
                rest=f"{places} on {escape(host)}",
                title=f"What {name} wrote",
                comment=f"The lines that were asked for, from {escape(host)}.",
            )
            messages.append(file_for(asked, file))
        return Dealt(messages=tuple(messages))
