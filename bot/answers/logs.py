"""`logs` in Slack, for the person alone, and reports for threads, read back from the drive or the state folder."""

from __future__ import annotations

import hashlib
import logging
from pathlib import Path

from bot.inbound.dispatcher import Response
from bot.outbound.messages import file_to_person, whisper
from bot.requests.commands import Query
from bot.views.answers.logs import fits, logs, logs_file
from bot.views.files import Attachment
from bot.views.text import escape
from supervisor_core.common.errors import SupervisorError
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.daemon.wiring import ReadOutput
from supervisor_core.host import drive_files
from supervisor_core.host.drive import Drive
from supervisor_core.host.files import read_limited


class LogsAnswer:
    """Answers `logs`."""

    def __init__(self, config: SupervisorConfig, read: ReadOutput) -> None:
        self._config = config
        self._read = read

    async def __call__(self, query: Query) -> Response:
        """Answer the person alone, also for a mention: a worker's output isn't for the whole channel."""
        request, command = query.request, query.command
        try:
            found = await self._read(command.workers, int(command.params["lines"]))
        except SupervisorError as error:  # the configuration has changed since this was understood
            return Response(messages=(whisper(request, {"text": escape(str(error)), "blocks": []}),))
        whole = fits(found)
        messages = [whisper(request, logs(found, filed=not whole))]
        if not whole:
            host = self._config.supervisor.id
            name = found[0].worker_id if len(found) == 1 else host
            places = ", ".join(f"`{escape(each.path.replace('`', ''))}`" for each in found[:3])
            file = Attachment(
                name=f"{name}_{request.at:%Y%m%dT%H%M%SZ}.log",
                content=logs_file(found),
                rest=f"{places} on {escape(host)}",
                title=f"Output of {name}",
                comment=f"The requested lines, from {escape(host)}.",
            )
            messages.append(file_to_person(request, file))
        return Response(messages=tuple(messages))


READ_SECONDS = 3.0
"""Time for reading a report. Then the message says where it is."""

MOST_BYTES = 16_000_000
"""Size of a report. It's read whole for its digest; Slack gets its beginning."""

log = logging.getLogger(__name__)


class ReportReader:
    """Reads reports, and no other file: the content must have the digest of what we wrote."""

    def __init__(self, root: Path, state_dir: Path) -> None:
        self._drive = Drive(root, READ_SECONDS, threads=1)
        self._state_dir = state_dir

    def read(self, path: str, sha256: str) -> str:
        """The report; empty where it can't be read now, or isn't the one that was written."""
        wanted = Path(path)
        if ".." in wanted.parts:
            return ""
        try:
            if wanted.is_relative_to(self._state_dir):
                data = read_limited(wanted, MOST_BYTES)
            elif wanted.is_relative_to(self._drive.root):
                data = self._drive.call(drive_files.read, self._drive.root, wanted, MOST_BYTES)
            else:
                return ""
        except (OSError, SupervisorError) as error:
            log.warning("the report %s can't be posted in its thread: %s", path, error)
            return ""
        if hashlib.sha256(data).hexdigest() != sha256:
            log.error("the report %s isn't posted in its thread: its content isn't what was written there", path)
            return ""
        return data.decode(errors="replace")
