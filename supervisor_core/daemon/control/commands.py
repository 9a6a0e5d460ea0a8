"""Commands from a shell: the daemon queues them, so that the shell imports little, and reports their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.grammar import commit_word
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.common.service import Blocking
from supervisor_core.config.raw import text_digest
from supervisor_core.daemon.configuration.service import ConfigService
from supervisor_core.fleet.hosts import Hosts
from supervisor_core.intake.approvals.service import Approvals
from supervisor_core.intake.submission import Gateway, ask_if_commit
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import check_own_id
from supervisor_core.jobs.results import progress_document, result_document
from supervisor_core.storage.store import Ledger

SOURCE = "cli"
LONGEST_WAIT_SECONDS = 24 * 3600.0


class ShellCommands:
    """Parses and queues a shell's command by the active configuration, and answers a shell that waits for one.

    It leaves to the shell what needs more than the queue: answers, previews and approvals.
    """

    def __init__(
        self,
        hosts: Hosts,
        approvals: Approvals,
        ledger: Ledger,
        configuration: ConfigService,
        blocking: Blocking,
        stopping: asyncio.Event,
    ) -> None:
        self._hosts = hosts
        self._approvals = approvals
        self._ledger = ledger
        self._configuration = configuration
        self._blocking = blocking
        self._stopping = stopping
        self._news = asyncio.Event()

    def notify(self) -> None:
        """There is something new: have all who wait look. On the event loop."""
        self._news.set()
        self._news = asyncio.Event()

    async def submit(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The queued `command` or the reason why it is `refused`; neither if the shell must handle it.

        `config` is the digest of the shell's configuration file. In another one the same text may mean other workers.
        """
        if request.get("config") != text_digest(self._configuration.file_text):
            return {}
        answer = await self._blocking(self._submit, request)
        if "command" in answer:
            self._hosts.wake()
        return answer

    def _submit(self, request: Mapping[str, Any]) -> dict[str, Any]:
        text, user, task_id = map(request.get, ("text", "user", "task_id"))
        if not (isinstance(text, str) and isinstance(user, str) and isinstance(task_id, str)):
            raise UsageError("A command needs `text`, `user` and `task_id`, each a string.")
        check_own_id(task_id)
        config = self._hosts.config
        gateway = Gateway(config, self._ledger, self._approvals, self._hosts.facts)
        try:
            command = gateway.parse(text)
            if CATALOG[command.name].handler is None or config.needs_approval(command.name, SOURCE):
                return {}
            ask_if_commit(commit_word(text, command), command, self._hosts.find_commit)
            issued = gateway.submit(command, Issuer(f"{SOURCE}:{user}", user), SOURCE, task_id).command
        except SupervisorError as error:
            return {"refused": str(error), "is_usage": isinstance(error, UsageError)}
        names = {"name": issued.name, "target": issued.target, "workers": list(issued.workers)}
        return {"command": {"task_id": issued.task_id, **names}}

    async def wait(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The outcomes of a command's jobs, as soon as all have one; `stopping` if that can't be waited for.

        A client that has `seen` some steps of its handlers is also answered when there are more: with all of them, in
        the order of their times.
        """
        task_id, known_steps = str(request.get("task_id", "")), request.get("seen")
        seconds = min(float(request.get("seconds", 60.0)), LONGEST_WAIT_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                while not self._stopping.is_set():
                    news = self._news
                    ended, count = await self._blocking(
                        self._ledger.read, lambda connection: jobs.count_steps(connection, task_id)
                    )
                    if ended or (known_steps is not None and count > int(known_steps)):
                        some = await self._blocking(
                            self._ledger.read, lambda connection: jobs.of_task(connection, task_id)
                        )
                        answer = {"done": ended, "progress": progress_document(some)}
                        return {**answer, "results": [result_document(job) for job in some]} if ended else answer
                    await news.wait()
                return {"done": False, "stopping": True}
        except TimeoutError:
            return {"done": False}
