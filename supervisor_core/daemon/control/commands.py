"""Commands from a shell: the daemon queues them, so that the shell imports little, and reports their outcomes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

from supervisor_core.commands.catalog import CATALOG
from supervisor_core.commands.command import Issuer
from supervisor_core.commands.conditions import FactSource
from supervisor_core.commands.grammar import commit_word
from supervisor_core.common.errors import SupervisorError, UsageError
from supervisor_core.common.service import Blocking
from supervisor_core.config.load import SupervisorConfig
from supervisor_core.config.raw import text_digest
from supervisor_core.daemon.wiring import Reach, build_approvals
from supervisor_core.intake.submission import Gateway, ask_if_commit
from supervisor_core.jobs import rows as jobs
from supervisor_core.jobs.model import Job, check_own_id
from supervisor_core.jobs.results import progress_document, result_document
from supervisor_core.storage.store import Ledger

DOOR = "cli"


class CommandReceiver:
    """Parses and queues a shell's command by the active configuration.

    It leaves to the shell what needs more than the queue: answers, previews and approvals.
    """

    def __init__(
        self,
        reach: Reach,
        blocking: Blocking,
        filed: Callable[[], None],
        file_text: Callable[[], str],
        facts: FactSource,
    ) -> None:
        """`file_text` returns the text of the configuration file that is active; `facts`, which blocks, what the
        conditions of a target are checked against."""
        self._reach = reach
        self._blocking = blocking
        self._filed = filed
        self._file_text = file_text
        self._facts = facts

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The queued `command` or the words of why it is `refused`; neither if the shell must handle it.

        `config` is the digest of the shell's configuration file. In another one the same words may mean other workers.
        """
        if request.get("config") != text_digest(self._file_text()):
            return {}
        answer = await self._blocking(self._submit, self._reach.context.host.config, request)
        if "command" in answer:
            self._filed()
        return answer

    def _submit(self, config: SupervisorConfig, request: Mapping[str, Any]) -> dict[str, Any]:
        text, user, task_id = map(request.get, ("text", "user", "task_id"))
        if not (isinstance(text, str) and isinstance(user, str) and isinstance(task_id, str)):
            raise UsageError("A command needs `text`, `user` and `task_id`, each a string.")
        check_own_id(task_id)
        context, code = self._reach.context, self._reach.code
        gateway = Gateway(config, context.ledger, build_approvals(context, code=code), self._facts)
        try:
            command = gateway.parse(text)
            if CATALOG[command.name].handler is None or config.needs_approval(command.name, DOOR):
                return {}
            ask_if_commit(commit_word(text, command), command, code.find)
            issued = gateway.submit(command, Issuer(f"{DOOR}:{user}", user), DOOR, task_id).command
        except SupervisorError as error:
            return {"refused": str(error), "is_usage": isinstance(error, UsageError)}
        names = {"name": issued.name, "target": issued.target, "workers": list(issued.workers)}
        return {"command": {"task_id": issued.task_id, **names}}


LONGEST_WAIT_SECONDS = 24 * 3600.0


class CommandWaiter:
    """Answer a client that waits for a command as soon as there is news."""

    def __init__(self, ledger: Ledger, blocking: Blocking, stopping: asyncio.Event) -> None:
        self._ledger = ledger
        self._blocking = blocking
        self._stopping = stopping
        self._news = asyncio.Condition()
        self._notifying: asyncio.Task[None] | None = None

    def notify(self) -> None:
        """There is something new: have all who wait look."""

        async def notify() -> None:
            async with self._news:
                self._news.notify_all()

        self._notifying = asyncio.ensure_future(notify())  # the loop keeps only a weak reference

    async def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """The outcomes of a command's jobs, as soon as all have one; `stopping` if that can't be waited for.

        A client that has `seen` some steps of its handlers is also answered when there are more: with all of them, in
        the order of their times.
        """
        task_id = str(request.get("task_id", ""))
        seen = None if request.get("seen") is None else int(request["seen"])
        seconds = min(float(request.get("seconds", 60.0)), LONGEST_WAIT_SECONDS)
        try:
            async with asyncio.timeout(seconds), self._news:
                while not self._stopping.is_set():
                    ended, count = await self._blocking(self._count_steps, task_id)
                    if ended or (seen is not None and count > seen):
                        found = await self._blocking(self._jobs_of, task_id)
                        news = {"done": ended, "progress": progress_document(found)}
                        return {**news, "results": [result_document(job) for job in found]} if ended else news
                    await self._news.wait()
                return {"done": False, "stopping": True}
        except TimeoutError:
            return {"done": False}

    def _count_steps(self, task_id: str) -> tuple[bool, int]:
        return self._ledger.read(lambda connection: jobs.count_steps(connection, task_id))

    def _jobs_of(self, task_id: str) -> list[Job]:
        return self._ledger.read(lambda connection: jobs.of_task(connection, task_id))
